/**
 * What the ranks of a team on GPUs send and receive, as they show each other on their boards: for a pair that differs
 * about a message to find out instead of hanging, and to name who has not called the other end when time runs out.
 *
 * The messages of a pair and direction are numbered at both ends in the order of the calls. Each end writes the size of
 * its message before it puts it on the GPU, and looks whether the other one has written another size under that number.
 * Nobody waits: of two ends the one that comes second finds the first.
 */
import type { HostDevice } from '../../device/host/host-device.js';
import { KEPT_MESSAGES, MessageEntry, MessageLog, RankBoard } from './rank-board.js';

/** A message as one of its ends sees it. */
export interface MessageRecord {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  /** More than 0: empty messages need no other end. */
  readonly bytes: number;
}

/** A message whose other end has another size. */
export interface MessageMismatch {
  readonly own: MessageRecord;
  /** Bytes at the other end. */
  readonly other: number;
}

const { sends: SENDS, receives: RECEIVES } = RankBoard.fields;
const { begun: BEGUN, uncounted: UNCOUNTED, entries: ENTRIES } = MessageLog.fields;
const { number: NUMBER, bytes: BYTES } = MessageEntry.fields;

export class MessageBoards {
  readonly #i32: Int32Array;
  readonly #rank: number;
  readonly #boards: readonly (number | undefined)[];

  constructor(host: HostDevice, rank: number, boards: readonly (number | undefined)[]) {
    this.#i32 = host.i32;
    this.#rank = rank;
    this.#boards = boards;
  }

  /** Word of what a rank has written about its messages with another one; undefined where that cannot be seen. */
  #log(rank: number, kind: MessageRecord['kind'], peer: number): number | undefined {
    const board = this.#boards[rank];
    if (board === undefined) return undefined;
    const { offset } = kind === 'send' ? SENDS : RECEIVES;
    return (board + offset + peer * MessageLog.size) >>> 2;
  }

  /** The same at the other end; undefined too where either end does not count. */
  #otherLog({ kind, peer }: Pick<MessageRecord, 'kind' | 'peer'>, own: number): number | undefined {
    if (peer === this.#rank) return undefined;
    const other = this.#log(peer, kind === 'send' ? 'recv' : 'send', this.#rank);
    const isCounted = (log: number) => Atomics.load(this.#i32, log + UNCOUNTED.offset / 4) === 0;
    return other !== undefined && isCounted(own) && isCounted(other) ? other : undefined;
  }

  /** Bytes of the message of a number; undefined where that is not there any more, or not yet. */
  #bytesOf(log: number, number: number): number | undefined {
    const at = entryOf(log, number);
    if (Atomics.load(this.#i32, at + NUMBER.offset / 4) !== number) return undefined;
    const word = at + BYTES.offset / 4;
    return (this.#i32[word]! >>> 0) + this.#i32[word + 1]! * 2 ** 32;
  }

  /** Messages begin. Tells of one whose other end has another size. */
  begin(messages: readonly MessageRecord[]): MessageMismatch | undefined {
    let found: MessageMismatch | undefined;
    for (const message of messages) found ??= this.#beginOne(message);
    return found;
  }

  #beginOne(message: MessageRecord): MessageMismatch | undefined {
    const { kind, peer, bytes } = message;
    const i32 = this.#i32;
    const log = this.#log(this.#rank, kind, peer)!;
    const number = (i32[log + BEGUN.offset / 4]! + 1) | 0;
    const at = entryOf(log, number);
    i32[at + BYTES.offset / 4] = bytes;
    i32[at + BYTES.offset / 4 + 1] = Math.floor(bytes / 2 ** 32);
    // First the own one is seen, then the other is looked at: two ends cannot miss each other.
    Atomics.store(i32, at + NUMBER.offset / 4, number);
    Atomics.store(i32, log + BEGUN.offset / 4, number);
    const otherLog = this.#otherLog(message, log);
    const other = otherLog === undefined ? undefined : this.#bytesOf(otherLog, number);
    return other === undefined || other === bytes ? undefined : { own: message, other };
  }

  /** Messages go into a graph of another library, whose launches are not seen: their ends are not compared any more. */
  beginUnseen(messages: readonly MessageRecord[]): void {
    for (const { kind, peer } of messages) {
      Atomics.store(this.#i32, this.#log(this.#rank, kind, peer)! + UNCOUNTED.offset / 4, 1);
    }
  }

  /** All pairs and directions in which this rank has messages, that can be compared. */
  *#pairs(): Generator<{
    kind: MessageRecord['kind'];
    peer: number;
    own: number;
    other: number;
    begun: number;
  }> {
    for (let peer = 0; peer < this.#boards.length; peer++) {
      for (const kind of ['send', 'recv'] as const) {
        const own = this.#log(this.#rank, kind, peer)!;
        const begun = this.#i32[own + BEGUN.offset / 4]!;
        const other = begun === 0 ? undefined : this.#otherLog({ kind, peer }, own);
        if (other !== undefined) yield { kind, peer, own, other, begun };
      }
    }
  }

  /** A message of this rank whose other end has another size, among the latest. */
  findMismatch(): MessageMismatch | undefined {
    for (const { kind, peer, own, other, begun } of this.#pairs()) {
      for (let back = KEPT_MESSAGES - 1; back >= 0; back--) {
        const number = (begun - back) | 0;
        const bytes = this.#bytesOf(own, number);
        const theirs = this.#bytesOf(other, number);
        if (number === 0 || bytes === undefined || theirs === undefined || bytes === theirs) continue;
        return { own: { kind, peer, bytes }, other: theirs };
      }
    }
    return undefined;
  }

  /** Messages that this rank has begun and whose other end has not been called, one for each pair and direction. */
  unmatched(): Pick<MessageRecord, 'kind' | 'peer'>[] {
    return [...this.#pairs()]
      .filter(({ other, begun }) => ((Atomics.load(this.#i32, other + BEGUN.offset / 4) - begun) | 0) < 0)
      .map(({ kind, peer }) => ({ kind, peer }));
  }

  /** Whether another rank has not called the other end of a message of this one. */
  lacks(peer: number): boolean {
    return this.unmatched().some((one) => one.peer === peer);
  }
}

/** Word of the entry of a number in a log. */
function entryOf(log: number, number: number): number {
  return log + (ENTRIES.offset + (number & (KEPT_MESSAGES - 1)) * MessageEntry.size) / 4;
}
