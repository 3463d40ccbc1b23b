/**
 * Sends and receives of one rank that happen together: addresses, descriptor, and the copies around them for arrays
 * outside of the heap.
 *
 * Arrays of the heap are used where they are. So are large ordinary arrays as long as their owner's thread does nothing
 * but wait for the batch: the thread copies into those that it receives, and those that it sends are read by its peers,
 * where the system lets them. Others move through staging memory (staging.ts): whole, or, where that would take too much,
 * in rounds that each move a piece of every stream (planning/message-plan.ts).
 */

import { signatureOf } from '../collectives/control-block.js';
import type { MessagePurpose } from '../collectives/message-memory.js';
import { CopyRequest, hostMessages, STATUS_NOT_READ } from '../collectives/messages.js';
import { COPY_STATE } from '../device/host/copy-requests.js';
import type { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';
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
import { refuseOverlaps } from './message-overlaps.js';
import type { OperationContext } from './operation-context.js';
import { OutsideArray } from './outside-array.js';
import { frameBytesFor, type ProgramSource } from './program-cache.js';
import type { Announcement, QueuedWork } from './queued-work.js';
import { StagedCopy } from './staged-copy.js';
import { type Staging, type StagingForm, takeStaging } from './staging.js';
import type { Finding, Witness } from './witness.js';

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

/**
 * Ordinary arrays of so many bytes are reached where they are. Below, the system's call for it takes longer than one
 * copy more; a slot holds less in any case.
 */
const REACHED_BYTES = 8192;

/** A message with where its bytes are. */
interface Placed extends HostMessage {
  readonly buffer: Buffer;
  /** Heap address; undefined for an array outside of the heap. */
  readonly address: number | undefined;
  readonly outside: OutsideArray | undefined;
  /** Address in the process of one that is reached where it is; else 0. */
  readonly reached: number;
  /** It moves through staging memory. */
  readonly isStaged: boolean;
}

export class MessageBatch implements QueuedWork {
  readonly name: string;
  readonly program = PROGRAM;
  readonly descriptor: number;
  readonly blocks: number;
  readonly frames: number;
  readonly frameBytes: number;
  readonly requests: number;
  readonly reachesArrays: boolean;
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
  /** Where each of the messages lies in staging memory, when that holds all of them. */
  readonly #stages: ReadonlyMap<Placed, number> | undefined;
  /** Where the window of each stream begins, when it does not: of copies, the one that is read, and the one that is written. */
  readonly #windows: readonly { readonly own: number; readonly target: number }[];
  readonly #reached: readonly OutsideArray[];
  #copiesIn: StagedCopy[] = [];
  #copiesOut: StagedCopy[] = [];
  #released = false;

  /**
   * Throws `invalidArgument` where what is received meets another message in memory, `invalidUsage` when what the rank sends itself does not match what it receives, and `systemError`, keeping
   * nothing, when there is no memory for staging or descriptors.
   */
  constructor(context: OperationContext, messages: readonly Message[], form: StagingForm, call?: RootedCall) {
    const { team } = context;
    this.#context = context;
    this.#device = team.device;
    this.#call = call;
    this.name = call?.collective ?? nameOf(messages);
    if (call === undefined) {
      refuseOverlaps(
        team.rank,
        messages.map(({ kind, peer, buffer }) => {
          const { buffer: memory, byteOffset: from, byteLength: bytes } = buffer;
          return { kind, peer, memory, from, bytes };
        }),
      );
    }
    const purpose: MessagePurpose = call?.collective ?? 'send';
    const reaches = form === 'pieces' && team.shared && !team.sharesThread && team.device.baseAddress !== 0;
    const placed = messages.map(({ kind, peer, buffer }): Placed => {
      const address = team.device.addressOf(buffer);
      const outside = address === undefined ? new OutsideArray(team.device, buffer) : undefined;
      const isReachable = kind === 'recv' || peer === team.rank || team.processes !== undefined;
      const isLarge = buffer.byteLength >= REACHED_BYTES;
      const reached = reaches && isReachable && isLarge ? (outside?.address ?? 0) : 0;
      const isStaged = outside !== undefined && reached === 0;
      return { kind, peer, buffer, bytes: buffer.byteLength, purpose, address, outside, reached, isStaged };
    });
    this.#streams = messageStreams(team.rank, placed);
    this.#places = context.messages.places();
    this.#reached = placed.flatMap(({ outside, reached }) => (reached === 0 ? [] : [outside!]));
    this.reachesArrays = this.#reached.length > 0;
    const list = placed.filter(({ isStaged }) => isStaged);
    let roundBytes = Number.POSITIVE_INFINITY;
    let staging: Staging | null = null;
    let fits = true;
    if (list.length > 0) {
      const whole = { send: bytesOf(list, 'send'), recv: bytesOf(list, 'recv') };
      fits = whole.send + whole.recv <= ROUND_BYTES.all;
      const windows = this.#windowCount();
      const share = Math.floor(ROUND_BYTES.all / windows.all / 64) * 64;
      const bytes = Math.max(ROUND_BYTES.least, share);
      const cut = fits ? whole : { send: windows.send * bytes, recv: windows.recv * bytes };
      staging = takeStaging(team.device, context.stage, form, whole, cut);
      if (!staging.whole && !fits) roundBytes = bytes;
    }
    this.#staging = staging;
    this.#roundBytes = roundBytes;
    this.#stages = roundBytes === Number.POSITIVE_INFINITY ? stagesOf(list, staging) : undefined;
    this.#windows = this.#placeWindows();
    this.pieces = roundsOf(this.#streams, roundBytes);
    this.blocks = Math.max(1, this.#streams.length);
    this.accesses = this.#findAccesses(placed, list.length > 0 || this.reachesArrays);
    this.frameBytes = frameBytesFor(PROGRAM);
    // Frames and what follows are aligned to 16.
    const frames = Math.ceil((this.blocks * this.frameBytes) / 16) * 16;
    const asks = this.#streams.some(({ kind }) => kind === 'receive') || this.reachesArrays;
    const requests = asks && this.#places.base !== 0 ? this.blocks * CopyRequest.size : 0;
    try {
      const bytes = messageWorkBytes(this.#streams.length, mostParts(this.#streams));
      this.frames = team.device.allocatePrivate(frames + requests + bytes);
      this.requests = requests === 0 ? 0 : this.frames + frames;
      this.descriptor = this.frames + frames + requests;
    } catch (error) {
      staging?.release();
      throw error;
    }
    team.device.u8.fill(0, this.frames, this.descriptor);
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
    const witness = messageWitness(this.#context.team, this.#context.messages, this.name, this.#streams);
    const difference = (status: number) =>
      status === STATUS_NOT_READ ? this.#notRead() : witness.difference(status);
    return { ...witness, difference };
  }

  /** An array that its owner does not offer any more. */
  #notRead(): Finding {
    const { rank } = this.#context.team;
    const failed = this.#streams.find((_, block) => {
      const state = this.requests + block * CopyRequest.size + CopyRequest.fields.state.offset;
      return this.#device.i32[state >>> 2] === COPY_STATE.failed;
    });
    const peer = failed?.peer ?? rank;
    const text =
      `${this.name}: what rank ${peer} sends cannot be read from its memory: it has given its array back, or may not be ` +
      'read any more; TUTTI_PEER_READS=0 moves arrays through shared memory';
    return {
      error: new TuttiError('remoteError', text, { rank: peer }),
      trouble: { kind: 'aborted', culprit: peer },
    };
  }

  get explanation(): string {
    const count = this.#streams.reduce((sum, { messages }) => sum + messages.length, 0);
    const where = this.#places.direct ? 'from buffer to buffer' : 'through slots';
    const pieces = this.pieces === 1 ? '' : ` in ${this.pieces} pieces`;
    const staged = this.#staging === null ? '' : `, staged${pieces}`;
    const reached = this.reachesArrays ? ', ordinary arrays where they are' : '';
    return `${count} ${count === 1 ? 'message' : 'messages'} ${where}${reached}${staged}`;
  }

  /** Windows of staging memory that a round takes on each side. */
  #windowCount(): { send: number; recv: number; all: number } {
    let send = 0;
    let recv = 0;
    for (const stream of this.#streams) {
      const needed = windowsOf(stream);
      if (needed.send) send += 1;
      if (needed.recv) recv += 1;
    }
    return { send, recv, all: Math.max(1, send + recv) };
  }

  #placeWindows(): { own: number; target: number }[] {
    if (this.#staging === null || this.#stages !== undefined) {
      return this.#streams.map(() => ({ own: 0, target: 0 }));
    }
    let { send, recv } = this.#staging;
    return this.#streams.map((stream) => {
      const window = { own: stream.kind === 'receive' ? recv : send, target: recv };
      const needed = windowsOf(stream);
      if (needed.send) send += this.#roundBytes;
      if (needed.recv) recv += this.#roundBytes;
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
          outside: message.reached === 0 ? 0 : message.reached + from,
          outsideTarget: part.target?.reached ? part.target.reached + from : 0,
          bytes,
          total: message.bytes,
          isFirst: from === 0,
          purpose: message.purpose,
        };
      });
    });
    const work = encodeMessageWork(this.descriptor, this.#places, this.#streams, parts, this.requests);
    this.#device.u8.set(work, this.descriptor);
  }

  #addressOf(
    message: Placed,
    { from, bytes, place }: StreamPart<Placed>,
    window: number,
    copies: StagedCopy[],
  ): number {
    const { address, outside, reached } = message;
    if (address !== undefined) return address + from;
    if (reached !== 0) return 0;
    const whole = this.#stages?.get(message);
    const stage = whole === undefined ? window + place : whole + from;
    if (bytes > 0) copies.push(new StagedCopy(this.#device, outside!, from, stage, bytes));
    return stage;
  }

  get copies(): QueuedWork['copies'] {
    if (this.pieces > 1 || this.reachesArrays) return undefined;
    return { in: this.#copiesIn, out: this.#copiesOut };
  }

  before(piece: number): void {
    if (this.pieces > 1) this.#write(piece);
    for (const array of this.#reached) array.check();
    for (const copy of this.#copiesIn) copy.in();
  }

  after(): void {
    for (const copy of this.#copiesOut) copy.out();
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

const roomOf = (bytes: number): number => Math.ceil(bytes / 64) * 64;

function bytesOf(list: readonly Placed[], side: Message['kind']): number {
  return list.reduce((sum, { kind, bytes }) => (kind === side ? sum + roomOf(bytes) : sum), 0);
}

/** Where each message lies in staging memory that holds all of them. */
function stagesOf(list: readonly Placed[], staging: Staging | null): ReadonlyMap<Placed, number> {
  const next = { send: staging?.send ?? 0, recv: staging?.recv ?? 0 };
  return new Map(
    list.map((message): [Placed, number] => {
      const at = next[message.kind];
      next[message.kind] += roomOf(message.bytes);
      return [message, at];
    }),
  );
}

/** On which sides a stream moves through staging memory. */
function windowsOf({ kind, messages, targets }: MessageStream<Placed>): { send: boolean; recv: boolean } {
  const isStaged = messages.some((message) => message.isStaged);
  return {
    send: kind !== 'receive' && isStaged,
    recv: (kind === 'receive' && isStaged) || targets.some((target) => target.isStaged),
  };
}
