import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  abortDoorbell,
  armDoorbell,
  DOORBELL,
  DOORBELL_BYTES,
  resetDoorbell,
  wakeDoorbell,
} from '#src/device/host/doorbell.js';
import { Executor, type ExecutorOptions } from '#src/device/host/executor.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { createWaiter, type Waiter, type WaiterSettings } from '#src/device/host/waiting.js';
import { libc } from '#src/system/libc.js';
import { ownIdentity } from '#src/system/process-liveness.js';
import { AWAIT_FLAG, FLAG } from './await-flag.js';

let device: HostDevice;
/** A doorbell, and FLAG bytes behind its start the flag that the program waits for. */
let doorbell: number;
const waiters: Waiter[] = [];

beforeEach(() => {
  device = new HostDevice({ heapBytes: 64 << 20, localRanks: 2 });
  doorbell = device.allocate(128);
});

afterEach(async () => {
  for (const waiter of waiters.splice(0)) waiter.close();
  await device.close();
});

function waiterOf(settings: WaiterSettings = {}): Waiter {
  const waiter = createWaiter({ device, ...settings });
  waiters.push(waiter);
  return waiter;
}

/** Runs the waiting program on this thread; its status. */
function awaitFlag(waiter: Waiter): number {
  const { exports } = device.instantiate(device.loadModule(AWAIT_FLAG), waiter);
  try {
    return (exports.awaitFlag as (descriptor: number, block: number) => number)(doorbell, 0);
  } finally {
    waiter.end();
  }
}

const word = (offset: number) => (doorbell + offset) >>> 2;
const sleepers = () => Atomics.load(device.i32, word(0));
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Longer than any test, so that only a ring can end a sleep in time. */
const LONG_SLEEP = { first: 20_000, longest: 20_000 };

/** A thread that sets the flag, or aborts, after a while; returns when it is ready. */
async function later(ms: number, action: 'flag' | 'flagAndRing' | 'abort' | 'ringAlways'): Promise<Worker> {
  const worker = new Worker(fileURLToPath(new URL('./flag-thread.js', import.meta.url)), {
    workerData: { memory: device.memory, baseAddress: device.baseAddress, doorbell, ms, action },
  });
  await new Promise((resolve) => worker.once('message', resolve));
  worker.postMessage('go');
  return worker;
}

describe('a wait', () => {
  it('returns at once when what it waits for is there', () => {
    const waiter = waiterOf();
    waiter.begin();
    Atomics.store(device.i32, word(FLAG), 1);
    expect(awaitFlag(waiter)).toBe(0);
    expect(waiter.reason).toBeUndefined();
  });

  it('that sleeps is woken by a ring from another thread', async () => {
    const waiter = waiterOf({ sleepMs: LONG_SLEEP, yields: 5 });
    waiter.begin();
    const thread = await later(100, 'flagAndRing');
    const start = performance.now();
    expect(awaitFlag(waiter)).toBe(0);
    expect(performance.now() - start).toBeLessThan(5000);
    expect(sleepers()).toBe(0);
    await thread.terminate();
  });

  it('that sleeps notices without a ring as well, within its longest sleep', async () => {
    const waiter = waiterOf({ yields: 5 });
    waiter.begin();
    const thread = await later(100, 'flag');
    const start = performance.now();
    expect(awaitFlag(waiter)).toBe(0);
    expect(performance.now() - start).toBeLessThan(1000);
    await thread.terminate();
  });

  it.each<[string, WaiterSettings, number]>([
    ['between two', { yields: 2, spins: 1 }, 500],
    ['between two and one who rings in vain', { yields: 2, spins: 1 }, 500],
    ['where a core has many threads', { threadsPerCore: 40 }, 200],
    ['where a core has many threads and one rings in vain', { threadsPerCore: 40 }, 200],
  ])(
    'never loses a ring, however publishing and falling asleep fall together: %s',
    async (title, settings, rounds) => {
      // Each side waits for the other's next number with sleeps that nobody would survive twice.
      const other = device.allocate(128);
      const start = (action: string) =>
        new Worker(fileURLToPath(new URL('./flag-thread.js', import.meta.url)), {
          workerData: {
            memory: device.memory,
            baseAddress: device.baseAddress,
            doorbell,
            other,
            rounds,
            action,
          },
        });
      const threads = [start('pingPong')];
      if (title.includes('in vain')) {
        threads.push(start('ringInVain'));
        await new Promise((resolve) => threads[1]!.once('message', resolve));
      }
      const waiter = waiterOf({ sleepMs: LONG_SLEEP, ...settings });
      const { relax } = waiter.imports;
      for (let round = 1; round <= rounds; round++) {
        Atomics.store(device.i32, (other + FLAG) >>> 2, round);
        wakeDoorbell(device, other);
        waiter.begin(10_000);
        for (let poll = 0; Atomics.load(device.i32, word(FLAG)) !== round; poll++) {
          expect(relax(poll, doorbell)).toBe(0);
        }
      }
      waiter.end();
      await Promise.all(threads.map((thread) => thread.terminate()));
    },
  );

  it.skipIf(libc() === null)('is rung seldom where a core has many threads and rings are in vain', () => {
    const rings = (settings: WaiterSettings) => {
      const waiter = waiterOf({ sleepMs: { first: 1, longest: 1 }, ...settings });
      waiter.begin(400);
      for (let round = 0; waiter.imports.relax(round, doorbell) === 0; round++) {
        // As if another rank had published something that this one does not wait for.
        wakeDoorbell(device, doorbell);
      }
      return Atomics.load(device.i32, word(4));
    };
    const often = rings({ threadsPerCore: 2, yields: 2 });
    const seldom = rings({ threadsPerCore: 100 }) - often;
    // A nap of 4 ms before every sleep.
    expect(seldom).toBeGreaterThan(10);
    expect(seldom).toBeLessThan(110);
    expect(often).toBeGreaterThan(3 * seldom);
  });

  it('gives up with reason timeout when its time has passed', () => {
    for (const settings of [{}, { yields: 1_000_000 }, { threadsPerCore: 4 }]) {
      const waiter = waiterOf(settings);
      waiter.begin(60);
      const start = performance.now();
      expect(awaitFlag(waiter)).toBe(1);
      expect(waiter.reason).toEqual({ kind: 'timeout' });
      expect(performance.now() - start).toBeGreaterThan(55);
      expect(performance.now() - start).toBeLessThan(1000);
      expect(sleepers()).toBe(0);
    }
  });

  it('gives up with reason aborted when the doorbell is aborted, asleep or not, now and later', async () => {
    const waiter = waiterOf({ sleepMs: LONG_SLEEP, yields: 5 });
    waiter.begin();
    const thread = await later(100, 'abort');
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'aborted' });
    waiter.begin();
    expect(awaitFlag(waiter)).toBe(1);
    resetDoorbell(device, doorbell);
    waiter.begin(20);
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'timeout' });
    await thread.terminate();
  });

  it('gives up when its own waiter is stopped, and forgets the reason at the next begin', () => {
    const waiter = waiterOf();
    waiter.stop();
    waiter.begin();
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'aborted' });
    waiter.begin();
    expect(waiter.reason).toBeUndefined();
  });

  it('gives up with the rank of a peer that is dead, and lets a living one be', () => {
    const own = ownIdentity();
    const living = { rank: 1, process: own };
    const dead = { rank: 3, process: { ...own, startTime: own.startTime + 1 } };
    const waiter = waiterOf({ peers: [living] });
    waiter.begin(200);
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'timeout' });
    waiter.setPeers([living, dead]);
    waiter.begin(5000);
    const start = performance.now();
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'peerDied', peer: 3 });
    expect(performance.now() - start).toBeLessThan(1000);
  });

  it('finds a dead peer among a hundred, though it looks at few of them at a time', () => {
    const own = ownIdentity();
    const peers = Array.from({ length: 100 }, (_, rank) => ({ rank, process: own }));
    peers[37] = { rank: 37, process: { ...own, startTime: own.startTime + 1 } };
    const waiter = waiterOf({ peers });
    waiter.begin(10_000);
    expect(awaitFlag(waiter)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'peerDied', peer: 37 });
  });

  it('works without a doorbell', () => {
    const waiter = waiterOf({ yields: 5 });
    waiter.begin(30);
    let round = 0;
    const start = performance.now();
    while (waiter.imports.relax(round, 0) === 0) round++;
    expect(waiter.reason).toEqual({ kind: 'timeout' });
    expect(performance.now() - start).toBeGreaterThan(25);
    // Naps of up to 1 ms, not a busy loop.
    expect(round).toBeLessThan(200);
  });

  it('on a doorbell beyond 2 GiB works too', async () => {
    const large = new HostDevice({ localRanks: 2 });
    const high = 2 ** 32 - 4096;
    const waiter = createWaiter({ device: large, yields: 3 });
    waiter.begin(50);
    const { exports } = large.instantiate(large.loadModule(AWAIT_FLAG), waiter);
    const run = exports.awaitFlag as (descriptor: number, block: number) => number;
    expect(run(high, 0)).toBe(1);
    expect(waiter.reason).toEqual({ kind: 'timeout' });
    Atomics.store(large.i32, (high + FLAG) >>> 2, 1);
    expect(run(high, 0)).toBe(0);
    abortDoorbell(large, high);
    expect(Atomics.load(large.i32, (high + 8) >>> 2)).toBe(1);
    waiter.close();
    await large.close();
  });
});

describe('a doorbell', () => {
  it('is rung when somebody sleeps on it, and only once until somebody means to sleep again', () => {
    const rings = () => Atomics.load(device.i32, word(DOORBELL.rings));
    wakeDoorbell(device, doorbell);
    expect(rings()).toBe(0);
    Atomics.store(device.i32, word(DOORBELL.sleepers), 1);
    expect(armDoorbell(device.i32, doorbell)).toBe(0);
    wakeDoorbell(device, doorbell);
    wakeDoorbell(device, doorbell);
    expect(rings()).toBe(1);
    expect(armDoorbell(device.i32, doorbell)).toBe(1);
    wakeDoorbell(device, doorbell);
    expect(rings()).toBe(2);
    expect(DOORBELL_BYTES).toBe(16);
  });
});

describe('arming a doorbell', () => {
  it('never leaves a sleeper on a value that came with the ring that disarmed it', async () => {
    const thread = await later(0, 'ringAlways');
    Atomics.store(device.i32, word(DOORBELL.sleepers), 1);
    await pause(50);
    for (let round = 0; round < 200_000; round++) {
      const seen = armDoorbell(device.i32, doorbell);
      // Disarmed: the ring comes, or has come since, so a sleep on what was seen ends.
      while (Atomics.load(device.i32, word(DOORBELL.armed)) !== 0);
      const until = performance.now() + 1000;
      while (Atomics.load(device.i32, word(DOORBELL.rings)) === seen && performance.now() < until);
      if (Atomics.load(device.i32, word(DOORBELL.rings)) === seen) {
        throw new Error(`round ${round}: nobody would ever ring again`);
      }
    }
    await thread.terminate();
  });
});

describe('ranks that wait for long', () => {
  it.each<[string, ExecutorOptions]>([
    ['eight, more than there are cores', { threadsPerCore: 4 }],
    ['eight of many more on every core', { threadsPerCore: 50 }],
    ['eight that believe they have a core each', {}],
  ])('use next to no processor time: %s', async (_, options) => {
    const executors: Executor[] = [];
    const commands: Promise<number>[] = [];
    for (let rank = 0; rank < 8; rank++) {
      const executor = new Executor(device, options);
      const bell = device.allocate(128);
      commands.push(executor.done(executor.submit(executor.load(AWAIT_FLAG), 'awaitFlag', bell)));
      executors.push(executor);
      while (Atomics.load(device.i32, bell >>> 2) === 0) await pause(5);
    }
    await pause(100);
    const before = process.cpuUsage();
    await pause(500);
    const { user, system } = process.cpuUsage(before);
    // Microseconds of 500000: all eight together below a tenth of one core.
    expect(user + system).toBeLessThan(50_000);
    for (const executor of executors) await executor.close();
    for (const command of await Promise.allSettled(commands)) {
      expect(command.status === 'rejected' || command.value === 1).toBe(true);
    }
  });

  it.skipIf(libc() === null)('sleep in the kernel under their own doorbell until they end', async () => {
    const waiter = waiterOf({ yields: 2 });
    waiter.begin(40);
    expect(awaitFlag(waiter)).toBe(1);
    expect(sleepers()).toBe(0);
  });
});
