/** How well constants describe measured times, and how good the choices are that follow from them. */

import { fastest } from '../host-selection.js';
import { candidateName } from './candidates.js';
import { featuresOf, type HostPath, type HostTable, predict } from './cost.js';
import type { HostTime } from './fit.js';

export interface FitQuality {
  /** Median of what predictions are off by, relative to the measured time. */
  readonly medianError: number;
  /** Calls of which several candidates were measured. */
  readonly calls: number;
  /** Those whose chosen candidate takes at most a tenth longer than the fastest one. */
  readonly good: number;
  /** The chosen candidate's time by the fastest one's, where it is most. */
  readonly worst: number;
}

export function fitQuality(table: HostTable, times: readonly HostTime[], path: HostPath): FitQuality {
  const judged = judge(table, times, path);
  const errors = judged
    .flatMap(({ rows }) => rows.map(({ predicted, microseconds }) => Math.abs(predicted / microseconds - 1)))
    .sort((a, b) => a - b);
  return {
    medianError: errors[Math.floor(errors.length / 2)] ?? 0,
    calls: judged.length,
    good: judged.filter(({ ratio }) => ratio <= 1.1).length,
    worst: Math.max(1, ...judged.map(({ ratio }) => ratio)),
  };
}

export interface JudgedRow extends HostTime {
  readonly predicted: number;
}

/** A call with the fastest and the chosen candidate. */
export interface JudgedCall {
  readonly rows: readonly JudgedRow[];
  readonly fastest: JudgedRow;
  readonly chosen: JudgedRow;
  /** The chosen one's time by the fastest one's. */
  readonly ratio: number;
}

/** The measured calls, in order, each with what would be chosen for it. */
export function judge(table: HostTable, times: readonly HostTime[], path: HostPath): JudgedCall[] {
  const calls = new Map<string, JudgedRow[]>();
  for (const time of times) {
    const { collective, ranks, bytes } = time.call;
    const features = featuresOf(time.candidate, time.call, time.cores, path);
    const predicted = predict(features, table[collective][candidateName(time.candidate)]!).time;
    const key = [collective, ranks, bytes].join();
    calls.set(key, [...(calls.get(key) ?? []), { ...time, predicted }]);
  }
  return [...calls.values()].map((rows) => {
    const best = rows.reduce((least, row) => (row.microseconds < least.microseconds ? row : least));
    const choice = fastest(
      rows.map(({ candidate, predicted }) => ({
        ...candidate,
        prediction: { time: predicted, latency: 0, bytesTime: 0 },
        obstacle: undefined,
      })),
    )!;
    const chosen = rows.find(
      ({ candidate }) => candidate.algorithm === choice.algorithm && candidate.protocol === choice.protocol,
    )!;
    return { rows, fastest: best, chosen, ratio: chosen.microseconds / best.microseconds };
  });
}
