/**
 * The candidates of a call with their predicted times, the choice among them, and those that are not available.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { TuningCall } from '../call.js';
import { type Decision, decide, evaluate } from '../decide.js';
import type { Exclusion } from '../exclusion.js';
import type { TuningTables } from '../model.js';
import { algorithmOf, CELLS, cellOf, type NcclAlgorithm, type NcclProtocol, protocolOf } from '../names.js';
import { algorithmBandwidth, busFactor } from './quantities.js';
import { TimeTermModel, type TimeTerms } from './time-terms.js';

/** An algorithm with a protocol that can run a call. */
export interface Candidate {
  readonly cell: number;
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
  /** Microseconds by which it is chosen: the model's, or what a tuner made of them. */
  readonly time: number;
  /** GB/s. */
  readonly algbw: number;
  readonly busbw: number;
  /** What the model's time consists of; undefined if only a tuner made the candidate available. */
  readonly terms: TimeTerms | undefined;
  /** The cost is the sum of the terms: no tuner and no penalty changed it. */
  readonly isModelled: boolean;
}

/** `Ring/LL128` */
export const labelOf = ({ algorithm, protocol }: Pick<Candidate, 'algorithm' | 'protocol'>): string =>
  `${algorithm}/${protocol}`;

/** `Ring/LL128` of a cell. */
export const cellLabel = (cell: number): string => `${algorithmOf(cell)}/${protocolOf(cell)}`;

/** Everything about one call. */
export interface CallStudy {
  readonly call: TuningCall;
  /** Undefined if nothing can run the call; then `problem` says why. */
  readonly decision: Decision | undefined;
  readonly chosen: Candidate | undefined;
  /** Least time first, equals in NCCL's order. */
  readonly candidates: readonly Candidate[];
  readonly excluded: readonly Exclusion[];
  readonly problem: TuttiError | undefined;
}

/** Studies calls of one communicator. */
export class CallStudies {
  readonly tables: TuningTables;
  readonly #terms: TimeTermModel;

  constructor(tables: TuningTables) {
    this.tables = tables;
    this.#terms = new TimeTermModel(tables);
  }

  /**
   * Studies a call.
   *
   * @throws TuttiError invalidArgument for a call without bytes; what a tuner throws
   */
  of(call: TuningCall): CallStudy {
    let decision: Decision | undefined;
    let problem: TuttiError | undefined;
    let evaluated: Pick<Decision, 'costs' | 'excluded'>;
    try {
      decision = decide(this.tables, call);
      evaluated = decision;
    } catch (error) {
      if (!TuttiError.is(error) || error.code === 'invalidArgument') throw error;
      // A tuner that fails fails again here; what is left is that no candidate is.
      const evaluation = evaluate(this.tables, call);
      if (evaluation.best !== undefined) throw error;
      evaluated = evaluation;
      problem = error;
    }
    const candidates = this.#candidates(call, evaluated.costs);
    const cell = decision && cellOf(decision.algorithm, decision.protocol);
    return {
      call,
      decision,
      chosen: candidates.find((one) => one.cell === cell),
      candidates,
      excluded: evaluated.excluded,
      problem,
    };
  }

  /**
   * Cell that a call is decided for; undefined if nothing can run it.
   *
   * @throws what a tuner throws
   */
  chosenCell(call: TuningCall): number | undefined {
    try {
      const { algorithm, protocol } = decide(this.tables, call);
      return cellOf(algorithm, protocol);
    } catch (error) {
      if (!TuttiError.is(error) || evaluate(this.tables, call).best !== undefined) throw error;
      return undefined;
    }
  }

  /** Terms of a candidate for a call. */
  termsOf(call: TuningCall, cell: number): TimeTerms | undefined {
    return this.#terms.of(call, cell);
  }

  #candidates(call: TuningCall, costs: Float32Array): Candidate[] {
    const factor = busFactor(call.function, this.tables.input.nRanks);
    const found: Candidate[] = [];
    for (let cell = 0; cell < CELLS; cell++) {
      const time = costs[cell]!;
      if (!(time >= 0 && Number.isFinite(time))) continue;
      const terms = this.#terms.of(call, cell);
      const algbw = algorithmBandwidth(call.bytes, time);
      found.push({
        cell,
        algorithm: algorithmOf(cell),
        protocol: protocolOf(cell),
        time,
        algbw,
        busbw: algbw * factor,
        terms,
        isModelled: terms !== undefined && Math.fround(terms.latency + terms.bytes) === time,
      });
    }
    return found.sort((a, b) => a.time - b.time || a.cell - b.cell);
  }
}
