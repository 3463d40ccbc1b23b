/**
 * From the options to the cluster that they describe.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../../topology/c-integer.js';
import { type Cluster, type ClusterOptions, describeCluster } from '../../topology/cluster.js';
import { readInput } from '../../topology/detect/input-file.js';
import type { LogSink } from '../../topology/log.js';
import { graphFromXml } from '../../topology/search/graph-file.js';
import { type Environment, topologySettings } from '../../topology/settings.js';
import type { XmlElement } from '../../topology/xml/element.js';
import { MAX_TEXT } from '../../topology/xml/limits.js';
import { withoutIgnored } from '../../topology/xml/nesting.js';
import { readXml } from '../../topology/xml/read.js';
import { joinHosts, withCollnet } from './documents.js';
import { reasonOf } from './file-errors.js';
import type { MachineOptions } from './machine-options.js';
import { type OpenedMachine, openMachine } from './machines.js';

/** A cluster, and the documents of its hosts or NVLink domains. */
export interface DescribedCluster {
  readonly cluster: Cluster;
  readonly documents: readonly XmlElement[];
}

/** Describes the cluster of machines with GPUs. */
export function describedCluster(
  machines: readonly OpenedMachine[],
  options: MachineOptions,
  env: Environment,
  log: LogSink,
): DescribedCluster {
  const documents = documentsOf(machines, options);
  return { cluster: clusterOf(documents, machines, options, env, log), documents };
}

/** The machines that the options name, one per node; equal ones are the same object. */
export function openMachines(
  { sources, nodes, template }: MachineOptions,
  env: Environment,
  log: LogSink,
): OpenedMachine[] {
  const opened = new Map<string, OpenedMachine>();
  const open = (source: MachineOptions['sources'][number] | undefined) => {
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
function documentsOf(machines: readonly OpenedMachine[], { clique, collnet }: MachineOptions): XmlElement[] {
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
  { nvls, collnet, clique }: MachineOptions,
  env: Environment,
  log: LogSink,
): Cluster {
  const loadGraph = graphLoader(env, log);
  return describeCluster({
    // NVML is asked by the first rank of an NVLink domain, on its host.
    nodes: documents.map((xml, at) => ({ xml, nvmlP2p: machines[at * clique]!.nvmlP2p })),
    env,
    nvls: nvls ?? cInt(env.NCCL_NVLS_ENABLE || '2') !== 0,
    collnet,
    mnnvl: clique > 1,
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
    text = readInput(path, MAX_TEXT).toString('latin1');
  } catch (cause) {
    if (TuttiError.is(cause)) {
      throw new TuttiError('invalidArgument', `NCCL_GRAPH_FILE: ${cause.message}`, { cause });
    }
    throw new TuttiError(
      'systemError',
      `NCCL_GRAPH_FILE=${path}: cannot read the graph file: ${reasonOf(cause)}`,
      { cause },
    );
  }
  const { root, notes } = readXml(text, { root: 'graphs', file: path });
  for (const note of notes) log('WARN', 'GRAPH', `${path}: ${note}`);
  const { crossNic } = topologySettings(env);
  return (request, system) => graphFromXml(withoutIgnored(root), request, { system, crossNic, log });
}
