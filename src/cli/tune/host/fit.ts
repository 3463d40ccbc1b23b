/**
 * `tutti tune --fit`: measures the algorithms of host memory on this machine, fits the constants of the cost model to
 * the times, and writes them where communicators look for them.
 */
import { cpus, loadavg } from 'node:os';
import { constantsPath } from '../../../communicator/host-constants-file.js';
import { TuttiError } from '../../../errors/tutti-error.js';
import { coreCount } from '../../../system/core-count.js';
import {
  CANDIDATES,
  type Candidate,
  candidateName,
  DATA_COLLECTIVES,
} from '../../../tuning/host/candidates.js';
import { constantsText, type HostConstants, STANDARD_CONSTANTS } from '../../../tuning/host/constants.js';
import type { HostPath } from '../../../tuning/host/cost.js';
import { fitTable, type HostTime } from '../../../tuning/host/fit.js';
import { type FitQuality, fitQuality } from '../../../tuning/host/fit-quality.js';
import { prepareOutput, writeOutput } from '../../topo/files.js';
import { measureHost } from './measure.js';
import type { FitOptions } from './options.js';
import type { HostPlan, HostSample } from './rank.js';

/** Ranks that are started at most: each takes a process and its memory. */
const MOST_RANKS = 16;

/** Bytes that few ranks are measured at, and those of many, which take long. */
const SIZES = [64, 512, 2048, 8192, 32768, 131072, 524288, 2 ** 21, 2 ** 23];
const CROWDED_SIZES = [64, 2048, 16384, 65536, 524288, 2 ** 22];
const SOCKET_SIZES = [64, 16384, 2 ** 20, 2 ** 22];

/** Load per core from which on times say more of others than of us. */
const BUSY = 0.5;

const ROUNDS = 5;
const SAMPLE_MS = 1;
const HOPELESS = 3;

/** Ranks to measure with: two, one on each core, and more than cores where these are few. */
export function ranksToMeasure(cores: number): number[] {
  const alone = cores >= 2 ? [2, Math.min(cores, MOST_RANKS)] : [];
  const crowded = [2 * cores, 4 * cores].filter((ranks) => ranks <= MOST_RANKS);
  return [...new Set([...alone, ...crowded])];
}

/** What is written, for messages. */
const CONSTANTS = 'constants of the host';

/** Runs the measurements; `say` gets lines for the user. Resolves with the exit code. */
export async function fitCommand(
  options: FitOptions,
  env: Readonly<Record<string, string | undefined>>,
  say: (line: string) => void,
  progress: (text: string) => void,
): Promise<number> {
  const path = options.out ?? constantsPath(env).path;
  if (path === undefined) {
    throw new TuttiError(
      'invalidArgument',
      '--fit: TUTTI_TUNING_FILE=none says that there is no file; give --out',
    );
  }
  // Found out now and not after a minute of measuring.
  prepareOutput(path, CONSTANTS);
  const cores = coreCount();
  const ranks = options.ranks ?? ranksToMeasure(cores);
  const [load] = loadavg();
  if (load! > cores * BUSY) {
    say(
      `Other programs keep this machine busy (load ${load!.toFixed(1)}): times will be too long; run it again when it is quiet.`,
    );
  }
  const since = performance.now();
  const times: Record<HostPath, HostTime[]> = { window: [], socket: [] };
  for (const count of ranks) {
    const sizes = count > cores ? CROWDED_SIZES : SIZES;
    times.window.push(...(await measured(count, planOf(sizes), progress)));
  }
  times.socket.push(...(await measured(2, { ...planOf(SOCKET_SIZES), sockets: true }, progress)));
  const fitted: HostConstants = {
    window: fitTable(STANDARD_CONSTANTS.window, times.window, 'window'),
    socket: fitTable(STANDARD_CONSTANTS.socket, times.socket, 'socket'),
  };
  const seconds = Math.round((performance.now() - since) / 1000);
  const facts = {
    written: new Date().toISOString().slice(0, 19),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores,
    ranks: ranks.join(', '),
  };
  writeOutput(path, constantsText(fitted, facts), CONSTANTS, 'utf8');
  say(
    `Measured ${ranks.join(', ')} ranks on ${cores} ${cores === 1 ? 'core' : 'cores'} in ${seconds} s; constants are in ${path}.`,
  );
  const before = fitQuality(STANDARD_CONSTANTS.window, times.window, 'window');
  const after = fitQuality(fitted.window, times.window, 'window');
  say(
    `Predictions are off by ${percent(after.medianError)} in the middle (${percent(before.medianError)} with the standard constants).`,
  );
  say(`${choicesText(after)} (${choicesText(before)} with the standard constants).`);
  if (options.out !== undefined) say(`Communicators use it with TUTTI_TUNING_FILE=${path}.`);
  return 0;
}

const percent = (part: number): string => `${Math.round(100 * part)} %`;

const choicesText = ({ calls, good, worst }: FitQuality): string =>
  `${good} of ${calls} choices are within 10 % of the fastest measured, the worst takes ${worst.toFixed(2)} times as long`;

const planOf = (sizes: readonly number[]): HostPlan => ({
  collectives: DATA_COLLECTIVES,
  sizes,
  rounds: ROUNDS,
  sampleMs: SAMPLE_MS,
  hopeless: HOPELESS,
});

async function measured(
  ranks: number,
  plan: HostPlan,
  progress: (text: string) => void,
): Promise<HostTime[]> {
  const how = plan.sockets === true ? ' over sockets' : '';
  const samples = await measureHost(ranks, plan, ({ collective, bytes }) =>
    progress(`${ranks} ranks${how}: ${collective}, ${bytes} bytes`),
  );
  return samples.map((sample) => timeOf(sample, coreCount()));
}

const BY_NAME: ReadonlyMap<string, Candidate> = new Map(CANDIDATES.map((one) => [candidateName(one), one]));

/** Disturbances only add to a time, so the lower quartile says more than the median of a few rounds. */
export function timeOf(
  { ranks, collective, bytes, candidate, samples }: HostSample,
  cores: number,
): HostTime {
  const sorted = [...samples].sort((a, b) => a - b);
  return {
    candidate: BY_NAME.get(candidate)!,
    call: { collective, ranks, bytes },
    cores,
    microseconds: sorted[Math.floor((sorted.length - 1) / 4)]!,
  };
}
