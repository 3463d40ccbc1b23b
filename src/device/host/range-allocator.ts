/**
 * Hands out parts of a range of addresses: best fit over a free list that is sorted by address.
 *
 * The list joins neighbours as soon as both are free, so it never holds two blocks that touch. Best fit with
 * ties to the lowest address keeps large blocks whole and the used part low. The number of free blocks of a
 * communication heap is small (buffers live long), so a scan of the list is cheaper than size classes would be.
 * Only numbers are kept here; the memory itself is never touched.
 */
import { TuttiError } from '../../errors/tutti-error.js';

export class RangeAllocator {
  readonly start: number;
  readonly end: number;
  /** Every block is a multiple of this many bytes and starts at a multiple of it. */
  readonly granule: number;
  readonly #freeStarts: number[];
  readonly #freeEnds: number[];
  /** Bytes of each block in use, by its address. */
  readonly #used = new Map<number, number>();
  #freeBytes: number;

  /** Both ends must be multiples of the granule, a power of two. */
  constructor(start: number, end: number, granule: number) {
    if (start % granule !== 0 || end % granule !== 0 || end < start) {
      throw new TuttiError(
        'internalError',
        `range ${start}..${end} is not made of blocks of ${granule} bytes`,
      );
    }
    this.start = start;
    this.end = end;
    this.granule = granule;
    this.#freeStarts = end > start ? [start] : [];
    this.#freeEnds = end > start ? [end] : [];
    this.#freeBytes = end - start;
  }

  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Bytes of the largest block that is free. */
  get largestFree(): number {
    let largest = 0;
    for (let i = 0; i < this.#freeStarts.length; i++) {
      largest = Math.max(largest, this.#freeEnds[i]! - this.#freeStarts[i]!);
    }
    return largest;
  }

  /** Blocks in use. */
  get count(): number {
    return this.#used.size;
  }

  /** Address of a free block of at least so many bytes (at least one granule), or undefined. */
  allocate(bytes: number, align = this.granule): number | undefined {
    const size = Math.max(this.granule, Math.ceil(bytes / this.granule) * this.granule);
    const step = Math.max(align, this.granule);
    let best = -1;
    let bestSize = Number.POSITIVE_INFINITY;
    for (let i = 0; i < this.#freeStarts.length; i++) {
      const start = this.#freeStarts[i]!;
      const end = this.#freeEnds[i]!;
      if (end - start < bestSize && Math.ceil(start / step) * step + size <= end) {
        best = i;
        bestSize = end - start;
      }
    }
    if (best < 0) return undefined;
    const start = this.#freeStarts[best]!;
    const end = this.#freeEnds[best]!;
    const address = Math.ceil(start / step) * step;
    const rest: [number, number][] = [];
    if (address > start) rest.push([start, address]);
    if (address + size < end) rest.push([address + size, end]);
    this.#freeStarts.splice(best, 1, ...rest.map(([from]) => from));
    this.#freeEnds.splice(best, 1, ...rest.map(([, to]) => to));
    this.#freeBytes -= size;
    this.#used.set(address, size);
    return address;
  }

  /** Bytes of the block in use at an address, undefined when none starts there. */
  sizeOf(address: number): number | undefined {
    return this.#used.get(address);
  }

  /** Whether no byte of [from, to) is free or outside of the range. */
  isInUse(from: number, to: number): boolean {
    if (from < this.start || to > this.end) return false;
    const next = this.#firstFreeFrom(from);
    const startsFree = next > 0 && this.#freeEnds[next - 1]! > from;
    return !startsFree && (next === this.#freeStarts.length || this.#freeStarts[next]! >= to);
  }

  /** Index of the first free block that starts at an address or behind it. */
  #firstFreeFrom(address: number): number {
    let low = 0;
    let high = this.#freeStarts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#freeStarts[middle]! < address) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Frees a block and returns its bytes; undefined when no block in use starts at the address. */
  free(address: number): number | undefined {
    const size = this.#used.get(address);
    if (size === undefined) return undefined;
    this.#used.delete(address);
    this.#freeBytes += size;
    let from = address;
    let to = address + size;
    const low = this.#firstFreeFrom(address);
    let first = low;
    let joined = 0;
    if (low < this.#freeStarts.length && this.#freeStarts[low] === to) {
      to = this.#freeEnds[low]!;
      joined += 1;
    }
    if (low > 0 && this.#freeEnds[low - 1] === from) {
      from = this.#freeStarts[low - 1]!;
      first -= 1;
      joined += 1;
    }
    this.#freeStarts.splice(first, joined, from);
    this.#freeEnds.splice(first, joined, to);
    return size;
  }
}
