/**
 * All collectives between ranks that are threads: random calls, every element compared with the plain reference.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { EAGER_BYTES } from '#src/collectives/control-block.js';
import type { Algorithm } from '#src/collectives/registry.js';
import type { RingProtocol } from '#src/collectives/ring.js';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import { ringChunkBytes } from '#src/planning/ring-plan.js';
import { SEED } from './random.js';
import { randomCall, runCall, type Setting } from './random-call.js';

/** Small rings, so that a few thousand elements go round several times. */
const BUFFERS = { llBytes: 8192, simpleBytes: 32768 };

/** About where one-shots end, bytes. */
const ONE_SHOT_BYTES = 512;

/** Shares of a two-shot are cut at multiples of this, bytes. */
const SHARE_GRAIN = 128;

interface Kind {
  readonly name: string;
  readonly algorithm?: Algorithm;
  readonly ring?: RingProtocol;
  /** Random calls per number of ranks. */
  readonly runs: number;
}

const KINDS: readonly Kind[] = [
  { name: 'chosen by size', runs: 30 },
  { name: 'one-shot', algorithm: 'OneShot', runs: 25 },
  { name: 'two-shot', algorithm: 'TwoShot', runs: 25 },
  { name: 'ring LL', algorithm: 'Ring', ring: 'LL', runs: 30 },
  { name: 'ring Simple', algorithm: 'Ring', ring: 'Simple', runs: 30 },
];

function bordersOf({ ring, algorithm }: Kind, ranks: number): number[] {
  if (ring !== undefined) {
    const chunk = ringChunkBytes('allReduce', ring, BUFFERS);
    const pipe = ringChunkBytes('broadcast', ring, BUFFERS);
    return [16, 512, pipe, chunk, chunk * ranks];
  }
  if (algorithm === 'OneShot') return [16, EAGER_BYTES, Math.floor(EAGER_BYTES / ranks)];
  return [16, ONE_SHOT_BYTES, SHARE_GRAIN * ranks, EAGER_BYTES];
}

const environment = { ...process.env };
beforeAll(() => {
  process.env.NCCL_LL_BUFFSIZE = `${BUFFERS.llBytes}`;
  process.env.NCCL_BUFFSIZE = `${BUFFERS.simpleBytes}`;
});
afterAll(() => {
  process.env = environment;
});

describe(`collectives between threads agree with the plain reference bit for bit (TUTTI_SEED=${SEED})`, () => {
  for (const [number, kind] of KINDS.entries()) {
    for (let ranks = 1; ranks <= 9; ranks++) {
      // One rank copies, whatever the algorithm.
      if (ranks === 1 && kind.algorithm !== undefined) continue;
      const channels = kind.ring === undefined ? 1 : 1 + (ranks % 3);
      const title = `${kind.name}, ${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`;
      it(channels === 1 ? title : `${title}, ${channels} channels`, async () => {
        const setting: Setting = {
          ranks,
          channels,
          buffers: BUFFERS,
          ...(kind.ring === undefined ? {} : { ring: kind.ring }),
          borders: bordersOf(kind, ranks),
          most: Math.floor(30_000 / ranks),
        };
        let comms: Communicator[] = [];
        try {
          comms = await createLocalCommunicators(ranks, {
            channels,
            timeoutMs: 20_000,
            ...(kind.algorithm === undefined ? {} : { algorithm: kind.algorithm }),
            ...(kind.ring === undefined ? {} : { protocol: kind.ring }),
          });
          await fc.assert(
            fc.asyncProperty(randomCall(setting), (call) => runCall(comms, setting, call)),
            { seed: SEED + 100 * number + ranks, numRuns: kind.runs, endOnFailure: true },
          );
        } finally {
          await Promise.all(comms.map((comm) => comm.close()));
        }
      });
    }
  }
});
