/**
 * Why one candidate is faster than another, in sentences: made from the terms of both, so that they say what the model
 * added up.
 */
import { hasProtocol } from '../algorithms.js';
import type { Exclusion, ExclusionRule } from '../exclusion.js';
import { NCCL_ALGORITHMS, NCCL_PROTOCOLS, type NcclAlgorithm } from '../names.js';
import { type CallStudy, type Candidate, labelOf } from './candidate.js';
import { moreText, numberText, percentText, timesText, timeText } from './quantities.js';
import type { TimeTerms } from './time-terms.js';

/** A candidate whose model time is what it is chosen by. */
type Modelled = Candidate & { readonly terms: TimeTerms };

const isModelled = (one: Candidate): one is Modelled => one.isModelled && one.terms !== undefined;

/** Two candidates whose times are those of the model, or the same multiple of them. */
function areComparable(one: Candidate, other: Candidate): one is Modelled {
  if (one.terms === undefined || other.terms === undefined) return false;
  if (one.isModelled && other.isModelled) return true;
  const factor = ({ time, terms }: Candidate) => time / (terms!.latency + terms!.bytes);
  return factor(one) > 0 && Math.abs(factor(one) / factor(other) - 1) < SAME;
}

/** Factors closer than this are one, rounded to single precision. */
const SAME = 1e-5;

/** Differences below this, microseconds, are what single precision rounds off. */
const NOTHING = 1e-6;

/** `59.16`, and where not all of the model's bandwidth counts at a size, `59.16 = 60 % of 98.6`. */
function speedText({ bandwidth, efficiency }: TimeTerms): string {
  const part =
    efficiency === 1 ? '' : ` = ${percentText(efficiency)} of ${numberText(bandwidth / efficiency)}`;
  return `${numberText(bandwidth)}${part}`;
}

/**
 * Why the better one is faster than the other at a size: a clause that follows `Ring/LL takes 78.8 us: `.
 */
export function comparison(better: Candidate, other: Candidate): string {
  if (!areComparable(better, other) || other.terms === undefined) {
    return `its cost counts as ${timeText(better.time)}, that of ${labelOf(other)} as ${timeText(other.time)}`;
  }
  const latency = other.terms.latency - better.terms.latency;
  const bytes = other.terms.bytes - better.terms.bytes;
  const name = labelOf(better);
  const latencies = timesText(better.terms.latency, other.terms.latency);
  const speeds = `${speedText(better.terms)} against ${speedText(other.terms)} GB/s`;
  if (better.time === other.time) return `both take as long; NCCL takes the one that it lists first`;
  if (latency > NOTHING && bytes > NOTHING) {
    return `${name} has less latency (${latencies}) and more bandwidth (${speeds})`;
  }
  if (latency > NOTHING && bytes < -NOTHING) {
    return (
      `${name} has ${timeText(latency)} less latency (${latencies}), which outweighs that ` +
      `its bytes take ${timeText(-bytes)} longer (${speeds})`
    );
  }
  if (latency < -NOTHING && bytes > NOTHING) {
    return (
      `the bytes of ${name} take ${timeText(bytes)} less (${speeds}), which outweighs ` +
      `${timeText(-latency)} more latency (${latencies})`
    );
  }
  return latency > NOTHING
    ? `${name} has less latency (${latencies}) and as much bandwidth`
    : `${name} has more bandwidth (${speeds}) and as much latency`;
}

/** `12 % longer`, `30 % shorter`, `the same time` */
export function timeChange(now: Candidate, then: Candidate): string {
  if (then.time === now.time) return 'the same time';
  if (now.time <= 0 || then.time <= 0) return `${timeText(then.time)} against ${timeText(now.time)}`;
  const ratio = then.time / now.time;
  return ratio > 1 ? moreText(ratio) : `${percentText(1 - ratio)} shorter`;
}

/** What the next best candidate would cost, as a sentence; undefined without one. */
export function nextBest({ chosen, candidates }: CallStudy): string | undefined {
  if (chosen === undefined) return undefined;
  const next = candidates.find((one) => one !== chosen);
  if (next === undefined) return undefined;
  if (next.time < chosen.time) return undefined;
  return `The next best, ${labelOf(next)}, would take ${timeText(next.time)} (${timeChange(chosen, next)}): ${comparison(chosen, next)}.`;
}

/** Which term is the time of a candidate. */
export function dominance({ terms, time }: Modelled): { kind: 'latency' | 'bandwidth'; share: number } {
  const latency = terms.latency / time;
  return latency >= 0.5 ? { kind: 'latency', share: latency } : { kind: 'bandwidth', share: 1 - latency };
}

/** `79 % of the time is latency` */
export function dominanceText(candidate: Candidate): string | undefined {
  if (!isModelled(candidate) || candidate.time <= 0) return undefined;
  const { kind, share } = dominance(candidate);
  return `${percentText(share)} of the time is ${kind === 'latency' ? 'latency' : 'for the bytes'}`;
}

/** A change of the choice along the size. */
export interface ChangePoint {
  /** The two candidates just below the size, and at it. */
  readonly before: { readonly old: Candidate | undefined; readonly new: Candidate | undefined };
  readonly after: { readonly old: Candidate | undefined; readonly new: Candidate | undefined };
}

/** Why the choice changes at a size: a clause after `from 64 KB Ring/LL in place of Tree/LL: `. */
export function changeReason({ before, after }: ChangePoint): string {
  const [was, is] = [after.old, after.new];
  if (is === undefined) return 'nothing can run it from here on';
  if (was === undefined)
    return `${before.old === undefined ? 'nothing' : labelOf(before.old)} can run it no longer`;
  if (!isModelled(was) || !isModelled(is)) {
    return `its cost counts as ${timeText(is.time)} now, that of ${labelOf(was)} as ${timeText(was.time)}`;
  }
  const jumps = [...jumpTexts(before.old, was), ...jumpTexts(before.new, is)];
  const times = timesText(is.time, was.time);
  if (jumps.length > 0) return `${jumps.join(' and ')}; ${labelOf(is)} takes ${times}`;
  const more = is.terms.latency - was.terms.latency;
  const speeds = `${speedText(is.terms)} against ${speedText(was.terms)} GB/s`;
  if (more > NOTHING) {
    return `its higher bandwidth (${speeds}) has made up for ${timeText(more)} more latency (${timesText(is.terms.latency, was.terms.latency)})`;
  }
  return `${comparison(is, was)} (${times})`;
}

/** Corrections that the model applies from a size on. */
function jumpTexts(before: Candidate | undefined, after: Modelled): string[] {
  if (before === undefined || !isModelled(before)) return [];
  const texts: string[] = [];
  const [was, is] = [before.terms, after.terms];
  const name = labelOf(after);
  if (Math.abs(is.efficiency - was.efficiency) > 0.005) {
    texts.push(
      `from this size on NCCL counts ${name} with ${percentText(is.efficiency)} of its bandwidth, below it with ${percentText(was.efficiency)}`,
    );
  }
  if (Math.abs(is.latencyFactor - was.latencyFactor) > 0.005) {
    texts.push(
      `from this size on NCCL multiplies the latency of ${name} by ${numberText(is.latencyFactor)}, below it by ${numberText(was.latencyFactor)}`,
    );
  }
  return texts;
}

/** Candidates that one reason excludes. */
export interface ExclusionGroup {
  readonly candidates: readonly string[];
  readonly reason: string;
  readonly variable: string | undefined;
}

/** Rules of lists name each member; here one text is enough for all that a list leaves out. */
const LIST_RULES: readonly ExclusionRule[] = ['algorithm-list', 'protocol-list'];

const reasonOf = ({ rule, reason }: Exclusion): string =>
  LIST_RULES.includes(rule) ? `${reason.split(' leaves out ')[0]} leaves out` : reason;

/** The excluded candidates that have kernels, by reason, in NCCL's order of algorithms. */
export function exclusionGroups(excluded: readonly Exclusion[]): ExclusionGroup[] {
  const has = (one: Exclusion, rule: ExclusionRule) =>
    excluded.some((other) => other.rule === rule && labelOf(other) === labelOf(one));
  const groups = new Map<string, { reason: string; variable: string | undefined; members: Exclusion[] }>();
  for (const one of excluded) {
    if (isWithoutKernels(one, excluded)) continue;
    // NVLS over nodes lacks CollNet once for the communicator and once for each call.
    if (one.rule === 'nvls-collnet' && has(one, 'collnet-off')) continue;
    const reason = reasonOf(one);
    const key = `${reason}|${one.variable ?? ''}`;
    const group = groups.get(key);
    if (group !== undefined) group.members.push(one);
    else groups.set(key, { reason, variable: one.variable, members: [one] });
  }
  return [...groups.values()].map(({ reason, variable, members }) => ({
    reason,
    variable,
    candidates: [...new Set(members.map(labelOf))],
  }));
}

/** Whether a candidate does not exist for the function, whatever else is in its way. */
function isWithoutKernels(one: Exclusion, excluded: readonly Exclusion[]): boolean {
  if (!hasProtocol(one.algorithm, one.protocol)) return true;
  return excluded.some(({ rule, algorithm }) => rule === 'function' && algorithm === one.algorithm);
}

/** Candidates as a list: an algorithm stands for all its protocols if none of them is missing. */
export function candidatesText(labels: readonly string[]): string {
  const texts: string[] = [];
  for (const algorithm of NCCL_ALGORITHMS) {
    const all = NCCL_PROTOCOLS.filter((protocol) => hasProtocol(algorithm, protocol)).map((protocol) =>
      labelOf({ algorithm, protocol }),
    );
    const own = all.filter((label) => labels.includes(label));
    if (own.length === all.length) texts.push(algorithm);
    else texts.push(...own);
  }
  return texts.join(', ');
}

/** `NVLS: NVLS over 4 nodes goes through CollNet, which is not in use (NCCL_COLLNET_ENABLE)`, one text per reason. */
export function exclusionTexts(excluded: readonly Exclusion[]): string[] {
  const texts = exclusionGroups(excluded).map(groupText);
  const never = new Set(excluded.filter(({ rule }) => rule === 'function').map(({ algorithm }) => algorithm));
  if (never.size > 0) texts.push(`${[...never].join(', ')}: no kernels for this function`);
  const simple = new Set(
    excluded
      .filter(({ algorithm, protocol }) => !hasProtocol(algorithm, protocol))
      .map(({ algorithm }) => algorithm),
  );
  // An algorithm that is out with every protocol has been named with its reason.
  const isOut = (algorithm: NcclAlgorithm) =>
    excluded.some((one) => one.algorithm === algorithm && one.protocol === 'Simple');
  const only = [...simple].filter((algorithm) => !never.has(algorithm) && !isOut(algorithm));
  if (only.length > 0) texts.push(`LL and LL128 of ${only.join(', ')}: no such kernels`);
  return texts;
}

export function groupText({ candidates, reason, variable }: ExclusionGroup): string {
  const names = candidatesText(candidates);
  if (reason.endsWith(' leaves out'))
    return `${names}: ${reason.replace(/ leaves out$/, '')} leaves ${names.includes(',') ? 'them' : 'it'} out`;
  const by = variable === undefined || reason.includes(variable) ? '' : ` (${variable})`;
  return `${names}: ${reason}${by}`;
}
