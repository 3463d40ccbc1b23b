/**
 * One operation, ready to run as often as wanted: program, descriptor, and the copies around it for arrays
 * outside of the heap.
 *
 * Everything that can be decided once is decided here (algorithm, chunks, addresses, scalars); running it only
 * calls the program. Arrays in the heap are used where they are. Other arrays move through staging memory in
 * the heap (staging.ts): whole, or in several pieces, each with a copy in before and a copy out after.
 *
 * Whether a rank cuts is its own affair. A two-shot that any rank stages in pieces is cut at places that all know
 * beforehand, and posts tell that it is; one-shots are cut at their rounds and rings at their loops, which are the
 * same for a rank that does not cut.
 */

import { argumentRule } from '../collectives/arithmetic.js';
import { ControlBlock, signatureOf } from '../collectives/control-block.js';
import { DirectWork } from '../collectives/direct.js';
import {
  type Algorithm,
  isConnected,
  isDirect,
  type ProgramRequest,
  reducesElements,
} from '../collectives/registry.js';
import type { RingCollective } from '../collectives/ring.js';
import { RingChannel, RingWork, STEPS } from '../collectives/ring-connection.js';
import type { HostDevice } from '../device/host/host-device.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import { averageArgument } from '../kernel/numeric.js';
import { type ChannelShare, channelShares, ringChunkBytes, ringLoopElements } from '../planning/ring-plan.js';
import { encodeRingWork, ringWorkBytes } from '../planning/ring-work.js';
import { type HostSelection, oneShotPiece } from '../tuning/host-selection.js';
import type { Buffer, CheckedCall } from './buffers.js';
import { ConnectedOperation } from './connected-operation.js';
import { operationWitness } from './diagnosis.js';
import type { Accesses, ByteRange } from './hazards.js';
import type { OperationContext } from './operation-context.js';
import { OutsideArray } from './outside-array.js';
import { frameBytesFor } from './program-cache.js';
import type { Announcement, QueuedWork } from './queued-work.js';
import { receiverOffset, senderOffset } from './rank-area.js';
import { StagedCopy } from './staged-copy.js';
import { type SideBytes, type Staging, type StagingForm, takeStaging } from './staging.js';
import { switchHindrance } from './switch-set-up.js';
import type { Witness } from './witness.js';

/**
 * Bytes that ordinary arrays move through staging at a time. Measured on two cores with 2 MiB of second-level cache
 * each: 128 KiB is best from 256 KiB to 16 MiB; half of it loses 10 % to more meetings, four times as much 30 % to
 * the caches.
 */
export const STAGE_BYTES = 131072;

/** Bits of 1/n in float32, as the low half of a 64-bit cell. */
function float32Bits(value: number): bigint {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return BigInt(view.getUint32(0));
}

function averageScalar(call: CheckedCall, ranks: number, arithmetic: 'step' | 'direct'): bigint {
  switch (argumentRule(call, arithmetic)) {
    case 'none':
      return 0n;
    case 'divisor':
      return BigInt(ranks);
    case 'scaleFloat32':
      return float32Bits(Math.fround(1 / ranks));
    case 'scaleElement':
    case 'scaleFloat64':
      return averageArgument(call.type, ranks);
  }
}

/** Blocks that a buffer holds: one per rank on both sides of all-to-all and the wide side of its relatives. */
function blocksOf(call: CheckedCall, side: 'send' | 'recv', ranks: number): number {
  if (call.collective === 'allToAll') return ranks;
  if (call.collective === 'allGather' && side === 'recv') return ranks;
  if (call.collective === 'reduceScatter' && side === 'send') return ranks;
  return 1;
}

/** Bytes of the larger of both arrays, which decide about the algorithm. */
function largerBytes(call: CheckedCall, ranks: number): number {
  const blocks = Math.max(blocksOf(call, 'send', ranks), blocksOf(call, 'recv', ranks));
  return blocks * call.count * ELEMENT_TYPES[call.type].size;
}

interface SideAddresses {
  readonly send: number;
  readonly recv: number;
}

/** What one run of the program moves. */
interface Piece {
  readonly start: number;
  readonly elements: number;
  /** The only channel that moves them, where the operation is cut along its channels. */
  readonly channel?: number;
}

export class Operation implements QueuedWork {
  readonly call: CheckedCall;
  readonly selection: HostSelection;
  readonly request: ProgramRequest;
  /** Address of the descriptor that the program gets. */
  readonly descriptor: number;
  readonly blocks: number;
  /** Memory in which blocks of a resumable program keep their state, and bytes for each; 0 for plain programs. */
  readonly frames: number;
  readonly frameBytes: number;
  readonly #signature: number;
  /**
   * Descriptor of a meeting of all ranks that only compares what they are about to do; 0 when not wanted.
   * Direct programs compare by themselves.
   */
  readonly comparison: number;
  /** Runs of the program that make up the operation. */
  readonly pieces: number;
  /** What it touches on this rank. */
  readonly accesses: Accesses;
  readonly #context: OperationContext;
  readonly #device: HostDevice;
  readonly #size: number;
  readonly #ranks: number;
  /** Elements of one piece; the whole count when there is but one. */
  readonly #pieceElements: number;
  /** For algorithms with connections of their own. */
  readonly #connected: ConnectedOperation | undefined;
  /** Shares of the channels when an operation over connections is cut: each is cut by itself. */
  readonly #cutShares: readonly ChannelShare[] | undefined;
  /** Null where both arrays lie in the heap. */
  readonly #staging: Staging | null = null;
  /** Two-shots in pieces alternate between two staging buffers on each side; everything else has one. */
  readonly #banks: 1 | 2 = 1;
  /** Bytes of one bank of each side. */
  readonly #bankBytes: SideBytes = { send: 0, recv: 0 };
  /** Descriptors, which go back with the operation. */
  readonly #descriptors: number[] = [];
  readonly #outside: { readonly send: OutsideArray | null; readonly recv: OutsideArray | null };
  /** Index of the word that counts this rank's ring operations for the others; 0 for other operations. */
  readonly #callsWord: number;
  readonly copies: QueuedWork['copies'];
  #released = false;

  /** Throws `systemError`, and keeps nothing, when there is no memory for staging or descriptors. */
  constructor(context: OperationContext, call: CheckedCall, form: StagingForm) {
    const { team, settings } = context;
    this.#context = context;
    this.#device = team.device;
    this.call = call;
    this.#size = ELEMENT_TYPES[call.type].size;
    this.#ranks = team.size;
    this.#signature = signatureOf(
      call.collective,
      call.type,
      reducesElements(call.collective) ? call.op : undefined,
      call.collective === 'broadcast' || call.collective === 'reduce' ? call.root : 0,
    );
    const setUp = (algorithm: Algorithm) => switchHindrance(context, call, algorithm);
    this.selection = context.selector.select(call.collective, call, largerBytes(call, team.size), setUp);
    const { algorithm, protocol } = this.selection;
    this.#connected = isConnected(algorithm)
      ? new ConnectedOperation(context, call, algorithm, protocol)
      : undefined;
    this.request = {
      algorithm: this.selection.algorithm,
      collective: call.collective,
      protocol: this.selection.protocol,
      type: call.type,
      op: call.op,
      ranks: team.size,
      ...this.#connected?.program,
    };
    const { send, recv } = call;
    const sendAddress = send === null ? 0 : this.#device.addressOf(send);
    const recvAddress = recv === null ? 0 : this.#device.addressOf(recv);
    const staged = sendAddress === undefined || recvAddress === undefined;
    const outside = (buffer: Buffer | null) =>
      staged && buffer !== null ? new OutsideArray(this.#device, buffer) : null;
    this.#outside = { send: outside(send), recv: outside(recv) };

    const direct = isDirect(algorithm);
    const agreed = this.#agreedPiece();
    this.#pieceElements = Math.max(1, call.count);
    if (staged) {
      const cut = Math.min(this.#pieceElements, agreed);
      const banks = this.selection.algorithm === 'TwoShot' && cut < call.count ? 2 : 1;
      const bank = this.#stageBytes(cut);
      const piece = { send: bank.send * banks, recv: bank.recv * banks };
      const whole = this.#stageBytes(this.#pieceElements);
      this.#staging = takeStaging(this.#device, context.stage, form, whole, piece);
      if (!this.#staging.whole) {
        this.#pieceElements = cut;
        this.#banks = banks;
        this.#bankBytes = bank;
      }
    }
    const inPieces = this.#staging?.whole === false;
    const range = (buffer: Buffer | null, address: number | undefined): ByteRange[] => {
      if (buffer === null) return [];
      const memory = address === undefined ? buffer.buffer : this.#device.buffer;
      const from = address ?? buffer.byteOffset;
      return [{ memory, from, to: from + buffer.byteLength }];
    };
    this.accesses = {
      reads: range(send, sendAddress),
      writes: range(recv, recvAddress),
      staged,
      sharesStage: inPieces,
    };
    // A rank that does not cut works through its channels one after the other; so does one that cuts.
    this.#cutShares =
      direct || this.#pieceElements >= call.count
        ? undefined
        : (this.#connected?.shares ??
          channelShares(call.count, this.#size, settings.shape.channels, protocol));
    this.pieces =
      this.#cutShares === undefined
        ? Math.max(1, Math.ceil(call.count / this.#pieceElements))
        : this.#cutShares.reduce((sum, { count }) => sum + Math.ceil(count / this.#pieceElements), 0);
    const addresses = this.#staging ?? { send: sendAddress!, recv: recvAddress! };
    const compares = settings.check && !direct && team.shared;
    this.#callsWord = !direct ? (team.area + ControlBlock.fields.ringCalls.offset) >>> 2 : 0;
    this.copies =
      this.pieces === 1 && this.#cutShares === undefined && !this.isCounted
        ? { in: this.#copiesOf('send'), out: this.#copiesOf('recv') }
        : undefined;
    this.blocks = this.#connected?.blocks.length ?? (direct ? 1 : settings.shape.channels);
    try {
      this.comparison = compares ? this.#directDescriptor({ send: 0, recv: 0 }, 1, false) : 0;
      this.descriptor =
        this.#connected !== undefined
          ? this.#connectedDescriptor(this.#connected, addresses)
          : direct
            ? this.#directDescriptor(addresses, agreed, inPieces)
            : this.#ringDescriptor(addresses);
      this.frameBytes = frameBytesFor(this.request);
      this.frames = this.frameBytes === 0 ? 0 : this.#allocateDescriptor(this.blocks * this.frameBytes);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /**
   * Elements after which an operation may be cut: where the others cut too (two-shot), or where a cut changes
   * nothing (one-shot rounds, ring loops).
   */
  #agreedPiece(): number {
    const { collective } = this.call;
    if (this.#connected !== undefined) return this.#connected.cut;
    if (this.selection.algorithm === 'Ring') {
      return ringLoopElements(collective as RingCollective, this.#chunkElements(), this.#ranks);
    }
    if (this.selection.algorithm === 'OneShot') return oneShotPiece(collective, this.#size, this.#ranks);
    const wide = ['allGather', 'reduceScatter', 'allToAll'].includes(collective);
    const packets = Math.floor(STAGE_BYTES / (wide ? this.#ranks : 1) / 128);
    return (Math.max(1, packets) * 128) / this.#size;
  }

  #chunkElements(): number {
    const { shape } = this.#context.settings;
    const bytes = ringChunkBytes(this.call.collective as RingCollective, this.selection.protocol, shape);
    return Math.max(1, Math.floor(bytes / this.#size));
  }

  #stageBytes(elements: number): SideBytes {
    const bytes = elements * this.#size;
    return {
      send: bytes * blocksOf(this.call, 'send', this.#ranks),
      recv: bytes * blocksOf(this.call, 'recv', this.#ranks),
    };
  }

  /** Copies between the arrays of one side and its stage, of an operation in one piece. */
  #copiesOf(side: 'send' | 'recv'): StagedCopy[] {
    const array = this.#outside[side];
    const bytes = this.call.count * this.#size;
    if (array === null || this.#staging === null || bytes === 0) return [];
    const stage = this.#staging[side];
    const stride = this.#pieceElements * this.#size;
    return Array.from({ length: blocksOf(this.call, side, this.#ranks) }, (_, block) => {
      return new StagedCopy(this.#device, array, block * bytes, stage + block * stride, bytes);
    });
  }

  #allocateDescriptor(bytes: number): number {
    const address = this.#device.allocatePrivate(bytes);
    this.#descriptors.push(address);
    return address;
  }

  /** Bytes between the blocks of a buffer that holds one for each rank. */
  #stride(): number {
    return (this.#staging === null ? this.call.count : this.#pieceElements) * this.#size;
  }

  #directDescriptor(addresses: SideAddresses, piece: number, staged: boolean): number {
    const { team, peerTable } = this.#context;
    const { call } = this;
    const descriptor = this.#allocateDescriptor(DirectWork.size);
    const block = this.#stride();
    DirectWork.at(this.#device.dataView, descriptor)
      .set('peers', peerTable)
      .set('control', team.area)
      .set('self', team.rank)
      .set('root', call.root)
      .set('signature', this.#signature)
      .set('staged', staged ? 1 : 0)
      .set('count', call.count)
      .set('start', 0)
      .set('limit', this.pieces === 1 ? call.count : this.#pieceElements)
      .set('piece', piece)
      .set('origin', 0)
      .set('send', addresses.send)
      .set('recv', addresses.recv)
      .set('sendStride', block)
      .set('recvStride', block)
      .set('argument', averageScalar(call, this.#ranks, 'direct'));
    return descriptor;
  }

  #ringDescriptor(addresses: SideAddresses): number {
    const { team, settings, orders } = this.#context;
    const { call } = this;
    const { shape } = settings;
    const descriptor = this.#allocateDescriptor(ringWorkBytes(shape.channels));
    const block = this.#stride();
    // One that is cut gets the shares of each piece before it runs.
    const shares =
      this.#cutShares?.map(() => ({ offset: 0, count: 0 })) ??
      channelShares(call.count, this.#size, shape.channels, this.selection.protocol);
    const work = encodeRingWork(
      descriptor,
      {
        control: team.area,
        rank: team.rank,
        ranks: team.size,
        root: call.root,
        ...addresses,
        sendStride: block,
        recvStride: block,
        argument: averageScalar(call, this.#ranks, 'step'),
        llSlot: shape.llBytes / STEPS,
        simpleSlot: shape.simpleBytes / STEPS,
        chunk: this.#chunkElements(),
      },
      shares.map((share, channel) => ({
        ...share,
        ...team.links(channel),
        sendControl: team.area + senderOffset(shape, channel),
        recvControl: team.area + receiverOffset(shape, channel),
        order: orders[channel]!,
      })),
    );
    this.#device.u8.set(work, descriptor);
    return descriptor;
  }

  #connectedDescriptor(connected: ConnectedOperation, { send, recv }: SideAddresses): number {
    const descriptor = this.#allocateDescriptor(connected.descriptorBytes);
    const stride = this.#stride();
    connected.write(descriptor, {
      root: this.call.root,
      send,
      recv,
      sendStride: stride,
      recvStride: stride,
      argument: averageScalar(this.call, this.#ranks, 'step'),
    });
    return descriptor;
  }

  #setShares(descriptor: number, shares: readonly ChannelShare[]): void {
    if (this.#connected !== undefined) {
      this.#connected.setShares(descriptor, shares);
      return;
    }
    shares.forEach(({ offset, count }, channel) => {
      RingChannel.at(this.#device.dataView, descriptor + RingWork.size + channel * RingChannel.size)
        .set('offset', offset)
        .set('count', count);
    });
  }

  #range(piece: number): Piece {
    let first = 0;
    for (const [channel, { offset, count }] of this.#cutShares?.entries() ?? []) {
      const pieces = Math.ceil(count / this.#pieceElements);
      if (piece < first + pieces) {
        const from = (piece - first) * this.#pieceElements;
        return { start: offset + from, elements: Math.min(this.#pieceElements, count - from), channel };
      }
      first += pieces;
    }
    const start = piece * this.#pieceElements;
    return { start, elements: Math.min(this.#pieceElements, this.call.count - start) };
  }

  get name(): string {
    return this.call.collective;
  }

  get program(): ProgramRequest {
    return this.request;
  }

  get announcement(): Announcement {
    const meets = isDirect(this.request.algorithm);
    return { signature: this.#signature, count: this.call.count, meets };
  }

  readonly onlyMessages = false;
  readonly requests = 0;
  readonly reachesArrays = false;

  get isComparable(): boolean {
    return !isDirect(this.request.algorithm);
  }

  get witness(): Witness {
    return operationWitness(this.#context.team, this.name, isDirect(this.request.algorithm));
  }

  /** Every run is counted for the other ranks: ring operations, which do not meet. */
  get isCounted(): boolean {
    return this.#callsWord !== 0;
  }

  /** Brings the input of a piece in place. */
  before(piece: number): void {
    if (this.copies !== undefined) {
      for (const copy of this.copies.in) copy.in();
      return;
    }
    if (this.#callsWord !== 0 && piece === 0) this.#device.i32[this.#callsWord]! += 1;
    if (this.#staging === null) return;
    const { start, elements, channel: only } = this.#range(piece);
    if (this.#cutShares !== undefined) {
      this.#setShares(
        this.descriptor,
        this.#cutShares.map((_, channel) => ({ offset: 0, count: channel === only ? elements : 0 })),
      );
    } else if (this.pieces > 1) {
      DirectWork.at(this.#device.dataView, this.descriptor)
        .set('start', start)
        .set('limit', start + elements)
        .set('origin', start)
        .set('send', this.#stage('send', piece))
        .set('recv', this.#stage('recv', piece));
    }
    const source = this.#outside.send;
    if (source === null || elements <= 0) return;
    const size = this.#size;
    const stage = this.#stage('send', piece);
    const blocks = blocksOf(this.call, 'send', this.#ranks);
    for (let block = 0; block < blocks; block++) {
      const from = (block * this.call.count + start) * size;
      source.copyIn(from, stage + block * this.#pieceElements * size, elements * size);
    }
  }

  /** Takes out what is finished once the program has run for a piece. */
  after(piece: number): void {
    if (this.copies !== undefined) {
      for (const copy of this.copies.out) copy.out();
      return;
    }
    if (this.#banks === 1) this.#takeOut(piece);
    else {
      // The meeting of this piece has shown that the one before is done everywhere; the last one parted by itself.
      if (piece > 0) this.#takeOut(piece - 1);
      if (piece === this.pieces - 1) this.#takeOut(piece);
    }
  }

  #stage(side: 'send' | 'recv', piece: number): number {
    const base = this.#staging![side];
    return base + (this.#banks === 2 && piece % 2 === 1 ? this.#bankBytes[side] : 0);
  }

  #takeOut(piece: number): void {
    const target = this.#outside.recv;
    if (target === null) return;
    const { start, elements } = this.#range(piece);
    if (elements <= 0) return;
    const size = this.#size;
    const stage = this.#stage('recv', piece);
    const blocks = blocksOf(this.call, 'recv', this.#ranks);
    for (let block = 0; block < blocks; block++) {
      const to = (block * this.call.count + start) * size;
      target.copyOut(stage + block * this.#pieceElements * size, to, elements * size);
    }
  }

  /** Gives the descriptors and staging memory back. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    for (const address of this.#descriptors) this.#device.freePrivate(address);
    this.#staging?.release();
  }
}
