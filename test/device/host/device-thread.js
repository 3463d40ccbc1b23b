/** Uses the device of its thread, or of its process when it is a program; tells what came of it. */
import { parentPort } from 'node:worker_threads';
import { Executor } from '#src/device/host/executor.js';
import { HostDevice } from '#src/device/host/host-device.js';

/** (module (import "env" "memory" ...) (func (export "a") (param i32 i32) (result i32) atomic add 1; 0)) */
const INCREMENT = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 7, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f],
  ...[2, 18, 1, 3, 0x65, 0x6e, 0x76, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 3, 1, 0x80, 0x80, 4],
  ...[3, 2, 1, 0, 7, 5, 1, 1, 0x61, 0, 0],
  ...[10, 15, 1, 13, 0, 0x20, 0, 0x41, 1, 0xfe, 0x1e, 2, 0, 0x1a, 0x41, 0, 0x0b],
]);

const device = HostDevice.shared({ localRanks: 2 });
const executor = new Executor(device);
const program = executor.load(INCREMENT);
const address = device.allocate(64);
const status = executor.waitSync(executor.submit(program, 'a', address));
const result = { windows: device.windows.supported, status, counter: device.i32[address >>> 2] };
await device.close();
if (parentPort === null) console.log(JSON.stringify(result));
else parentPort.postMessage(result);
