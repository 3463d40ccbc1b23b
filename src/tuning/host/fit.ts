/**
 * Constants of the host's cost model from measured times.
 *
 * The model is linear in starts, steps and inverse bandwidths, so the constants of a pair are those of least squares, of
 * relative errors (a microsecond matters at 1 us and not at 1 ms), with no constant below zero. Samples need not
 * determine all of them: what they leave open stays near the constants that the fit begins with, all of them scaled by
 * how much slower or faster this machine is on the whole.
 */
import { type Candidate, candidateName, type DataCollective } from './candidates.js';
import { type CandidateConstants, featuresOf, type HostCall, type HostPath, type HostTable } from './cost.js';

/** A measured time of a call with one candidate. */
export interface HostTime {
  readonly candidate: Candidate;
  readonly call: HostCall;
  /** Cores of the machine that it was measured on. */
  readonly cores: number;
  readonly microseconds: number;
}

/** Weight of the square of a constant's relative distance from where it began, for each sample's relative error. */
const PRIOR_WEIGHT = 1e-5;

/** Rounds of the descent; it is convex and has seven unknowns. */
const ROUNDS = 200;

/** Fits one after the other, each from the constants of the one before, of which it keeps this share at least. */
const REPETITIONS = 20;
const LEAST_SHARE = 0.2;

/** GB/s: no core moves more, so no bandwidth is fitted above it; starts and steps are at least a nanosecond. */
const MOST_BANDWIDTH = 400;
const LEAST_LATENCY = 0.001;

/** The table `begin` with all pairs that were measured fitted to the times. */
export function fitTable(begin: HostTable, times: readonly HostTime[], path: HostPath): HostTable {
  const groups = new Map<string, HostTime[]>();
  for (const time of times) {
    const key = `${time.call.collective} ${candidateName(time.candidate)}`;
    groups.set(key, [...(groups.get(key) ?? []), time]);
  }
  const fitted: Record<DataCollective, Readonly<Record<string, CandidateConstants>>> = { ...begin };
  for (const group of groups.values()) {
    const { candidate, call } = group[0]!;
    const name = candidateName(candidate);
    const own = fitted[call.collective];
    const constants = own[name];
    if (constants === undefined) continue;
    fitted[call.collective] = { ...own, [name]: fitCandidate(constants, group, path) };
  }
  return fitted;
}

/** Unknowns in a row: start and step alone, start and step crowded, three inverse bandwidths. */
function toUnknowns({ alone, crowded, bandwidth }: CandidateConstants): number[] {
  return [alone.start, alone.step, crowded.start, crowded.step, ...bandwidth.map((gbps) => 1 / gbps)];
}

function fromUnknowns(x: readonly number[]): CandidateConstants {
  const latency = (at: number) => round(Math.max(LEAST_LATENCY, x[at]!));
  const gbps = (at: number) => round(Math.min(MOST_BANDWIDTH, 1 / x[at]!));
  return {
    alone: { start: latency(0), step: latency(1) },
    crowded: { start: latency(2), step: latency(3) },
    bandwidth: [gbps(4), gbps(5), gbps(6)],
  };
}

const round = (value: number): number => Number(value.toPrecision(3));

function fitCandidate(
  begin: CandidateConstants,
  times: readonly HostTime[],
  path: HostPath,
): CandidateConstants {
  const rows = times.map(({ candidate, call, cores, microseconds }) => {
    const { isCrowded, start, step, bytes } = featuresOf(candidate, call, cores, path);
    const row = isCrowded ? [0, 0, start, step, ...bytes] : [start, step, 0, 0, ...bytes];
    return row.map((value) => value / microseconds);
  });
  const unscaled = toUnknowns(begin);
  const predicted = rows
    .map((row) => row.reduce((sum, value, i) => sum + value * unscaled[i]!, 0))
    .sort((a, b) => a - b);
  const scale = 1 / predicted[Math.floor(predicted.length / 2)]!;
  let x = unscaled.map((value) => scale * value);
  for (let again = 0; again < REPETITIONS; again++) {
    // Where it went is where it begins again, so that a far beginning does not hold it back.
    const prior = x;
    x = descend(rows, prior).map((value, i) => Math.max(value, LEAST_SHARE * prior[i]!));
  }
  return fromUnknowns(x);
}

/**
 * Least squares of `rows x = 1` and of x near its prior, no x below 0: each unknown in turn takes its best value.
 * Terms of the prior are relative, so that they have no units.
 */
function descend(rows: readonly (readonly number[])[], prior: readonly number[]): number[] {
  const x = [...prior];
  const rest = rows.map((row) => 1 - row.reduce((sum, value, i) => sum + value * x[i]!, 0));
  const weight = PRIOR_WEIGHT * rows.length;
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < x.length; i++) {
      const pull = weight / prior[i]! ** 2;
      let top = pull * (prior[i]! - x[i]!);
      let bottom = pull;
      rows.forEach((row, r) => {
        top += row[i]! * rest[r]!;
        bottom += row[i]! ** 2;
      });
      const next = Math.max(0, x[i]! + top / bottom);
      const change = next - x[i]!;
      if (change === 0) continue;
      x[i] = next;
      rows.forEach((row, r) => {
        rest[r]! -= row[i]! * change;
      });
    }
  }
  return x;
}
