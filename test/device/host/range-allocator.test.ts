import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RangeAllocator } from '#src/device/host/range-allocator.js';

const GRANULE = 64;
const START = 4096;
const END = START + 64 * GRANULE;

/** The plain reference: which granule belongs to which block. */
class Model {
  readonly owner = new Array<number>((END - START) / GRANULE).fill(0);
  readonly blocks = new Map<number, number>();

  take(address: number, bytes: number): void {
    const size = Math.max(GRANULE, Math.ceil(bytes / GRANULE) * GRANULE);
    for (let at = address; at < address + size; at += GRANULE) {
      expect(this.owner[(at - START) / GRANULE], `granule at ${at} is free`).toBe(0);
      this.owner[(at - START) / GRANULE] = address;
    }
    this.blocks.set(address, size);
  }

  give(address: number): void {
    this.owner.forEach((owner, i) => {
      if (owner === address) this.owner[i] = 0;
    });
    this.blocks.delete(address);
  }

  get freeBytes(): number {
    return this.owner.filter((owner) => owner === 0).length * GRANULE;
  }

  isInUse(from: number, to: number): boolean {
    if (from < START || to > END) return false;
    for (let at = from; at < to; at++) {
      if (this.owner[Math.floor((at - START) / GRANULE)] === 0) return false;
    }
    return true;
  }

  /** Bytes of the longest run of free granules; with an alignment, from a multiple of it on. */
  largest(align: number): number {
    let largest = 0;
    for (let from = Math.ceil(START / align) * align; from < END; from += align) {
      let to = from;
      while (to < END && this.owner[(to - START) / GRANULE] === 0) to += GRANULE;
      largest = Math.max(largest, to - from);
    }
    return largest;
  }
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('allocate' as const),
    bytes: fc.oneof(fc.nat(10 * GRANULE), fc.nat(END - START + GRANULE)),
    align: fc.constantFrom(1, 64, 128, 1024),
  }),
  fc.record({ kind: fc.constant('free' as const), which: fc.nat() }),
);

/** Not empty; also around the ends. */
const range = fc
  .tuple(fc.integer({ min: START - 100, max: END + 100 }), fc.integer({ min: 1, max: 12 * GRANULE }))
  .map(([from, bytes]) => [from, from + bytes] as const);

describe('a range allocator', () => {
  it('never lets blocks overlap, finds every fit, and joins what is freed', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.array(range, { maxLength: 8 }), (steps, ranges) => {
        const allocator = new RangeAllocator(START, END, GRANULE);
        const model = new Model();
        for (const s of steps) {
          if (s.kind === 'allocate') {
            const fits = model.largest(Math.max(s.align, GRANULE)) >= Math.max(1, s.bytes);
            const address = allocator.allocate(s.bytes, s.align);
            expect(address !== undefined).toBe(fits);
            if (address === undefined) continue;
            expect(address % s.align).toBe(0);
            expect(address >= START && address + s.bytes <= END).toBe(true);
            model.take(address, s.bytes);
            expect(allocator.sizeOf(address)).toBe(model.blocks.get(address));
          } else if (model.blocks.size > 0) {
            const address = [...model.blocks.keys()][s.which % model.blocks.size]!;
            expect(allocator.free(address)).toBe(model.blocks.get(address));
            model.give(address);
            expect(allocator.free(address)).toBeUndefined();
          }
          expect(allocator.freeBytes).toBe(model.freeBytes);
          expect(allocator.largestFree).toBe(model.largest(GRANULE));
          expect(allocator.count).toBe(model.blocks.size);
          for (const [from, to] of ranges) {
            expect(allocator.isInUse(from, to), `${from} to ${to}`).toBe(model.isInUse(from, to));
          }
        }
        for (const address of [...model.blocks.keys()]) allocator.free(address);
        expect(allocator.largestFree).toBe(END - START);
      }),
    );
  });

  it('takes the smallest block that fits and so keeps large ones whole', () => {
    const allocator = new RangeAllocator(START, END, GRANULE);
    const a = allocator.allocate(4 * GRANULE)!;
    allocator.allocate(GRANULE);
    const b = allocator.allocate(2 * GRANULE)!;
    allocator.allocate(GRANULE);
    allocator.free(a);
    allocator.free(b);
    expect(allocator.allocate(2 * GRANULE)).toBe(b);
    expect(allocator.allocate(2 * GRANULE)).toBe(a);
  });

  it('frees nothing at an address inside a block or outside the range', () => {
    const allocator = new RangeAllocator(START, END, GRANULE);
    const a = allocator.allocate(4 * GRANULE)!;
    for (const address of [a + GRANULE, a - GRANULE, 0, END, Number.NaN]) {
      expect(allocator.free(address)).toBeUndefined();
    }
    expect(allocator.freeBytes).toBe(END - START - 4 * GRANULE);
  });

  it('of an empty range has no room', () => {
    const allocator = new RangeAllocator(START, START, GRANULE);
    expect(allocator.allocate(1)).toBeUndefined();
    expect(allocator.largestFree).toBe(0);
  });

  it('refuses ends that are not multiples of the granule', () => {
    expect(() => new RangeAllocator(1, 64, 64)).toThrow(/not made of blocks of 64/);
  });
});
