/** The other side of a wait: sets a flag, rings, aborts, rings in vain, or answers number by number. */
import { parentPort, workerData } from 'node:worker_threads';
import { abortDoorbell, wakeDoorbell } from '#src/device/host/doorbell.js';

const { memory, baseAddress, doorbell, other, ms, rounds, action } = workerData;
const device = { i32: new Int32Array(memory.buffer), baseAddress };
const FLAG = 64;

function act() {
  while (action === 'ringAlways') wakeDoorbell(device, doorbell);
  if (action === 'abort') abortDoorbell(device, doorbell);
  else Atomics.store(device.i32, (doorbell + FLAG) >>> 2, 1);
  if (action === 'flagAndRing') wakeDoorbell(device, doorbell);
}

if (action === 'pingPong') {
  for (let round = 1; round <= rounds; round++) {
    while (Atomics.load(device.i32, (other + FLAG) >>> 2) !== round);
    // A pause of varying length, so that the other side is met in every phase of falling asleep.
    for (let i = (round * 37) % 5000; i > 0; i--) Atomics.load(device.i32, 0);
    Atomics.store(device.i32, (doorbell + FLAG) >>> 2, round);
    wakeDoorbell(device, doorbell);
  }
} else if (action === 'ringInVain') {
  parentPort.postMessage('ready');
  for (let i = 0; ; i++) {
    wakeDoorbell(device, doorbell);
    for (let pause = (i * 41) % 3000; pause > 0; pause--) Atomics.load(device.i32, 0);
  }
} else {
  parentPort.once('message', () => setTimeout(act, ms));
  parentPort.postMessage('ready');
}
