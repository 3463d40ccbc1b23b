/**
 * What `tutti topo` does once its options are read: opens the machines, describes the cluster, makes the asked text
 * and the asked files.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { type Cluster, describeCluster } from '../../topology/cluster.js';
import type { LogSink } from '../../topology/log.js';
import { clusterJson, jsonText, machineOnlyJson } from '../../topology/report/json.js';
import { logLines } from '../../topology/report/log-lines.js';
import { machineOnly, machineOnlyReport } from '../../topology/report/machine-only.js';
import { rankView } from '../../topology/report/rank-view.js';
import type { Style } from '../../topology/report/style.js';
import { textReport } from '../../topology/report/text-report.js';
import type { Environment } from '../../topology/settings.js';
import type { XmlElement } from '../../topology/xml/element.js';
import { joinHosts, withCollnet } from './documents.js';
import { type OpenedMachine, openMachine } from './machines.js';
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
  const machines = openMachines(options, env, warn);
  for (const text of new Set(machines.flatMap(notesOf))) note(text);
  const bare = machines.find(({ noGpus }) => noGpus !== undefined);
  if (bare !== undefined) return withoutGpus(bare, machines, options, style);
  const documents = documentsOf(machines, options);
  const cluster = clusterOf(documents, machines, options, env, warn);
  checkRank(options.rank, cluster);
  switch (options.show) {
    case 'json':
      return [jsonText(clusterJson({ cluster, documents }))];
    case 'log':
      return logLines(cluster, options.rank ?? 0, options.clique > 1).map(({ text }) => text);
    default:
      if (options.rank !== undefined) return rankView(cluster, options.rank, style);
      return textReport({ cluster, documents }, style);
  }
}

function checkRank(rank: number | undefined, { nRanks }: Cluster): void {
  if (rank === undefined || rank < nRanks) return;
  throw new TuttiError(
    'invalidArgument',
    `--rank ${rank}: there are ${nRanks} ranks; give one from 0 to ${nRanks - 1}`,
  );
}

/** The answer for a machine on which NCCL could not run. */
function withoutGpus(
  { source, document, noGpus, pciDevices }: OpenedMachine,
  machines: readonly OpenedMachine[],
  { show, rank }: TopoOptions,
  style: Style,
): string[] {
  const needsGpus = machines.length > 1 || (show !== 'text' && show !== 'json') || rank !== undefined;
  if (needsGpus) {
    throw new TuttiError(
      'invalidArgument',
      `${source} has no GPUs (${noGpus}), so there is nothing that NCCL would decide; ` +
        'give a topology file with --file, or a machine with GPUs that --record has recorded with --from',
    );
  }
  const machine = machineOnly(document, noGpus!);
  if (show === 'json') return [jsonText(machineOnlyJson(machine.summary, machine.facts))];
  const devices = pciDevices.length === 0 ? [] : ['', style.heading('PCI devices'), ...pciDevices];
  return [...machineOnlyReport(machine, style), ...devices];
}

const notesOf = ({ source, notes }: OpenedMachine): string[] => notes.map((text) => `${source}: ${text}`);

/** One per node; equal ones are the same object. */
function openMachines(
  { sources, nodes, template }: TopoOptions,
  env: Environment,
  log: LogSink,
): OpenedMachine[] {
  const opened = new Map<string, OpenedMachine>();
  const open = (source: TopoOptions['sources'][number] | undefined) => {
    const key = source === undefined ? '' : `${source.kind} ${source.name}`;
    const known = opened.get(key) ?? openMachine(source, template, env, log);
    opened.set(key, known);
    return known;
  };
  const named = sources.length === 0 ? [open(undefined)] : sources.map(open);
  const last = named.at(-1)!;
  return [...named, ...Array.from({ length: nodes - named.length }, () => last)];
}

/** One document per host or NVLink domain; equal ones are the same object. */
function documentsOf(machines: readonly OpenedMachine[], { clique, collnet }: TopoOptions): XmlElement[] {
  const prepared = new Map<XmlElement, XmlElement>();
  const hosts = machines.map(({ document }) => {
    const known = prepared.get(document) ?? (collnet ? withCollnet(document) : document);
    prepared.set(document, known);
    return known;
  });
  if (clique === 1) return hosts;
  const joined = new Map<string, XmlElement>();
  const numbers = new Map([...prepared.values()].map((document, at) => [document, at]));
  const cliques: XmlElement[] = [];
  for (let start = 0; start < hosts.length; start += clique) {
    const members = hosts.slice(start, start + clique);
    const key = members.map((host) => numbers.get(host)).join();
    const document = joined.get(key) ?? joinHosts(members);
    joined.set(key, document);
    cliques.push(document);
  }
  return cliques;
}

function clusterOf(
  documents: readonly XmlElement[],
  machines: readonly OpenedMachine[],
  { nvls, collnet, clique }: TopoOptions,
  env: Environment,
  log: LogSink,
): Cluster {
  const [{ nvmlP2p }] = machines as [OpenedMachine];
  return describeCluster({
    nodes: documents.map((xml) => ({ xml })),
    env,
    nvls: nvls ?? true,
    collnet,
    mnnvl: clique > 1,
    ...(nvmlP2p === undefined ? {} : { nvmlP2p }),
    log,
  });
}
