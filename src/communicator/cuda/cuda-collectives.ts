/** The collectives on GPUs: what they are called with, and their forms with promises. */
import type { Buffer } from '../buffers.js';
import type { CallOptions, CheckedCollective } from '../call-check.js';
import { DeviceBuffer } from './device-buffer.js';
import type { StreamHandle } from './foreign-streams.js';

/** Options of every call on a GPU. */
export interface StreamOption {
  /**
   * Stream of another library (CUstream, cudaStream_t) to work in. The promise then settles as soon as the work is in
   * the stream, and the result is there for what comes later in it. Its owner may destroy the stream at any time after that.
   */
  readonly stream?: StreamHandle;
}

type CopyOptions = Pick<CallOptions, 'type'>;
type ReduceOptions = Pick<CallOptions, 'type' | 'op'>;
type RootOptions = Pick<CallOptions, 'type' | 'root'>;

/** The collectives on GPUs, each giving R: a promise or a prepared operation. O is what options may hold besides. */
export interface CudaCollectives<R, O = StreamOption> {
  /** recv = op over all ranks of send, on every rank. In place: the same buffer twice. */
  allReduce<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: ReduceOptions & O): R;
  /** recv of the root = op over all ranks of send. Other ranks may pass null. In place: the same buffer twice. */
  reduce<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B> | null, options?: CallOptions & O): R;
  /** recv of every rank = send of the root. With one buffer: in place. */
  broadcast(buffer: DeviceBuffer, options?: RootOptions & O): R;
  broadcast<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & O,
  ): R;
  /** recv = the send of rank 0, 1, ... one behind the other. In place: send is block `rank` of recv. */
  allGather<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: CopyOptions & O): R;
  /** recv = block `rank` of (op over all ranks of send). In place: recv is block `rank` of send. */
  reduceScatter<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & O,
  ): R;
  /** Block r of recv = block `rank` of the send of rank r; buffers hold a block per rank. Never in place. */
  allToAll<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: CopyOptions & O): R;
  /** recv of the root = the send of rank 0, 1, ... one behind the other. Other ranks may pass null. */
  gather<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B> | null, options?: RootOptions & O): R;
  /** recv of rank r = block r of the send of the root. Other ranks may pass null. */
  scatter<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & O,
  ): R;
}

/** What a collective was called with. */
export type CudaArguments = [first: DeviceBuffer | null, second?: unknown, third?: unknown];

/** Which is which: broadcast takes one buffer or two. */
export function readArguments(
  collective: CheckedCollective,
  [first, second, third]: CudaArguments,
): { send: DeviceBuffer | null; recv: DeviceBuffer | null; options: CallOptions & StreamOption } {
  const isOptions = second !== null && !(second instanceof DeviceBuffer) && !ArrayBuffer.isView(second);
  if (collective === 'broadcast' && third === undefined && isOptions) {
    return { send: first, recv: first, options: (second ?? {}) as CallOptions };
  }
  return {
    send: first,
    recv: (second ?? null) as DeviceBuffer | null,
    options: (third ?? {}) as CallOptions,
  };
}

/** The collectives as promises. */
export abstract class CudaCollectiveCalls implements CudaCollectives<Promise<void>> {
  /** Makes a call; errors of arguments come as a rejected promise. */
  protected abstract callCollective(collective: CheckedCollective, args: CudaArguments): Promise<void>;

  allReduce<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('allReduce', [send, recv, options]);
  }
  reduce<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B> | null,
    options?: CallOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('reduce', [send, recv, options]);
  }
  broadcast(buffer: DeviceBuffer, options?: RootOptions & StreamOption): Promise<void>;
  broadcast<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & StreamOption,
  ): Promise<void>;
  broadcast(...args: CudaArguments): Promise<void> {
    return this.callCollective('broadcast', args);
  }
  allGather<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: CopyOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('allGather', [send, recv, options]);
  }
  reduceScatter<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('reduceScatter', [send, recv, options]);
  }
  allToAll<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: CopyOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('allToAll', [send, recv, options]);
  }
  gather<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B> | null,
    options?: RootOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('gather', [send, recv, options]);
  }
  scatter<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & StreamOption,
  ): Promise<void> {
    return this.callCollective('scatter', [send, recv, options]);
  }
}
