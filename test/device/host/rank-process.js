/**
 * One rank in a process of its own: makes a device, tells where its control block is, maps the peer's segment
 * and does what it is told. Argument: bytes of a program that waits for a flag, in hexadecimal.
 */
import { wakeDoorbell } from '#src/device/host/doorbell.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { createWaiter } from '#src/device/host/waiting.js';
import { ownIdentity } from '#src/system/process-liveness.js';

const FLAG = 64;
const device = new HostDevice({ heapBytes: 64 << 20, localRanks: 2 });
const own = device.allocate(256);
let peer = 0;

const commands = {
  connect({ announcement, offset }) {
    peer = device.openWindow(announcement).base + offset;
  },
  /** Answers each number that appears at the own flag by writing it to the peer's. */
  pingPong({ rounds }) {
    for (let round = 1; round <= rounds; round++) {
      while (Atomics.load(device.i32, (own + FLAG) >>> 2) !== round);
      Atomics.store(device.i32, (peer + FLAG) >>> 2, round);
    }
  },
  /** Waits in Wasm until the own flag is 1, with sleeps that only a ring can end in time. */
  wait({ sleepMs }) {
    const waiter = createWaiter({ device, yields: 5, sleepMs: { first: sleepMs, longest: sleepMs } });
    const program = device.loadModule(Buffer.from(process.argv[2], 'hex'));
    const { exports } = device.instantiate(program, waiter);
    const status = exports.awaitFlag(own, 0);
    waiter.close();
    return status;
  },
  ring() {
    Atomics.store(device.i32, (peer + FLAG) >>> 2, 1);
    wakeDoorbell(device, peer);
  },
};

process.on('message', ({ command, ...rest }) => process.send({ result: commands[command](rest) ?? null }));
process.send({ announcement: device.announcement, offset: own - device.segmentBase, process: ownIdentity() });
