/** Compiled programs on several threads: flags order data, waits sleep and are woken. */
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { kernel } from '#src/kernel/builder.js';
import { type Program, WASM_TRAITS } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import { compileWasm } from '#src/kernel/wasm/compile.js';
import { sharedMemory } from './instance.js';

/** Runs one call of a program; long waits sleep on the doorbell: word 0 counts sleepers, word 1 rings. */
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
const { bytes, memory, name, descriptor, block, blocks } = workerData;
const words = new Int32Array(memory.buffer);
let slept = 0;
let woke = 0;
const env = {
  memory,
  spins: 200,
  relax(round, doorbell) {
    if (round > 100000) return 1;
    const bell = doorbell / 4;
    const rings = Atomics.load(words, bell + 1);
    Atomics.add(words, bell, 1);
    Atomics.wait(words, bell + 1, rings, 1);
    Atomics.sub(words, bell, 1);
    slept++;
    return 0;
  },
  wake(doorbell) {
    woke++;
    Atomics.add(words, doorbell / 4 + 1, 1);
    Atomics.notify(words, doorbell / 4 + 1);
  },
};
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env });
const status = exports[name](descriptor, block, blocks);
parentPort.postMessage({ status, slept, woke });
`;

interface Outcome {
  status: number;
  slept: number;
  woke: number;
}

async function onThreads(program: Program, memory: WebAssembly.Memory, descriptor: number, threads: number) {
  const bytes = compileWasm(program);
  const workers = Array.from({ length: threads }, (_, block) => {
    const workerData = { bytes, memory, name: program.name, descriptor, block, blocks: threads };
    return new Worker(WORKER, { eval: true, workerData });
  });
  try {
    return await Promise.all(
      workers.map(
        (worker) =>
          new Promise<Outcome>((resolve, reject) => {
            worker.once('message', resolve);
            worker.once('error', reject);
          }),
      ),
    );
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

const Work = struct('Work', { slots: 'ptr', rounds: 'u32' });
/** Flag, doorbell, and data in cache lines of their own. */
const Slot = struct(
  'Slot',
  { flag: 'u64', doorbell: 'u64', errors: 'u32', data: { array: 'packet', length: 8 } },
  64,
);
const DESCRIPTOR = 256;
const SLOTS = 4096;

/** A packet of data travels around; everybody checks it, changes it, and passes it on. */
const relay = kernel('relay', WASM_TRAITS, (k, work) => {
  const slots = k.field(work, Work, 'slots');
  const rounds = k.field(work, Work, 'rounds');
  const mine = slots.offset(k.blockIndex.mul(Slot.size));
  const next = slots.offset(k.blockIndex.add(1).rem(k.blockCount).mul(Slot.size));
  k.sleepOn(k.fieldAddress(mine, Slot, 'doorbell'));
  const errors = k.variable('u32', 0);
  k.for(k.u32(0), rounds, 1, (round) => {
    k.wait(() => k.field(mine, Slot, 'flag', 0, { order: 'acquire' }).gt(round.cast('u64')));
    for (let i = 0; i < 8; i++) {
      const packet = k.field(mine, Slot, 'data', i);
      // How often it was passed on, plus its place.
      const due = round.mul(k.blockCount).add(k.blockIndex).add(i).cast('u64');
      k.if(packet.half(0).ne(due), () => errors.set(errors.value.add(1)));
      k.store('packet', k.fieldAddress(next, Slot, 'data', i), k.packet(due.add(1), 7));
    }
    const last = k.blockIndex.eq(k.blockCount.sub(1));
    const flag = k.select(last, round.add(2), round.add(1));
    k.setField(next, Slot, 'flag', flag.cast('u64'), { order: 'release' });
    k.wake(k.fieldAddress(next, Slot, 'doorbell'));
  });
  k.setField(mine, Slot, 'errors', errors.value);
});

describe('threads that pass data on through flags', () => {
  it.each([
    [2, 3000],
    [3, 300],
  ])(
    '%d threads see every packet that was published before the flag (%d rounds)',
    async (threads, rounds) => {
      const memory = sharedMemory(1);
      const view = new DataView(memory.buffer);
      Work.at(view, DESCRIPTOR).set('slots', SLOTS).set('rounds', rounds);
      Slot.at(view, SLOTS).set('flag', 1);
      for (let i = 0; i < 8; i++) Slot.at(view, SLOTS).set('data', BigInt(i), i);
      const outcomes = await onThreads(relay, memory, DESCRIPTOR, threads);
      expect(outcomes.map((outcome) => outcome.status)).toEqual(outcomes.map(() => 0));
      for (let i = 0; i < threads; i++) expect(Slot.at(view, SLOTS + i * Slot.size).get('errors')).toBe(0);
      const first = Slot.at(view, SLOTS);
      expect(first.get('flag')).toBe(rounds + 1);
      expect(Array.from({ length: 8 }, (_, i) => first.get('data', i))).toEqual(
        Array.from({ length: 8 }, (_, i) => rounds * threads + i),
      );
    },
  );

  it('threads add to one cell without losing any', async () => {
    const memory = sharedMemory(1);
    const counting = kernel('counting', WASM_TRAITS, (k, work) => {
      k.sleepOn(work.offset(64));
      k.for(k.u32(0), 20000, 1, (i) => {
        k.atomic('add', 'u64', work, 1);
        k.atomic('max', 'u32', work, i.mul(k.blockIndex.add(1)), { offset: 8 });
      });
      k.atomic('add', 'u32', work, 1, { offset: 16 });
      k.wait(() => k.load('u32', work, { offset: 16, order: 'acquire' }).eq(k.blockCount));
    });
    const outcomes = await onThreads(counting, memory, DESCRIPTOR, 2);
    expect(outcomes.map((outcome) => outcome.status)).toEqual([0, 0]);
    const view = new DataView(memory.buffer);
    expect(view.getBigUint64(DESCRIPTOR, true)).toBe(40000n);
    expect(view.getUint32(DESCRIPTOR + 8, true)).toBe(19999 * 2);
  });
});
