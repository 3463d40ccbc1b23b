/**
 * Streams of other libraries, which calls name by their handles.
 *
 * Each known one has a mark, an event behind its last launch. A program may make a stream for each request: the marks of
 * streams whose work is done are used again.
 */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { type Event, ForeignStream, type Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { addWork, removeWork } from './device-work.js';

/** A stream of another library: its handle (CUstream, cudaStream_t). */
export type StreamHandle = number | bigint;

/** Streams that are known at a time, if no more are busy: more than PyTorch has for a GPU. */
const MOST_STREAMS = 128;

/** Whether a number can be a stream's handle: one of the common ones, or an address; the driver crashes on others. */
function mayBeStream(handle: number): boolean {
  return (
    Number.isSafeInteger(handle) && handle >= 0 && (handle <= 2 || (handle >= 65536 && handle % 8 === 0))
  );
}

/** A handle that is none, for errors. */
function inWords(handle: unknown): string {
  return typeof handle === 'string' ? `'${handle}'` : String(handle);
}

export class ForeignStreams {
  readonly #device: CudaDevice;
  readonly #rank: number;
  readonly #onMark: (mark: number) => void;
  readonly #known = new Map<number, ForeignStream>();

  /** `onMark` is told of each new mark. */
  constructor(device: CudaDevice, rank: number, onMark: (mark: number) => void) {
    this.#device = device;
    this.#rank = rank;
    this.#onMark = onMark;
  }

  /**
   * The stream of a handle. Throws `invalidArgument` for one of another GPU.
   *
   * @param held whether a stream is needed though its work is done
   */
  of(handle: StreamHandle, held: (stream: Stream) => boolean): ForeignStream {
    const number = typeof handle === 'number' || typeof handle === 'bigint' ? Number(handle) : Number.NaN;
    const known = this.#known.get(number);
    if (known !== undefined) return known;
    const device = this.#device;
    const context: [number] = [0];
    device.makeCurrent();
    const code = mayBeStream(number) ? device.calls.functions.cuStreamGetCtx(number, context) : -1;
    if (code !== 0 || context[0] !== device.context) {
      const what =
        code === 0
          ? `belongs to another GPU than ${device.label}; make it with that GPU's context current`
          : 'is none that the driver knows; pass the handle (CUstream, cudaStream_t) as a number or BigInt';
      throw new TuttiError('invalidArgument', `stream ${inWords(handle)} ${what}`, { rank: this.#rank });
    }
    const mark = this.#spareMark(held);
    const stream = new ForeignStream(device, number, mark);
    this.#known.set(number, stream);
    addWork(device, stream);
    if (mark === undefined) this.#onMark(stream.mark.handle);
    return stream;
  }

  /** The mark of a stream that is not needed any more, which is forgotten, where there are many. */
  #spareMark(held: (stream: Stream) => boolean): Event | undefined {
    if (this.#known.size < MOST_STREAMS) return undefined;
    for (const [handle, stream] of this.#known) {
      if (held(stream) || !stream.isIdle) continue;
      this.#known.delete(handle);
      removeWork(this.#device, stream);
      return stream.mark;
    }
    return undefined;
  }

  /** Whether nothing runs in them. Throws what went wrong on the GPU. */
  get areIdle(): boolean {
    for (const stream of this.#known.values()) if (!stream.isIdle) return false;
    return true;
  }

  close(): void {
    for (const stream of this.#known.values()) removeWork(this.#device, stream);
    for (const stream of this.#known.values()) stream.destroy();
    this.#known.clear();
  }
}
