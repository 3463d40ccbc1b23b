/**
 * The smallest program: every rank contributes a vector, every rank gets the sum and checks it.
 *
 *     npx tutti run -n 4 examples/hello-all-reduce.js
 *
 * Each rank prints one line. The exit status is 1 when a result is wrong.
 */
import { Communicator } from 'tutti';

const COUNT = 1 << 16;

const comm = await Communicator.fromEnv(); // rank, size and meeting point come from the launcher
const { rank, size } = comm;

const send = comm.alloc(Float32Array, COUNT);
const recv = comm.alloc(Float32Array, COUNT);
for (let i = 0; i < COUNT; i++) send[i] = (rank + 1) * (i % 100);

await comm.allReduce(send, recv);

// 1 + 2 + ... + size, times what all ranks have in common. Small whole numbers: the sum is exact.
const total = (size * (size + 1)) / 2;
const wrong = recv.findIndex((value, i) => value !== total * (i % 100));
if (wrong < 0) {
  console.log(`rank ${rank} of ${size}: the sum of ${COUNT} elements is right`);
} else {
  console.log(`rank ${rank} of ${size}: element ${wrong} is ${recv[wrong]}, not ${total * (wrong % 100)}`);
  process.exitCode = 1;
}
await comm.close();
