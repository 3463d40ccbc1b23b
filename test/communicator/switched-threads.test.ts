/**
 * Algorithms over emulated switches between ranks that are threads: types and operators bit for bit, what real switches
 * cannot do, a buffer that is too small, and what is counted at the ports.
 */
import { describe, expect, it } from 'vitest';
import type { SwitchedName } from '#src/collectives/switched.js';
import {
  type Communicator,
  type CommunicatorOptions,
  createLocalCommunicators,
  type SwitchPortTraffic,
} from '#src/index.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import { connectedSetting } from '#src/planning/connected-algorithms.js';
import { switchedNodes } from '#src/planning/switch-limits.js';
import { switchRefusal } from '#src/tuning/switch-support.js';
import { switchedExpected } from '../collectives/switched-model.js';
import { effort } from '../effort.js';
import { type ConnectedCase, runConnected } from './connected-cases.js';
import { random, SEED } from './random.js';
import { drawCount, SMALL_SLOTS, useSmallSlots } from './small-slots.js';

useSmallSlots();

async function withRanks(
  ranks: number,
  options: CommunicatorOptions,
  act: (comms: readonly Communicator[]) => Promise<void>,
): Promise<void> {
  const comms = await createLocalCommunicators(ranks, { timeoutMs: 20_000, ...options });
  try {
    await act(comms);
  } finally {
    await Promise.all(comms.map((comm) => comm.close()));
  }
}

type Collective = ConnectedCase['collective'];

/** Algorithm, collective, ranks per node (the usual ones if absent), ranks. */
const KINDS: readonly (readonly [SwitchedName, Collective, number | undefined, readonly number[]])[] = [
  ['NVLS', 'allReduce', undefined, effort([5], [2, 3, 5, 8])],
  ['NVLS', 'allReduce', 3, effort([7], [6, 7])],
  ['NVLS', 'allGather', undefined, effort([3], [3, 8])],
  ['NVLS', 'allGather', 2, [4]],
  ['NVLS', 'reduceScatter', undefined, effort([3], [3, 8])],
  ['NVLS', 'reduceScatter', 2, [4]],
  ['NVLSTree', 'allReduce', undefined, effort([6], [3, 6, 8])],
  ['NVLSTree', 'allReduce', 2, effort([5], [5, 7])],
  ['CollNetDirect', 'allReduce', undefined, effort([4], [2, 4, 8])],
  ['CollNetDirect', 'allReduce', 3, effort([5], [5, 7])],
  ['CollNetDirect', 'allGather', undefined, effort([4], [3, 4, 8])],
  ['CollNetDirect', 'reduceScatter', undefined, effort([4], [3, 4, 8])],
  ['CollNetChain', 'allReduce', undefined, effort([4], [3, 4, 8])],
  ['CollNetChain', 'allReduce', 3, effort([5], [5, 7])],
];

describe(`algorithms over switches between threads, TUTTI_SEED=${SEED}`, () => {
  for (const [algorithm, collective, ranksPerNode, all] of KINDS) {
    for (const ranks of all) {
      const nodes = ranksPerNode === undefined ? '' : ` in nodes of ${ranksPerNode}`;
      it(`${algorithm} ${collective}, ${ranks} ranks${nodes}: all types, right or refused for what a switch lacks`, async () => {
        const next = random(SEED + ranks);
        const options = { algorithm, ...(ranksPerNode !== undefined && { ranksPerNode }) };
        const limits = { ranks, ranksPerNode, channels: 1, ...SMALL_SLOTS };
        const setting = connectedSetting(algorithm, 'Simple', limits);
        await withRanks(ranks, options, async (comms) => {
          for (const [i, type] of ELEMENT_TYPE_NAMES.entries()) {
            // All pairs of type and operator come by with the numbers of ranks.
            for (const op of effort([REDUCE_OP_NAMES[(i + ranks) % 5]!], REDUCE_OP_NAMES)) {
              const place = Math.floor(next() * 3);
              const call: ConnectedCase = {
                collective,
                type,
                op,
                count: drawCount(ELEMENT_TYPES[type].size, next),
                inPlace: next() < 0.5,
                offset: Math.floor(next() * 4),
                heap: comms.map(() => (place === 2 ? next() < 0.5 : place === 0)),
                plain: next() < 0.5,
                prepared: next() < 0.3,
                seed: Math.floor(next() * 2 ** 31),
              };
              const refusal = switchRefusal(
                algorithm,
                collective,
                op,
                type,
                switchedNodes(algorithm, limits),
              );
              const done = runConnected(comms, call, (one, inputs) =>
                switchedExpected(algorithm, setting, one, inputs),
              );
              if (refusal === undefined) await done;
              else await expect(done).rejects.toThrow(`${algorithm} ${refusal}`);
            }
          }
        });
      });
    }
  }
});

/** An all-reduce of ones on each rank; what was chosen, and what came out. */
async function sumOfOnes(comms: readonly Communicator[], op: 'sum' | 'prod' = 'sum') {
  const arrays = comms.map((comm) => comm.alloc(Float32Array, 1000).fill(1));
  const prepared = comms.map((comm, rank) => comm.prepare.allReduce(arrays[rank]!, arrays[rank]!, { op }));
  await Promise.all(prepared.map((one) => one.start()));
  const values = new Set(arrays.flatMap((array) => [...array]));
  return { explanation: prepared[0]!.explanation, values: [...values] };
}

describe('what a switch cannot serve', () => {
  it.each([
    [{ algorithm: 'NVLS,Ring' }, 'prod', 'NVLS has switches that do no prod of float32'],
    [
      { algorithm: 'NVLS,Ring', switchBytes: 65535 },
      'sum',
      "NVLS needs 65536 bytes of a switch's buffer, which has 65535",
    ],
    [
      { algorithm: 'CollNetDirect,Tree', ranksPerNode: 4 },
      'sum',
      'CollNetDirect needs several nodes, and all 4 ranks are on one',
    ],
    [
      { algorithm: 'CollNetChain,Ring', switchBytes: 0 },
      'sum',
      "CollNetChain needs 32768 bytes of a switch's buffer, which has 0",
    ],
    [{ algorithm: 'NVLSTree,Ring', ranksPerNode: 4 }, 'sum', 'NVLSTree needs several nodes'],
  ] as const)('falls back to what else is allowed and says why: %j %s', async (options, op, why) => {
    await withRanks(4, options, async (comms) => {
      const { explanation, values } = await sumOfOnes(comms, op);
      expect(explanation).toContain(why);
      expect(explanation).toMatch(/^(Ring|Tree) /);
      expect(values).toEqual([op === 'sum' ? 4 : 1]);
      expect(comms[0]!.switchTraffic()).toEqual([]);
    });
  });

  it('is an error where nothing else is allowed, and the communicator goes on', async () => {
    await withRanks(4, { algorithm: 'allreduce:NVLS', switchBytes: 4096 }, async (comms) => {
      await expect(sumOfOnes(comms)).rejects.toThrow(
        /NVLS needs 65536 bytes of a switch's buffer, which has 4096 \(TUTTI_SWITCH_BYTES\)/,
      );
      const blocks = comms.map((comm) => comm.alloc(Uint8Array, 4).fill(comm.rank));
      await Promise.all(
        comms.map((comm, rank) => comm.allGather(blocks[rank]!.subarray(rank, rank + 1), blocks[rank]!)),
      );
      expect([...blocks[2]!]).toEqual([0, 1, 2, 3]);
    });
  });

  it.each([
    ['NCCL_NVLS_ENABLE', 'NVLS', 'is switched off by NCCL_NVLS_ENABLE'],
    ['NCCL_COLLNET_ENABLE', 'CollNetChain', 'needs CollNet, which NCCL_COLLNET_ENABLE switches off'],
  ])('is what %s=0 switches off', async (variable, algorithm, why) => {
    process.env[variable] = '0';
    try {
      await withRanks(2, { algorithm }, (comms) => expect(sumOfOnes(comms)).rejects.toThrow(why));
    } finally {
      delete process.env[variable];
    }
  });

  it('is LL: Simple runs in its place, and the result is right [C10-21]', async () => {
    for (const algorithm of ['NVLS', 'NVLSTree', 'CollNetDirect', 'CollNetChain']) {
      await withRanks(4, { algorithm, protocol: 'LL' }, async (comms) => {
        const { explanation, values } = await sumOfOnes(comms);
        expect(explanation).toMatch(new RegExp(`^${algorithm} Simple`));
        expect(values).toEqual([4]);
      });
    }
  });

  it.each([-1, 0.5, Number.NaN])('refuses a buffer of %s bytes', async (switchBytes) => {
    await expect(createLocalCommunicators(2, { switchBytes })).rejects.toThrow(
      `switchBytes is ${switchBytes}`,
    );
  });
});

describe('ports', () => {
  const port = (level: 'node' | 'network', rank: number, rest: Partial<SwitchPortTraffic>) => ({
    level,
    rank,
    ...rest,
  });

  it('count bytes, multicasts and reductions of all calls', async () => {
    await withRanks(4, { algorithm: 'NVLS' }, async (comms) => {
      const shards = comms.map((comm) => comm.alloc(Float32Array, 64));
      const wholes = comms.map((comm) => comm.alloc(Float32Array, 256));
      for (let round = 0; round < 2; round++) {
        await Promise.all(comms.map((comm, rank) => comm.allGather(shards[rank]!, wholes[rank]!)));
      }
      const gathered = { bytesIn: 2 * 256, bytesOut: 2 * 1024, multicasts: 2, reductions: 0 };
      expect(comms[1]!.switchTraffic()).toEqual([0, 1, 2, 3].map((rank) => port('node', rank, gathered)));
      await Promise.all(comms.map((comm, rank) => comm.reduceScatter(wholes[rank]!, shards[rank]!)));
      const both = { ...gathered, bytesIn: 512 + 1024, bytesOut: 2048 + 256, reductions: 1 };
      expect(comms[3]!.switchTraffic()).toEqual([0, 1, 2, 3].map((rank) => port('node', rank, both)));
    });
  });

  it('of the network count the data once, at the heads of chains', async () => {
    await withRanks(4, { algorithm: 'CollNetChain', ranksPerNode: 2 }, async (comms) => {
      await sumOfOnes(comms);
      const once = { bytesIn: 4000, bytesOut: 4000, multicasts: 0 };
      const expected = [0, 2].map((rank) => port('network', rank, once));
      expect(comms[0]!.switchTraffic()).toMatchObject(expected);
    });
  });
});
