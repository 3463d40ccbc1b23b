/**
 * From a rank's sends and receives to the blocks of a run: the messages of each peer and direction in their order, those
 * of the rank with itself as copies.
 *
 * A batch may be done in several rounds, each moving so many bytes of every stream (the messages of one peer and
 * direction, one behind the other). All streams go the same way through all rounds. So ranks that cut differently, or
 * not at all, never wait in a circle: of all ranks, the one whose round ends first in its streams finds that every other
 * rank offers as much.
 */

import {
  inboxOffset,
  MESSAGE_PURPOSES,
  type MessageLayout,
  type MessagePurpose,
  outboxOffset,
  slotStride,
} from '../collectives/message-memory.js';
import { MESSAGE_BLOCKS, MessageBlock, MessagePart, MessageWork } from '../collectives/messages.js';
import { TuttiError } from '../errors/tutti-error.js';

/** One send or receive as one of its two ends sees it. */
export interface HostMessage {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly bytes: number;
  readonly purpose: MessagePurpose;
}

/** Messages of one peer and direction; `kind` copy: those of the rank with itself. */
export interface MessageStream<M extends HostMessage> {
  readonly kind: keyof typeof MESSAGE_BLOCKS;
  readonly peer: number;
  readonly messages: readonly M[];
  /** Of copies: what each of the messages becomes. */
  readonly targets: readonly M[];
  readonly bytes: number;
}

function streamOf<M extends HostMessage>(
  kind: MessageStream<M>['kind'],
  peer: number,
  messages: readonly M[],
  targets: readonly M[] = [],
): MessageStream<M> {
  return { kind, peer, messages, targets, bytes: messages.reduce((sum, { bytes }) => sum + bytes, 0) };
}

/** Sends of a rank to itself must meet receives of it, in order. */
function requirePairs(rank: number, sends: readonly HostMessage[], recvs: readonly HostMessage[]): void {
  const count = Math.max(sends.length, recvs.length);
  for (let i = 0; i < count; i++) {
    const [send, recv] = [sends[i], recvs[i]];
    if (send !== undefined && recv !== undefined && send.bytes === recv.bytes) continue;
    const which = count === 1 ? '' : ` (message ${i + 1} of ${count})`;
    const what =
      send !== undefined && recv !== undefined
        ? `sends itself ${send.bytes} bytes and receives ${recv.bytes}`
        : send !== undefined
          ? `sends itself ${send.bytes} bytes and does not receive them`
          : `receives ${recv!.bytes} bytes from itself and does not send them`;
    throw new TuttiError(
      'invalidUsage',
      `rank ${rank} ${what}${which}; put a send and a recv of equal size into one group`,
      { rank },
    );
  }
}

/**
 * The streams of a batch: sends first, since small messages can go at once.
 * Throws `invalidUsage` when what the rank sends itself does not match what it receives.
 */
export function messageStreams<M extends HostMessage>(rank: number, list: readonly M[]): MessageStream<M>[] {
  const own = list.filter(({ peer }) => peer === rank);
  const sends = own.filter(({ kind }) => kind === 'send');
  const recvs = own.filter(({ kind }) => kind === 'recv');
  requirePairs(rank, sends, recvs);
  const streams: MessageStream<M>[] = [];
  for (const kind of ['send', 'recv'] as const) {
    const byPeer = new Map<number, M[]>();
    for (const message of list) {
      if (message.kind !== kind || message.peer === rank) continue;
      const known = byPeer.get(message.peer);
      if (known === undefined) byPeer.set(message.peer, [message]);
      else known.push(message);
    }
    // Beginning behind the own rank, so that not all ranks turn to the same one at first.
    const order = [...byPeer.keys()].sort((a, b) => Number(a < rank) - Number(b < rank) || a - b);
    if (kind === 'recv') order.reverse();
    for (const peer of order) {
      streams.push(streamOf(kind === 'send' ? 'send' : 'receive', peer, byPeer.get(peer)!));
    }
  }
  if (sends.length > 0) streams.push(streamOf('copy', rank, sends, recvs));
  return streams;
}

/** What a round moves of a message. */
export interface StreamPart<M extends HostMessage> {
  readonly message: M;
  /** Of copies: what the message becomes. */
  readonly target: M | undefined;
  /** First byte of the message, and how many. */
  readonly from: number;
  readonly bytes: number;
  /** Where the part begins in the round's bytes of its stream. */
  readonly place: number;
}

/** Rounds that a batch takes when each moves so many bytes of a stream. */
export function roundsOf(streams: readonly MessageStream<HostMessage>[], roundBytes: number): number {
  return Math.max(1, ...streams.map(({ bytes }) => Math.ceil(bytes / roundBytes)));
}

/** What round `round` of `rounds` moves of a stream. Messages without bytes belong where they stand. */
export function partsOf<M extends HostMessage>(
  stream: MessageStream<M>,
  round: number,
  rounds: number,
  roundBytes: number,
): StreamPart<M>[] {
  const start = rounds === 1 ? 0 : round * roundBytes;
  const end = round === rounds - 1 ? Number.POSITIVE_INFINITY : start + roundBytes;
  const parts: StreamPart<M>[] = [];
  let position = 0;
  stream.messages.forEach((message, i) => {
    const { bytes } = message;
    const from = Math.max(position, start);
    const to = Math.min(position + bytes, end);
    const isHere = bytes === 0 ? position >= start && position < end : from < to;
    if (isHere) {
      parts.push({
        message,
        target: stream.targets[i],
        from: from - position,
        bytes: to - from,
        place: from - start,
      });
    }
    position += bytes;
  });
  return parts;
}

/** Most parts that a round can have. */
export function mostParts(streams: readonly MessageStream<HostMessage>[]): number {
  return streams.reduce((sum, { messages }) => sum + messages.length, 0);
}

/** Addresses of a peer's control block, segment and doorbell, and the number of its process. */
export interface MessagePeer {
  readonly control: number;
  readonly segment: number;
  readonly doorbell: number;
  readonly process: number;
}

/** Where a rank finds its peers, in its own address space. */
export interface MessagePlaces {
  readonly layout: MessageLayout;
  readonly rank: number;
  /** Own control block, segment and pool. */
  readonly control: number;
  readonly segment: number;
  readonly pool: number;
  /** Byte offset in every control block of the word that says where the pool is. */
  readonly poolWord: number;
  /** Whether ranks reach each other's buffers. */
  readonly direct: boolean;
  /** Address in the process of the heap's first byte; 0 where it is not known. */
  readonly base: number;
  /** Place of this rank's part in what plays the pool of a peer. */
  indexAt(peer: number): number;
  peer(rank: number): MessagePeer;
}

/** Bytes of a descriptor for so many blocks and parts. */
export function messageWorkBytes(blocks: number, parts: number): number {
  return MessageWork.size + blocks * MessageBlock.size + parts * MessagePart.size;
}

/** A part with the addresses that its bytes have in this round. */
export interface PlacedPart {
  readonly address: number;
  /** Of copies: where to. */
  readonly target: number;
  /** Addresses in the process instead of these, for arrays that are reached where they are; else 0. */
  readonly outside: number;
  readonly outsideTarget: number;
  readonly bytes: number;
  readonly total: number;
  readonly isFirst: boolean;
  readonly purpose: MessagePurpose;
}

/** The descriptor for an address: the streams' blocks, each with its parts of this round, and its requests for copies. */
export function encodeMessageWork(
  descriptor: number,
  places: MessagePlaces,
  streams: readonly MessageStream<HostMessage>[],
  parts: readonly (readonly PlacedPart[])[],
  requests = 0,
): Uint8Array<ArrayBuffer> {
  const { layout, control, segment, pool, poolWord, direct, base } = places;
  const count = parts.reduce((sum, list) => sum + list.length, 0);
  const bytes = new Uint8Array(messageWorkBytes(streams.length, count));
  const view = new DataView(bytes.buffer);
  const blocks = MessageWork.size;
  MessageWork.at(view, 0)
    .set('control', control)
    .set('blocks', descriptor + blocks)
    .set('segment', segment)
    .set('requests', requests)
    .set('base', base)
    .set('poolWord', poolWord)
    .set('direct', direct ? 1 : 0)
    .set('slotBytes', layout.slotBytes)
    .set('slotStride', slotStride(layout));
  let next = blocks + streams.length * MessageBlock.size;
  streams.forEach(({ kind, peer }, i) => {
    const there = kind === 'copy' ? { control, segment, doorbell: control, process: 0 } : places.peer(peer);
    const index = places.indexAt(peer);
    const own = kind === 'send' ? outboxOffset(layout, peer) : inboxOffset(layout, peer);
    const remote = kind === 'send' ? inboxOffset(layout, index) : outboxOffset(layout, index);
    MessageBlock.at(view, blocks + i * MessageBlock.size)
      .set('kind', MESSAGE_BLOCKS[kind])
      .set('parts', parts[i]!.length)
      .set('begins', parts[i]!.filter(({ isFirst }) => isFirst).length)
      .set('firstPart', descriptor + next)
      .set('peerControl', there.control)
      .set('peerSegment', there.segment)
      .set('peerDoorbell', there.doorbell)
      .set('process', there.process)
      .set('own', pool + own)
      .set('remote', remote);
    for (const { address, target, outside, outsideTarget, bytes: size, total, purpose } of parts[i]!) {
      MessagePart.at(view, next)
        .set('address', address)
        .set('target', target)
        .set('outside', outside)
        .set('outsideTarget', outsideTarget)
        .set('bytes', size)
        .set('total', total)
        .set('purpose', MESSAGE_PURPOSES[purpose]);
      next += MessagePart.size;
    }
  });
  return bytes;
}
