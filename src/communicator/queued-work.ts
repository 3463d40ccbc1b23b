/** What the queue of a rank knows of its work: an operation of all ranks, or a batch of messages. */

import type { Accesses } from './hazards.js';
import type { HostProgram } from './program-cache.js';
import type { StagedCopy } from './staged-copy.js';
import type { Witness } from './witness.js';

/** How the other ranks find out that this one does something else (call-board.ts). */
export interface Announcement {
  readonly signature: number;
  readonly count: number;
  /** The ranks meet in it, and compare by themselves. */
  readonly meets: boolean;
}

export interface QueuedWork {
  /** The call, as users name it. */
  readonly name: string;
  readonly program: HostProgram;
  /** Address of the descriptor that the program gets. */
  readonly descriptor: number;
  readonly blocks: number;
  /** Memory in which blocks of a resumable program keep their state, and bytes for each; 0 for plain programs. */
  readonly frames: number;
  readonly frameBytes: number;
  /** Address of the requests for copies of its blocks (device/host/copy-requests.ts); 0 where it asks for none. */
  readonly requests: number;
  /** It reaches ordinary arrays where they are, and may therefore only run while their owner's thread waits for it. */
  readonly reachesArrays: boolean;
  /** Runs of the program that make up the work. */
  readonly pieces: number;
  /** What it touches on this rank. */
  readonly accesses: Accesses;
  /** Absent for what not all ranks do. */
  readonly announcement: Announcement | undefined;
  /** Descriptor of a meeting that only compares what the ranks are about to do; 0 when there is none. */
  readonly comparison: number;
  /** Ranks that disagree do not find out by themselves. */
  readonly isComparable: boolean;
  /** Running it takes more than calling the program: it is counted for the others, say. */
  readonly isCounted: boolean;
  /** It consists of messages, of which each tells its receiver what it is. */
  readonly onlyMessages: boolean;
  /** What is found in memory when it fails. */
  readonly witness: Witness;
  /**
   * All that `before` and `after` do, of work in one piece that runs on the calling thread; undefined where they do more, or
   * the work is in several pieces.
   */
  readonly copies: { readonly in: readonly StagedCopy[]; readonly out: readonly StagedCopy[] } | undefined;
  /** Brings the input of a piece in place, and takes its result out. */
  before(piece: number): void;
  after(piece: number): void;
  /** Gives its memory back. */
  release(): void;
}
