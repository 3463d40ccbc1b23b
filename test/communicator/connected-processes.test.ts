/** Algorithms with connections of their own between ranks that are processes, in all forms of calls. */
import { describe, expect, it } from 'vitest';
import { effort } from '../effort.js';
import { SEED } from './random.js';
import { tuttiRun } from './tutti-run.js';

/** Small slots, so that a few thousand elements fill them several times. */
const BUFFERS = { NCCL_LL_BUFFSIZE: '8192', NCCL_BUFFSIZE: '16384' };

async function battery(ranks: number, collective: string, options: object, env: object = {}): Promise<void> {
  const rounds = Math.ceil(60 / ranks);
  const args = [`${SEED + ranks}`, `${rounds}`, collective, JSON.stringify(options)];
  const outcome = await tuttiRun(ranks, 'connected-rank.mjs', args, { ...BUFFERS, ...env });
  const lines = outcome.stdout.trimEnd().split('\n').sort();
  expect({ ...outcome, stdout: lines }, `TUTTI_SEED=${SEED}`).toEqual({
    code: 0,
    stderr: '',
    stdout: Array.from({ length: ranks }, (_, rank) => `[${rank}] ${rounds} rounds`),
  });
}

describe(`connections of their own between processes (TUTTI_SEED=${SEED})`, () => {
  for (const [ranks, protocol] of [
    [2, 'LL'],
    [3, 'Simple'],
    [5, 'LL'],
    [8, 'Simple'],
  ] as const) {
    it(`Tree ${protocol}, ${ranks} ranks`, () =>
      battery(ranks, 'allReduce', { algorithm: 'allreduce:Tree', protocol }));
  }
  it.each([
    [3, 'allGather'],
    [6, 'reduceScatter'],
  ] as const)('PAT, %i ranks, %s', (ranks, collective) =>
    battery(ranks, collective, { algorithm: `${collective.toLowerCase()}:PAT` }),
  );
  it('Hierarchical, 6 ranks in nodes of 3', () =>
    battery(6, 'allReduce', { algorithm: 'allreduce:Hierarchical', ranksPerNode: 3 }));
  type OverSwitches = readonly [ranks: number, collective: string, algorithm: string, perNode: number];
  const OVER_SWITCHES: readonly OverSwitches[] = [
    [4, 'allReduce', 'NVLS', 2],
    [3, 'reduceScatter', 'CollNetDirect', 1],
  ];
  const MORE_OVER_SWITCHES: readonly OverSwitches[] = [
    [8, 'allReduce', 'NVLS', 8],
    [3, 'allGather', 'NVLS', 3],
    [4, 'reduceScatter', 'NVLS', 2],
    [6, 'allReduce', 'NVLSTree', 2],
    [4, 'allReduce', 'CollNetDirect', 2],
    [6, 'reduceScatter', 'CollNetDirect', 3],
    [5, 'allReduce', 'CollNetChain', 2],
  ];
  // What their switches cannot do takes the ring.
  it.each(effort(OVER_SWITCHES, [...OVER_SWITCHES, ...MORE_OVER_SWITCHES]))(
    '%i ranks, %s over %s or the ring, nodes of %i',
    (ranks, collective, algorithm, ranksPerNode) =>
      battery(ranks, collective, {
        algorithm: `${collective.toLowerCase()}:${algorithm},Ring`,
        ranksPerNode,
      }),
  );
  it('Tree over nodes that a variable describes, NCCL_ALGO, calls compared first', () =>
    battery(
      4,
      'allReduce',
      { check: true },
      { NCCL_ALGO: 'ring;allreduce:tree', TUTTI_RANKS_PER_NODE: '2' },
    ));
});

describe('all-to-all between processes', () => {
  it.each([
    [4, {}],
    [3, { algorithm: 'Ring' }],
    [3, { sockets: true }],
  ] as const)('%i ranks, %j', (ranks, options) => battery(ranks, 'allToAll', options));
});

describe('a heap without room for connections', () => {
  it('is an error of the call at every rank, and nobody waits', async () => {
    // Room for the rings' buffers, not for those of a tree.
    const args = ['1', '3', 'allReduce', '{"algorithm":"allreduce:Tree","protocol":"Simple"}'];
    const env = { TUTTI_HEAP_BYTES: `${10 << 20}` };
    const { code, stderr } = await tuttiRun(2, 'connected-rank.mjs', args, env, 15_000);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/allReduce: out of memory in the heap: asked for \d+ bytes/);
    expect(stderr).not.toContain('timeout');
  });
});

describe('an algorithm that does not do a collective', () => {
  it('is an error that names it, as with NCCL, and leaves the others alone', async () => {
    const { code, stderr } = await tuttiRun(2, 'connected-rank.mjs', [
      '1',
      '1',
      'allGather',
      '{"algorithm":"Tree"}',
    ]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(
      /allGather: No algorithm\/protocol available for function AllGather: NCCL_ALGO was set to Tree. Tree does not do AllGather/,
    );
  });

  it('is an error over sockets, where only rings are', async () => {
    const options = '{"algorithm":"allreduce:Tree","sockets":true}';
    const { code, stderr } = await tuttiRun(2, 'connected-rank.mjs', ['1', '1', 'allReduce', options]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/Tree needs ranks that share memory/);
  });
});
