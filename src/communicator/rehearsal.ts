/**
 * Prepared operations that do nothing, run before V8 compiles `run`: of each kind that there is. Code that has not met one
 * of them would be thrown away when the first of it comes, and on a machine whose cores all wait for each other, compiling
 * it anew takes tens of milliseconds.
 */
import type { HostDevice } from '../device/host/host-device.js';
import type { CallBoard } from './call-board.js';
import type { Engine } from './engine.js';
import { Gate } from './gate.js';
import { OutsideArray } from './outside-array.js';
import { Prepared, type Runner } from './prepared-operation.js';
import type { QueuedWork } from './queued-work.js';
import { StagedCopy } from './staged-copy.js';

/** Operations of each kind: after fewer calls of a function V8 does not note yet what it meets. */
const REHEARSALS = 10;

/** Bytes of an array that is copied in a loop. */
const REHEARSED_BYTES = 64;

let done = false;

/** Only the first call in a thread does anything. The engine's waiter must not be in use. */
export function rehearsePrepared(engine: Engine, device: HostDevice): void {
  if (done) return;
  done = true;
  const nothing = () => {};
  const board: Pick<CallBoard, 'meeting' | 'note' | 'connected' | 'settle'> = {
    meeting: nothing,
    note: nothing,
    connected: nothing,
    settle: nothing,
  };
  // Of their own classes where that has no consequences: code for two is slower than code for one.
  const gate = new Gate();
  // Two, since code for one program alone would be thrown away at the next one.
  const programs = [() => 0, () => Number(0)];
  let turn = 0;
  const runner = {
    check: nothing,
    refuseBlocking: nothing,
    inline: () => programs[turn++ % 2]!,
    shortcut: () => ({ gate, engine, board: board as CallBoard }),
    run: nothing,
    copyIn: nothing,
    copyOut: nothing,
    forget: nothing,
  } as Partial<Runner> as Runner;
  const stage = device.allocatePrivate(REHEARSED_BYTES);
  const array = new OutsideArray(device, new Uint8Array(REHEARSED_BYTES));
  const copy = [new StagedCopy(device, array, 0, stage, REHEARSED_BYTES)];
  const ways = [
    { staged: true, copies: undefined },
    { staged: true, copies: { in: copy, out: copy } },
    { staged: false, copies: { in: [], out: [] } },
  ];
  const kinds = ways.flatMap((way) => [
    { ...way, onlyMessages: false, meets: true },
    { ...way, onlyMessages: false, meets: false },
    { ...way, onlyMessages: true, meets: false },
  ]);
  for (let i = 0; i < REHEARSALS; i++) {
    for (const { staged, copies, onlyMessages, meets } of kinds) {
      const work = {
        accesses: { staged },
        copies,
        onlyMessages,
        announcement: { signature: 0, count: 0, meets },
        descriptor: 0,
        blocks: 1,
        frames: 0,
        frameBytes: 0,
        requests: 0,
        release: nothing,
      } as unknown as QueuedWork;
      const prepared = new Prepared(runner, { name: '', arrays: [], work, explanation: '', alone: nothing });
      prepared.run();
      prepared.run();
      prepared.release();
    }
  }
  device.freePrivate(stage);
}
