/** Messages between ranks that are processes: random ones in all forms, verified by the ranks themselves. */
import { describe, expect, it } from 'vitest';
import { effort, FULL } from '../effort.js';
import { SEED } from './random.js';
import { tuttiRun } from './tutti-run.js';

async function battery(
  ranks: number,
  options: object = {},
  env: NodeJS.ProcessEnv = {},
  how = 'arrays where they are',
): Promise<void> {
  const rounds = effort(25, 100);
  const args = [`${SEED + ranks}`, `${rounds}`, JSON.stringify(options)];
  const outcome = await tuttiRun(ranks, 'message-rank.mjs', args, env);
  const lines = outcome.stdout.trimEnd().split('\n').sort();
  expect({ ...outcome, stdout: lines }, `TUTTI_SEED=${SEED}`).toEqual({
    code: 0,
    stderr: '',
    stdout: Array.from({ length: ranks }, (_, rank) => `[${rank}] ${rounds} rounds, ${how}`),
  });
}

describe(`messages between processes arrive whole (TUTTI_SEED=${SEED})`, () => {
  for (const ranks of effort([3], [1, 2, 3, 5, 8])) {
    const how = ranks === 1 ? 'arrays moved' : undefined;
    it(`${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`, () => battery(ranks, {}, {}, how));
  }
  // Those that are received are still reached.
  it('without reading memory of other processes, 3 ranks', () => battery(3, {}, { TUTTI_PEER_READS: '0' }));
  it('over sockets, 2 ranks', () => battery(2, { sockets: true }, {}, 'arrays moved'));
  it.runIf(FULL)('over sockets, 4 ranks', () => battery(4, { sockets: true }, {}, 'arrays moved'));
  it.runIf(FULL)('a heap that is too small for the arrays, 3 ranks', () =>
    battery(3, {}, { TUTTI_HEAP_BYTES: `${8 << 20}`, NCCL_LL_BUFFSIZE: '8192', NCCL_BUFFSIZE: '32768' }),
  );
});
