/** Sends and receives of one rank that happen together. */
import { type GpuMessage, gpuMessages, type MessageLaunch } from '../../collectives/gpu/message-launch.js';
import { KernelLaunch } from '../../device/cuda/kernel-launch.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { listRanks } from '../diagnosis.js';
import { refuseOverlaps } from '../message-overlaps.js';
import type { PreparedWork } from './cuda-prepared.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { MessageRecord } from './message-boards.js';

/** A send or a receive. */
export interface Message {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly buffer: DeviceBuffer;
}

/** `send to rank 1, recv from ranks 0, 2`. */
function inWords(messages: readonly Message[]): string {
  const peers = (kind: Message['kind']) =>
    [...new Set(messages.filter((one) => one.kind === kind).map(({ peer }) => peer))].sort((a, b) => a - b);
  const part = (kind: Message['kind'], with_: string) => {
    const list = peers(kind);
    return list.length === 0 ? [] : [`${kind} ${with_} ${listRanks(list)}`];
  };
  return [...part('send', 'to'), ...part('recv', 'from')].join(', ');
}

export class MessageBatch implements PreparedWork {
  readonly name: string;
  /** Ranks differ in what they send and receive, so these are not counted among what all of them do. */
  readonly records = [];
  readonly messages: readonly MessageRecord[];
  readonly #team: CudaTeam;
  readonly #messages: readonly Message[];
  readonly #launches: readonly MessageLaunch[];

  /**
   * Throws `invalidArgument` where what is received meets another message in memory, and `invalidUsage` when what the rank
   * sends itself does not match what it receives.
   */
  constructor(team: CudaTeam, messages: readonly Message[]) {
    this.#team = team;
    this.#messages = messages;
    refuseOverlaps(
      team.rank,
      messages.map(({ kind, peer, buffer }) => {
        const { address: from, byteLength: bytes } = buffer;
        return { kind, peer, memory: undefined, from, bytes };
      }),
    );
    this.name = inWords(messages);
    this.messages = messages
      .map(({ kind, peer, buffer }) => ({ kind, peer, bytes: buffer.byteLength }))
      .filter(({ bytes, peer }) => bytes > 0 && peer !== team.rank);
    // Names are known once peers have mapped the buffers; how messages are cut does not depend on them.
    this.#launches = this.#plan(() => 0);
  }

  #plan(nameOf: (buffer: DeviceBuffer) => number | bigint): MessageLaunch[] {
    const { programs, gpu, rank } = this.#team;
    const list = this.#messages.map(({ kind, peer, buffer }): GpuMessage => {
      const { byteLength: bytes, address } = buffer;
      return { kind, peer, bytes, address, ...(kind === 'recv' ? { name: nameOf(buffer) } : {}) };
    });
    try {
      return gpuMessages(gpu, rank, list, programs.messages);
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, error.message, { rank, cause: error });
    }
  }

  get explanation(): string {
    const { length } = this.#messages;
    const blocks = this.#launches.reduce((sum, launch) => sum + launch.blocks, 0);
    return `${length} ${length === 1 ? 'message' : 'messages'} in ${blocks} ${blocks === 1 ? 'block' : 'blocks'}`;
  }

  get isLoaded(): boolean {
    return this.#launches.every(({ key }) => this.#team.kernels.has(key));
  }

  load(): void {
    const { kernels, programs, device } = this.#team;
    for (const launch of this.#launches) kernels.kernel(launch.key, () => programs.text(launch, device));
  }

  launch(stream: number): void {
    this.load();
    const { device, kernels, programs, words, areas, maps, overlaps } = this.#team;
    const plan = this.#plan((buffer) => this.#team.nameOf(buffer, buffer.address));
    for (const launch of plan) {
      const { key: name, blocks, threads, compile } = launch;
      const fn = kernels.kernel(name, () => programs.text(launch, device));
      const { descriptorBytes } = compile;
      const overlap = launch.overlap && overlaps;
      const kernel = new KernelLaunch(device, { name, fn, blocks, threads, descriptorBytes, overlap }, words);
      launch.write(kernel.descriptor, 0, areas, maps);
      kernel.launch(stream);
    }
  }

  uses(buffer: DeviceBuffer): boolean {
    return this.#messages.some((message) => message.buffer.allocation === buffer.allocation);
  }
}
