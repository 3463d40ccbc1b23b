/**
 * What `tutti topo` does once its options are read: opens the machines, describes the cluster, makes the asked text
 * and the asked files.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../../topology/c-integer.js';
import { type Cluster, type ClusterOptions, describeCluster } from '../../topology/cluster.js';
import { liveMachine } from '../../topology/detect/machine.js';
import { recordMachine } from '../../topology/detect/record-machine.js';
import type { LogSink } from '../../topology/log.js';
import { explainCluster } from '../../topology/report/explain.js';
import { clusterJson, jsonText, machineOnlyJson } from '../../topology/report/json.js';
import { logLines } from '../../topology/report/log-lines.js';
import { machineOnly, machineOnlyReport } from '../../topology/report/machine-only.js';
import { rankView } from '../../topology/report/rank-view.js';
import { type Style, wrap } from '../../topology/report/style.js';
import { textReport } from '../../topology/report/text-report.js';
import { graphFromXml, graphsXml } from '../../topology/search/graph-file.js';
import { type Environment, topologySettings } from '../../topology/settings.js';
import type { XmlElement } from '../../topology/xml/element.js';
import { withoutIgnored } from '../../topology/xml/nesting.js';
import { readXml } from '../../topology/xml/read.js';
import { writeXml } from '../../topology/xml/write.js';
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
  if (options.record !== undefined) note(recorded(options.record, env));
  const machines = openMachines(options, env, warn);
  for (const text of new Set(machines.flatMap(notesOf))) note(text);
  const bare = machines.find(({ noGpus }) => noGpus !== undefined);
  if (bare !== undefined) {
    if (options.dump !== undefined) writeOutput(options.dump, writeXml(bare.document), 'topology');
    return withoutGpus(bare, machines, options, style);
  }
  const documents = documentsOf(machines, options);
  const cluster = clusterOf(documents, machines, options, env, warn);
  checkRank(options.rank, cluster);
  writeFiles(options, context, documents, machines, cluster);
  switch (options.show) {
    case 'json':
      return [jsonText(clusterJson({ cluster, documents }))];
    case 'log':
      return logLines(cluster, options.rank ?? 0, options.clique > 1).map(({ text }) => text);
    case 'explain':
      return explainCluster(cluster).flatMap((line) => wrap(line, style.width, '  '));
    default:
      if (options.rank !== undefined) return rankView(cluster, options.rank, style);
      return textReport({ cluster, documents }, style);
  }
}

/** Records this machine; the sentence that says so. Comes first: a machine that is refused needs recording most. */
function recorded(path: string, env: Environment): string {
  const bytes = recordMachine(path, liveMachine(), env);
  return `recorded this machine in ${path} (${bytes} bytes); 'tar tzf ${path}' lists what is in it`;
}

/** The files that options or variables ask for. */
function writeFiles(
  { dump, graphDump }: TopoOptions,
  { env }: TopoContext,
  documents: readonly XmlElement[],
  machines: readonly OpenedMachine[],
  { domains }: Cluster,
): void {
  // Detection has written NCCL_TOPO_DUMP_FILE itself.
  const dumps = [dump, ...(machines[0]!.isDetected ? [] : [env.NCCL_TOPO_DUMP_FILE])];
  for (const path of dumps) if (path) writeOutput(path, writeXml(documents[0]!), 'topology');
  const writer = cInt(env.NCCL_GRAPH_DUMP_FILE_RANK ?? '');
  const domainOf = (rank: number) => domains.find(({ ranks }) => ranks.includes(rank));
  const graphDumps = [
    [graphDump, domainOf(0)] as const,
    [env.NCCL_GRAPH_DUMP_FILE, domainOf(writer)] as const,
  ];
  for (const [path, domain] of graphDumps) {
    if (!path || domain === undefined) continue;
    writeOutput(path, writeXml(graphsXml(domain.graphs, domain.system, domain.rankOffset)), 'graphs');
  }
}

function writeOutput(path: string, text: string, what: string): void {
  try {
    writeFileSync(path, text, 'latin1');
  } catch (cause) {
    throw new TuttiError('systemError', `cannot write the ${what} to ${path}: ${(cause as Error).message}`, {
      cause,
    });
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
  const loadGraph = graphLoader(env, log);
  return describeCluster({
    nodes: documents.map((xml) => ({ xml })),
    env,
    nvls: nvls ?? cInt(env.NCCL_NVLS_ENABLE || '2') !== 0,
    collnet,
    mnnvl: clique > 1,
    ...(nvmlP2p === undefined ? {} : { nvmlP2p }),
    ...(loadGraph === undefined ? {} : { loadGraph }),
    log,
  });
}

/** What NCCL_GRAPH_FILE gives, read once. */
function graphLoader(env: Environment, log: LogSink): ClusterOptions['loadGraph'] {
  const path = env.NCCL_GRAPH_FILE || undefined;
  if (path === undefined) return undefined;
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (cause) {
    throw new TuttiError(
      'systemError',
      `NCCL_GRAPH_FILE=${path}: cannot read the graph file: ${(cause as Error).message}`,
      { cause },
    );
  }
  const { root, notes } = readXml(text, { root: 'graphs', file: path });
  for (const note of notes) log('WARN', 'GRAPH', `${path}: ${note}`);
  const { crossNic } = topologySettings(env);
  return (request, system) => graphFromXml(withoutIgnored(root), request, { system, crossNic, log });
}
