/** What a rank on a GPU is called for, checked: nothing begins before everything is known to be right. */
import type { Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { type CheckedCollective, checkCallOf } from '../call-check.js';
import { checkKnownOptions } from '../known-options.js';
import { type CudaArguments, readArguments, type StreamOption } from './cuda-collectives.js';
import type { DeviceCall } from './cuda-operation.js';
import type { CudaTeam } from './cuda-team.js';
import { type DeviceBuffer, describeDeviceBuffer } from './device-buffer.js';
import type { LaunchQueue } from './launch-queue.js';
import type { Message } from './message-batch.js';

/** A checked call and the stream that it goes into. */
export interface PlacedCall {
  readonly call: DeviceCall;
  readonly stream: Stream;
  /** The call names its stream. */
  readonly named: boolean;
}

export class CudaCallChecks {
  readonly #team: CudaTeam;
  readonly #queue: LaunchQueue;

  constructor(team: CudaTeam, queue: LaunchQueue) {
    this.#team = team;
    this.#queue = queue;
  }

  /** Throws `invalidArgument` or `invalidUsage` that says what is wrong. */
  collective(collective: CheckedCollective, args: CudaArguments): PlacedCall {
    const { send, recv, options } = readArguments(collective, args);
    const { stream, ...rest } = options;
    return this.#asRank(() => {
      const call = checkCallOf(describeDeviceBuffer, collective, send, recv, rest, this.#team);
      this.#requireOwn(call.collective, 'send', call.send);
      this.#requireOwn(call.collective, 'recv', call.recv);
      return { call, stream: this.#queue.streamOf(stream), named: stream !== undefined };
    });
  }

  /** Throws as `collective` does. */
  message(kind: Message['kind'], buffer: unknown, peer: number, options: StreamOption): Message {
    const { size } = this.#team;
    return this.#asRank(() => {
      checkKnownOptions(kind, options, ['stream']);
      describeDeviceBuffer(kind, 'the buffer', buffer);
      const own = buffer as DeviceBuffer;
      this.#requireOwn(kind, 'the buffer', own);
      if (!Number.isInteger(peer) || peer < 0 || peer >= size) {
        throw new TuttiError(
          'invalidArgument',
          `${kind}: invalid peer ${String(peer)}; it must be a rank from 0 to ${size - 1}`,
        );
      }
      this.#queue.streamOf(options.stream);
      return { kind, peer, buffer: own };
    });
  }

  /** Refuses buffers of another GPU and those that were given back. */
  #requireOwn(call: string, name: string, buffer: DeviceBuffer | null): void {
    if (buffer === null) return;
    if (buffer.freed) {
      throw new TuttiError(
        'invalidUsage',
        `${call}: ${name} was given back, or belongs to a communicator that is closed; make a new buffer with comm.alloc`,
      );
    }
    const { rank, device } = this.#team;
    if (buffer.owner.device === device) return;
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} is memory of GPU ${buffer.device}, but rank ${rank} works on GPU ${device.index}; pass a buffer of this communicator`,
    );
  }

  /** Errors name the rank. */
  #asRank<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, error.message, { rank: this.#team.rank, cause: error });
    }
  }
}
