/**
 * A latency loop: the operation is checked and planned once, then run many times on the calling thread.
 *
 *     npx tutti run -n 2 examples/prepared-loop.js [ITERATIONS]
 *
 * Rank 0 prints what will run and the time per operation. Times mean something only while every rank has a core
 * of its own. The exit status is 1 when the result is wrong.
 */
import { Communicator } from 'tutti';

const iterations = Number(process.argv[2] ?? 20000);
const COUNT = 16;

const comm = await Communicator.fromEnv();
const values = comm.alloc(Float64Array, COUNT);
const step = comm.prepare.allReduce(values, values, { op: 'avg' });

/** Every rank starts with its own number; the first average makes them equal and the others keep them so. */
values.fill(comm.rank);
const mean = (comm.size - 1) / 2;

for (let i = 0; i < iterations / 10; i++) step.run(); // let V8 optimise the path first
const start = performance.now();
for (let i = 0; i < iterations; i++) step.run();
const microseconds = ((performance.now() - start) * 1000) / iterations;

if (comm.rank === 0) {
  console.log(step.explanation);
  console.log(`all-reduce of ${values.byteLength} bytes: ${microseconds.toFixed(2)} us per operation`);
}
// Averages of equal numbers by n ranks may be off by a rounding each, no more.
if (!values.every((value) => Math.abs(value - mean) <= 1e-9 * Math.max(1, mean))) {
  console.log(`rank ${comm.rank}: ${values[0]} in place of ${mean}`);
  process.exitCode = 1;
}
step.release();
await comm.close();
