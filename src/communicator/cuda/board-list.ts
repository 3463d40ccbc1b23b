/**
 * The boards of all ranks of a process, as a ring: who sees one of them (peers map the memory in which all lie) finds what
 * the process does in other communicators, to say where a rank is that does not come.
 *
 * Links are distances in bytes, since peers see the memory at other addresses. What boards of another process say is for
 * messages only, and nobody follows links without end.
 */
import { randomInt } from 'node:crypto';
import type { HostDevice } from '../../device/host/host-device.js';
import { RankBoard } from './rank-board.js';

/** Boards of a process that are looked at. */
const MOST_BOARDS = 256;

const { next: NEXT, team: TEAM, serial: SERIAL, gpu: GPU } = RankBoard.fields;

/** Word of a board's field. */
export function wordOf(board: number, { offset }: { readonly offset: number }): number {
  return (board + offset) >>> 2;
}

/** What a board belongs to. */
export interface BoardOwner {
  /** Number of the communicator, the same at all of its ranks. */
  readonly team: number;
  /** Number of the rank's GPU in its process. */
  readonly gpu: number;
}

/** A number for a communicator, which another one hardly has. */
export function teamNumber(): number {
  return randomInt(1, 2 ** 32);
}

/** What is counted in a heap, which one thread has. */
interface HeapBoards {
  readonly boards: number[];
  /** Communicators that were opened. */
  opened: number;
  /** Operations that were begun in all of them. */
  turns: number;
}

const known = new WeakMap<HostDevice, HeapBoards>();

/** The boards of a heap. */
export function boardsOf(host: HostDevice): HeapBoards {
  let all = known.get(host);
  if (all === undefined) known.set(host, (all = { boards: [], opened: 0, turns: 0 }));
  return all;
}

function link(i32: Int32Array, boards: readonly number[]): void {
  boards.forEach((board, i) => {
    Atomics.store(i32, wordOf(board, NEXT), boards[(i + 1) % boards.length]! - board);
  });
}

/** Lets others find a board of this process, until it is taken off. */
export function enlistBoard(host: HostDevice, board: number, { team, gpu }: BoardOwner): void {
  const all = boardsOf(host);
  const { i32 } = host;
  // Ranks of one communicator may share a heap.
  const sibling = all.boards.find((one) => i32[wordOf(one, TEAM)]! >>> 0 === team);
  i32[wordOf(board, SERIAL)] = sibling === undefined ? ++all.opened : i32[wordOf(sibling, SERIAL)]!;
  i32[wordOf(board, TEAM)] = team;
  i32[wordOf(board, GPU)] = gpu;
  all.boards.push(board);
  link(i32, all.boards);
}

export function delistBoard(host: HostDevice, board: number): void {
  const { boards } = boardsOf(host);
  const at = boards.indexOf(board);
  if (at < 0) return;
  boards.splice(at, 1);
  for (const field of [NEXT, TEAM]) Atomics.store(host.i32, wordOf(board, field), 0);
  link(host.i32, boards);
}

/** A board that was found beside another one. */
export interface FoundBoard extends BoardOwner {
  readonly board: number;
  readonly serial: number;
}

function read(i32: Int32Array, board: number): FoundBoard {
  const field = (one: { readonly offset: number }) => i32[wordOf(board, one)]! >>> 0;
  return { board, team: field(TEAM), serial: field(SERIAL), gpu: field(GPU) };
}

/** The boards of other communicators that the process of a board has on the same GPU. */
export function boardsBeside(i32: Int32Array, board: number): FoundBoard[] {
  const own = read(i32, board);
  const found: FoundBoard[] = [];
  const last = 4 * i32.length - RankBoard.size;
  let at = board;
  for (let count = 0; count < MOST_BOARDS; count++) {
    at += Atomics.load(i32, wordOf(at, NEXT));
    if (at === board || at < 0 || at > last || at % RankBoard.align !== 0) break;
    const one = read(i32, at);
    if (one.team !== 0 && one.team !== own.team && one.gpu === own.gpu) found.push(one);
  }
  return found;
}
