/** Streams (queues of work on a GPU) and events (marks in them). */

import type { CudaDevice } from './cuda-device.js';
import { CUDA } from './cuda-error.js';

/** CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream. */
const NON_BLOCKING = 1;
/** CU_EVENT_DISABLE_TIMING: the cheap kind. */
const NO_TIMING = 2;

export class Stream {
  readonly device: CudaDevice;
  readonly handle: number;
  readonly #owned: boolean;
  #gone = false;

  /** A new stream, or with `handle` another one, which is never destroyed here. */
  constructor(device: CudaDevice, handle?: number) {
    const { calls } = device;
    this.device = device;
    this.#owned = handle === undefined;
    if (handle !== undefined) {
      this.handle = handle;
      return;
    }
    device.makeCurrent();
    this.handle = calls.value(
      (out) => calls.functions.cuStreamCreate(out, NON_BLOCKING),
      `create a stream on ${device.label}`,
    );
  }

  /** Whether everything in it is done. Throws what went wrong in it. */
  get isIdle(): boolean {
    const { calls } = this.device;
    this.device.makeCurrentFor(this.handle);
    const code = calls.functions.cuStreamQuery(this.handle);
    if (code === CUDA.notReady) return false;
    calls.check(code, `run work on ${this.device.label}`);
    return true;
  }

  /** Blocks this thread until everything in it is done. Throws what went wrong in it. */
  synchronize(): void {
    const { calls } = this.device;
    this.device.makeCurrent();
    calls.check(calls.functions.cuStreamSynchronize(this.handle), `run work on ${this.device.label}`);
  }

  /** Sets bytes of this GPU's memory. */
  fill(address: number, value: number, bytes: number): void {
    const { calls } = this.device;
    this.device.makeCurrent();
    calls.check(
      calls.functions.cuMemsetD8Async(address, value, bytes, this.handle),
      `fill memory of ${this.device.label}`,
    );
  }

  /** Copies within the memory of GPUs. */
  copy(to: number, from: number, bytes: number): void {
    const { calls } = this.device;
    this.device.makeCurrent();
    calls.check(
      calls.functions.cuMemcpyDtoDAsync(to, from, bytes, this.handle),
      `copy within the memory of ${this.device.label}`,
    );
  }

  /** Copies an array to the GPU; the array may be changed when the stream has passed it. */
  copyIn(to: number, from: ArrayBufferView): void {
    const { calls } = this.device;
    this.device.makeCurrent();
    calls.check(
      calls.functions.cuMemcpyHtoDAsync(to, from, from.byteLength, this.handle),
      `copy to ${this.device.label}`,
    );
  }

  /** Copies from the GPU to an array; may block this thread until the stream has come to it. */
  copyOut(to: ArrayBufferView, from: number): void {
    const { calls } = this.device;
    this.device.makeCurrent();
    calls.check(
      calls.functions.cuMemcpyDtoHAsync(to, from, to.byteLength, this.handle),
      `copy from ${this.device.label}`,
    );
  }

  /** Work that is put into it from here on waits for the mark. */
  waitFor(event: Event): void {
    const { calls } = this.device;
    this.device.makeCurrentFor(this.handle);
    calls.check(
      calls.functions.cuStreamWaitEvent(this.handle, event.handle, 0),
      'let a stream wait for an event',
    );
  }

  /** Whether what is put into it now goes into a graph instead of being run. */
  get isCapturing(): boolean {
    const { calls } = this.device;
    this.device.makeCurrentFor(this.handle);
    return calls.value((out) => calls.functions.cuStreamIsCapturing(this.handle, out), 'ask a stream') !== 0;
  }

  destroy(): void {
    if (this.#gone || !this.#owned) return;
    this.#gone = true;
    this.device.makeCurrent();
    this.device.calls.functions.cuStreamDestroy(this.handle);
  }
}

/**
 * A stream of another library, which may destroy it at any time: what has been put into it here is known by a mark behind
 * that, which is our own. Its handle is used only while somebody puts work into it.
 */
export class ForeignStream extends Stream {
  /** Behind the last work of ours. */
  readonly mark: Event;

  /** `mark` is one that nobody else uses any more. */
  constructor(device: CudaDevice, handle: number, mark = new Event(device)) {
    super(device, handle);
    this.mark = mark;
  }

  /** Sets the mark behind work of ours that was put into it; not while it is captured. */
  setMark(): void {
    this.mark.record(this.handle);
  }

  /** Whether our work in it is done. */
  override get isIdle(): boolean {
    return this.mark.isDone;
  }

  override destroy(): void {
    this.mark.destroy();
  }
}

export class Event {
  readonly device: CudaDevice;
  readonly handle: number;
  #gone = false;

  constructor(device: CudaDevice, { timing = false }: { timing?: boolean } = {}) {
    const { calls } = device;
    device.makeCurrent();
    this.device = device;
    this.handle = calls.value(
      (out) => calls.functions.cuEventCreate(out, timing ? 0 : NO_TIMING),
      `create an event on ${device.label}`,
    );
  }

  /** Marks the present end of a stream. */
  record(stream: number): void {
    const { calls } = this.device;
    this.device.makeCurrentFor(stream);
    calls.check(calls.functions.cuEventRecord(this.handle, stream), 'record an event');
  }

  /** Whether the stream has passed the mark. Throws what went wrong before it. */
  get isDone(): boolean {
    const { calls } = this.device;
    this.device.makeCurrentFor(this.handle);
    const code = calls.functions.cuEventQuery(this.handle);
    if (code === CUDA.notReady) return false;
    calls.check(code, `run work on ${this.device.label}`);
    return true;
  }

  /** Milliseconds from an earlier mark to this one; both must be passed and made with `timing`. */
  millisecondsSince(start: Event): number {
    const { calls } = this.device;
    this.device.makeCurrent();
    return calls.value(
      (out) => calls.functions.cuEventElapsedTime(out, start.handle, this.handle),
      'read the time between events',
    );
  }

  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.device.makeCurrent();
    this.device.calls.functions.cuEventDestroy(this.handle);
  }
}
