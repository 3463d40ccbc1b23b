/**
 * Ranks inside one process: no launcher, no second process. Their programs run on threads of their own, and their
 * memory is shared, so nothing is copied on the way.
 *
 *     node examples/threads.js [RANKS]
 *
 * Prints the sum and what each rank gathered. The exit status is 1 when a result is wrong.
 */
import assert from 'node:assert/strict';
import { createLocalCommunicators } from 'tutti';

const ranks = Number(process.argv[2] ?? 3);
const comms = await createLocalCommunicators(ranks);

// One buffer per rank. All calls are awaited together, since every rank waits for the others.
const sums = comms.map((comm) => comm.alloc(Int32Array, 8).fill(comm.rank + 1));
await Promise.all(comms.map((comm) => comm.allReduce(sums[comm.rank], sums[comm.rank])));
console.log(`sum on every rank: ${sums[0].join(' ')}`);
for (const sum of sums) assert.deepEqual([...sum], new Array(8).fill((ranks * (ranks + 1)) / 2));

// Typed arrays of any other kind work too; they are copied through memory that all ranks reach.
const gathered = comms.map(() => new Float64Array(ranks));
await Promise.all(
  comms.map((comm) => comm.allGather(Float64Array.of(Math.sqrt(comm.rank)), gathered[comm.rank])),
);
for (const [rank, all] of gathered.entries()) {
  console.log(`rank ${rank} gathered ${[...all].map((x) => x.toFixed(3)).join(' ')}`);
  assert.deepEqual(
    [...all],
    Array.from({ length: ranks }, (_, peer) => Math.sqrt(peer)),
  );
}

await Promise.all(comms.map((comm) => comm.close()));
