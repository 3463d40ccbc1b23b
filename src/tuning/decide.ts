/**
 * How a call runs: the candidate with the least predicted time, and its channels and threads.
 *
 * Deterministic, from facts that all ranks share, so all ranks decide alike. (NCCL 2.30.7, enqueue.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { functionsOf } from './algorithms.js';
import { MAX_F32 } from './arithmetic.js';
import { checkCall, type TuningCall } from './call.js';
import { channelBound } from './channel-bound.js';
import { candidatesOf } from './cost-table.js';
import { efficientNvls, nvlsWarps } from './efficiency.js';
import type { Exclusion } from './exclusion.js';
import type { TuningTables } from './model.js';
import {
  AlgorithmId,
  algorithmOf,
  FunctionId,
  NCCL_ALGORITHMS,
  type NcclAlgorithm,
  type NcclFunction,
  type NcclProtocol,
  ProtocolId,
  protocolOf,
} from './names.js';
import { Choice } from './selection-list.js';
import { askTuner, type CostTable } from './tuner.js';

/** What a tuner did to a decision. */
export interface TunerEffect {
  readonly name: string;
  /** Costs before it rewrote them. */
  readonly modelCosts: CostTable;
  /** Channels it asked for; 0: none. */
  readonly channels: number;
}

/** What is known of a call before one candidate is taken. */
export interface Evaluation {
  /** Microseconds by `cellOf`; IGNORE: not available. After the tuner, if there is one. */
  readonly costs: CostTable;
  /** Every candidate that is not available, once for each reason. */
  readonly excluded: readonly Exclusion[];
  readonly tuner: TunerEffect | undefined;
  /** Cell of the least cost; undefined if no candidate is left. */
  readonly best: number | undefined;
}

export interface Decision {
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
  /** Predicted microseconds of the cheapest candidate. */
  readonly time: number;
  /** Channels at most; the partition may take fewer. 0 for a single rank. */
  readonly maxChannels: number;
  /** Warps of a block; 0 for a single rank. */
  readonly warps: number;
  /** Who had the last word: the EFFICIENCY policy takes NVLS although the model has another favourite. */
  readonly chosenBy: 'model' | 'tuner' | 'efficiency';
  readonly costs: CostTable;
  readonly excluded: readonly Exclusion[];
  readonly tuner: TunerEffect | undefined;
}

/**
 * Decides a call.
 *
 * @throws TuttiError invalidArgument for a call without bytes; invalidUsage (NCCL_ALGO or NCCL_PROTO is set) or
 * internalError if no candidate is left; what a tuner throws
 */
export function decide(tables: TuningTables, call: TuningCall): Decision {
  checkCall(call);
  const { costs, excluded, tuner, best } = evaluate(tables, call);
  if (best === undefined) throw noCandidate(tables, call, excluded);
  // A single rank copies: Ring with Simple is a name for it, and no channel is opened.
  const bound = tables.input.nRanks <= 1 ? { channels: 0, warps: 0 } : channelBound(tables, best, call.bytes);
  const common = { time: costs[best]!, costs, excluded, tuner };
  if (tuner === undefined) {
    const channels = efficientNvls(tables, call, bound.channels);
    if (channels !== undefined) {
      return {
        algorithm: 'NVLS',
        protocol: 'Simple',
        maxChannels: channels,
        warps: nvlsWarps(tables),
        chosenBy: 'efficiency',
        ...common,
      };
    }
  }
  return {
    algorithm: algorithmOf(best),
    protocol: protocolOf(best),
    maxChannels: tuner === undefined || tuner.channels === 0 ? bound.channels : tuner.channels,
    warps: bound.warps,
    chosenBy: tuner === undefined || !changed(tuner, costs) ? 'model' : 'tuner',
    ...common,
  };
}

/**
 * Costs of all candidates of a call.
 *
 * @throws what a tuner throws
 */
export function evaluate(tables: TuningTables, call: TuningCall): Evaluation {
  const { costs, excluded } = candidatesOf(tables, call);
  // One rank never reaches a tuner.
  if (tables.tuner === undefined || tables.input.nRanks <= 1) {
    return { costs, excluded, tuner: undefined, best: leastCost(costs) };
  }
  const modelCosts = costs.slice();
  const channels = askTuner(
    tables.tuner,
    {
      function: call.function,
      bytes: call.bytes,
      pipelined: call.pipelined ?? 1,
      registered: call.registered ?? false,
    },
    costs,
  );
  return {
    costs,
    excluded: afterTuner(tables.tuner.name, modelCosts, costs, excluded),
    tuner: { name: tables.tuner.name, modelCosts, channels },
    best: leastCost(costs),
  };
}

/** Cell of the least cost that is not negative; the first of equals; undefined if there is none. */
function leastCost(costs: CostTable): number | undefined {
  let best: number | undefined;
  let least = MAX_F32;
  for (let cell = 0; cell < costs.length; cell++) {
    const cost = costs[cell]!;
    if (cost >= 0 && cost < least) [best, least] = [cell, cost];
  }
  return best;
}

/** A tuner may withdraw candidates, and may allow what the model excludes. */
function afterTuner(
  name: string,
  before: CostTable,
  after: CostTable,
  excluded: readonly Exclusion[],
): readonly Exclusion[] {
  const withdrawn: Exclusion[] = [];
  const allowed = new Set<string>();
  for (let cell = 0; cell < after.length; cell++) {
    const [algorithm, protocol] = [algorithmOf(cell), protocolOf(cell)];
    if (after[cell]! >= 0) {
      if (before[cell]! < 0) allowed.add(`${algorithm}/${protocol}`);
    } else if (before[cell]! >= 0) {
      withdrawn.push({ algorithm, protocol, rule: 'tuner', reason: `tuner ${name} withdrew it` });
    }
  }
  const still = excluded.filter(({ algorithm, protocol }) => !allowed.has(`${algorithm}/${protocol}`));
  return [...still, ...withdrawn];
}

const changed = ({ modelCosts, channels }: TunerEffect, costs: CostTable): boolean =>
  channels !== 0 || costs.some((cost, cell) => !Object.is(cost, modelCosts[cell]));

function noCandidate(tables: TuningTables, call: TuningCall, excluded: readonly Exclusion[]): TuttiError {
  const { function: fn, type } = call;
  const { algo, proto } = tables.input.settings;
  // Whoever asked about floats should not wonder where the bytes come from.
  const moved = MOVED_AS_BYTES.includes(fn) ? ' (as bytes)' : '';
  let text = `No algorithm/protocol available for function ${fn} with datatype ${type}${moved}.`;
  if (algo !== undefined) text += ` NCCL_ALGO was set to ${algo}.`;
  if (proto !== undefined) text += ` NCCL_PROTO was set to ${proto}.`;
  const near = nearest(tables, fn, excluded);
  const unable = NCCL_ALGORITHMS.filter(
    (name) => listsAllow(tables, fn, name) && !functionsOf(name).includes(fn),
  );
  if (near !== undefined && (unable.length === 0 || listsAllow(tables, fn, near.algorithm))) {
    text += ` Nearest: ${near.algorithm} with ${near.protocol}, but ${near.reason}.`;
  } else if (unable.length > 0) {
    text += ` ${unable.join(', ')} ${unable.length === 1 ? 'does' : 'do'} not do ${fn}.`;
  }
  return new TuttiError(algo === undefined && proto === undefined ? 'internalError' : 'invalidUsage', text);
}

/** Functions that only move data: NCCL decides them as bytes. */
const MOVED_AS_BYTES: readonly NcclFunction[] = ['AllGather', 'Broadcast'];

/** Whether NCCL_ALGO and NCCL_PROTO leave a candidate; without a protocol: an algorithm. */
function listsAllow(
  { lists }: TuningTables,
  fn: NcclFunction,
  algorithm: NcclAlgorithm,
  protocol?: NcclProtocol,
): boolean {
  const number = FunctionId[fn];
  return (
    lists.algorithms[number]![AlgorithmId[algorithm]] !== Choice.OFF &&
    (protocol === undefined || lists.protocols[number]![ProtocolId[protocol]] !== Choice.OFF)
  );
}

/**
 * The excluded candidate that could most easily be made available: one that a tuner withdrew, then one that the user's
 * lists leave, then the one that fewest rules are against.
 */
function nearest(
  tables: TuningTables,
  fn: NcclFunction,
  excluded: readonly Exclusion[],
): Exclusion | undefined {
  const key = ({ algorithm, protocol }: Exclusion) => `${algorithm}/${protocol}`;
  const counts = new Map<string, number>();
  for (const one of excluded) counts.set(key(one), (counts.get(key(one)) ?? 0) + 1);
  const far = (one: Exclusion) => {
    if (one.rule === 'tuner') return 0;
    const left =
      Number(!listsAllow(tables, fn, one.algorithm)) +
      Number(!listsAllow(tables, fn, one.algorithm, one.protocol));
    return left * excluded.length + counts.get(key(one))!;
  };
  const possible = excluded.filter(({ rule }) => rule !== 'function' && rule !== 'protocol');
  return possible.sort((a, b) => far(a) - far(b))[0];
}
