/**
 * Sends and receives of one rank that happen together: addresses, descriptor, and the copies around them for arrays
 * outside of the heap.
 *
 * Arrays of the heap are used where they are. Others move through staging memory (staging.ts): whole, or, where that
 * would take too much, in rounds that each move a piece of every stream (planning/message-plan.ts).
 */

import { signatureOf } from '../collectives/control-block.js';
import type { MessagePurpose } from '../collectives/message-memory.js';
import { hostMessages } from '../collectives/messages.js';
import type { HostDevice } from '../device/host/host-device.js';
import type { ElementType } from '../kernel/element-types.js';
import {
  encodeMessageWork,
  type HostMessage,
  type MessagePlaces,
  type MessageStream,
  messageStreams,
  messageWorkBytes,
  mostParts,
  type PlacedPart,
  partsOf,
  roundsOf,
  type StreamPart,
} from '../planning/message-plan.js';
import type { Buffer } from './buffers.js';
import type { Accesses, ByteRange } from './hazards.js';
import { messageWitness } from './message-diagnosis.js';
import type { OperationContext } from './operation-context.js';
import { OutsideArray } from './outside-array.js';
import { frameBytesFor, type ProgramSource } from './program-cache.js';
import type { Announcement, QueuedWork } from './queued-work.js';
import { type Staging, type StagingForm, takeStaging } from './staging.js';
import type { Witness } from './witness.js';

/** A send or a receive of an array. */
export interface Message {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly buffer: Buffer;
}

/** A collective that is made of messages. */
export interface RootedCall {
  readonly collective: 'gather' | 'scatter';
  readonly type: ElementType;
  readonly root: number;
  /** Elements of one block. */
  readonly count: number;
}

const PROGRAM: ProgramSource = { key: 'Messages', resumable: true, build: (traits) => hostMessages(traits) };

/**
 * Bytes that move through staging in one round, all streams together: as for collectives (operation.ts), and at least
 * so many of each stream.
 */
const ROUND_BYTES = { all: 262144, least: 4096 } as const;

/** A message with where its bytes are. */
interface Placed extends HostMessage {
  readonly buffer: Buffer;
  /** Heap address; undefined for an array outside of the heap. */
  readonly address: number | undefined;
  readonly outside: OutsideArray | undefined;
}

/** A part that goes through staging, and where there. */
interface StagedPart {
  readonly array: OutsideArray;
  readonly from: number;
  readonly bytes: number;
  readonly stage: number;
}

export class MessageBatch implements QueuedWork {
  readonly name: string;
  readonly program = PROGRAM;
  readonly descriptor: number;
  readonly blocks: number;
  readonly frames: number;
  readonly frameBytes: number;
  readonly pieces: number;
  readonly accesses: Accesses;
  readonly comparison = 0;
  readonly #context: OperationContext;
  readonly #device: HostDevice;
  readonly #places: MessagePlaces;
  readonly #call: RootedCall | undefined;
  readonly #streams: readonly MessageStream<Placed>[];
  readonly #roundBytes: number;
  readonly #staging: Staging | null;
  /** Where the window of each stream begins: of copies, the one that is read, and the one that is written. */
  readonly #windows: readonly { readonly own: number; readonly target: number }[];
  #copiesIn: StagedPart[] = [];
  #copiesOut: StagedPart[] = [];
  #released = false;

  /**
   * Throws `invalidUsage` when what the rank sends itself does not match what it receives, and `systemError`, keeping
   * nothing, when there is no memory for staging or descriptors.
   */
  constructor(context: OperationContext, messages: readonly Message[], form: StagingForm, call?: RootedCall) {
    const { team } = context;
    this.#context = context;
    this.#device = team.device;
    this.#call = call;
    this.name = call?.collective ?? nameOf(messages);
    const purpose: MessagePurpose = call?.collective ?? 'send';
    const placed = messages.map(({ kind, peer, buffer }): Placed => {
      const address = team.device.addressOf(buffer);
      const outside = address === undefined ? new OutsideArray(team.device, buffer) : undefined;
      return { kind, peer, buffer, bytes: buffer.byteLength, purpose, address, outside };
    });
    this.#streams = messageStreams(team.rank, placed);
    this.#places = context.messages.places();
    const staged = placed.some(({ outside }) => outside !== undefined);
    let roundBytes = Number.POSITIVE_INFINITY;
    let staging: Staging | null = null;
    if (staged) {
      const windows = this.#windowCount();
      const share = Math.floor(ROUND_BYTES.all / windows.all / 64) * 64;
      const piece = Math.max(ROUND_BYTES.least, share);
      const most = Math.max(...this.#streams.map(({ bytes }) => bytes));
      const bytes = Math.min(piece, Math.max(1, Math.ceil(most / 64)) * 64);
      const whole = this.#wholeBytes();
      const cut = { send: windows.send * bytes, recv: windows.recv * bytes };
      staging = takeStaging(team.device, context.stage, form, whole, cut);
      if (!staging.whole) roundBytes = bytes;
    }
    this.#staging = staging;
    this.#roundBytes = roundBytes;
    this.#windows = this.#placeWindows();
    this.pieces = roundsOf(this.#streams, roundBytes);
    this.blocks = Math.max(1, this.#streams.length);
    this.accesses = this.#findAccesses(placed, staged);
    this.frameBytes = frameBytesFor(PROGRAM);
    const frames = this.blocks * this.frameBytes;
    try {
      const bytes = messageWorkBytes(this.#streams.length, mostParts(this.#streams));
      // Frames are aligned to 16.
      this.frames = team.device.allocatePrivate(frames + bytes);
      this.descriptor = this.frames + Math.ceil(frames / 16) * 16;
    } catch (error) {
      staging?.release();
      throw error;
    }
    if (this.pieces === 1) this.#write(0);
  }

  get announcement(): Announcement | undefined {
    const call = this.#call;
    if (call === undefined) return undefined;
    const signature = signatureOf(call.collective, call.type, undefined, call.root);
    return { signature, count: call.count, meets: false };
  }

  get isComparable(): boolean {
    // Ranks that share memory find out by what they announce.
    return this.#call !== undefined && !this.#context.team.shared;
  }

  /** Pairs of ranks count their messages by themselves. */
  readonly isCounted = false;

  readonly onlyMessages = true;

  get witness(): Witness {
    return messageWitness(this.#context.team, this.#context.messages, this.name, this.#streams);
  }

  get explanation(): string {
    const count = this.#streams.reduce((sum, { messages }) => sum + messages.length, 0);
    const where = this.#places.direct ? 'from buffer to buffer' : 'through slots';
    const staged =
      this.#staging === null ? '' : this.#staging.whole ? ', staged' : `, staged in ${this.pieces} pieces`;
    return `${count} ${count === 1 ? 'message' : 'messages'} ${where}${staged}`;
  }

  /** Windows of staging memory that a round takes on each side. */
  #windowCount(): { send: number; recv: number; all: number } {
    let send = 0;
    let recv = 0;
    for (const { kind, messages, targets } of this.#streams) {
      const isOutside = (list: readonly Placed[]) => list.some(({ outside }) => outside !== undefined);
      if (kind !== 'receive' && isOutside(messages)) send += 1;
      if (kind === 'receive' && isOutside(messages)) recv += 1;
      if (kind === 'copy' && isOutside(targets)) recv += 1;
    }
    return { send, recv, all: Math.max(1, send + recv) };
  }

  /** Bytes of windows that hold whole streams. */
  #wholeBytes(): { send: number; recv: number } {
    let send = 0;
    let recv = 0;
    for (const { kind, messages, targets, bytes } of this.#streams) {
      const room = Math.ceil(bytes / 64) * 64;
      const isOutside = (list: readonly Placed[]) => list.some(({ outside }) => outside !== undefined);
      if (kind !== 'receive' && isOutside(messages)) send += room;
      if (kind === 'receive' && isOutside(messages)) recv += room;
      if (kind === 'copy' && isOutside(targets)) recv += room;
    }
    return { send, recv };
  }

  #placeWindows(): { own: number; target: number }[] {
    const staging = this.#staging;
    if (staging === null) return this.#streams.map(() => ({ own: 0, target: 0 }));
    let { send, recv } = staging;
    return this.#streams.map(({ kind, messages, targets, bytes }) => {
      const room = staging.whole ? Math.ceil(bytes / 64) * 64 : this.#roundBytes;
      const isOutside = (list: readonly Placed[]) => list.some(({ outside }) => outside !== undefined);
      const window = { own: kind === 'receive' ? recv : send, target: recv };
      if (kind !== 'receive' && isOutside(messages)) send += room;
      if (kind === 'receive' && isOutside(messages)) recv += room;
      if (kind === 'copy' && isOutside(targets)) recv += room;
      return window;
    });
  }

  #findAccesses(placed: readonly Placed[], staged: boolean): Accesses {
    const range = ({ buffer, address }: Placed): ByteRange => {
      const from = address ?? buffer.byteOffset;
      const memory = address === undefined ? buffer.buffer : this.#device.buffer;
      return { memory, from, to: from + buffer.byteLength };
    };
    return {
      reads: placed.filter(({ kind }) => kind === 'send').map(range),
      writes: placed.filter(({ kind }) => kind === 'recv').map(range),
      staged,
      sharesStage: this.#staging?.whole === false,
    };
  }

  /** Writes the descriptor of a round, and finds what is to be copied before and after it. */
  #write(round: number): void {
    this.#copiesIn = [];
    this.#copiesOut = [];
    const parts = this.#streams.map((stream, i) => {
      const { own, target } = this.#windows[i]!;
      return partsOf(stream, round, this.pieces, this.#roundBytes).map((part): PlacedPart => {
        const { message, from, bytes } = part;
        const copies = stream.kind === 'receive' ? this.#copiesOut : this.#copiesIn;
        return {
          address: this.#addressOf(message, part, own, copies),
          target: part.target === undefined ? 0 : this.#addressOf(part.target, part, target, this.#copiesOut),
          bytes,
          total: message.bytes,
          isFirst: from === 0,
          purpose: message.purpose,
        };
      });
    });
    const work = encodeMessageWork(this.descriptor, this.#places, this.#streams, parts);
    this.#device.u8.set(work, this.descriptor);
  }

  #addressOf(
    { address, outside }: Placed,
    { from, bytes, place }: StreamPart<Placed>,
    window: number,
    copies: StagedPart[],
  ): number {
    if (address !== undefined) return address + from;
    const stage = window + place;
    if (bytes > 0) copies.push({ array: outside!, from, bytes, stage });
    return stage;
  }

  before(piece: number): void {
    if (this.pieces > 1) this.#write(piece);
    for (const { array, from, bytes, stage } of this.#copiesIn) array.copyIn(from, stage, bytes);
  }

  after(): void {
    for (const { array, from, bytes, stage } of this.#copiesOut) array.copyOut(stage, from, bytes);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#device.freePrivate(this.frames);
    this.#staging?.release();
  }
}

/** A message without its array. */
export function factsOf({ kind, peer, buffer }: Message): HostMessage {
  return { kind, peer, bytes: buffer.byteLength, purpose: 'send' };
}

function nameOf(messages: readonly Message[]): string {
  const [first] = messages;
  if (messages.length !== 1) return 'group';
  return first!.kind;
}
