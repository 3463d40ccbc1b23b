import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Executor, type ExecutorOptions } from '#src/device/host/executor.js';
import { HostDevice } from '#src/device/host/host-device.js';
import type { WaitPeer } from '#src/device/host/waiting.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { ownIdentity } from '#src/system/process-liveness.js';
import { AWAIT_FLAG, FLAG } from './await-flag.js';
import {
  add,
  assemble,
  atomicAdd,
  atomicLoad,
  atomicStore,
  branch,
  constant,
  done,
  drop,
  equal,
  get,
  leave,
  load,
  loop,
  multiply,
  set,
  trap,
  when,
} from './tiny-program.js';

/** Bytes of a log entry's place behind the counter. */
const ENTRIES = 64;

const PROGRAMS = assemble({
  /** descriptor: { log: address, value }: appends value + block to the log. */
  append: [
    ...[...get(0), ...load(0), ...set(6)],
    ...[...get(6), ...constant(1), ...atomicAdd(), ...constant(4), ...multiply, ...get(6), ...add],
    ...[...get(0), ...load(4), ...get(1), ...add, ...atomicStore(ENTRIES)],
    ...done,
  ],
  /** Ends with the status that the descriptor is. */
  status: get(0),
  trap,
  endless: [...loop(branch(0)), ...done],
  /** Ends with 100 * block + blocks for the last block. */
  grid: [
    ...[...get(1), ...constant(1), ...add, ...get(2), ...equal],
    ...when([...get(1), ...constant(100), ...multiply, ...get(2), ...add, ...leave]),
    ...done,
  ],
});

const RESUMABLE = assemble(
  {
    /**
     * Block 0 is blocked until block 1 has set the word at the descriptor, and counts its calls in its frame
     * from the second word on; the first is 0 at its first call only. Ends with 16 + calls + 16 * first calls.
     */
    meet: [
      ...[...get(1), ...constant(1), ...equal],
      ...when([...get(0), ...constant(1), ...atomicStore(), ...done, ...leave]),
      ...[...get(3), ...constant(1), ...atomicAdd(4), ...drop],
      ...[...get(3), ...load(), ...constant(0), ...equal],
      ...when([...get(3), ...constant(16), ...atomicAdd(4), ...drop]),
      ...[...get(3), ...constant(7), ...atomicStore()],
      ...[...get(0), ...atomicLoad(), ...constant(0), ...equal, ...when([...constant(2), ...leave])],
      ...[...constant(16), ...get(3), ...load(4), ...add],
    ],
  },
  4,
);

let device: HostDevice;

beforeEach(() => {
  device = new HostDevice({ heapBytes: 64 << 20, localRanks: 2 });
});
afterEach(() => device.close());

class Log {
  readonly address = device.allocate(64 + 4 * 20_000);
  readonly #descriptors = device.allocate(8 * 20_000);
  #count = 0;

  descriptor(value: number): number {
    const address = this.#descriptors + 8 * this.#count++;
    device.dataView.setUint32(address, this.address, true);
    device.dataView.setInt32(address + 4, value, true);
    return address;
  }

  get values(): number[] {
    const count = Atomics.load(device.i32, this.address >>> 2);
    const from = (this.address + ENTRIES) >>> 2;
    return Array.from(device.i32.subarray(from, from + count));
  }
}

function start(options: ExecutorOptions = {}): { executor: Executor; programs: number; waits: number } {
  const executor = new Executor(device, options);
  return { executor, programs: executor.load(PROGRAMS), waits: executor.load(AWAIT_FLAG) };
}

const codeOf = (error: unknown) => (TuttiError.is(error) ? `${error.code}: ${error.message}` : String(error));
const refusal = (promise: Promise<unknown>) => promise.then(() => 'nothing was thrown', codeOf);
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('an executor', () => {
  it('runs commands in the order of submission, also from more than one module', async () => {
    const { executor, programs } = start();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 1 }), async (values) => {
        const log = new Log();
        let last = 0;
        for (const value of values) last = executor.submit(programs, 'append', log.descriptor(value));
        expect(await executor.done(last)).toBe(0);
        expect(log.values).toEqual(values);
        expect(executor.idle).toBe(true);
        device.free(log.address);
      }),
      { numRuns: 20 },
    );
  });

  it('takes far more commands than its ring holds without blocking, and runs them all in order', async () => {
    const { executor, programs, waits } = start();
    const log = new Log();
    const flag = device.allocate(128);
    const first = executor.submit(waits, 'awaitFlag', flag);
    const values = range(3000);
    const commands = values.map((value) => executor.submit(programs, 0, log.descriptor(value)));
    expect(executor.depth).toBe(3001);
    expect(executor.idle).toBe(false);
    expect(log.values).toEqual([]);
    Atomics.store(device.i32, (flag + FLAG) >>> 2, 1);
    expect(await executor.done(commands[10]!)).toBe(0);
    expect(await executor.done(commands.at(-1)!)).toBe(0);
    expect(await executor.done(first)).toBe(0);
    expect(log.values).toEqual(values);
  });

  it('waits synchronously for a command that did not even fit into the ring', () => {
    const { executor, programs } = start();
    const log = new Log();
    let last = 0;
    for (const value of range(2000)) last = executor.submit(programs, 'append', log.descriptor(value));
    expect(executor.waitSync(last)).toBe(0);
    expect(log.values).toEqual(range(2000));
  });

  it('settles every promise, in whatever order they are asked for', async () => {
    const { executor, programs } = start();
    for (let round = 0; round < 300; round++) {
      const a = executor.submit(programs, 'status', 16 + round);
      const b = executor.submit(programs, 'status', 17 + round);
      // The second wait begins while the first one is being settled.
      const both = [
        executor.done(b),
        executor.done(a).then((s) => [s, executor.submit(programs, 'status', 99)]),
      ];
      const [second, [firstStatus, third]] = (await Promise.all(both)) as [number, [number, number]];
      expect([firstStatus, second, await executor.done(third)]).toEqual([16 + round, 17 + round, 99]);
    }
  });

  it('runs the blocks of a launch in order', async () => {
    const { executor, programs } = start();
    const log = new Log();
    await executor.done(executor.submit(programs, 'append', log.descriptor(10), 5));
    expect(log.values).toEqual([10, 11, 12, 13, 14]);
  });

  it('tells every block how many there are', async () => {
    const { executor, programs } = start();
    expect(await executor.done(executor.submit(programs, 'grid', 0, 4))).toBe(304);
  });

  it('lets blocks of a resumable program wait for each other, each with a frame of its own', async () => {
    const { executor } = start();
    const resumable = executor.load(RESUMABLE);
    const word = device.allocate(64);
    const frames = device.allocate(64);
    // A frame that is not fresh: its first word is cleared, the rest is the program's own affair.
    device.i32[frames >>> 2] = 99;
    const both = executor.submit(resumable, 'meet', word, 2, 0, 0, frames, 32);
    // Block 0 began once and was called again once, after block 1.
    expect(await executor.done(both)).toBe(16 + 16 + 2);
    expect(device.i32[(frames + 32) >>> 2]).toBe(0);
    // Without block 1 block 0 waits for ever, or until its time is over.
    const alone = executor.submit(resumable, 'meet', device.allocate(64), 1, 50, 0, frames, 32);
    expect(await executor.done(alone)).toBe(1);
    expect(executor.reason(alone)).toEqual({ kind: 'timeout' });
    const frameless = executor.submit(resumable, 'meet', word, 2);
    expect(await refusal(executor.done(frameless))).toMatch(
      /^internalError: .*resumable: submit it with memory/,
    );
  });

  it('tells how a command ended long after its place in the ring was used again', async () => {
    const { executor, programs } = start();
    const command = executor.submit(programs, 'status', 77);
    const trapped = executor.submit(programs, 'trap', 0);
    const fine = executor.submit(programs, 'status', 0);
    for (const _ of range(1000)) executor.submit(programs, 'status', 0);
    const last = executor.submit(programs, 'status', 78);
    expect(executor.waitSync(last)).toBe(78);
    expect(executor.waitSync(command)).toBe(77);
    expect(await executor.done(command)).toBe(77);
    expect(await executor.done(fine)).toBe(0);
    expect(await refusal(executor.done(trapped))).toMatch(/^internalError: .*unreachable/);
  });

  it('has one number for one module, and names what it does not know', () => {
    const { executor, programs } = start();
    expect(executor.load(device.loadModule(PROGRAMS))).toBe(programs);
    expect(() => executor.submit(programs, 'nothing', 0)).toThrow(/has no program nothing; it has append, /);
    expect(() => executor.submit(programs, 99, 0)).toThrow(/has no program 99/);
    expect(() => executor.submit(99, 0, 0)).toThrow(/module 99/);
    for (const blocks of [0, -1, 1.5]) {
      expect(() => executor.submit(programs, 'status', 0, blocks)).toThrow(/cannot launch/);
    }
    expect(() => executor.waitSync(1)).toThrow(/there is no command 1/);
    expect(() => executor.done(0)).toThrow(/there is no command 0/);
  });

  it('lets programs of different ranks of one thread wait for each other', async () => {
    const ranks = range(3).map(() => start({ threadsPerCore: 4 }));
    const flags = ranks.map(() => device.allocate(128));
    const waits = ranks.map(({ executor, waits: module }, i) =>
      executor.submit(module, 'awaitFlag', flags[i]!),
    );
    for (const flag of flags) Atomics.store(device.i32, (flag + FLAG) >>> 2, 1);
    const statuses = await Promise.all(ranks.map(({ executor }, i) => executor.done(waits[i]!)));
    expect(statuses).toEqual([0, 0, 0]);
  });
});

describe('a command that fails', () => {
  it('by a trap rejects with an internal error that says why, and the next one runs', async () => {
    const { executor, programs } = start();
    const bad = executor.submit(programs, 'trap', 0);
    const good = executor.submit(programs, 'status', 20);
    const error = await executor.done(bad).catch((reason: unknown) => reason);
    expect(codeOf(error)).toMatch(/^internalError: a device program failed: .*unreachable/);
    expect((error as TuttiError).cause).toMatchObject({ name: 'RuntimeError' });
    expect(() => executor.waitSync(bad)).toThrow(/unreachable/);
    expect(await executor.done(good)).toBe(20);
  });

  it('because its module does not fit the device rejects likewise', async () => {
    const { executor } = start();
    // (module (import "env" "other" (func)) (func (export "a")))
    const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0];
    const imports = [2, 13, 1, 3, 0x65, 0x6e, 0x76, 5, 0x6f, 0x74, 0x68, 0x65, 0x72, 0, 0];
    const rest = [3, 2, 1, 0, 7, 5, 1, 1, 0x61, 0, 1, 10, 4, 1, 2, 0, 0x0b];
    const module = executor.load(Uint8Array.from([...header, ...imports, ...rest]));
    expect(await refusal(executor.done(executor.submit(module, 'a', 0)))).toMatch(
      /^internalError: .*does not fit/,
    );
  });

  it('by its time limit ends with status 1 and the reason', async () => {
    const { executor, waits } = start();
    const command = executor.submit(waits, 'awaitFlag', device.allocate(128), 1, 60);
    expect(executor.reason(command)).toBeUndefined();
    expect(await executor.done(command)).toBe(1);
    expect(executor.reason(command)).toEqual({ kind: 'timeout' });
  });

  it('gives up everything behind it when asked to, and nothing before it', async () => {
    const { executor, programs, waits } = start({ stopsAtFailure: true });
    const log = new Log();
    const before = executor.submit(programs, 'append', log.descriptor(1));
    const late = executor.submit(waits, 'awaitFlag', device.allocate(128), 1, 30);
    const behind = executor.submit(programs, 'append', log.descriptor(2));
    expect(await executor.done(before)).toBe(0);
    expect(await executor.done(late)).toBe(1);
    expect(await executor.done(behind)).toBe(1);
    expect(executor.reason(late)).toEqual({ kind: 'timeout' });
    expect(executor.reason(behind)).toBeUndefined();
    expect(log.values).toEqual([1]);
  });

  it('by the death of a peer ends with status 1 and names the rank', async () => {
    const { executor, waits } = start();
    const own = ownIdentity();
    executor.setPeers([{ rank: 5, process: { ...own, startTime: own.startTime + 1 } }]);
    const command = executor.submit(waits, 'awaitFlag', device.allocate(128));
    expect(executor.waitSync(command)).toBe(1);
    expect(executor.reason(command)).toEqual({ kind: 'peerDied', peer: 5 });
    executor.setPeers([]);
    const next = executor.submit(waits, 'awaitFlag', device.allocate(128), 1, 200);
    expect(executor.waitSync(next)).toBe(1);
    expect(executor.reason(next)).toEqual({ kind: 'timeout' });
  });
});

describe('closing an executor', () => {
  it.each([
    ['that is idle', undefined, 0],
    ['whose program waits', 'awaitFlag', 1],
    ['whose program never ends', 'endless', 0],
  ] as const)('%s takes less than a second and rejects what is left', async (_, program, module) => {
    const { executor, programs, waits } = start();
    const bytes = device.allocate(128);
    await executor.done(executor.submit(programs, 'status', 0));
    const commands: number[] = [];
    if (program !== undefined) {
      commands.push(executor.submit(module === 1 ? waits : programs, program, bytes));
      for (const _ of range(400)) commands.push(executor.submit(programs, 'status', 0));
    }
    const results = Promise.allSettled(commands.map((command) => executor.done(command)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const begin = performance.now();
    const closing = executor.close();
    expect(executor.close()).toBe(closing);
    await closing;
    expect(performance.now() - begin).toBeLessThan(1000);
    (await results).forEach((result, i) => {
      // The program that waited was told to give up; nothing after it has run.
      if (i === 0 && program === 'awaitFlag') expect(result).toEqual({ status: 'fulfilled', value: 1 });
      else expect(codeOf((result as PromiseRejectedResult).reason)).toMatch(/^invalidUsage: .*closed/);
    });
    expect(() => executor.submit(programs, 'status', 0)).toThrow(/has been closed/);
    if (commands.length > 0) {
      expect(await refusal(executor.done(commands.at(-1)!))).toMatch(/^invalidUsage: .*closed/);
    }
  });

  it('is done by closing the device', async () => {
    const { executor, waits } = start();
    const command = executor.done(executor.submit(waits, 'awaitFlag', device.allocate(128)));
    const settled = refusal(command);
    await device.close();
    expect(await settled).toBeDefined();
    expect(() => executor.load(PROGRAMS)).toThrow(/has been closed/);
  });
});

describe('a process with an executor', () => {
  /** Runs a module in a process of its own; its output and how long it took. */
  function run(body: string): { stdout: string; stderr: string; status: number | null; ms: number } {
    const program = `
      import { Executor } from '#src/device/host/executor.js';
      import { HostDevice } from '#src/device/host/host-device.js';
      const device = new HostDevice({ heapBytes: 64 << 20, localRanks: 2 });
      const executor = new Executor(device);
      const module = executor.load(Buffer.from('${Buffer.from(AWAIT_FLAG).toString('hex')}', 'hex'));
      const submit = (ms) => executor.submit(module, 'awaitFlag', device.allocate(128), 1, ms);
      ${body}`;
    const begin = performance.now();
    const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: new URL('../../..', import.meta.url),
      encoding: 'utf8',
      timeout: 20_000,
    });
    return { stdout, stderr, status, ms: performance.now() - begin };
  }

  it('runs as long as somebody awaits a command, and ends by itself afterwards', () => {
    const result = run(`executor.done(submit(300)).then((status) => console.log('status', status));`);
    expect(result).toMatchObject({ stdout: 'status 1\n', stderr: '', status: 0 });
    expect(result.ms).toBeGreaterThan(300);
  });

  it('ends by itself when nobody awaits the program that still runs', () => {
    expect(run('submit(0);')).toMatchObject({ stdout: '', stderr: '', status: 0 });
  });

  it('ends by itself when its executor is closed, and keeps no thread for later', () => {
    const result = run('await executor.done(submit(20)); await executor.close(); console.log("closed");');
    expect(result).toMatchObject({ stdout: 'closed\n', stderr: '', status: 0 });
    expect(result.ms).toBeLessThan(10_000);
  });

  it('ends when it is told to, whatever runs', () => {
    const result = run('executor.done(submit(0)); setTimeout(() => process.exit(7), 100);');
    expect(result).toMatchObject({ stderr: '', status: 7 });
  });
});

describe('the thread of an executor', () => {
  /** Far more than the worker's heap holds. */
  const flood = (): WaitPeer[] => range(400_000).map((rank) => ({ rank, process: { ...ownIdentity() } }));

  it('that dies rejects everything with an internal error', async () => {
    const { executor, programs } = start();
    expect(await executor.done(executor.submit(programs, 'status', 16))).toBe(16);
    executor.setPeers(flood());
    const commands = range(5).map(() => executor.done(executor.submit(programs, 'status', 0)));
    for (const command of commands)
      expect(await refusal(command)).toMatch(/^internalError: the executor's thread/);
    expect(() => executor.submit(programs, 'status', 0)).toThrow(/the executor's thread/);
    expect(executor.waitSync(1)).toBe(16);
  });

  it('that dies ends a synchronous wait, in which no events arrive', () => {
    const { executor, programs } = start();
    executor.setPeers(flood());
    const command = executor.submit(programs, 'status', 0);
    expect(() => executor.waitSync(command)).toThrow(/the executor's thread has ended/);
  });

  it.runIf(process.platform === 'linux')('serves the next executor when its own is closed', async () => {
    const threads = () => readdirSync('/proc/self/task');
    const round = async () => {
      const made = range(3).map(() => start());
      for (const { executor, programs } of made) {
        expect(await executor.done(executor.submit(programs, 'status', 17))).toBe(17);
      }
      await Promise.all(made.map(({ executor }) => executor.close()));
    };
    await round();
    const before = new Set(threads());
    for (const _ of range(5)) await round();
    expect(threads().filter((thread) => !before.has(thread))).toEqual([]);
  });

  it('that served an executor with a failed program runs the next one from scratch', async () => {
    const first = start({ stopsAtFailure: true });
    expect(await first.executor.done(first.executor.submit(first.programs, 'status', 20))).toBe(20);
    // Everything behind it is given up.
    expect(await first.executor.done(first.executor.submit(first.programs, 'status', 0))).toBe(1);
    await first.executor.close();
    const next = start({ stopsAtFailure: true });
    expect(await next.executor.done(next.executor.submit(next.programs, 'status', 0))).toBe(0);
  });

  it('takes less than 25 MB', async () => {
    const before = process.memoryUsage.rss();
    const executors = range(4).map(() => start());
    for (const { executor, programs } of executors) {
      await executor.done(executor.submit(programs, 'status', 0));
    }
    expect((process.memoryUsage.rss() - before) / executors.length).toBeLessThan(25e6);
  });
});
