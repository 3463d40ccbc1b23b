/**
 * Control messages between ranks that are objects of one thread: plain JavaScript, whatever device they use.
 */

import { TuttiError } from '../errors/tutti-error.js';
import type { Trouble } from './team.js';

/** Label of the last meeting of a communicator: ranks that have left are not waited for in it. */
export const FAREWELL = 'finalize or close';

/** Longest time of a timer in Node, ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One meeting of all ranks: contributions so far, and who waits for the rest. */
class Meeting {
  readonly done: Promise<Uint8Array[]>;
  readonly #label: string;
  readonly #parts: (Uint8Array | undefined)[];
  readonly #timer: NodeJS.Timeout | undefined;
  #resolve!: (parts: Uint8Array[]) => void;
  #reject!: (error: TuttiError) => void;

  /** `onTimeout` is called when not all ranks have come within `timeoutMs` (0: no limit). */
  constructor(label: string, size: number, timeoutMs: number, onTimeout: () => void) {
    this.#label = label;
    this.#parts = new Array(size).fill(undefined);
    this.done = new Promise<Uint8Array[]>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A meeting that fails while nobody waits must not end the process.
    this.done.catch(() => {});
    if (timeoutMs === 0) return;
    // The timer also keeps the process alive: whoever waits gets an answer.
    this.#timer = setTimeout(
      () => {
        onTimeout();
        this.fail(this.#timeout(timeoutMs));
      },
      Math.min(timeoutMs, LONGEST_TIMER_MS),
    );
  }

  /** True when all ranks have come. */
  join(rank: number, bytes: Uint8Array): boolean {
    this.#parts[rank] = bytes;
    if (this.#parts.includes(undefined)) return false;
    clearTimeout(this.#timer);
    this.#resolve(this.#parts as Uint8Array[]);
    return true;
  }

  fail(error: TuttiError): void {
    clearTimeout(this.#timer);
    this.#reject(error);
  }

  #timeout(timeoutMs: number): TuttiError {
    const missing = [...this.#parts.keys()].filter((rank) => this.#parts[rank] === undefined);
    const who = missing.length === 1 ? `rank ${missing[0]}` : `ranks ${missing.join(', ')}`;
    return new TuttiError(
      'timeout',
      `${this.#label}: not done after ${timeoutMs} ms; ${who} did not call it`,
      {
        rank: missing[0]!,
      },
    );
  }
}

/** How one rank talks to the others. See Team for the meaning of each. */
export interface Control {
  allGather(bytes: Uint8Array, label: string): Promise<Uint8Array[]>;
  barrier(label: string): Promise<void>;
  onTrouble(listener: (trouble: Trouble, detail?: string) => void): void;
  /** `detail` says more in words; ranks of other processes may have heard of the trouble without it. */
  tell(trouble: Trouble, detail?: string): void;
}

/** Control of ranks that know of each other's leaving without asking. */
export interface LocalControl extends Control {
  /** A rank that has left while this one has not. */
  departed(): number | undefined;
  /** Leaves; true for the last rank to do so. */
  leave(): boolean;
}

/** The control of each of `size` ranks of this thread. Meetings fail after `timeoutMs` (0: never). */
export function createLocalControls(size: number, timeoutMs: number): LocalControl[] {
  const meetings = new Map<string, Meeting>();
  const listeners: ((trouble: Trouble, detail?: string) => void)[][] = Array.from({ length: size }, () => []);
  let failure: TuttiError | undefined;
  const closed = new Set<number>();

  return Array.from({ length: size }, (_, rank) => {
    const sequences = new Map<string, number>();
    const allGather = async (bytes: Uint8Array, label: string): Promise<Uint8Array[]> => {
      if (failure !== undefined) throw failure;
      const sequence = sequences.get(label) ?? 0;
      sequences.set(label, sequence + 1);
      const key = `${label} ${sequence}`;
      let meeting = meetings.get(key);
      if (meeting === undefined) {
        meeting = new Meeting(label, size, timeoutMs, () => meetings.delete(key));
        meetings.set(key, meeting);
        if (label === FAREWELL) for (const gone of closed) meeting.join(gone, new Uint8Array(0));
      }
      if (meeting.join(rank, bytes)) meetings.delete(key);
      return meeting.done;
    };
    return {
      allGather,
      barrier: async (label) => {
        await allGather(new Uint8Array(0), label);
      },
      departed: () => (closed.has(rank) ? undefined : closed.values().next().value),
      onTrouble: (listener) => {
        listeners[rank]!.push(listener);
      },
      tell: (trouble, detail) => {
        failure ??= new TuttiError(
          'remoteError',
          `rank ${trouble.culprit} has left the communicator (${trouble.kind})`,
          { rank: trouble.culprit },
        );
        for (const meeting of meetings.values()) meeting.fail(failure);
        meetings.clear();
        listeners.forEach((list, other) => {
          if (other !== rank) for (const listener of list) listener(trouble, detail);
        });
      },
      leave: () => {
        closed.add(rank);
        for (const [key, meeting] of meetings) {
          if (key.startsWith(FAREWELL) && meeting.join(rank, new Uint8Array(0))) meetings.delete(key);
        }
        return closed.size === size;
      },
    };
  });
}
