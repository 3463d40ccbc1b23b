/** Synchronous calls right behind asynchronous ones: in order, or refused where the order cannot be kept. */
import assert from 'node:assert/strict';
import { Communicator } from '../../../dist/index.js';

const comm = await Communicator.fromEnv({ timeoutMs: 20_000, ...JSON.parse(process.argv[2] ?? '{}') });
const { size } = comm;
const refusal = {
  code: 'invalidUsage',
  message:
    'allReduceSync: an asynchronous call before this one is still moving ordinary arrays; await it first',
  rank: comm.rank,
};

for (let round = 0; round < 20; round++) {
  // In the heap: one after the other, whatever the form.
  const heap = comm.alloc(Float64Array, 5000).fill(1);
  const prepared = comm.prepare.allReduce(heap, heap);
  const first = comm.allReduce(heap, heap);
  const second = comm.allReduce(heap, heap);
  comm.allReduceSync(heap, heap);
  prepared.run();
  comm.barrierSync();
  assert.equal(heap[4999], size ** 4);
  await Promise.all([first, second]);
  const third = prepared.start();
  prepared.run();
  assert.equal(heap[0], size ** 6);
  await third;
  prepared.release();
  comm.free(heap);

  // Ordinary arrays: the result of an asynchronous call arrives with its promise.
  const array = new Float64Array(5000).fill(1);
  const pending = comm.allReduce(array, array);
  assert.throws(() => comm.allReduceSync(array, array), refusal);
  await pending;
  comm.allReduceSync(array, array);
  assert.equal(array[4999], size ** 2);

  // Two operations cannot have the same staging memory at the same time, but one after the other.
  const others = [new Float64Array(5000).fill(1), new Float64Array(5000).fill(2)];
  const steps = others.map((one) => comm.prepare.allReduce(one, one));
  const started = steps.map((step) => step.start());
  assert.throws(() => comm.allReduceSync(array, array), refusal);
  await Promise.all(started);
  for (const [i, one] of others.entries()) assert.equal(one[4999], (i + 1) * size);
  for (const step of steps) step.release();
  comm.allReduceSync(array, array);
  assert.equal(array[0], size ** 3);
}
await comm.close();
console.log('right');
