/**
 * Memory of a GPU as an array: what `comm.alloc` gives on a GPU, and what a raw pointer becomes by `comm.wrap`.
 *
 * It has the shape of a typed array (class, length, views) but not its elements, which only the GPU reaches; they are
 * copied to and from typed arrays.
 */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Buffer } from '../buffers.js';
import { className } from '../buffers.js';
import type { BufferFacts } from '../call-check.js';

/** The class of typed array that holds elements on the host. */
export interface ArrayClass<B extends Buffer> {
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): B;
}

/** Who made a buffer: it copies, and takes the memory back. */
export interface BufferOwner {
  readonly device: CudaDevice;
  copyIn(to: DeviceBuffer, from: Buffer): Promise<void>;
  copyOut(from: DeviceBuffer, to: Buffer): Promise<void>;
  /** Takes memory back; throws `invalidUsage` when that cannot be. */
  takeBack(buffer: DeviceBuffer): void;
}

/** An allocation, shared by all views of it. */
export interface Allocation {
  readonly address: number;
  readonly bytes: number;
  /** Made by `wrap`: the memory is somebody else's. */
  readonly foreign: boolean;
  freed: boolean;
}

/** All addresses of GPUs and the host are of one kind. */
const UNIFIED = 'unified addresses';

function boundary(value: number | undefined, otherwise: number, length: number): number {
  if (value === undefined) return otherwise;
  const whole = Math.trunc(value) || 0;
  return whole < 0 ? Math.max(0, length + whole) : Math.min(whole, length);
}

export class DeviceBuffer<B extends Buffer = Buffer> implements Disposable {
  /** Address of the first element in the GPU's memory: a device pointer for other libraries. */
  readonly address: number;
  /** Elements. */
  readonly length: number;
  readonly ArrayType: ArrayClass<B>;
  readonly #owner: BufferOwner;
  readonly #allocation: Allocation;

  /** Not for users: see `alloc` and `wrap` of a communicator. */
  constructor(
    owner: BufferOwner,
    allocation: Allocation,
    ArrayType: ArrayClass<B>,
    length: number,
    byteOffset = 0,
  ) {
    this.#owner = owner;
    this.#allocation = allocation;
    this.ArrayType = ArrayType;
    this.length = length;
    this.address = allocation.address + byteOffset;
  }

  get byteLength(): number {
    return this.length * this.ArrayType.BYTES_PER_ELEMENT;
  }

  /** Index of the GPU whose memory it is. */
  get device(): number {
    return this.#owner.device.index;
  }

  /** Whether it was given back, by this view or another one. */
  get freed(): boolean {
    return this.#allocation.freed;
  }

  /** Not for users. */
  get allocation(): Allocation {
    return this.#allocation;
  }

  /** Not for users. */
  get owner(): BufferOwner {
    return this.#owner;
  }

  /** A view of elements `begin` to `end` (not included), as that of a typed array. */
  subarray(begin?: number, end?: number): DeviceBuffer<B> {
    const from = boundary(begin, 0, this.length);
    const to = Math.max(from, boundary(end, this.length, this.length));
    const offset = this.address - this.#allocation.address + from * this.ArrayType.BYTES_PER_ELEMENT;
    return new DeviceBuffer(this.#owner, this.#allocation, this.ArrayType, to - from, offset);
  }

  /**
   * Copies all elements of a typed array here, after what the communicator was called for before. Resolves when they
   * are here; until then the array belongs to the copy and must not be changed. Throws `invalidArgument` when class or length differ.
   */
  async copyFrom(array: B): Promise<void> {
    this.#checkArray('copyFrom', array);
    await this.#owner.copyIn(this, array);
  }

  /** Copies all elements to a typed array, after what the communicator was called for before. */
  async copyTo(array: B): Promise<void> {
    this.#checkArray('copyTo', array);
    await this.#owner.copyOut(this, array);
  }

  /** The elements as a new typed array, after what the communicator was called for before. */
  async read(): Promise<B> {
    const array = new this.ArrayType(this.length);
    this.#checkArray('read', array);
    await this.#owner.copyOut(this, array);
    return array;
  }

  /** Gives the memory back, that of all views. For a wrapped pointer: it is not used any more, but stays. */
  free(): void {
    this.#owner.takeBack(this);
  }

  [Symbol.dispose](): void {
    if (!this.freed) this.free();
  }

  #checkArray(call: string, array: unknown): void {
    const given = className(array);
    if (!ArrayBuffer.isView(array) || given !== this.ArrayType.name) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: the buffer holds elements of a ${this.ArrayType.name}; pass one of ${this.length} elements, not ${given}`,
      );
    }
    const { length } = array as Buffer;
    if (length !== this.length) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: the array holds ${length} elements, ${this.length} are due (as many as in the buffer)`,
      );
    }
    if (this.freed) throw new TuttiError('invalidUsage', `${call}: the buffer was given back`);
  }
}

/** Facts of a buffer for the rules of calls; throws `invalidArgument` for what is no buffer of a GPU. */
export function describeDeviceBuffer(call: string, name: string, buffer: unknown): BufferFacts {
  if (buffer instanceof DeviceBuffer) {
    const { length, address, byteLength } = buffer;
    return { carrier: buffer.ArrayType.name, length, memory: UNIFIED, from: address, bytes: byteLength };
  }
  const what = ArrayBuffer.isView(buffer)
    ? `a ${className(buffer)}, which lies in memory of the host`
    : className(buffer);
  throw new TuttiError(
    'invalidArgument',
    `${call}: ${name} must be memory of the GPU, not ${what}; make it with comm.alloc(Float32Array, n), or comm.wrap a device pointer`,
  );
}
