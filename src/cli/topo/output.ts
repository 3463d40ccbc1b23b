/**
 * What `tutti topo` does once its options are read: opens the machines, describes the cluster, makes the asked text
 * and the asked files.
 */
import type { Cluster } from '../../topology/cluster.js';
import type { LogSink } from '../../topology/log.js';
import type { Explanation } from '../../topology/report/explain/explanation.js';
import { collnetAbsence, nvlsAbsence } from '../../topology/report/explain/special-graphs.js';
import { explainCluster } from '../../topology/report/explain.js';
import { clusterJson, jsonText, machineOnlyJson } from '../../topology/report/json.js';
import { logLines } from '../../topology/report/log-lines.js';
import { machineOnly, machineOnlyReport } from '../../topology/report/machine-only.js';
import { rankView } from '../../topology/report/rank-view.js';
import { fitted, type Style } from '../../topology/report/style.js';
import { textReport } from '../../topology/report/text-report.js';
import type { Environment } from '../../topology/settings.js';
import { writeXml } from '../../topology/xml/write.js';
import { printable } from '../printable.js';
import { type DescribedCluster, describedCluster, openMachines } from './described-cluster.js';
import { checkFileRoles } from './file-roles.js';
import { recorded, writeFiles, writeOutput } from './files.js';
import { STANDARD, wrong } from './machine-options.js';
import { noGpusError, notesOf, type OpenedMachine } from './machines.js';
import type { TopoOptions } from './options.js';
import { variableNotes } from './variable-notes.js';

/** Where the command runs. */
export interface TopoContext {
  readonly env: Environment;
  readonly style: Style;
  /** Receives sentences for the user that are no part of the answer, as they come; JSON has them, too. */
  readonly note: (text: string) => void;
}

/** Lines of the answer, without their ends. */
export function topologyOutput(options: TopoOptions, context: TopoContext): string[] {
  const { env, style } = context;
  const notes = new Set<string>();
  const note = (text: string) => {
    if (notes.has(text)) return;
    notes.add(text);
    context.note(text);
  };
  const warn: LogSink = (level, _, text) => {
    if (level === 'WARN') note(text);
  };
  checkFileRoles(options, env);
  if (options.record !== undefined) note(recorded(options.record, env));
  for (const text of variableNotes(env, looksAtMachine(options))) note(text);
  const machines = openMachines(options, env, warn);
  for (const text of machines.flatMap(notesOf)) note(text);
  const bare = machines.find(({ noGpus }) => noGpus !== undefined);
  if (bare !== undefined) {
    const lines = withoutGpus(bare, machines, options, style, [...notes]);
    if (options.dump === STANDARD) return linesOf(writeXml(bare.document));
    if (options.dump !== undefined) writeOutput(options.dump, writeXml(bare.document), 'topology');
    return readable(lines, options, style);
  }
  const described = describedCluster(machines, options, env, warn);
  checkRank(options.rank, described.cluster);
  for (const text of abilityNotes(options, described.cluster)) note(text);
  const printed = writeFiles(options, env, described, machines[0]!.isDetected);
  if (printed !== undefined) return linesOf(printed);
  return readable(answer(described, options, style, [...notes]), options, style);
}

/** Without what names in files could do to a terminal; JSON, a text of many lines, escapes for itself. */
function readable(lines: string[], { show }: TopoOptions, style: Style): string[] {
  const isPainted = style.strong('x') !== 'x';
  return show === 'json' ? lines : lines.map((line) => printable(line, isPainted));
}

/** Topology files tell everything; whatever else is given is looked at by detection. */
const looksAtMachine = ({ sources }: TopoOptions): boolean =>
  sources.length === 0 || sources.some(({ kind }) => kind !== 'file');

const linesOf = (text: string): string[] => text.replace(/\n$/, '').split('\n');

/** What was asked to be used and cannot be, with the reason. */
function abilityNotes({ nvls, collnet }: TopoOptions, cluster: Cluster): string[] {
  const noEffect = (option: string, reasons: readonly Explanation[]) => {
    const text = reasons[0]?.text.replace(/^No \w+: /, '').replace(/\.$/, '');
    return text === undefined ? [] : [`${option} has no effect: ${text}`];
  };
  const reasons = cluster.domains.map(nvlsAbsence);
  return [
    ...(nvls === true && reasons.every(({ length }) => length > 0) ? noEffect('--nvls', reasons[0]!) : []),
    ...(collnet ? noEffect('--collnet', collnetAbsence(cluster)) : []),
  ];
}

/** Lines about a cluster with GPUs. */
export function answer(
  { cluster, documents }: DescribedCluster,
  { show, rank, clique }: TopoOptions,
  style: Style,
  notes: readonly string[] = [],
): string[] {
  switch (show) {
    case 'json':
      return [jsonText(clusterJson({ cluster, documents }, notes))];
    case 'log':
      return logLines(cluster, rank ?? 0, clique > 1).map(({ text }) => text);
    case 'explain':
      return fitted(explainCluster(cluster, style), style.width);
    default: {
      const lines =
        rank === undefined ? textReport({ cluster, documents }, style) : rankView(cluster, rank, style);
      return fitted(lines, style.width);
    }
  }
}

function checkRank(rank: number | undefined, { nRanks }: Cluster): void {
  if (rank === undefined || rank < nRanks) return;
  throw wrong(
    nRanks === 1
      ? `--rank ${rank}: there is only rank 0`
      : `--rank ${rank}: there are ${nRanks} ranks; give one from 0 to ${nRanks - 1}`,
  );
}

/** The answer for a machine on which NCCL could not run. */
function withoutGpus(
  machine: OpenedMachine,
  machines: readonly OpenedMachine[],
  { show, rank, svg, graphDump }: TopoOptions,
  style: Style,
  notes: readonly string[],
): string[] {
  const { document, noGpus, pciDevices } = machine;
  const asks = [rank, svg, graphDump].some((option) => option !== undefined);
  if (machines.length > 1 || (show !== 'text' && show !== 'json') || asks) throw noGpusError(machine);
  const described = machineOnly(document, noGpus!);
  if (show === 'json') return [jsonText(machineOnlyJson(described.summary, described.facts, notes))];
  const devices = pciDevices.length === 0 ? [] : ['', style.heading('PCI devices'), ...pciDevices];
  return fitted([...machineOnlyReport(described, style), ...devices], style.width);
}
