/**
 * What a rank that is waited for does in other communicators: ranks that use two communicators crosswise (one calls A and
 * then B, the other one B and then A) keep each other waiting, and nothing is wrong with either by itself.
 */
import { describeCall } from '../diagnosis.js';
import { boardsBeside, type FoundBoard, wordOf } from './board-list.js';
import { type CallBoards, callOn, isBehind, turnOn } from './call-boards.js';
import { RankBoard } from './rank-board.js';

/** Operations of a communicator that are compared, back from the last one. */
const COMPARED = 64;

const { begun: BEGUN, pending: PENDING } = RankBoard.fields;

const REMEDY =
  'all ranks must make the calls of the communicators that they share in one order, or await each before the next';

/** `communicator 2 of its process`. */
function nameOf({ serial }: FoundBoard): string {
  return `communicator ${serial} of its process (in the order of opening)`;
}

/** Numbers of the operations on a board that are compared, the last one first. */
function numbersOn(i32: Int32Array, board: number, last: number): number[] {
  return Array.from({ length: COMPARED }, (_, back) => (last - back) | 0).filter(
    (number) => callOn(i32, board, number) !== undefined,
  );
}

function begunOn(i32: Int32Array, { board }: FoundBoard): number {
  return i32[wordOf(board, BEGUN)]!;
}

/** Boards of other communicators in which the rank has work on its GPU. */
function busyBoards(i32: Int32Array, board: number | undefined): FoundBoard[] {
  if (board === undefined) return [];
  return boardsBeside(i32, board).filter((one) => i32[wordOf(one.board, PENDING)] !== 0);
}

/** Where a rank is that has not called what others wait for, as an end of a sentence; undefined where that is not known. */
export function whereElse(calls: CallBoards, rank: number, peer: number): string | undefined {
  const { memory: i32 } = calls;
  const [there] = busyBoards(i32, calls.boardOf(peer));
  if (there === undefined) return undefined;
  const begun = begunOn(i32, there);
  const call = callOn(i32, there.board, begun);
  const what = call === undefined ? 'a call' : describeCall(call.signature, call.count);
  const own = calls.boardOf(rank);
  const here = own === undefined ? undefined : boardsBeside(i32, own).find(({ team }) => team === there.team);
  const waits = `rank ${peer} waits in ${what}, of ${nameOf(there)}`;
  if (here === undefined) return waits;
  const crossed = isBehind(begunOn(i32, here), begun);
  return `${waits}${crossed ? `, which rank ${rank} has not called there` : ''}; ${REMEDY}`;
}

/**
 * Operations that this rank and another one have put on their GPUs in different orders, where all ranks have called
 * everything: kernels that need a GPU for themselves then wait for each other. The end of a sentence.
 */
export function crossedOrder(calls: CallBoards, rank: number, last: number): string | undefined {
  const { memory: i32 } = calls;
  const own = calls.boardOf(rank)!;
  for (const here of busyBoards(i32, own)) {
    for (let peer = 0; peer < calls.size; peer++) {
      const board = calls.boardOf(peer);
      if (peer === rank || board === undefined) continue;
      const there = boardsBeside(i32, board).find(({ team }) => team === here.team);
      if (there === undefined) continue;
      for (const number of numbersOn(i32, own, last)) {
        for (const other of numbersOn(i32, here.board, begunOn(i32, here))) {
          if (callOn(i32, board, number) === undefined || callOn(i32, there.board, other) === undefined)
            continue;
          const ownFirst = isBehind(turnOn(i32, own, number), turnOn(i32, here.board, other));
          const peerFirst = isBehind(turnOn(i32, board, number), turnOn(i32, there.board, other));
          if (ownFirst === peerFirst) continue;
          const { signature, count } = callOn(i32, here.board, other)!;
          const [before, after] = ownFirst ? [peer, rank] : [rank, peer];
          return `rank ${before} calls ${describeCall(signature, count)} of ${nameOf(here)} before it, rank ${after} after it, and GPUs may be full with the first; ${REMEDY}`;
        }
      }
    }
  }
  return undefined;
}
