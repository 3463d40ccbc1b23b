/** Two real processes on each other's memory: the test process is rank 0, rank-process.js is rank 1. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { abortDoorbell, wakeDoorbell } from '#src/device/host/doorbell.js';
import { Executor } from '#src/device/host/executor.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { libc } from '#src/system/libc.js';
import type { ProcessIdentity } from '#src/system/process-liveness.js';
import type { SegmentAnnouncement } from '#src/system/shared-memory.js';
import { AWAIT_FLAG, FLAG } from './await-flag.js';

interface Introduction {
  announcement: SegmentAnnouncement;
  offset: number;
  process: ProcessIdentity;
}

let device: HostDevice;
let child: ChildProcess;
let introduction: Introduction;
/** Control blocks (doorbell, flag at FLAG): the own one and the child's. */
let own: number;
let peer: number;

async function order(command: string, fields: object = {}): Promise<unknown> {
  const answer = once(child, 'message');
  child.send({ command, ...fields });
  const [{ result }] = (await answer) as [{ result: unknown }];
  return result;
}

const word = (address: number) => Atomics.load(device.i32, address >>> 2);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(libc() === null)('two processes', () => {
  beforeEach(async () => {
    device = new HostDevice({ heapBytes: 64 << 20, localRanks: 2 });
    own = device.allocate(256);
    const program = Buffer.from(AWAIT_FLAG).toString('hex');
    child = fork(fileURLToPath(new URL('./rank-process.js', import.meta.url)), [program]);
    [introduction] = (await once(child, 'message')) as [Introduction];
    peer = device.openWindow(introduction.announcement).base + introduction.offset;
    await order('connect', { announcement: device.announcement, offset: own - device.segmentBase });
  });

  afterEach(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await device.close();
  });

  it('pass numbers back and forth through atomics in each other’s segments', async () => {
    const rounds = 2000;
    const answer = order('pingPong', { rounds });
    for (let round = 1; round <= rounds; round++) {
      Atomics.store(device.i32, (peer + FLAG) >>> 2, round);
      const limit = performance.now() + 10_000;
      while (word(own + FLAG) !== round) {
        // The first round must let this process send the order.
        if (round === 1) await pause(1);
        else if (performance.now() > limit) throw new Error(`no answer to number ${round}`);
      }
    }
    await answer;
    expect(word(own + FLAG)).toBe(rounds);
  });

  it('wake each other from the sleep in the kernel', async () => {
    // 20 s of sleep: only the ring ends it in time.
    const answer = order('wait', { sleepMs: 20_000 });
    while (word(peer) === 0) await pause(5);
    await pause(50);
    const start = performance.now();
    Atomics.store(device.i32, (peer + FLAG) >>> 2, 1);
    wakeDoorbell(device, peer);
    expect(await answer).toBe(0);
    expect(performance.now() - start).toBeLessThan(5000);
    expect(word(peer)).toBe(0);
  });

  it('wake an executor of the other process', async () => {
    const executor = new Executor(device, { yields: 5, sleepMs: { first: 20_000, longest: 20_000 } });
    const command = executor.done(executor.submit(executor.load(AWAIT_FLAG), 'awaitFlag', own));
    while (word(own) === 0) await pause(5);
    await pause(50);
    const start = performance.now();
    await order('ring');
    expect(await command).toBe(0);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it('abort each other through the doorbell', async () => {
    const answer = order('wait', { sleepMs: 20_000 });
    while (word(peer) === 0) await pause(5);
    abortDoorbell(device, peer);
    expect(await answer).toBe(1);
  });

  it('of which one is killed: the other names its rank within a second, and nothing is left', async () => {
    const executor = new Executor(device);
    executor.setPeers([{ rank: 1, process: introduction.process }]);
    const command = executor.submit(executor.load(AWAIT_FLAG), 'awaitFlag', own);
    const ended = executor.done(command);
    while (word(own) === 0) await pause(5);
    Atomics.store(device.i32, (peer + 128) >>> 2, 42);
    child.kill('SIGKILL');
    const start = performance.now();
    expect(await ended).toBe(1);
    expect(performance.now() - start).toBeLessThan(1000);
    expect(executor.reason(command)).toEqual({ kind: 'peerDied', peer: 1 });
    // The memory of the dead stays readable as long as it is mapped.
    expect(word(peer + 128)).toBe(42);
    const pids = [process.pid, introduction.process.pid];
    const left = readdirSync('/dev/shm').filter((name) => pids.some((pid) => name.includes(`-${pid}-`)));
    expect(left).toEqual([]);
  });

  it('of which one is stopped are no reason to give up', async () => {
    const executor = new Executor(device);
    executor.setPeers([{ rank: 1, process: introduction.process }]);
    child.kill('SIGSTOP');
    const command = executor.submit(executor.load(AWAIT_FLAG), 'awaitFlag', own, 1, 300);
    expect(await executor.done(command)).toBe(1);
    expect(executor.reason(command)).toEqual({ kind: 'timeout' });
    child.kill('SIGCONT');
  });
});
