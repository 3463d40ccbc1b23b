/**
 * Calls that are submitted one behind the other without awaiting any: each sees what those before it have
 * written, whether the arrays lie in the heap or outside of it.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import type { PreparedOperation } from '#src/communicator/prepared-operation.js';
import { SEED } from './random.js';

const RANKS = 3;
const LENGTH = 600;
/** Arrays of every rank: half of them in the heap. */
const ARRAYS = 4;

type Step =
  | { readonly what: 'allReduce'; readonly from: number; readonly to: number; readonly count: number }
  | { readonly what: 'broadcast'; readonly array: number; readonly root: number; readonly count: number }
  | { readonly what: 'prepared'; readonly which: number };

const array = fc.integer({ min: 0, max: ARRAYS - 1 });
const count = fc.constantFrom(1, 3, LENGTH / 2, LENGTH);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ what: fc.constant('allReduce' as const), from: array, to: array, count }),
  fc.record({
    what: fc.constant('broadcast' as const),
    array,
    root: fc.integer({ min: 0, max: RANKS - 1 }),
    count,
  }),
  fc.record({ what: fc.constant('prepared' as const), which: fc.integer({ min: 0, max: 2 }) }),
);

/** Prepared operations that the steps start again and again: all-reduces between two arrays. */
const PREPARED = [
  { from: 0, to: 2 },
  { from: 2, to: 2 },
  { from: 3, to: 1 },
] as const;

/** What the arrays of all ranks hold after the steps, one after the other. */
function simulate(steps: readonly Step[], start: readonly (readonly Int32Array[])[]): Int32Array[][] {
  const state = start.map((arrays) => arrays.map((one) => one.slice()));
  const allReduce = (from: number, to: number, elements: number) => {
    const sums = Array.from({ length: elements }, (_, i) =>
      state.reduce((sum, arrays) => (sum + arrays[from]![i]!) | 0, 0),
    );
    for (const arrays of state) arrays[to]!.set(sums);
  };
  for (const one of steps) {
    if (one.what === 'allReduce') allReduce(one.from, one.to, one.count);
    else if (one.what === 'prepared') allReduce(PREPARED[one.which]!.from, PREPARED[one.which]!.to, LENGTH);
    else {
      const data = state[one.root]![one.array]!.slice(0, one.count);
      for (const arrays of state) arrays[one.array]!.set(data);
    }
  }
  return state;
}

describe.each([
  ['direct', {}],
  ['ring', { algorithm: 'Ring', protocol: 'Simple' }],
  ['ring, compared', { algorithm: 'Ring', protocol: 'LL', check: true }],
] as const)(`calls under way at the same time, %s (TUTTI_SEED=${SEED})`, (_, options) => {
  let comms: Communicator[];
  let arrays: Int32Array[][];
  let prepared: PreparedOperation[][];
  beforeAll(async () => {
    comms = await createLocalCommunicators(RANKS, { ...options, timeoutMs: 20_000 });
    // Which arrays lie in the heap differs from rank to rank.
    arrays = comms.map((comm) =>
      Array.from({ length: ARRAYS }, (_, i) =>
        (i + comm.rank) % 2 === 0 ? comm.alloc(Int32Array, LENGTH) : new Int32Array(LENGTH),
      ),
    );
    prepared = comms.map((comm, rank) =>
      PREPARED.map(({ from, to }) => comm.prepare.allReduce(arrays[rank]![from]!, arrays[rank]![to]!)),
    );
  });
  afterAll(() => Promise.all(comms.map((comm) => comm.close())));

  const submit = (rank: number, one: Step): Promise<void> => {
    const comm = comms[rank]!;
    const view = (i: number, elements: number) => arrays[rank]![i]!.subarray(0, elements);
    if (one.what === 'prepared') return prepared[rank]![one.which]!.start();
    if (one.what === 'broadcast') return comm.broadcast(view(one.array, one.count), { root: one.root });
    return comm.allReduce(view(one.from, one.count), view(one.to, one.count));
  };

  it('may be 5000 on one ordinary array', async () => {
    const own = comms.map((comm) => new Int32Array(64).fill(comm.rank));
    const begin = performance.now();
    await Promise.all(
      comms.flatMap((comm, rank) =>
        Array.from({ length: 5000 }, () => comm.allReduce(own[rank]!, own[rank]!, { op: 'max' })),
      ),
    );
    for (const one of own) expect(one).toEqual(new Int32Array(64).fill(RANKS - 1));
    // A queue that every call searched took more than a minute.
    expect(performance.now() - begin).toBeLessThan(30_000);
  });

  it('have the result of calls that are awaited one by one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 12 }), async (steps) => {
        arrays.forEach((own, rank) => {
          own.forEach((one, i) => {
            for (let k = 0; k < LENGTH; k++) one[k] = (k + 1) * (i + 1) * (rank + 2);
          });
        });
        const expected = simulate(steps, arrays);
        await Promise.all(comms.flatMap((comm) => steps.map((one) => submit(comm.rank, one))));
        expect(arrays).toEqual(expected);
      }),
      { seed: SEED, numRuns: 80 },
    );
  });
});
