/**
 * What a perf run reads from its surroundings: the variables it honours and reports, and the machine it is on.
 */
import { cpus, hostname } from 'node:os';
import { TuttiError } from '../../errors/tutti-error.js';
import type { RankPlace } from './report.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The average bus bandwidth in GB/s that NCCL_TESTS_MIN_BW requires; nothing when unset, empty or -1.
 *
 * @throws TuttiError `invalidArgument` for text that is not a number.
 */
export function requiredBusBandwidth(env: Environment): number | undefined {
  const text = env.NCCL_TESTS_MIN_BW?.trim() ?? '';
  if (text === '') return undefined;
  const value = Number(text);
  if (Number.isNaN(value)) {
    throw new TuttiError('invalidArgument', `NCCL_TESTS_MIN_BW: '${text}' is not a number of GB/s`);
  }
  return value === -1 ? undefined : value;
}

/** Variables that hold the secret of a communicator or name this very run. */
const SECRET: ReadonlySet<string> = new Set(['TUTTI_ID', 'TUTTI_SECRET', 'TUTTI_PERF_ARGS']);

/** The entries `KEY=value` that a report keeps: those of the library, not the user's whole environment. */
export function reportedEnvironment(env: Environment): string[] {
  return Object.entries(env)
    .filter(([key, value]) => /^(NCCL|TUTTI)_/.test(key) && !SECRET.has(key) && value !== undefined)
    .map(([key, value]) => `${key}=${value}`)
    .sort();
}

/** The device line of a rank that runs on this host. `device` is its number among the ranks of the host. */
export function hostRankPlace(rank: number, device: number, pid: number): RankPlace {
  const model = cpus()[0]?.model.trim().replaceAll(/\s+/g, ' ') || process.arch;
  return { rank, group: 0, pid, host: hostname(), device, address: 'host', model };
}
