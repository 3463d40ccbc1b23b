/**
 * A communicator that calls are studied on: its cost model, what it looks like to people, and where calls run.
 */
import type { ReduceOp } from '../../kernel/element-types.js';
import type { TuningTables } from '../model.js';
import type { NcclFunction } from '../names.js';
import type { Registration } from '../symmetric/kernels.js';
import { firstAbove, lastBelow } from './boundaries.js';
import { type CallStudies, type CallStudy, type Candidate, labelOf } from './candidate.js';
import { callOf, countFor, grainOf, type MessageKind } from './message.js';
import type { PlacedCall } from './placed-call.js';
import type { ChangePoint } from './reasons.js';
import { type SymmetricMemory, type SymmetricStudy, symmetricStudy } from './symmetric-study.js';

/** A study of one call, with where it runs. */
export interface PlacedStudy extends CallStudy {
  /** Elements per rank. */
  readonly count: number;
  readonly placed: PlacedCall | undefined;
  /** What symmetric windows make of it; undefined if they are not asked about. */
  readonly symmetric: SymmetricStudy | undefined;
}

/** A size from which on another candidate is chosen. */
export interface Change extends ChangePoint {
  readonly bytes: number;
  /** Labels; undefined where nothing can run the call. */
  readonly from: string | undefined;
  readonly to: string | undefined;
}

/** What changes from one call to a larger one. */
export function changeBetween(low: CallStudy, high: CallStudy): Change {
  const [was, is] = [low.chosen, high.chosen];
  const find = (study: CallStudy, one: Candidate | undefined) =>
    study.candidates.find(({ cell }) => cell === one?.cell);
  return {
    bytes: high.call.bytes,
    from: was && labelOf(was),
    to: is && labelOf(is),
    before: { old: was, new: find(low, is) },
    after: { old: find(high, was), new: is },
  };
}

/** How calls are placed on channels. */
export type Placer = (kind: MessageKind, study: CallStudy, count: number) => PlacedCall | undefined;

/** Which buffers are in symmetric windows. */
export interface Windows {
  readonly memory: SymmetricMemory;
  readonly registration: Registration;
}

/** One kind of call on one communicator, at any size. */
export class FunctionStudy {
  readonly kind: MessageKind;
  readonly tables: TuningTables;
  readonly #studies: CallStudies;
  readonly #place: Placer;
  readonly #windows: Windows | undefined;
  readonly #grain: number;
  readonly #chosen = new Map<number, number | undefined>();

  constructor(kind: MessageKind, studies: CallStudies, place: Placer, windows?: Windows) {
    this.kind = kind;
    this.tables = studies.tables;
    this.#studies = studies;
    this.#place = place;
    this.#windows = windows;
    this.#grain = grainOf(kind, this.tables.input.nRanks);
  }

  get function(): NcclFunction {
    return this.kind.function;
  }

  get op(): ReduceOp {
    return this.kind.op;
  }

  /** Elements per rank of a message of about so many bytes. */
  countFor(bytes: number): number {
    return countFor(this.kind, bytes, this.tables.input.nRanks);
  }

  /** Bytes of a message of so many elements per rank. */
  bytesOf(count: number): number {
    return count * this.#grain;
  }

  at(count: number): PlacedStudy {
    const study = this.#study(count);
    const placed = this.#place(this.kind, study, count);
    const symmetric =
      this.#windows &&
      symmetricStudy(this.#windows.memory, this.kind, count, this.#windows.registration, study);
    return { ...study, count, placed, symmetric };
  }

  /** Whether the same call gets the same answer, so that sizes in between may be asked about. */
  get isRepeatable(): boolean {
    const { tuner } = this.tables;
    return tuner === undefined || tuner.tuner.repeatable === true;
  }

  /** The next size above, up to `until`, at which the choice is another. */
  changeAbove(count: number, until: number): number | undefined {
    const own = this.#cellAt(count);
    return firstAbove(this.tables, this.#grain, count, until, (other) => this.#cellAt(other) !== own);
  }

  /** The next size below at which the choice is another. */
  changeBelow(count: number): number | undefined {
    const own = this.#cellAt(count);
    return lastBelow(this.tables, this.#grain, count, (other) => this.#cellAt(other) !== own);
  }

  /** The nearest sizes at which another candidate is faster than the chosen one. */
  overtakes(study: PlacedStudy, other: Candidate, until: number): { above?: number; below?: number } {
    const { chosen, count } = study;
    if (chosen === undefined) return {};
    const isFaster = (at: number) => {
      const { candidates } = this.#study(at);
      const rank = (cell: number) => candidates.findIndex((one) => one.cell === cell);
      const [own, its] = [rank(chosen.cell), rank(other.cell)];
      return its >= 0 && (own < 0 || its < own);
    };
    const above = firstAbove(this.tables, this.#grain, count, until, isFaster);
    const below = lastBelow(this.tables, this.#grain, count, isFaster);
    return { ...(above === undefined ? {} : { above }), ...(below === undefined ? {} : { below }) };
  }

  /** Every change of the choice from one size to another. */
  changes(from: number, until: number): Change[] {
    const changes: Change[] = [];
    for (let at = this.changeAbove(from, until); at !== undefined; at = this.changeAbove(at, until)) {
      changes.push(this.changeAt(at - 1, at));
    }
    return changes;
  }

  /** What changes from one size to a larger one. */
  changeAt(before: number, after: number): Change {
    return changeBetween(this.#study(before), this.#study(after));
  }

  #study(count: number): CallStudy {
    return this.#studies.of(callOf(this.kind, count, this.tables.input.nRanks));
  }

  #cellAt(count: number): number | undefined {
    if (this.#chosen.has(count)) return this.#chosen.get(count);
    const cell = this.#studies.chosenCell(callOf(this.kind, count, this.tables.input.nRanks));
    this.#chosen.set(count, cell);
    return cell;
  }
}
