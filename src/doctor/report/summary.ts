/**
 * What a job is, in a line, and what could not be looked at for lack of input.
 */

import { hostsOfRun } from '../model/bench.js';
import type { Job } from '../model/job.js';
import { hosts } from '../rules/queries.js';

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
      : [`logs of ${Math.min(ranks.size, Math.max(...sizes))} of ${plural(Math.max(...sizes), 'rank')}`]),
    ...(versions.length === 0 ? [] : [`NCCL ${versions.join(', ')}`]),
    ...(rows === 0 ? [] : [plural(rows, 'measured size')]),
  ];
  const read = job.files.filter(({ kinds }) => kinds.size > 0).length;
  return `${plural(read, 'file')}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}`;
}

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
  say(hasLog, 'transports, networks and variables', 'no log with NCCL_DEBUG=INFO');
  if (hasLog) {
    const hasEdges = job.processes.some(({ connections }) => connections.size > 0);
    say(
      hasEdges,
      'the way between ranks',
      'no channel lines: the log ends before a first collective, or lacks INIT',
    );
    const hasTree = job.processes.some(({ tree }) => tree !== undefined) || job.topologies.length > 0;
    say(hasTree, 'the topology', 'no GRAPH lines in the log and no topology file');
  }
  say(
    job.benches.some(({ rows }) => rows.length > 0),
    'speed',
    'no table of nccl-tests',
  );
  say(
    job.pci.some(({ acs }) => acs !== undefined),
    'access control of PCIe switches',
    'no lspci -vvv',
  );
  return found;
}
