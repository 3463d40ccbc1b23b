/**
 * Statistics of measured times.
 *
 * Source: nccl-tests 2.19.6, per-iteration report (`-I 1`) and averaging over ranks (`-a`).
 */
import { TuttiError } from '../../errors/tutti-error.js';

/** Distribution of the times of single iterations; all times in microseconds. */
export interface IterationStatistics {
  /** Leading samples that were left out. */
  readonly skipped: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  /** Population standard deviation. */
  readonly deviation: number;
  /** Coefficient of variation: 100 * deviation / mean, 0 when the mean is 0. */
  readonly variationPercent: number;
  /** Every sample, also the skipped ones, in order of time. */
  readonly samples: readonly number[];
}

/**
 * Summarises the samples after the first `skip`.
 *
 * Percentiles are elements of the sorted samples (index floor(n/2) for the median, nearest rank for the
 * others), never interpolated, so each of them is a time that was really measured.
 */
export function iterationStatistics(samples: readonly number[], skip = 0): IterationStatistics {
  const sorted = Float64Array.from(samples.slice(skip)).sort();
  const n = sorted.length;
  if (n === 0) {
    throw new TuttiError(
      'invalidArgument',
      `no samples are left: ${samples.length} measured, ${skip} skipped; skip fewer iterations than are timed`,
    );
  }
  const at = (index: number): number => sorted[index]!;
  const percentile = (p: number): number => at(Math.min(n - 1, Math.floor((n * p + 99) / 100) - 1));
  let sum = 0;
  for (const time of sorted) sum += time;
  const mean = sum / n;
  let squares = 0;
  for (const time of sorted) squares += (time - mean) ** 2;
  const deviation = Math.sqrt(squares / n);
  return {
    skipped: skip,
    min: at(0),
    max: at(n - 1),
    mean,
    p50: at(Math.floor(n / 2)),
    p95: percentile(95),
    p99: percentile(99),
    deviation,
    variationPercent: mean === 0 ? 0 : (100 * deviation) / mean,
    samples: [...samples],
  };
}

/** How times of the ranks become one number: that of rank 0, or mean, minimum, maximum (`-a 0..3`). */
export type Averaging = 'rank0' | 'mean' | 'min' | 'max';

/** Combines one time per rank, rank 0 first. */
export function combineTimes(times: readonly number[], averaging: Averaging): number {
  const first = times[0];
  if (first === undefined) throw new TuttiError('invalidArgument', 'there is no time of any rank to combine');
  switch (averaging) {
    case 'rank0':
      return first;
    case 'mean':
      return times.reduce((sum, time) => sum + time, 0) / times.length;
    case 'min':
      return times.reduce((least, time) => Math.min(least, time));
    case 'max':
      return times.reduce((most, time) => Math.max(most, time));
  }
}

/** Per-iteration maximum over the ranks: an iteration takes as long as its slowest rank. */
export function slowestPerIteration(samplesOfRanks: readonly (readonly number[])[]): number[] {
  const length = samplesOfRanks.reduce((most, samples) => Math.max(most, samples.length), 0);
  return Array.from({ length }, (_, i) =>
    samplesOfRanks.reduce((most, samples) => Math.max(most, samples[i] ?? 0), 0),
  );
}
