/**
 * The cluster that the options describe, under the variables of an environment.
 *
 * To search a large cluster for channels takes seconds, so a change of variables that the search does not look at takes
 * the cluster as it is.
 */
import type { Cluster } from '../../topology/cluster.js';
import type { LogSink } from '../../topology/log.js';
import type { Environment } from '../../topology/settings.js';
import { describedCluster, openMachines } from '../topo/described-cluster.js';
import type { MachineOptions } from '../topo/machine-options.js';
import { noGpusError, notesOf } from '../topo/machines.js';
import { variableNotes } from '../topo/variable-notes.js';
import { watched } from './read-variables.js';

export interface WatchedCluster {
  readonly cluster: Cluster;
  readonly env: Environment;
  /** Variables that were looked at; undefined if detection did, which nobody watches. */
  readonly read: ReadonlySet<string> | undefined;
}

/** Says what is odd about the variables of an environment. */
export function noteVariables(options: MachineOptions, env: Environment, note: (text: string) => void): void {
  for (const text of variableNotes(env, looksAtMachine(options), true)) note(text);
}

/**
 * Describes the cluster.
 *
 * @throws TuttiError if a machine cannot be read or described, or has no GPUs
 */
export function watchedCluster(
  options: MachineOptions,
  env: Environment,
  note: (text: string) => void,
  log: LogSink,
): WatchedCluster {
  const machines = openMachines(options, env, log);
  for (const text of new Set(machines.flatMap(notesOf))) note(text);
  const bare = machines.find(({ noGpus }) => noGpus !== undefined);
  if (bare !== undefined) throw noGpusError(bare);
  const environment = watched(env);
  const { cluster } = describedCluster(machines, options, environment.env, log);
  const isDetected = machines.some((machine) => machine.isDetected);
  return { cluster, env, read: isDetected ? undefined : environment.read };
}

/** Topology files tell everything; whatever else is given is looked at by detection. */
const looksAtMachine = ({ sources }: MachineOptions): boolean =>
  sources.length === 0 || sources.some(({ kind }) => kind !== 'file');

/** Whether a cluster is the same under another environment. */
export function isUnchanged({ env, read }: WatchedCluster, other: Environment): boolean {
  return read !== undefined && [...read].every((name) => env[name] === other[name]);
}
