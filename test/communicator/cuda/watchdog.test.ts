/** The watchdog, over boards without a GPU: streams are busy when a word of the heap says so. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { CallBoards } from '#src/communicator/cuda/call-boards.js';
import { allocateBoard } from '#src/communicator/cuda/rank-board.js';
import { Watchdog } from '#src/communicator/cuda/watchdog.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { ownIdentity, type ProcessIdentity } from '#src/system/process-liveness.js';

/** What a blocked event loop is to a program. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Blocks the event loop until the rank is told of something; how long that took, ms. */
function blockUntilTrouble({ calls }: Rank): number {
  const begin = performance.now();
  while (calls.trouble === undefined) {
    if (performance.now() - begin > 30_000) throw new Error('the watchdog says nothing');
    block(10);
  }
  return performance.now() - begin;
}

/** A probe that takes the numbers of streams and events for the answer. */
const PROBE = `data:text/javascript,export const areBusy = (_, streams, events) => [...streams, ...events].includes(1);`;
const dog = new Watchdog(PROBE);
afterAll(() => dog.close());

interface Rank {
  readonly calls: CallBoards;
  /** What the other rank of the team sees. */
  readonly other: CallBoards;
}

async function rank(options: {
  busy: boolean;
  /** Busy in a stream of another library. */
  busyElsewhere?: boolean;
  timeoutMs: number;
  peer?: ProcessIdentity;
}): Promise<Rank> {
  const host = new HostDevice({ heapBytes: 8 << 20 });
  const boards = [allocateBoard(host), allocateBoard(host)];
  const calls = new CallBoards(host, 0, boards, { team: 1, gpu: 0 });
  const { own: board, all } = calls.addresses;
  const { busy, busyElsewhere, timeoutMs, peer } = options;
  const watch = dog.watch({
    rank: 0,
    heap: host.buffer,
    board,
    boards: all,
    timeoutMs,
    context: 0,
    streams: [busy ? 1 : 0],
    peers: peer === undefined ? [] : [{ rank: 1, process: peer }],
  });
  if (busyElsewhere !== undefined) watch.addEvent(busyElsewhere ? 1 : 0);
  onTestFinished(async () => {
    await watch.stop();
    await host.close();
  });
  return { calls, other: new CallBoards(host, 1, boards, { team: 1, gpu: 0 }) };
}

/** A process that has ended. */
async function deadProcess(): Promise<ProcessIdentity> {
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const text = readFileSync(`/proc/${child.pid}/stat`, 'latin1');
  const startTime = Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[19]);
  child.kill('SIGKILL');
  await once(child, 'exit');
  return { ...ownIdentity(), pid: child.pid!, startTime };
}

describe('a rank whose event loop is blocked', () => {
  it('has its kernels ended at the time limit, and those of the others', async () => {
    const silent = await rank({ busy: true, timeoutMs: 600 });
    const { calls, other } = silent;
    calls.beat(true);
    // The watchdog counts from its first look on, which comes later.
    expect(blockUntilTrouble(silent)).toBeGreaterThan(600);
    expect(calls.trouble).toEqual({ kind: 'stalled', culprit: 0 });
    expect(other.trouble).toEqual({ kind: 'stalled', culprit: 0 });
  });

  it('is told of a peer that has died', async () => {
    const mourner = await rank({ busy: true, timeoutMs: 60_000, peer: await deadProcess() });
    const { calls, other } = mourner;
    calls.beat(true);
    blockUntilTrouble(mourner);
    expect(calls.trouble).toEqual({ kind: 'peerDied', culprit: 1 });
    expect(other.trouble).toEqual({ kind: 'peerDied', culprit: 1 });
  });

  it('is told so too when it waits in a stream of another library', async () => {
    const elsewhere = { busy: false, timeoutMs: 60_000, peer: await deadProcess() };
    const done = await rank({ ...elsewhere, busyElsewhere: false });
    const waiting = await rank({ ...elsewhere, busyElsewhere: true });
    done.calls.beat(true);
    waiting.calls.beat(true);
    blockUntilTrouble(waiting);
    expect(waiting.calls.trouble).toEqual({ kind: 'peerDied', culprit: 1 });
    expect(done.calls.trouble).toBeUndefined();
  });

  it('is left alone while its GPU is idle, it has no work there, or peers live', async () => {
    const idle = await rank({ busy: false, timeoutMs: 100, peer: await deadProcess() });
    const workless = await rank({ busy: true, timeoutMs: 100 });
    const living = await rank({ busy: true, timeoutMs: 60_000, peer: ownIdentity() });
    const stalled = await rank({ busy: true, timeoutMs: 600 });
    idle.calls.beat(true);
    workless.calls.beat(false);
    living.calls.beat(true);
    stalled.calls.beat(true);
    // One that is not left alone shows that the watchdog has looked at all of them for long enough.
    blockUntilTrouble(stalled);
    for (const { calls } of [idle, workless, living]) expect(calls.trouble).toBeUndefined();
  });

  it('is left alone while it shows signs of life', async () => {
    const limit = { busy: true, timeoutMs: 500 };
    // A machine that stops this thread for longer than the limit makes it silent indeed: once more then.
    for (;;) {
      const [{ calls }, stalled] = [await rank(limit), await rank(limit)];
      let [last, longest] = [performance.now(), 0];
      const beat = () => {
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
        calls.beat(true);
      };
      beat();
      stalled.calls.beat(true);
      while (stalled.calls.trouble === undefined) {
        beat();
        block(50);
      }
      const { trouble } = calls;
      beat();
      if (trouble !== undefined && longest > limit.timeoutMs) continue;
      expect(trouble).toBeUndefined();
      break;
    }
  });
});
