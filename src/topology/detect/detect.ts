/**
 * Makes the topology document of a host, as the ranks of NCCL on it would together.
 *
 * Each rank completes a document (from a user's file, if there is one) with its own GPU and with all network devices,
 * trims it to those and what stands above them, and the documents of all ranks are merged in rank order. A host without
 * GPUs is described too, whole: its NUMA nodes and network devices. (NCCL 2.30.7, topo.cc.)
 */
import { getSystemErrorMap } from 'node:util';
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../c-integer.js';
import { type LogSink, SILENT } from '../log.js';
import { NET_KINDS, type NetPlugin } from '../net-device.js';
import { type NicFusionSettings, nicFusionSettings } from '../nic-fusion/settings.js';
import type { Environment } from '../settings.js';
import type { XmlElement } from '../xml/element.js';
import { fuseTopologies } from '../xml/fuse.js';
import { MAX_TEXT } from '../xml/limits.js';
import { withoutIgnored } from '../xml/nesting.js';
import { readXml } from '../xml/read.js';
import { trimTopology } from '../xml/trim.js';
import { writeXml } from '../xml/write.js';
import { ncclBusId } from './bus-id.js';
import { MAX_ELEMENTS, TopologyDocument } from './document.js';
import { addGpu, type LocalGpu } from './gpu-element.js';
import { effectiveHostHash } from './host-hash.js';
import { readInput } from './input-file.js';
import type { Machine } from './machine.js';
import { netPlugins } from './net-plugins.js';
import { addNics } from './nic-elements.js';
import type { NvmlFacts } from './nvml-facts.js';
import { writeWhole } from './output-file.js';
import { cpuElement, type Detection, fillCpu, hostHashText } from './pci-tree.js';
import { lineOf } from './sysfs-text.js';

export interface DetectOptions {
  readonly machine: Machine;
  /** NCCL_* variables; those that a recording was made with, by default. */
  readonly env?: Environment;
  /** GPUs that the ranks of this host use, in rank order; by default all that NVML shows, rank = index. */
  readonly gpus?: readonly LocalGpu[];
  /** Network plugins; by default the one that this machine would use. */
  readonly plugins?: readonly NetPlugin[];
  readonly log?: LogSink;
}

/** Written by the service that describes virtual machines. */
export const DEFAULT_FILE = '/var/run/nvidia-topologyd/virtualTopology.xml';

/** Reading it makes the driver of Broadcom switches look at its links again (the name is misspelled there). */
const REFRESH_FILE = '/sys/kernel/pci_switch_link/refresh_switch_toplogy';

const NODE_FOLDER = '/sys/devices/system/node';

/** All GPUs of a machine, one rank each, in NVML's order. */
export function allGpus(nvml: NvmlFacts | undefined): LocalGpu[] {
  return (nvml?.devices ?? []).map(({ index, busId }, rank) => ({
    rank,
    busId: ncclBusId(busId) ?? `invalid-${index}`,
  }));
}

/**
 * The fused document of the host. Honours NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE(_RANK) and NCCL_HOSTID, and what the
 * plugins read.
 *
 * @throws TuttiError for a topology file that NCCL would refuse, a GPU that is not there, a machine beyond NCCL's limits.
 */
export function detectTopology(options: DetectOptions): XmlElement {
  const { machine, log = SILENT } = options;
  const env = options.env ?? machine.environment;
  const gpus = options.gpus ?? allGpus(machine.nvml);
  const plugins = options.plugins ?? pluginsOf(machine, env, log);
  const context = contextOf(machine, env, log, plugins);
  const describe = (mayMerge: boolean): XmlElement =>
    gpus.length === 0
      ? describeWithoutGpus(context, mayMerge)
      : fuseTopologies(gpus.map((gpu) => describeRank(context, gpu, mayMerge)));
  dump(env, gpus, log, () => describe(false));
  return describe(true);
}

/** The trimmed document of one rank, which the ranks of a host exchange and fuse. */
export function detectForRank(options: DetectOptions, gpu: LocalGpu): XmlElement {
  const { machine, log = SILENT } = options;
  const env = options.env ?? machine.environment;
  const plugins = options.plugins ?? pluginsOf(machine, env, log);
  return describeRank(contextOf(machine, env, log, plugins), gpu, true);
}

const pluginsOf = ({ files, interfaces, queuePairs }: Machine, env: Environment, log: LogSink): NetPlugin[] =>
  netPlugins(files, interfaces, env, { log, queuePairs });

interface HostContext {
  readonly machine: Machine;
  readonly env: Environment;
  readonly log: LogSink;
  /** In the order in which they are asked. */
  readonly plugins: readonly NetPlugin[];
  readonly fusion: NicFusionSettings;
}

function contextOf(
  machine: Machine,
  env: Environment,
  log: LogSink,
  plugins: readonly NetPlugin[],
): HostContext {
  const inOrder = plugins.toSorted((a, b) => NET_KINDS.indexOf(a.kind) - NET_KINDS.indexOf(b.kind));
  return { machine, env, log, plugins: inOrder, fusion: nicFusionSettings(env, log) };
}

function describeRank(context: HostContext, gpu: LocalGpu, mayMerge: boolean): XmlElement {
  const detection = begin(context, MAX_ELEMENTS);
  addGpu(detection, gpu);
  addPlugins(detection, context, mayMerge);
  return trimTopology(detection.document.root);
}

function addPlugins(detection: Detection, { plugins, fusion }: HostContext, mayMerge: boolean): void {
  for (const plugin of plugins) addNics(detection, plugin, mayMerge ? fusion : undefined);
}

function describeWithoutGpus(context: HostContext, mayMerge: boolean): XmlElement {
  const detection = begin(context, Number.POSITIVE_INFINITY);
  const { document, files } = detection;
  for (const node of numaNodes(detection)) cpuElement(detection, node);
  addPlugins(detection, context, mayMerge);
  if (document.find('cpu') === undefined) cpuElement(detection, '0');
  for (const one of document.root.children) if (one.name === 'cpu') fillCpu({ ...detection, files }, one);
  return withoutKeep(document.root);
}

/** Of the largest kernels (NODES_SHIFT 10). */
const MAX_NUMA_NODES = 1024;

/** NUMA nodes that have processors; nodes of memory alone are left out. */
function numaNodes({ files }: Detection): string[] {
  const nodes = files.names(NODE_FOLDER).flatMap((name) => /^node(\d{1,5})$/.exec(name)?.[1] ?? []);
  if (nodes.length > MAX_NUMA_NODES) {
    throw new TuttiError(
      'invalidArgument',
      `${NODE_FOLDER} has ${nodes.length} NUMA nodes, but Linux knows at most ${MAX_NUMA_NODES}; the copy of /sys is damaged`,
    );
  }
  return nodes
    .filter((node) => !/^[0,]+$/.test(lineOf(files, `${NODE_FOLDER}/node${node}/cpumap`) ?? '1'))
    .sort((a, b) => Number(a) - Number(b));
}

/**
 * The document without marks of what to keep, which a trimmed one does not have either, and without devices that are
 * used through a virtual one only.
 */
function withoutKeep(one: XmlElement): XmlElement {
  one.attributes.delete('keep');
  one.children = one.children.filter((child) => {
    const isHidden = child.name === 'net' && child.attributes.get('keep') === '0';
    const hadChildren = child.children.length > 0;
    withoutKeep(child);
    const isEmptied = hadChildren && child.children.length === 0 && /^(?:nic|pci)$/.test(child.name);
    return !isHidden && !isEmptied;
  });
  return one;
}

/** A document with what a file gives, for this host. */
function begin({ machine, env, log }: HostContext, limit: number): Detection {
  const hostHash = effectiveHostHash(machine.hostHash, env, log);
  const document = new TopologyDocument(fromFile(machine, env, log), limit);
  for (const one of document.root.children) {
    if (one.name === 'cpu') one.attributes.set('host_hash', hostHashText(hostHash));
  }
  machine.files.text(REFRESH_FILE);
  return { document, files: machine.files, nvml: machine.nvml, cpu: machine.cpu, hostHash, log };
}

function fromFile(machine: Machine, env: Environment, log: LogSink): XmlElement | undefined {
  const path = env.NCCL_TOPO_FILE || undefined;
  let text: string | undefined;
  if (path === undefined) {
    text = machine.files.text(DEFAULT_FILE);
  } else {
    log('INFO', 'ENV', `NCCL_TOPO_FILE set by environment to ${path}`);
    try {
      text = readInput(path, MAX_TEXT).toString('latin1');
    } catch (error) {
      if (TuttiError.is(error)) throw error;
      log('INFO', 'GRAPH', `Could not open XML topology file ${path} : ${reasonOf(error)}`);
    }
  }
  if (text === undefined) return undefined;
  const file = path ?? DEFAULT_FILE;
  log('INFO', 'GRAPH', `Loading topology file ${file}`);
  const { root, notes } = readXml(text, { root: 'system', file });
  for (const note of notes) log('INFO', 'GRAPH', note);
  const name = root.attributes.get('name');
  log('INFO', 'GRAPH', name === undefined ? 'Loading unnamed topology' : `Loading topology ${name}`);
  return withoutIgnored(root, log);
}

function reasonOf(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  return (errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1]) ?? message;
}

/** Writes the document if the environment asks one of these ranks to. */
function dump(env: Environment, gpus: readonly LocalGpu[], log: LogSink, describe: () => XmlElement): void {
  const path = env.NCCL_TOPO_DUMP_FILE || undefined;
  if (path === undefined) return;
  const writer = cInt(env.NCCL_TOPO_DUMP_FILE_RANK ?? '');
  if (gpus.length === 0 ? writer !== 0 : gpus.every(({ rank }) => rank !== writer)) return;
  const text = writeXml(describe());
  log('INFO', 'ENV', `NCCL_TOPO_DUMP_FILE set by environment to ${path}`);
  try {
    writeWhole(path, text, 'latin1');
  } catch {
    log('INFO', 'GRAPH', `Unable to open ${path}, not dumping topology.`);
  }
}
