/**
 * Why one candidate is faster than another, in sentences: made from the terms of both, so that they say what the model
 * added up.
 */
import type { Exclusion } from '../exclusion.js';
import { type CallStudy, type Candidate, labelOf } from './candidate.js';
import { moreText, numberText, percentText, timeText } from './quantities.js';
import type { TimeTerms } from './time-terms.js';

/** A candidate whose model time is what it is chosen by. */
type Modelled = Candidate & { readonly terms: TimeTerms };

const isModelled = (one: Candidate): one is Modelled => one.isModelled && one.terms !== undefined;

/** Differences below this, microseconds, are what single precision rounds off. */
const NOTHING = 1e-6;

/**
 * Why the better one is faster than the other at a size: a clause that follows `Ring/LL takes 78.8 us: `.
 */
export function comparison(better: Candidate, other: Candidate): string {
  if (!isModelled(better) || !isModelled(other)) {
    return `its cost counts as ${timeText(better.time)}, that of ${labelOf(other)} as ${timeText(other.time)}`;
  }
  const latency = other.terms.latency - better.terms.latency;
  const bytes = other.terms.bytes - better.terms.bytes;
  const name = labelOf(better);
  const latencies = `${numberText(better.terms.latency)} against ${timeText(other.terms.latency)}`;
  const speeds = `${numberText(better.terms.bandwidth)} against ${numberText(other.terms.bandwidth)} GB/s`;
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

/** What the next best candidate would cost, as a sentence; undefined without one. */
export function nextBest({ chosen, candidates }: CallStudy): string | undefined {
  if (chosen === undefined) return undefined;
  const next = candidates.find((one) => one !== chosen);
  if (next === undefined) return undefined;
  if (next.time < chosen.time) return undefined;
  const ratio = chosen.time > 0 ? next.time / chosen.time : Number.POSITIVE_INFINITY;
  const more = next.time === chosen.time || !Number.isFinite(ratio) ? '' : ` (${moreText(ratio)})`;
  return `The next best, ${labelOf(next)}, would take ${timeText(next.time)}${more}: ${comparison(chosen, next)}.`;
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
  return `${percentText(share)} of the time is ${kind === 'latency' ? 'latency' : 'the bytes'}`;
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
  const times = `${numberText(is.time)} against ${timeText(was.time)}`;
  if (jumps.length > 0) return `${jumps.join(' and ')}; it takes ${times}`;
  const more = is.terms.latency - was.terms.latency;
  const speeds = `${numberText(is.terms.bandwidth)} against ${numberText(was.terms.bandwidth)} GB/s`;
  if (more > NOTHING) {
    return `its higher bandwidth (${speeds}) has made up for ${timeText(more)} more latency (${numberText(is.terms.latency)} against ${timeText(was.terms.latency)})`;
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

/**
 * The excluded candidates that have kernels, by reason.
 *
 * @returns groups in NCCL's order of algorithms, and those that have no kernels in one text each
 */
export function exclusionGroups(excluded: readonly Exclusion[]): ExclusionGroup[] {
  const absent = new Set(
    excluded.filter(({ rule }) => rule === 'function' || rule === 'protocol').map(labelOf),
  );
  const groups = new Map<string, { reason: string; variable: string | undefined; members: Exclusion[] }>();
  for (const one of excluded) {
    if (absent.has(labelOf(one))) continue;
    const key = `${one.reason}|${one.variable ?? ''}`;
    const group = groups.get(key);
    if (group !== undefined) group.members.push(one);
    else groups.set(key, { reason: one.reason, variable: one.variable, members: [one] });
  }
  return [...groups.values()].map(({ reason, variable, members }) => ({
    reason,
    variable,
    candidates: [...new Set(members.map(labelOf))],
  }));
}

/** `NVLS/Simple: NVLS over 4 nodes goes through CollNet, which is not in use (NCCL_COLLNET_ENABLE)` */
export function exclusionTexts(excluded: readonly Exclusion[]): string[] {
  const texts = exclusionGroups(excluded).map(({ candidates, reason, variable }) => {
    const by = variable === undefined || reason.includes(variable) ? '' : ` (${variable})`;
    return `${candidates.join(', ')}: ${reason}${by}`;
  });
  const without = (rule: 'function' | 'protocol') => [
    ...new Set(excluded.filter((one) => one.rule === rule).map(({ algorithm }) => algorithm)),
  ];
  const never = without('function');
  const simple = without('protocol').filter((name) => !never.includes(name));
  if (simple.length > 0) texts.push(`${simple.join(', ')}: kernels for Simple only`);
  if (never.length > 0) texts.push(`${never.join(', ')}: no kernels for this function`);
  return texts;
}
