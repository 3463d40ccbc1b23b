/**
 * Memory of a GPU for many buffers: taken from the driver in large chunks and shared out here.
 *
 * The driver may stop the GPU's work when it maps or frees memory, and other processes map whole allocations, so both
 * should happen seldom. Chunks are kept until the heap is closed, except those that hold one large buffer.
 */
import { RangeAllocator } from '../host/range-allocator.js';
import type { CudaDevice } from './cuda-device.js';
import { DeviceMemory } from './device-memory.js';

/** Buffers begin at multiples of this: the alignment of cuMemAlloc. */
const GRANULE = 256;

/** Bytes of a chunk; larger buffers have a chunk of their own. */
export const CHUNK_BYTES = 32 * 1024 * 1024;

/** One allocation of the driver. */
export interface Chunk {
  readonly memory: DeviceMemory;
  readonly ranges: RangeAllocator;
}

export interface DeviceHeapOptions {
  /** Size of chunks, a multiple of 256. */
  readonly chunkBytes?: number;
  /** Told of every chunk that has come. */
  readonly onAdd?: (chunk: Chunk) => void;
  /** Told of every chunk that is about to go; it goes when the promise settles. */
  readonly onRemove?: (chunk: Chunk) => Promise<void> | undefined;
  /** Does something when the driver, which waits for the GPU to free memory, does not have to; at once by default. */
  readonly whenIdle?: (act: () => void) => unknown;
}

export class DeviceHeap {
  readonly #device: CudaDevice;
  readonly #chunks: Chunk[] = [];
  /** Chunks that are about to go. */
  readonly #going = new Set<Chunk>();
  readonly #chunkBytes: number;
  readonly #onAdd: (chunk: Chunk) => void;
  readonly #onRemove: (chunk: Chunk) => Promise<void> | undefined;
  readonly #whenIdle: (act: () => void) => unknown;

  constructor(device: CudaDevice, options: DeviceHeapOptions = {}) {
    this.#device = device;
    this.#chunkBytes = options.chunkBytes ?? CHUNK_BYTES;
    this.#onAdd = options.onAdd ?? (() => {});
    this.#onRemove = options.onRemove ?? (() => undefined);
    this.#whenIdle = options.whenIdle ?? ((act) => act());
  }

  /** Address of memory with undefined contents. Throws `unhandledCudaError` when there is not so much, and what `onAdd` throws. */
  allocate(bytes: number): number {
    for (const { ranges } of this.#chunks) {
      const found = ranges.allocate(bytes);
      if (found !== undefined) return found;
    }
    const large = bytes > this.#chunkBytes / 2;
    const size = large ? Math.ceil(bytes / GRANULE) * GRANULE : this.#chunkBytes;
    const memory = new DeviceMemory(this.#device, size);
    const chunk = { memory, ranges: new RangeAllocator(memory.address, memory.address + size, GRANULE) };
    try {
      this.#onAdd(chunk);
    } catch (error) {
      this.#giveBack(chunk);
      throw error;
    }
    this.#chunks.push(chunk);
    return chunk.ranges.allocate(bytes)!;
  }

  /** Gives memory back; what is done on the GPU with it must be over. */
  free(address: number): void {
    const chunk = this.chunkOf(address);
    if (chunk === undefined) return;
    chunk.ranges.free(address);
    if (chunk.ranges.count > 0 || chunk.memory.bytes === this.#chunkBytes) return;
    this.#chunks.splice(this.#chunks.indexOf(chunk), 1);
    this.#going.add(chunk);
    const gone = this.#onRemove(chunk);
    if (gone === undefined) this.#giveBack(chunk);
    else void gone.then(() => this.#going.has(chunk) && this.#giveBack(chunk));
  }

  #giveBack(chunk: Chunk): void {
    this.#going.add(chunk);
    this.#whenIdle(() => {
      if (this.#going.delete(chunk)) chunk.memory.free();
    });
  }

  /** The chunk that an address lies in. */
  chunkOf(address: number): Chunk | undefined {
    return this.#chunks.find(
      ({ memory }) => address >= memory.address && address < memory.address + memory.bytes,
    );
  }

  /** Gives everything back at once. */
  close(): void {
    for (const { memory } of [...this.#chunks.splice(0), ...this.#going]) memory.free();
    this.#going.clear();
  }
}
