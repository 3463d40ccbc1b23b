/**
 * What the interpreter reports when a program does something that a real machine would answer with a hang,
 * a wrong result or a crash: the kind of fault, the thread and source place, the seed that shows it again.
 */

import { TuttiError } from '../../errors/tutti-error.js';

/**
 * - `deadlock`: every live thread waits for something that nobody will do.
 * - `outOfBounds`: an access outside of every region.
 * - `forbidden`: a write to a read-only region, or a peer's access to a private one.
 * - `misaligned`: an address that is not a multiple of the promised or the required alignment.
 * - `unpublishedRead`: a load of bytes whose last store does not happen before it.
 * - `race`: a store to bytes that another thread stored or loaded without order between the two.
 * - `uninitialized`: a load of bytes that nobody ever stored.
 * - `limit`: the program still ran after the allowed number of steps.
 * - `trap`: an operation without a defined result (division by zero, a divergent warp operation, ...).
 */
export type FaultKind =
  | 'deadlock'
  | 'outOfBounds'
  | 'forbidden'
  | 'misaligned'
  | 'unpublishedRead'
  | 'race'
  | 'uninitialized'
  | 'limit'
  | 'trap';

export interface FaultDetails {
  kind: FaultKind;
  /** What happened, without thread, place and seed. */
  what: string;
  program: string;
  rank: number | undefined;
  block: number | undefined;
  thread: number | undefined;
  /** Source place of the statement, or its kind and number where places were not recorded. */
  place: string;
  seed: number;
  memory: 'strong' | 'weak';
  /** The last events before the fault, oldest first; empty unless the machine kept a trace. */
  trace: readonly string[];
}

export class MachineFault extends TuttiError {
  readonly kind: FaultKind;
  readonly program: string;
  readonly block: number | undefined;
  readonly thread: number | undefined;
  readonly place: string;
  readonly seed: number;
  readonly memory: 'strong' | 'weak';
  readonly trace: readonly string[];

  constructor(details: FaultDetails) {
    const { kind, what, program, rank, block, thread, place, seed, memory, trace } = details;
    const who = rank === undefined ? '' : ` in rank ${rank} block ${block} thread ${thread}`;
    const where = place === '' ? '' : ` at ${place}`;
    const recent = trace.length === 0 ? '' : `\nlast events:\n  ${trace.join('\n  ')}`;
    super(
      'internalError',
      `${kind}${who}${where} of ${program}: ${what} (seed ${seed}, ${memory} memory)${recent}`,
      rank === undefined ? {} : { rank },
    );
    this.kind = kind;
    this.program = program;
    this.block = block;
    this.thread = thread;
    this.place = place;
    this.seed = seed;
    this.memory = memory;
    this.trace = trace;
  }
}
