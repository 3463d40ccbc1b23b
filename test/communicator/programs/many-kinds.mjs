/** Operations of several kinds, one after the other, each often enough to be compiled; V8 tells what it does. */
import { setFlagsFromString } from 'node:v8';
import { Communicator } from '../../../dist/index.js';

const comm = await Communicator.fromEnv();
const ordinary = (bytes) => new Float32Array(bytes / 4);
const window = (bytes) => comm.alloc(Float32Array, bytes / 4);
setFlagsFromString('--trace-opt');
setFlagsFromString('--trace-deopt');
for (const [make, bytes] of [
  [ordinary, 16],
  [window, 16],
  [ordinary, 256],
  [ordinary, 4096],
  [window, 4096],
]) {
  const step = comm.prepare.allReduce(make(bytes), make(bytes));
  for (let k = 0; k < 5000; k++) step.run();
  step.release();
}
await comm.close();
