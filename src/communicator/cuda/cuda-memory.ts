/**
 * Buffers of a communicator on a GPU: allocating, wrapping pointers of other libraries, copying, giving back.
 */

import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { pointerFacts } from '../../device/cuda/device-memory.js';
import type { Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES } from '../../kernel/element-types.js';
import { type Buffer, className } from '../buffers.js';
import type { Completions } from './completions.js';
import type { CudaFailure } from './cuda-failure.js';
import type { CudaTeam } from './cuda-team.js';
import { type Allocation, type ArrayClass, type BufferOwner, DeviceBuffer } from './device-buffer.js';
import type { LaunchQueue } from './launch-queue.js';

/** A device pointer of another library. */
export type DeviceAddress = number | bigint;

/** The class for an element type that was named in its place. */
function hintFor(given: unknown): string {
  const type = ELEMENT_TYPE_NAMES.find((name) => name === given);
  const usual = 'pass Float32Array or another one';
  if (type === undefined) return usual;
  const carrier = { 1: 'Uint8Array', 2: 'Uint16Array' }[ELEMENT_TYPES[type].size as number];
  const lacks = type.startsWith('float8') || type === 'float16' || type === 'bfloat16';
  return lacks ? `pass ${carrier} for ${type}, and { type: '${type}' } to calls` : usual;
}

export class CudaMemory implements BufferOwner {
  readonly #team: CudaTeam;
  readonly #queue: LaunchQueue;
  readonly #failure: CudaFailure;
  readonly #completions: Completions;
  readonly #onFree: (buffer: DeviceBuffer) => void;
  readonly #allocations = new Set<Allocation>();
  #leaving = false;

  /** `onFree` is told before a buffer goes. */
  constructor(
    team: CudaTeam,
    queue: LaunchQueue,
    failure: CudaFailure,
    completions: Completions,
    onFree: (buffer: DeviceBuffer) => void,
  ) {
    this.#team = team;
    this.#queue = queue;
    this.#failure = failure;
    this.#completions = completions;
    this.#onFree = onFree;
  }

  get device(): CudaDevice {
    return this.#team.device;
  }

  /** A buffer of zeros. */
  allocate<B extends Buffer>(ArrayType: ArrayClass<B>, length: number): DeviceBuffer<B> {
    const bytes = this.#bytesOf('alloc', ArrayType, length);
    if (this.#queue.isCapturing) {
      throw new TuttiError(
        'invalidUsage',
        'alloc: memory cannot be taken while a graph is recorded; make the buffer before',
        { rank: this.#team.rank },
      );
    }
    const address = this.#orRank('alloc', () => this.#team.allocate(Math.max(1, bytes)));
    try {
      if (bytes > 0) this.#orRank('alloc', () => this.#queue.clear(address, bytes));
    } catch (error) {
      this.#team.free(address);
      throw error;
    }
    return this.#make(ArrayType, length, { address, bytes, foreign: false, freed: false });
  }

  /** A buffer at a pointer of another library, whose memory it stays. */
  wrap<B extends Buffer>(pointer: DeviceAddress, ArrayType: ArrayClass<B>, length: number): DeviceBuffer<B> {
    const { device, rank } = this.#team;
    const bytes = this.#bytesOf('wrap', ArrayType, length);
    const refuse = (what: string): never => {
      throw new TuttiError('invalidArgument', `wrap: ${what}`, { rank });
    };
    const isNumber = typeof pointer === 'number' || typeof pointer === 'bigint';
    const address = isNumber ? Number(pointer) : Number.NaN;
    if (!Number.isSafeInteger(address) || address <= 0) {
      const given = isNumber ? String(pointer) : className(pointer);
      refuse(`${given} is no address; what is due is a device pointer, as a number or BigInt`);
    }
    if (address % ArrayType.BYTES_PER_ELEMENT !== 0) {
      refuse(
        `the address 0x${address.toString(16)} is not a multiple of the ${ArrayType.BYTES_PER_ELEMENT} bytes of an element`,
      );
    }
    const facts = this.#orRank('wrap', () => pointerFacts(device, address, 'the pointer'));
    if (facts.device !== device.index) {
      refuse(`the pointer is memory of GPU ${facts.device}, but rank ${rank} works on ${device.label}`);
    }
    const room = facts.start + facts.bytes - address;
    if (facts.bytes > 0 && bytes > room) {
      refuse(
        `${bytes} bytes at the pointer are more than the ${room} that its allocation holds from there on`,
      );
    }
    if (bytes > 0) this.#team.adopt(address, bytes);
    return this.#make(ArrayType, length, { address, bytes, foreign: true, freed: false });
  }

  #bytesOf(call: string, ArrayType: unknown, length: number): number {
    const size = (ArrayType as Partial<ArrayClass<Buffer>> | undefined)?.BYTES_PER_ELEMENT ?? 0;
    const { rank } = this.#team;
    if (typeof ArrayType !== 'function' || !(size > 0)) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: ${typeof ArrayType === 'function' ? ArrayType.name : String(ArrayType)} is not a typed-array class; ${hintFor(ArrayType)}`,
        { rank },
      );
    }
    if (!Number.isSafeInteger(length) || length < 0 || !Number.isSafeInteger(length * size)) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: invalid length ${String(length)}; it must be an integer >= 0`,
        { rank },
      );
    }
    return length * size;
  }

  #make<B extends Buffer>(ArrayType: ArrayClass<B>, length: number, allocation: Allocation): DeviceBuffer<B> {
    this.#allocations.add(allocation);
    return new DeviceBuffer(this, allocation, ArrayType, length);
  }

  #orRank<T>(call: string, act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, `${call}: ${error.message}`, { rank: this.#team.rank, cause: error });
    }
  }

  async copyIn(to: DeviceBuffer, from: Buffer): Promise<void> {
    if (to.length > 0) await this.#copy('copyFrom', to, (stream) => stream.copyIn(to.address, from));
  }

  async copyOut(from: DeviceBuffer, to: Buffer): Promise<void> {
    if (from.length > 0) await this.#copy('copyTo', from, (stream) => stream.copyOut(to, from.address));
  }

  async #copy(call: string, buffer: DeviceBuffer, act: (stream: Stream) => void): Promise<void> {
    this.#failure.checkOwn();
    if (this.#leaving) {
      throw new TuttiError('invalidUsage', `${call}: the communicator is closed`, { rank: this.#team.rank });
    }
    if (this.#queue.isCapturing) {
      throw new TuttiError('invalidUsage', `${call}: copies cannot be recorded in a graph`, {
        rank: this.#team.rank,
      });
    }
    await this.#queue.inOrder(call, (stream) => {
      if (buffer.freed) {
        throw new TuttiError('invalidUsage', `${call}: the buffer was given back`, { rank: this.#team.rank });
      }
      act(stream);
    });
    await this.#completions.after(this.#queue.stream.handle, call);
  }

  /** Throws `invalidArgument` for what is no buffer of this communicator. */
  checkOwn(call: string, buffer: unknown): void {
    if (buffer instanceof DeviceBuffer && buffer.owner === this) return;
    const what = buffer instanceof DeviceBuffer ? 'a buffer of another communicator' : className(buffer);
    throw new TuttiError(
      'invalidArgument',
      `${call}: what is due is a buffer of this communicator (comm.alloc, comm.wrap), not ${what}`,
      { rank: this.#team.rank },
    );
  }

  takeBack(buffer: DeviceBuffer): void {
    const { allocation } = buffer;
    if (!this.#allocations.delete(allocation)) {
      throw new TuttiError(
        'invalidArgument',
        'free: the buffer was not made by alloc or wrap of this communicator, or is free already',
        { rank: this.#team.rank },
      );
    }
    this.#onFree(buffer);
    allocation.freed = true;
    // Somebody may still work on it; who comes later gets it when that is over.
    const { address, bytes, foreign } = allocation;
    const release = () => (foreign ? this.#team.release(address, bytes) : this.#team.free(address));
    this.#queue.drained('free').then(release, () => {
      // After a failure all memory goes when the communicator is closed.
    });
  }

  /** Nothing is copied from here on but what was called for before. */
  leave(): void {
    this.#leaving = true;
  }

  /** Marks all buffers as given back; their memory goes with the team. */
  close(): void {
    for (const allocation of this.#allocations) allocation.freed = true;
    this.#allocations.clear();
  }
}
