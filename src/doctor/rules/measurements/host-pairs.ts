/** Measurements between pairs or groups of hosts that are far below the best of their kind. */
import { hostsOfRun, largestRow, type PairRow } from '../../model/bench.js';
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';

/** What is less than this share of the best asks for a reason. */
const LOW = 0.7;

/** Rows are of one kind when they measure the same, inside hosts or between them. */
const kindOf = ({ test, hosts }: PairRow): string => `${test} ${new Set(hosts).size > 1}`;

/** Runs of nccl-tests on few hosts each, one after the other, are measurements of those hosts. */
export function rowsOfRuns(job: Job): PairRow[] {
  return job.benches.flatMap((run): PairRow[] => {
    const hosts = hostsOfRun(run);
    const row = largestRow(run);
    if (hosts.length < 2 || row === undefined) return [];
    const test = [run.program ?? '', row.bytes, run.devices.length, hosts.length].join(' ');
    return [{ hosts, value: row.outOfPlace.busGBs, test, at: row.at }];
  });
}

/** Rows of a table of hosts that are far below its best. */
export function lowPairs(
  all: readonly PairRow[],
): { rows: Place[]; best: number; worst: number } | undefined {
  const kinds = new Map<string, PairRow[]>();
  for (const row of all) {
    const list = kinds.get(kindOf(row));
    if (list === undefined) kinds.set(kindOf(row), [row]);
    else list.push(row);
  }
  for (const list of kinds.values()) {
    const best = list.reduce((most, { value }) => Math.max(most, value), 0);
    const low = list.filter(({ value }) => value < LOW * best);
    if (low.length === 0) continue;
    const worst = low.reduce((least, { value }) => Math.min(least, value), best);
    return { rows: low.map(({ at }) => at), best, worst };
  }
  return undefined;
}
