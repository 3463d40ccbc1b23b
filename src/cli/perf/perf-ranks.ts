/**
 * What the measuring loop needs of the ranks of this process, whatever device they work on: buffers with test data,
 * operations, and how to run them once and in a timed loop.
 */
import type { Combination } from './combinations.js';
import type { DataSegment } from './data-plan.js';
import type { RankPlace } from './report.js';

/** A piece of one of a rank's two buffers, in bytes; it begins with an element. */
export interface Region {
  readonly buffer: 'send' | 'recv';
  readonly from: number;
  readonly bytes: number;
}

/** Where one operation reads and writes. */
export interface Sides {
  readonly input: Region;
  readonly output: Region;
}

/** An operation of one rank that is ready to run. */
export interface PerfOperation {
  release(): void;
}

/** What a timed loop took. */
export interface Timed {
  /** Until everything was done, per operation, in microseconds. */
  readonly microseconds: number;
  /** Until everything was enqueued, per operation, in microseconds. */
  readonly cpu: number;
  /** Of every iteration, in microseconds per operation, with `perIteration`. */
  readonly samples: readonly number[];
}

export interface TimedLoop {
  /** 1: wait and barrier after each operation; 2: wait after each. */
  readonly blocking: 0 | 1 | 2;
  readonly perIteration: boolean;
  /** Operations of one iteration. */
  readonly aggregated: number;
}

export interface PerfRanks<O extends PerfOperation = PerfOperation> {
  /** Numbers of the ranks of this process. */
  readonly ranks: readonly number[];
  /** Ranks of all processes. */
  readonly size: number;
  /** Calls that let the JavaScript engine compile what is called in the loops. */
  readonly acquaintance: number;
  /** Bytes that each of a rank's two buffers may have, on the device with the least room; the same on all ranks. */
  readonly room: number;
  /** Every rank of the communicator. */
  readonly places: readonly RankPlace[];
  /** What connects the ranks, a line each for people; empty where there is nothing to tell. */
  readonly connections: readonly string[];

  /** Makes the buffers of every rank, so many bytes each, for elements of a type. Earlier ones go. */
  makeBuffers(bytes: number, type: Combination['type']): void;
  barrier(): Promise<void>;
  /** Every rank of this process brings numbers; the result holds those of all ranks, in rank order. */
  gather(own: (index: number) => readonly number[]): Promise<number[][]>;
  /** The operation of one rank; `index` counts the ranks of this process. */
  prepare(index: number, combination: Combination, sides: Sides): O;
  /** Runs one operation of every rank of this process to its end. */
  once(operations: readonly O[]): Promise<void>;
  /** Runs a sequence of operations of every rank without a pause and times it. */
  time(sequence: readonly (readonly O[])[], loop: TimedLoop): Promise<Timed>;
  /** Zeroes a piece. */
  clear(index: number, region: Region): Promise<void>;
  /** Writes test data; positions count elements from the start of the piece. */
  fill(
    index: number,
    region: Region,
    segments: readonly DataSegment[],
    combination: Combination,
  ): Promise<void>;
  /** Compares with test data; the result is the number of wrong elements. */
  verify(
    index: number,
    region: Region,
    segments: readonly DataSegment[],
    combination: Combination,
  ): Promise<number>;
  close(): void;
}
