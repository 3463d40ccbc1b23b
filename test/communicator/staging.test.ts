/**
 * Ordinary arrays while the heap is nearly full or in shreds: they move in the smaller form with the same result;
 * where not even that has room, every rank hears of it; and no memory is lost on the way.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Algorithm } from '#src/collectives/registry.js';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import { STAGE_BYTES } from '#src/communicator/operation.js';
import { SharedStage } from '#src/communicator/shared-stage.js';
import { takeStaging } from '#src/communicator/staging.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { expectError, rejections, thrownBy } from './errors.js';

const HEAP_BYTES = 12 << 20;
const environment = { ...process.env };
let device: HostDevice;
beforeAll(() => {
  Object.assign(process.env, {
    TUTTI_HEAP_BYTES: `${HEAP_BYTES}`,
    NCCL_BUFFSIZE: '65536',
    NCCL_LL_BUFFSIZE: '16384',
  });
  device = HostDevice.shared({ localRanks: 1 });
  // Half a heap is the own segment; the first rank that asks divides it.
  device.free(device.allocate(1));
});
afterAll(async () => {
  await device.close();
  process.env = environment;
});

/** Takes all blocks of at least so many bytes. */
function takeAll(bytes: number): number[] {
  const taken: number[] = [];
  for (let size = bytes << 10; size >= bytes; size /= 2) {
    for (;;) {
      try {
        taken.push(device.allocate(size));
      } catch {
        break;
      }
    }
  }
  return taken;
}

/** Fills the heap and frees every second block of so many bytes: much is free, but no block of more than that. */
function shred(bytes: number): number[] {
  const taken = takeAll(bytes);
  const rest = [...taken, ...takeAll(64)];
  for (const address of rest.splice(0)) device.free(address);
  const blocks: number[] = [];
  try {
    for (;;) blocks.push(device.allocate(bytes));
  } catch {
    const small = takeAll(64);
    blocks.forEach((address, i) => {
      if (i % 2 === 0) device.free(address);
    });
    return [...small, ...blocks.filter((_, i) => i % 2 === 1)];
  }
}

describe('staging', () => {
  const sides = (send: number, recv = send) => ({ send, recv });
  let stage: SharedStage;
  let free: number;
  let taken: number[] = [];
  beforeEach(() => {
    free = device.freeBytes;
    stage = new SharedStage(device, 2 * STAGE_BYTES);
  });
  afterEach(() => {
    for (const address of taken.splice(0)) device.free(address);
    stage.close();
    expect(device.freeBytes).toBe(free);
  });

  it('holds whole arrays where there is room', () => {
    const staging = takeStaging(device, stage, 'whole', sides(500_000), sides(STAGE_BYTES));
    expect(staging.whole).toBe(true);
    expect(device.freeBytes).toBeLessThan(free - 1_000_000);
    staging.release();
  });

  it('falls back to the stage where no block is large enough, though enough is free in all', () => {
    taken = shred(2 * STAGE_BYTES);
    expect(device.freeBytes).toBeGreaterThan(8 * STAGE_BYTES);
    const before = device.freeBytes;
    const staging = takeStaging(device, stage, 'whole', sides(3 * STAGE_BYTES), sides(2 * STAGE_BYTES));
    expect(staging.whole).toBe(false);
    staging.release();
    stage.close();
    expect(device.freeBytes).toBe(before);
  });

  it('gives the first side back when the second finds no room for the whole array', () => {
    taken = shred(2 * STAGE_BYTES);
    const before = device.freeBytes;
    const staging = takeStaging(device, stage, 'whole', sides(1024, 3 * STAGE_BYTES), sides(1024));
    expect(staging.whole).toBe(false);
    staging.release();
    stage.close();
    expect(device.freeBytes).toBe(before);
  });

  it('leaves room for the stage however many calls hold whole arrays', () => {
    const all = Array.from({ length: 400 }, () =>
      takeStaging(device, stage, 'whole', sides(20_000), sides(20_000)),
    );
    const whole = all.filter((one) => one.whole);
    expect(whole.length).toBeGreaterThan(20);
    expect(whole.length).toBeLessThan(400);
    expect(device.freeBytes).toBeGreaterThan(free / 3);
    for (const { whole: own, send, recv } of all) {
      if (!own)
        expect([send, recv]).toEqual([
          all.find((one) => !one.whole)!.send,
          all.find((one) => !one.whole)!.recv,
        ]);
    }
    for (const one of all) one.release();
  });

  it('says how much is asked for and free when there is none left, and keeps nothing', () => {
    taken = takeAll(64);
    device.free(taken.pop()!);
    const before = device.freeBytes;
    const error = thrownBy(() => takeStaging(device, stage, 'whole', sides(9999), sides(9999)));
    expectError(error, {
      code: 'systemError',
      words: ['out of memory', '9999 bytes', `${before}`, 'comm.free'],
    });
    expect(device.freeBytes).toBe(before);
  });

  it('keeps one block for calls that grow little by little', () => {
    for (let bytes = 1000; bytes < 1_000_000; bytes += 1000) {
      takeStaging(device, stage, 'pieces', sides(bytes), sides(bytes)).release();
    }
    expect(free - device.freeBytes).toBeLessThanOrEqual(2 << 20);
  });

  it('keeps a block that an operation still knows when a larger one is needed', () => {
    const small = takeStaging(device, stage, 'pieces', sides(1000), sides(1000));
    const large = takeStaging(device, stage, 'pieces', sides(1 << 20), sides(1 << 20));
    expect(large.send).not.toBe(small.send);
    small.release();
    const again = takeStaging(device, stage, 'pieces', sides(1000), sides(1000));
    expect([small.send, large.send]).toContain(again.send);
    large.release();
    again.release();
  });
});

const KINDS: [string, { algorithm?: Algorithm; protocol?: 'LL' | 'Simple'; check?: boolean }][] = [
  ['directly', {}],
  ['by one-shots', { algorithm: 'OneShot' }],
  ['by ring LL', { algorithm: 'Ring', protocol: 'LL' }],
  ['by ring Simple, compared', { algorithm: 'Ring', protocol: 'Simple', check: true }],
];

describe.each(KINDS)('ranks in one heap, %s', (_, options) => {
  const RANKS = 3;
  const COUNT = 150_001;
  let comms: Communicator[];
  let free: number;
  let taken: number[] = [];
  beforeEach(async () => {
    free = device.freeBytes;
    comms = await createLocalCommunicators(RANKS, { ...options, timeoutMs: 20_000 });
  });
  afterEach(async () => {
    for (const address of taken.splice(0)) device.free(address);
    await Promise.all(comms.map((comm) => comm.close()));
    expect(device.freeBytes).toBe(free);
  });

  const make = (rank: number, count = COUNT) =>
    Int32Array.from({ length: count }, (_, i) => (i + 1) * (rank + 2));
  const sumAt = (i: number) => (i + 1) * 9;

  it('add whole, cut and heap arrays in one call when the heap is in shreds', async () => {
    const heap = comms[0]!.alloc(Int32Array, COUNT);
    heap.set(make(0));
    // Rank 1 holds its stage already and rank 2 finds room for it in the shreds.
    const warm = comms.map((comm) => make(comm.rank, 3));
    await Promise.all(comms.map((comm) => comm.allReduce(warm[comm.rank]!, warm[comm.rank]!)));
    taken = shred(2 * STAGE_BYTES);
    const arrays = [heap, make(1), make(2)];
    const prepared = comms.map((comm, rank) => comm.prepare.allReduce(arrays[rank]!, arrays[rank]!));
    await Promise.all(prepared.map((one) => one.start()));
    for (const array of arrays) {
      const wrong = array.findIndex((value, i) => value !== sumAt(i));
      expect(wrong, 'first wrong element').toBe(-1);
    }
    for (const one of prepared) one.release();
  });

  it('keep the order of calls that share the stage with others that do not', async () => {
    taken = shred(2 * STAGE_BYTES);
    const arrays = comms.map((comm) => make(comm.rank, 30_000));
    const small = comms.map((comm) => make(comm.rank, 40));
    const calls = comms.flatMap((comm, rank) =>
      Array.from({ length: 6 }, (_, k) =>
        k % 2 === 0
          ? comm.allReduce(arrays[rank]!, arrays[rank]!)
          : comm.broadcast(small[rank]!, { root: k % RANKS }),
      ),
    );
    await Promise.all(calls);
    for (const array of arrays) {
      // Three sums: the first of 9 (i + 1), each later one three times as much.
      expect(array.findIndex((value, i) => value !== sumAt(i) * 9)).toBe(-1);
    }
    for (const array of small) expect(array).toEqual(make(1, 40));
  });

  it('all fail soon, naming the rank, when one of them has no room to stage', async () => {
    const heap = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    taken = takeAll(64);
    const before = device.freeBytes;
    const ordinary = make(0);
    const begin = performance.now();
    const errors = await rejections(
      comms.map((comm, rank) =>
        rank === 0 ? comm.allReduce(ordinary, ordinary) : comm.allReduce(heap[rank]!, heap[rank]!),
      ),
    );
    expect(performance.now() - begin).toBeLessThan(5000);
    expectError(errors[0], {
      code: 'systemError',
      rank: 0,
      words: [/^allReduce: out of memory/, 'comm.free'],
    });
    for (const error of errors.slice(1)) {
      expectError(error, { code: 'remoteError', rank: 0, words: ['rank 0 has no memory left'] });
    }
    expect(device.freeBytes).toBe(before);
  });

  it('all fail soon when one of them has no room for its executor', async () => {
    const arrays = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    const begin = performance.now();
    // The executors of ranks 1 and 2 are there before the private area is full.
    const others = [comms[1]!.allReduce(arrays[1]!, arrays[1]!), comms[2]!.allReduce(arrays[2]!, arrays[2]!)];
    const small: number[] = [];
    for (let i = 0; i < 64; i++) small.push(device.allocatePrivate(64));
    const blocks: number[] = [];
    for (let bytes = 1 << 20; bytes >= 64; bytes /= 2) {
      try {
        for (;;) blocks.push(device.allocatePrivate(bytes));
      } catch {}
    }
    // Descriptors find room, an executor does not.
    for (const address of small) device.freePrivate(address);
    const errors = await rejections([comms[0]!.allReduce(arrays[0]!, arrays[0]!), ...others]);
    for (const address of blocks) device.freePrivate(address);
    expect(performance.now() - begin).toBeLessThan(5000);
    expectError(errors[0], {
      code: 'systemError',
      rank: 0,
      words: [/^allReduce: out of memory in the private/],
    });
    for (const error of errors.slice(1)) {
      expectError(error, { code: 'remoteError', rank: 0, words: ['rank 0 has no memory left'] });
    }
  });

  it('refuse to prepare without memory, and go on', async () => {
    taken = takeAll(64);
    const before = device.freeBytes;
    const arrays = comms.map((comm) => make(comm.rank));
    const error = thrownBy(() => comms[1]!.prepare.allReduce(arrays[1]!, arrays[1]!));
    expectError(error, { code: 'systemError', rank: 1, words: [/^allReduce: out of memory/] });
    expect(TuttiError.is(error)).toBe(true);
    expect(device.freeBytes).toBe(before);
    for (const address of taken.splice(0)) device.free(address);
    await Promise.all(comms.map((comm, rank) => comm.allReduce(arrays[rank]!, arrays[rank]!)));
    for (const array of arrays) expect(array.findIndex((value, i) => value !== sumAt(i))).toBe(-1);
  });
});
