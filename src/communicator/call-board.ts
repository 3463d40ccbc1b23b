/**
 * What each rank calls, by number, for its neighbours to compare: algorithms over connections do not meet, so without it
 * ranks that call different things would send each other nonsense, or wait until their time limit.
 *
 * A rank numbers its operations and writes each into its control block as it begins, those that meet and the others into
 * tables of their own. Whoever begins an operation over connections looks whether the ranks beside it have written one
 * of the same number, and whoever begins one that meets, whether they have written one over connections. Nobody waits:
 * of two ranks the one that comes second finds the first. If not all ranks call the same, two neighbours differ.
 *
 * An operation that meets compares by itself with all others like it, so its way stays short: some stores into lines
 * that nobody reads meanwhile, and two loads of lines that do not change.
 *
 * Small messages take less time than one look at a line that a neighbour is writing. What is only messages and runs
 * again is therefore noted, in lines that nobody reads as long as all is well, and compared later, together with others:
 * by a hash of all calls at every sixteenth, and one by one when it has to wait, before the next call of another kind, and
 * at the end.
 */

import {
  CALL_ENTRIES,
  CallEntry,
  ControlBlock,
  MILESTONES,
  Milestone,
} from '../collectives/control-block.js';
import { TuttiError } from '../errors/tutti-error.js';
import { describeCall } from './diagnosis.js';
import type { FailureState } from './failure-state.js';
import type { Team } from './team.js';

/** The words of a CallEntry. */
const WORDS = CallEntry.size / 4;
const NUMBER = CallEntry.fields.number.offset / 4;
const SIGNATURE = CallEntry.fields.signature.offset / 4;
const COUNT = CallEntry.fields.count.offset / 4;

/** Of each call's part in the hash: the multiplier of 32-bit FNV. */
const PRIME = 0x0100_0193;

const MILESTONE_WORDS = Milestone.size / 4;
const MILESTONE_HASH = Milestone.fields.hash.offset / 4;

/** Looks at an entry that differs before it counts: some microseconds, longer than stores are on their way. */
const LOOKS = 1000;

const BOTH_TABLES = ['connected', 'meetings'] as const;

const tableOf = (area: number, name: 'meetings' | 'connected' | 'milestones'): number =>
  (area + ControlBlock.fields[name].offset) >>> 2;

export class CallBoard {
  readonly #team: Team;
  readonly #failure: FailureState;
  readonly #i32: Int32Array;
  readonly #meetings: number;
  readonly #connected: number;
  /** Word of each neighbour's table of operations over connections; the own one where there is no neighbour. */
  readonly #previous: number;
  readonly #next: number;
  readonly #neighbours: readonly number[];
  /** Number of the latest operation, as it is in memory. */
  #number = 0;
  /** Number of the latest one that was compared; those behind it are noted. */
  #compared = 0;
  /** Of all calls so far. */
  #hash = 0;

  constructor(team: Team, failure: FailureState) {
    const { rank, size, area, areas, shared } = team;
    this.#team = team;
    this.#failure = failure;
    this.#i32 = team.device.i32;
    this.#meetings = tableOf(area, 'meetings');
    this.#connected = tableOf(area, 'connected');
    const previous = (rank + size - 1) % size;
    const next = (rank + 1) % size;
    this.#neighbours = shared ? [...new Set([previous, next])].filter((peer) => peer !== rank) : [];
    this.#previous = shared ? tableOf(areas[previous]!, 'connected') : this.#connected;
    this.#next = shared ? tableOf(areas[next]!, 'connected') : this.#connected;
  }

  /** An operation begins in which the ranks meet. Throws where a neighbour has begun another one. */
  meeting(signature: number, count: number): void {
    if (this.#compared !== this.#number) this.settle();
    const number = (this.#number + 1) | 0;
    this.#number = number;
    this.#compared = number;
    this.#mix(signature, count);
    const at = (number & (CALL_ENTRIES - 1)) * WORDS;
    const i32 = this.#i32;
    this.#write(this.#meetings + at, signature, count);
    i32[this.#meetings + at + NUMBER] = number;
    if (i32[this.#previous + at + NUMBER] === number || i32[this.#next + at + NUMBER] === number) {
      this.#compare(number, signature, count, ['connected']);
    }
  }

  /** An operation over connections begins. Throws where a neighbour has begun another one. */
  connected(signature: number, count: number): void {
    this.note(signature, count);
    this.settle();
  }

  /** The same, to be compared later. Throws where an earlier one was another one than a neighbour's. */
  note(signature: number, count: number): void {
    const number = (this.#number + 1) | 0;
    const at = this.#connected + (number & (CALL_ENTRIES - 1)) * WORDS;
    this.#write(at, signature, count);
    this.#i32[at + NUMBER] = number;
    this.#number = number;
    this.#mix(signature, count);
    if ((number & (MILESTONES.every - 1)) === 0) this.#passMilestone(number);
  }

  #mix(signature: number, count: number): void {
    this.#hash = Math.imul(Math.imul(this.#hash ^ signature, PRIME) ^ (count | 0), PRIME);
  }

  /** Compares all calls up to one with those of the neighbours, as far as they have come. */
  #passMilestone(number: number): void {
    const i32 = this.#i32;
    const slot = ((number / MILESTONES.every) & (MILESTONES.kept - 1)) * MILESTONE_WORDS;
    const own = tableOf(this.#team.area, 'milestones') + slot;
    i32[own + MILESTONE_HASH] = this.#hash;
    Atomics.store(i32, own, number);
    for (const peer of this.#neighbours) {
      const at = tableOf(this.#team.areas[peer]!, 'milestones') + slot;
      // The one that differs is found one by one.
      if (Atomics.load(i32, at) === number && i32[at + MILESTONE_HASH] !== this.#hash) this.settle();
    }
    this.#compared = number;
  }

  /** Compares what is noted. Throws where a neighbour has begun something else. */
  readonly settle = (): void => {
    const last = this.#number;
    let number = this.#compared;
    if (number === last) return;
    const i32 = this.#i32;
    // First the own ones are seen, then the others' are looked at: two ranks cannot miss each other.
    const newest = this.#connected + (last & (CALL_ENTRIES - 1)) * WORDS + NUMBER;
    Atomics.store(i32, newest, last);
    Atomics.load(i32, newest);
    this.#compared = last;
    while (number !== last) {
      number = (number + 1) | 0;
      const at = this.#connected + (number & (CALL_ENTRIES - 1)) * WORDS;
      this.#compare(number, i32[at + SIGNATURE]! >>> 0, this.#countAt(at), BOTH_TABLES);
    }
  };

  #countAt(at: number): number {
    return (this.#i32[at + COUNT]! >>> 0) + this.#i32[at + COUNT + 1]! * 2 ** 32;
  }

  #write(at: number, signature: number, count: number): void {
    const i32 = this.#i32;
    i32[at + SIGNATURE] = signature;
    i32[at + COUNT] = count;
    i32[at + COUNT + 1] = Math.floor(count / 2 ** 32);
  }

  /** Throws where a neighbour's operation of the number, in one of the tables, is another one. */
  #compare(
    number: number,
    signature: number,
    count: number,
    tables: readonly ('meetings' | 'connected')[],
  ): void {
    const i32 = this.#i32;
    const slot = (number & (CALL_ENTRIES - 1)) * WORDS;
    for (const peer of this.#neighbours) {
      for (const table of tables) {
        const at = tableOf(this.#team.areas[peer]!, table) + slot;
        if (i32[at + NUMBER] !== number) continue;
        const differs = () => i32[at + SIGNATURE]! >>> 0 !== signature || this.#countAt(at) !== count;
        // A number may be seen before what was written in front of it, but not for long.
        let looks = LOOKS;
        while (differs() && looks > 0 && Atomics.load(i32, at + NUMBER) === number) looks -= 1;
        if (looks > 0) continue;
        const other = describeCall(i32[at + SIGNATURE]! >>> 0, this.#countAt(at));
        throw this.#mismatch(peer, describeCall(signature, count), other);
      }
    }
  }

  #mismatch(peer: number, own: string, other: string): TuttiError {
    const { rank } = this.#team;
    return this.#failure.failWith(
      new TuttiError(
        'invalidUsage',
        `the ranks do different things: rank ${rank} calls ${own}, rank ${peer} calls ${other}; ` +
          'all ranks must make the same calls in the same order',
        { rank: peer },
      ),
      { kind: 'mismatch', culprit: peer },
    );
  }
}
