/**
 * What the ranks of a team on GPUs call, as they show each other on their boards: for ranks that call different things
 * to find out instead of hanging, and to name who is missing when time runs out.
 *
 * A rank numbers its operations, writes each on its board before it puts it on the GPU, and looks whether the ranks
 * beside it have written another one of the same number. Nobody waits: of two ranks the one that comes second finds
 * the first, and if not all ranks call the same, two neighbours differ.
 */
import { CallEntry } from '../../collectives/control-block.js';
import type { HostDevice } from '../../device/host/host-device.js';
import { decodeTrouble, encodeTrouble, type Trouble } from '../team.js';
import { type BoardOwner, boardsOf, delistBoard, enlistBoard } from './board-list.js';
import { MessageBoards } from './message-boards.js';
import { BOARD_CALLS, RankBoard } from './rank-board.js';

/** One operation as all ranks must call it. */
export interface CallRecord {
  /** Collective, type, operator and root (control-block.ts). */
  readonly signature: number;
  /** Elements, as the API counts them. */
  readonly count: number;
}

/** Two ranks have called different things as their operation of a number; undefined where one calls nothing more. */
export interface CallMismatch {
  readonly own: CallRecord | undefined;
  readonly peer: number;
  readonly other: CallRecord | undefined;
}

/** The words of a CallEntry. */
const WORDS = CallEntry.size / 4;
const NUMBER = CallEntry.fields.number.offset / 4;
const SIGNATURE = CallEntry.fields.signature.offset / 4;
const COUNT = CallEntry.fields.count.offset / 4;

const { abort: ABORT, beat: BEAT, begun: BEGUN, calls: CALLS, turns: TURNS } = RankBoard.fields;

/** Whether a number of operations is less than another one; they wrap after 2^32. */
export function isBehind(one: number, other: number): boolean {
  return ((one - other) | 0) < 0;
}

/** Word where the calls of a board begin. */
const callsOf = (board: number): number => (board + CALLS.offset) >>> 2;

/** The operation of a number on a board; undefined where it is not there any more, or not yet. */
export function callOn(i32: Int32Array, board: number, number: number): CallRecord | undefined {
  return entryAt(i32, callsOf(board), number);
}

/** The turn in which an operation came that is on a board, among all communicators of its process. */
export function turnOn(i32: Int32Array, board: number, number: number): number {
  return i32[((board + TURNS.offset) >>> 2) + (number & (BOARD_CALLS - 1))]!;
}

/** The operation of a number on a board whose calls begin at that word. */
function entryAt(i32: Int32Array, calls: number, number: number): CallRecord | undefined {
  const at = calls + (number & (BOARD_CALLS - 1)) * WORDS;
  if (Atomics.load(i32, at + NUMBER) !== number) return undefined;
  const count = (i32[at + COUNT]! >>> 0) + i32[at + COUNT + 1]! * 2 ** 32;
  return { signature: i32[at + SIGNATURE]! >>> 0, count };
}

function isSame(one: CallRecord, other: CallRecord): boolean {
  return one.signature === other.signature && one.count === other.count;
}

export class CallBoards {
  /** What the ranks send and receive. */
  readonly messages: MessageBoards;
  readonly #host: HostDevice;
  readonly #i32: Int32Array;
  readonly #rank: number;
  /** Addresses of the ranks' boards in the heap; undefined for those that cannot be seen from here. */
  readonly #boards: readonly (number | undefined)[];
  readonly #calls: number;
  /** Word of the own sign of life. */
  readonly #beat: number;
  /** Own word that ends kernels. */
  readonly #abort: number;
  /** The ranks beside this one, and the words where their calls begin. */
  readonly #neighbours: readonly { readonly peer: number; readonly calls: number }[];
  /** Counts the operations of all communicators of this thread. */
  readonly #turns: { turns: number };
  readonly #ownTurns: number;
  #begun = 0;

  /** `owner` says what the boards belong to, for ranks of other communicators. */
  constructor(host: HostDevice, rank: number, boards: readonly (number | undefined)[], owner: BoardOwner) {
    this.#host = host;
    this.#i32 = host.i32;
    this.#rank = rank;
    this.#boards = boards;
    this.messages = new MessageBoards(host, rank, boards);
    const size = boards.length;
    this.#calls = callsOf(boards[rank]!);
    this.#beat = (boards[rank]! + BEAT.offset) >>> 2;
    this.#abort = (boards[rank]! + ABORT.offset) >>> 2;
    this.#turns = boardsOf(host);
    this.#ownTurns = (boards[rank]! + TURNS.offset) >>> 2;
    enlistBoard(host, boards[rank]!, owner);
    this.#neighbours = [...new Set([(rank + size - 1) % size, (rank + 1) % size])].flatMap((peer) => {
      const board = boards[peer];
      return peer === rank || board === undefined ? [] : [{ peer, calls: callsOf(board) }];
    });
  }

  /** Operations that this rank has begun. */
  get begun(): number {
    return this.#begun;
  }

  /** Operations that a rank has begun; undefined where that cannot be seen. */
  begunBy(rank: number): number | undefined {
    const board = this.#boards[rank];
    return board === undefined ? undefined : Atomics.load(this.#i32, (board + BEGUN.offset) >>> 2);
  }

  /** Ranks that have not begun the operation of that number. */
  behind(number: number): number[] {
    return [...this.#boards.keys()].filter((rank) => {
      const begun = rank === this.#rank ? undefined : this.begunBy(rank);
      return begun !== undefined && isBehind(begun, number);
    });
  }

  /** Operations begin. Tells of a neighbour that has begun another one of the same number. */
  begin(calls: readonly CallRecord[]): CallMismatch | undefined {
    let found: CallMismatch | undefined;
    for (const call of calls) found ??= this.#beginOne(call);
    return found;
  }

  #beginOne(call: CallRecord): CallMismatch | undefined {
    const number = (this.#begun + 1) | 0;
    this.#begun = number;
    const i32 = this.#i32;
    const slot = number & (BOARD_CALLS - 1);
    const at = this.#calls + slot * WORDS;
    this.#turns.turns = (this.#turns.turns + 1) | 0;
    i32[this.#ownTurns + slot] = this.#turns.turns;
    i32[at + SIGNATURE] = call.signature;
    i32[at + COUNT] = call.count;
    i32[at + COUNT + 1] = Math.floor(call.count / 2 ** 32);
    // First the own one is seen, then the others' are looked at: two ranks cannot miss each other.
    Atomics.store(i32, at + NUMBER, number);
    Atomics.store(i32, (this.#boards[this.#rank]! + BEGUN.offset) >>> 2, number);
    for (const { peer, calls } of this.#neighbours) {
      const other = entryAt(i32, calls, number);
      if (other !== undefined && !isSame(call, other)) return { own: call, peer, other };
    }
    return undefined;
  }

  /** Where this rank and another one, not only a neighbour, have called different things; the first that is known. */
  findMismatch(): CallMismatch | undefined {
    for (let back = BOARD_CALLS - 1; back >= 0; back--) {
      const number = (this.#begun - back) | 0;
      const own = entryAt(this.#i32, this.#calls, number);
      if (own === undefined || number === 0) continue;
      for (const [peer, board] of this.#boards.entries()) {
        if (board === undefined) continue;
        const other = callOn(this.#i32, board, number);
        if (other !== undefined && !isSame(own, other)) return { own, peer, other };
      }
    }
    return undefined;
  }

  /** A sign of life for the watchdog; `pending`: there is work of this rank on its GPU. */
  beat(pending: boolean): void {
    this.#i32[this.#beat]! += 1;
    this.#i32[this.#beat + 1] = pending ? 1 : 0;
  }

  /** Addresses in the heap: of this rank's board, and of all that can be reached. */
  get addresses(): { readonly own: number; readonly all: readonly number[] } {
    return { own: this.#boards[this.#rank]!, all: this.#boards.filter((board) => board !== undefined) };
  }

  /** The memory in which boards lie. */
  get memory(): Int32Array {
    return this.#i32;
  }

  /** Ranks of the team. */
  get size(): number {
    return this.#boards.length;
  }

  /** Address of a rank's board; undefined where it cannot be seen from here. */
  boardOf(rank: number): number | undefined {
    return this.#boards[rank];
  }

  /** This rank is gone: others do not find its board any more. */
  close(): void {
    delistBoard(this.#host, this.#boards[this.#rank]!);
  }

  /** Ends the kernels of all ranks whose boards are seen from here; the first reason stays. */
  raiseAbort(trouble: Trouble): void {
    for (const board of this.#boards) {
      if (board === undefined) continue;
      Atomics.compareExchange(this.#i32, (board + ABORT.offset) >>> 2, 0, encodeTrouble(trouble));
    }
  }

  /** This rank's kernels were ended: one look at a word, for every launch. */
  get isEnded(): boolean {
    return this.#i32[this.#abort] !== 0;
  }

  /** Why this rank's kernels were ended. */
  get trouble(): Trouble | undefined {
    return decodeTrouble(Atomics.load(this.#i32, this.#abort));
  }
}
