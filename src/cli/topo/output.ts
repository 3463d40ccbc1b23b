/**
 * What `tutti topo` does once its options are read: opens the machines, describes the cluster, makes the asked text
 * and the asked files.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Cluster } from '../../topology/cluster.js';
import type { LogSink } from '../../topology/log.js';
import { explainCluster } from '../../topology/report/explain.js';
import { clusterJson, jsonText, machineOnlyJson } from '../../topology/report/json.js';
import { logLines } from '../../topology/report/log-lines.js';
import { machineOnly, machineOnlyReport } from '../../topology/report/machine-only.js';
import { rankView } from '../../topology/report/rank-view.js';
import type { Style } from '../../topology/report/style.js';
import { textReport } from '../../topology/report/text-report.js';
import type { Environment } from '../../topology/settings.js';
import { writeXml } from '../../topology/xml/write.js';
import { type DescribedCluster, describedCluster, openMachines } from './described-cluster.js';
import { recorded, writeFiles, writeOutput } from './files.js';
import { noGpusError, notesOf, type OpenedMachine } from './machines.js';
import type { TopoOptions } from './options.js';

/** Where the command runs. */
export interface TopoContext {
  readonly env: Environment;
  readonly style: Style;
  /** Receives sentences for the user that are no part of the answer. */
  readonly note: (text: string) => void;
}

/** Lines of the answer, without their ends. */
export function topologyOutput(options: TopoOptions, context: TopoContext): string[] {
  const { env, style, note } = context;
  const warn: LogSink = (level, _, text) => {
    if (level === 'WARN') note(text);
  };
  if (options.record !== undefined) note(recorded(options.record, env));
  const machines = openMachines(options, env, warn);
  for (const text of new Set(machines.flatMap(notesOf))) note(text);
  const bare = machines.find(({ noGpus }) => noGpus !== undefined);
  if (bare !== undefined) {
    if (options.dump !== undefined) writeOutput(options.dump, writeXml(bare.document), 'topology');
    return withoutGpus(bare, machines, options, style);
  }
  const described = describedCluster(machines, options, env, warn);
  checkRank(options.rank, described.cluster);
  writeFiles(options, env, described, machines[0]!.isDetected);
  return answer(described, options, style);
}

/** Lines about a cluster with GPUs. */
export function answer(
  { cluster, documents }: DescribedCluster,
  { show, rank, clique }: TopoOptions,
  style: Style,
): string[] {
  switch (show) {
    case 'json':
      return [jsonText(clusterJson({ cluster, documents }))];
    case 'log':
      return logLines(cluster, rank ?? 0, clique > 1).map(({ text }) => text);
    case 'explain':
      return [...explainCluster(cluster, style)];
    default:
      return rank === undefined ? textReport({ cluster, documents }, style) : rankView(cluster, rank, style);
  }
}

function checkRank(rank: number | undefined, { nRanks }: Cluster): void {
  if (rank === undefined || rank < nRanks) return;
  throw new TuttiError(
    'invalidArgument',
    nRanks === 1
      ? `--rank ${rank}: there is only rank 0`
      : `--rank ${rank}: there are ${nRanks} ranks; give one from 0 to ${nRanks - 1}`,
  );
}

/** The answer for a machine on which NCCL could not run. */
function withoutGpus(
  machine: OpenedMachine,
  machines: readonly OpenedMachine[],
  { show, rank }: TopoOptions,
  style: Style,
): string[] {
  const { document, noGpus, pciDevices } = machine;
  const needsGpus = machines.length > 1 || (show !== 'text' && show !== 'json') || rank !== undefined;
  if (needsGpus) throw noGpusError(machine);
  const described = machineOnly(document, noGpus!);
  if (show === 'json') return [jsonText(machineOnlyJson(described.summary, described.facts))];
  const devices = pciDevices.length === 0 ? [] : ['', style.heading('PCI devices'), ...pciDevices];
  return [...machineOnlyReport(described, style), ...devices];
}
