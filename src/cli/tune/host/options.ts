/**
 * The command lines of `tutti tune --host` and `tutti tune --fit`.
 */

import { DATA_COLLECTIVES, type DataCollective } from '../../../tuning/host/candidates.js';
import { nearestName } from '../../../tuning/nearest-name.js';
import { wrong } from '../../topo/machine-options.js';
import type { SweepOptions } from '../sweep-sizes.js';

export interface HostOptions {
  readonly kind: 'host';
  readonly collectives: readonly DataCollective[];
  readonly ranks: readonly number[];
  /** One size in bytes; undefined: a sweep. */
  readonly size: number | undefined;
  readonly sweep: SweepOptions;
  /** Undefined: as many as this process may use. */
  readonly cores: number | undefined;
  /** Ranks do not share memory. */
  readonly sockets: boolean;
  readonly json: boolean;
}

export interface FitOptions {
  readonly kind: 'fit';
  /** Numbers of ranks to measure; undefined: what the cores suggest. */
  readonly ranks: readonly number[] | undefined;
  /** Where the constants go; undefined: where communicators look for them. */
  readonly out: string | undefined;
}

export interface HostValues {
  readonly coll?: string | undefined;
  readonly ranks?: string | undefined;
  readonly cores?: string | undefined;
  readonly sockets?: boolean | undefined;
  readonly json?: boolean | undefined;
  readonly out?: string | undefined;
}

/** Names of nccl-tests, in the order of DATA_COLLECTIVES. */
const TEST_NAMES = ['all_reduce', 'reduce', 'broadcast', 'all_gather', 'reduce_scatter', 'alltoall'] as const;

export const testNameOf = (collective: DataCollective): string =>
  TEST_NAMES[DATA_COLLECTIVES.indexOf(collective)]!;

const EACH = 'each';
const MOST_RANKS = 512;
const MOST_CORES = 4096;

export function hostOptions(values: HostValues, size: number | undefined, sweep: SweepOptions): HostOptions {
  return {
    kind: 'host',
    collectives: collectivesNamed(values.coll ?? 'all_reduce'),
    ranks: ranksOf(values.ranks ?? '2,4'),
    size,
    sweep,
    cores: values.cores === undefined ? undefined : whole('--cores', values.cores, 1, MOST_CORES),
    sockets: values.sockets ?? false,
    json: values.json ?? false,
  };
}

export function fitOptions({ ranks, out }: HostValues): FitOptions {
  return { kind: 'fit', ranks: ranks === undefined ? undefined : ranksOf(ranks), out };
}

function collectivesNamed(name: string): readonly DataCollective[] {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[_-]|_perf$/g, '');
  if (plain(name) === EACH) return DATA_COLLECTIVES;
  const found = DATA_COLLECTIVES.find((one) => plain(one) === plain(name));
  if (found !== undefined) return [found];
  const names = [...TEST_NAMES, EACH];
  const near = nearestName(name, names);
  throw wrong(
    `--coll ${name} is unknown${near === undefined ? '' : ` (did you mean ${near}?)`}; use ${names.join(', ')}`,
  );
}

const ranksOf = (text: string): number[] =>
  text.split(',').map((one) => whole('--ranks', one, 2, MOST_RANKS));

function whole(option: string, text: string, least: number, most: number): number {
  const value = /^\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw wrong(`${option} ${text}: give a whole number from ${least} to ${most}`);
}
