/**
 * Which algorithm and protocol runs an operation on host memory: of all that may, the one that the host's cost model
 * predicts to be fastest (host/cost.ts).
 *
 * NCCL_ALGO and NCCL_PROTO (or the communicator's options) leave fewer candidates, and as with NCCL a call without any
 * fails. An algorithm that knows only Simple is used with it whatever the list of protocols says, if it is asked for by
 * name. One over emulated switches is taken only by name, and then before all others. Ranks that do not share memory
 * have rings with Simple only.
 *
 * Direct algorithms find out at once when ranks disagree about a call, and add in the order of the ranks; so another one
 * must be faster by a margin to go before them. Sums of narrow floats, which only direct algorithms round just once, are
 * left to those.
 */

import { type Collective, EAGER_BYTES, MAX_DIRECT_RANKS } from '../collectives/control-block.js';
import { ALGORITHMS, type Algorithm, isDirect, protocolsOf, supports } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { ReduceOp } from '../kernel/element-types.js';
import {
  type Candidate,
  candidateName,
  candidatesFor,
  type DataCollective,
  OVER_SWITCHES,
} from './host/candidates.js';
import type { Prediction } from './host/cost.js';
import { type HostModel, predictOnHost } from './host/host-model.js';
import { functionName, type HostChoices } from './host-choices.js';
import { timeText } from './report/quantities.js';

/** What is the same for all calls of a communicator. */
export interface HostSelectionSetting {
  readonly ranks: number;
  /** Ranks of an emulated node, where the user has said. */
  readonly ranksPerNode?: number | undefined;
  /** All ranks reach each other's memory. */
  readonly shared: boolean;
  readonly choices: HostChoices;
  readonly model: HostModel;
}

export interface HostSelectionInput extends HostSelectionSetting {
  readonly collective: Collective;
  /** Operator of a reduction. */
  readonly op: ReduceOp;
  /** Of the larger of both arrays of a rank. */
  readonly bytes: number;
  /** Why an algorithm cannot be set up in this communicator for this call, where that is known beforehand. */
  readonly setUp?: (algorithm: Algorithm) => string | undefined;
  /** Sums of the element type are wider where all contributions meet: direct algorithms round them once, others each hop. */
  readonly hasWideSum?: boolean;
}

export interface HostSelection {
  readonly algorithm: Algorithm;
  readonly protocol: RingProtocol;
  /** Why, in words, for `explain` outputs. */
  readonly reason: string;
}

/** A candidate with what it is predicted to take, or with what is in its way. */
export interface HostCandidate extends Candidate {
  readonly prediction: Prediction | undefined;
  /** Undefined for those that may run the call. */
  readonly obstacle: string | undefined;
}

/**
 * An algorithm that is not direct must be predicted to take less than this part of the direct one's time. Measured times
 * of one program differ as much from process to process.
 */
export const DIRECT_MARGIN = 0.9;

export function selectOnHost(input: HostSelectionInput): HostSelection {
  const { collective, shared } = input;
  if (collective === 'barrier') {
    return { algorithm: 'OneShot', protocol: 'Simple', reason: 'a barrier has no data' };
  }
  const candidates = candidatesOnHost(input, collective);
  const able = candidates.filter(({ obstacle }) => obstacle === undefined);
  const switched = switchedOnHost(input, collective);
  const isNamed = input.choices.namesAlgorithms(collective);
  const overSwitch = switched.find(({ obstacle }) => obstacle === undefined);
  const chosen = fastest(able, input);
  if (overSwitch !== undefined && (isNamed || chosen === undefined)) {
    const reason = `${overSwitch.algorithm} was asked for`;
    return { algorithm: overSwitch.algorithm, protocol: 'Simple', reason };
  }
  if (chosen === undefined) throw noCandidate(input, [...switched, ...candidates]);
  const { algorithm, protocol } = chosen;
  if (!shared) return { algorithm, protocol, reason: 'the ranks do not share memory' };
  // Whoever names algorithms is told why some of them were not taken.
  const hindered = isNamed ? hindrances([...switched, ...candidates]) : [];
  return { algorithm, protocol, reason: [reasonFor(chosen, able, input), ...hindered].join('; ') };
}

/** The algorithms over switches that a list leaves; one that is named goes before all others. */
function switchedOnHost(input: HostSelectionInput, collective: DataCollective): HostCandidate[] {
  const { choices, shared, setUp } = input;
  if (choices.anyAlgorithm(collective)) return [];
  return OVER_SWITCHES.filter(
    (name) => supports(name, collective) && choices.allowsAlgorithm(collective, name),
  ).map((algorithm) => ({
    ...{ algorithm, protocol: 'Simple' as const, prediction: undefined },
    obstacle: shared ? setUp?.(algorithm) : 'needs ranks that share memory',
  }));
}

/** What is in the way of algorithms that lists leave, each once. */
function hindrances(candidates: readonly HostCandidate[]): string[] {
  const texts = candidates
    .filter(({ obstacle }) => obstacle !== undefined && obstacle !== NOT_LISTED)
    .map(({ algorithm, obstacle }) => `${algorithm} ${obstacle}`);
  return [...new Set(texts)];
}

/** The choice among candidates that may run a call. */
export function fastest(
  able: readonly HostCandidate[],
  { op, hasWideSum = false }: Partial<Pick<HostSelectionInput, 'op' | 'hasWideSum'>> = {},
): HostCandidate | undefined {
  const least = (among: readonly HostCandidate[]) =>
    among.reduce<HostCandidate | undefined>(
      (best, one) => (best === undefined || one.prediction!.time < best.prediction!.time ? one : best),
      undefined,
    );
  const direct = least(able.filter(({ algorithm }) => isDirect(algorithm)));
  const other = least(able.filter(({ algorithm }) => !isDirect(algorithm)));
  if (direct === undefined || other === undefined) return direct ?? other;
  if (hasWideSum && (op === 'sum' || op === 'avg')) return direct;
  return other.prediction!.time < DIRECT_MARGIN * direct.prediction!.time ? other : direct;
}

/** Everything that has a program for the collective, in a fixed order. */
export function candidatesOnHost(input: HostSelectionInput, collective: DataCollective): HostCandidate[] {
  const { ranks, ranksPerNode, bytes, shared, model } = input;
  const path = shared ? 'window' : 'socket';
  return candidatesFor(collective).map((candidate) => {
    const obstacle = obstacleTo(candidate, input);
    const call = { collective, ranks, bytes, ranksPerNode };
    const prediction = obstacle === undefined ? predictOnHost(model, candidate, call, path) : undefined;
    return { ...candidate, prediction, obstacle };
  });
}

/** Why a candidate cannot be taken; undefined when it can. */
function obstacleTo({ algorithm, protocol }: Candidate, input: HostSelectionInput): string | undefined {
  const { collective, choices, shared, ranks, ranksPerNode, op } = input;
  if (!choices.allowsAlgorithm(collective, algorithm)) return NOT_LISTED;
  if (algorithm === 'PAT' && collective === 'reduceScatter' && op === 'avg') return 'does no averages';
  if (algorithm === 'Hierarchical' && ranksPerNode !== undefined) {
    if (ranks % Math.min(ranks, ranksPerNode) !== 0) {
      return `needs nodes of one size, and ${ranks} ranks make none of ${ranksPerNode}`;
    }
  }
  if (algorithm !== 'Ring' && !shared) return 'needs ranks that share memory';
  if (isDirect(algorithm) && ranks > MAX_DIRECT_RANKS) return `needs at most ${MAX_DIRECT_RANKS} ranks`;
  // LL flags travel in the data, which only memory can show one by one: sockets take Simple, whatever is asked for.
  if (!shared) return protocol === 'Simple' ? undefined : 'needs ranks that share memory';
  return protocolObstacle({ algorithm, protocol }, input);
}

const NOT_LISTED = 'not in the list';

function protocolObstacle({ algorithm, protocol }: Candidate, input: HostSelectionInput): string | undefined {
  const { collective, choices } = input;
  const allowed = choices.protocols(collective);
  const able = protocolsOf(algorithm);
  if (allowed.length >= 2) return undefined;
  // Whoever asks by name for an algorithm with one protocol gets it, whatever the list of protocols says.
  if (able.length === 1) {
    return choices.anyAlgorithm(collective) ? 'has no protocol to choose' : undefined;
  }
  if (allowed.includes(protocol)) return undefined;
  return able.some((one) => allowed.includes(one)) ? NOT_LISTED : `has ${able.join(' and ')} only`;
}

function reasonFor(chosen: HostCandidate, able: readonly HostCandidate[], input: HostSelectionInput): string {
  if (able.every(({ algorithm }) => algorithm === chosen.algorithm))
    return `${chosen.algorithm} was asked for`;
  const next = fastest(
    able.filter((one) => one !== chosen),
    input,
  )!;
  return (
    `${timeText(chosen.prediction!.time)} predicted, ` +
    `${timeText(next.prediction!.time)} with ${candidateName(next)}`
  );
}

function noCandidate(
  { collective, choices }: HostSelectionInput,
  candidates: readonly HostCandidate[],
): TuttiError {
  const set = [
    ...(choices.algorithm === undefined ? [] : [` NCCL_ALGO was set to ${choices.algorithm}.`]),
    ...(choices.protocol === undefined ? [] : [` NCCL_PROTO was set to ${choices.protocol}.`]),
  ].join('');
  const unable = ALGORITHMS.filter(
    (name) => !supports(name, collective) && choices.allowsAlgorithm(collective, name),
  ).map((name) => `${name} does not do ${functionName(collective)}`);
  const asked = [...hindrances(candidates), ...unable];
  const why = asked.length === 0 ? 'no name of the list has a program on host memory' : asked.join(', ');
  return new TuttiError(
    'invalidUsage',
    `No algorithm/protocol available for function ${functionName(collective)}:${set} ${why}; ` +
      'leave the variable or option out, or add Ring to it',
  );
}

/** Elements of one one-shot round: what fits into a post (that of a reduce-scatter or an all-to-all holds a block per rank). */
export function oneShotPiece(collective: Collective, elementBytes: number, ranks: number): number {
  const isWide = collective === 'reduceScatter' || collective === 'allToAll';
  const room = isWide ? Math.floor(EAGER_BYTES / ranks) : EAGER_BYTES;
  return Math.max(1, Math.floor(room / elementBytes));
}
