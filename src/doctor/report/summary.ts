/**
 * What a job is, in a line, and what could not be looked at for lack of input.
 */

import { hostsOfRun } from '../model/bench.js';
import { largest } from '../model/extremes.js';
import { communicatorGroups } from '../model/groups.js';
import type { Job } from '../model/job.js';
import type { NcclProcess } from '../model/process.js';
import { hosts } from '../rules/queries.js';
import { runsOf } from '../runs.js';

const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`;

/** `4 files: 2 hosts, 16 ranks, NCCL 2.28.9`. */
export function jobSummary(job: Job): string {
  const names = new Set([...hosts(job), ...job.benches.flatMap(hostsOfRun)]);
  const ranks = new Set(
    job.processes.flatMap(({ members }) =>
      members.flatMap(({ rank, commId }) => (rank === undefined ? [] : [`${commId}:${rank}`])),
    ),
  );
  const sizes = job.processes.flatMap(({ members }) => members.flatMap(({ size }) => size ?? []));
  const versions = [
    ...new Set(
      [...job.processes.flatMap(({ version }) => version ?? []), ...job.bareVersions].map(({ value }) =>
        value.replace(/\+.*$/, ''),
      ),
    ),
  ];
  const rows = job.benches.reduce((count, run) => count + run.rows.length, 0);
  const parts = [
    ...(names.size === 0 ? [] : [plural(names.size, 'host')]),
    ...(sizes.length === 0
      ? []
      : [`logs of ${Math.min(ranks.size, largest(sizes))} of ${plural(largest(sizes), 'rank')}`]),
    ...(versions.length === 0 ? [] : [`NCCL ${versions.join(', ')}`]),
    ...(rows === 0 ? [] : [plural(rows, 'measured size')]),
  ];
  const read = job.files.filter(
    ({ kinds, refusedTopology }) => kinds.size > 0 || refusedTopology !== undefined,
  ).length;
  const all = job.files.length;
  const files = read === all ? plural(read, 'file') : `${read} of ${plural(all, 'file')}`;
  const runs = runsOf(job).length;
  return `${runs > 1 ? `${runs} runs, ` : ''}${files}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}`;
}

/** Something in the input tells how a job went. */
export const saysSomething = (job: Job): boolean =>
  [
    job.processes,
    job.bareVersions,
    job.benches,
    job.ras,
    job.dumps,
    job.events,
    job.pairRows,
    job.wireTests,
    job.kernelEvents.filter(({ kind }) => kind !== 'adapterLink'),
  ].some((list) => list.length > 0);

export interface NotChecked {
  readonly what: string;
  readonly why: string;
}

/** Subjects that need an input that is not there. */
export function notChecked(job: Job): NotChecked[] {
  const found: NotChecked[] = [];
  const say = (isThere: boolean, what: string, why: string): void => {
    if (!isThere) found.push({ what, why });
  };
  const hasLog = job.processes.some(({ isQuoted }) => !isQuoted);
  say(
    job.processes.some(hasInfo),
    'transports, networks and variables',
    hasLog ? 'the log has warnings only: NCCL_DEBUG=INFO was not on' : 'no log with NCCL_DEBUG=INFO',
  );
  say(
    hasLog ? ranksWithoutLog(job) === 0 : true,
    `the logs of ${plural(ranksWithoutLog(job), 'rank')}`,
    'not given',
  );
  const runs = runsOf(job).length > 1 ? 1 : separateRuns(job);
  say(
    runs < 2,
    'each run by itself',
    `the files hold ${runs} groups of processes that share no communicator; if they are runs, give them one by one`,
  );
  if (job.processes.some(hasInfo)) {
    const hasEdges = job.processes.some(({ connections }) => connections.size > 0);
    say(
      hasEdges,
      'the way between ranks',
      'no channel lines: the log ends before a first collective, or lacks INIT',
    );
    const hasTree = job.processes.some(({ tree }) => tree !== undefined) || job.topologies.length > 0;
    say(hasTree, 'the topology', 'no GRAPH lines in the log and no topology file');
  }
  const rows = job.benches.flatMap((run) => run.rows);
  say(rows.length + job.pairRows.length + job.wireTests.length > 0, 'speed', 'no table of nccl-tests');
  const unchecked = rows.filter(
    ({ outOfPlace, inPlace }) => (outOfPlace.wrong ?? inPlace?.wrong) === undefined,
  ).length;
  say(
    unchecked === 0,
    unchecked === rows.length ? 'correctness of results' : `correctness of ${plural(unchecked, 'size')}`,
    'the table has no number of wrong elements (N/A): nccl-tests ran with -c 0',
  );
  say(
    job.pci.length === 0 || job.pci.some(({ acs }) => acs !== undefined),
    'access control of PCIe switches',
    'lspci without -vvv as root',
  );
  return found;
}

/** More than warnings stands in the log of a process. */
const hasInfo = ({
  isQuoted,
  troubles,
  members,
  version,
  environment,
  bootstrap,
  network,
}: NcclProcess): boolean =>
  !isQuoted &&
  (troubles.some(({ isWarning }) => !isWarning) ||
    members.length > 0 ||
    environment.size > 0 ||
    (version ?? bootstrap ?? network) !== undefined);

/** Ranks of the largest communicator that no log shows. */
function ranksWithoutLog(job: Job): number {
  const members = job.processes.flatMap((process) => process.members);
  const size = largest(
    members.map((member) => member.size ?? 0),
    0,
  );
  const ids = new Set(members.flatMap(({ size: own, commId }) => (own === size ? [commId] : [])));
  const ranks = new Set(members.flatMap(({ rank, commId }) => (ids.has(commId) ? [rank] : [])));
  return Math.max(0, size - ranks.size);
}

/** Groups of processes that share no communicator, where they are not all single ranks: runs one after the other. */
const separateRuns = (job: Job): number =>
  communicatorGroups(job.processes).filter((group) =>
    group.some(({ members }) => members.some(({ completed, size }) => completed !== undefined && size !== 1)),
  ).length;
