/**
 * How full the links of a machine are when the channels of a graph run at a given speed: which link a graph is limited
 * by, and which one would run out at the next higher speed.
 *
 * The accounting is the search's own: every channel takes its bandwidth from each link on its way, through an Intel CPU
 * a fifth more on PCI links, and old GPUs and POWER CPUs cost in the other direction too. (NCCL 2.30.7, search.cc.)
 */
import { pathBetween } from '../paths/path.js';
import { Pattern, type TopoGraph } from '../search/graph.js';
import {
  CpuArch,
  CpuVendor,
  type NetNode,
  type TopoLink,
  type TopoNode,
  type TopoSystem,
} from '../system/node.js';
import { LinkType, PathType } from '../system/path-type.js';

/** A path that a channel uses, with the part of its bandwidth. */
export interface PathUse {
  readonly from: TopoNode;
  readonly to: TopoNode;
  readonly share: number;
  /** Between GPUs (or GPU and NVSwitch): the bandwidth inside the system counts, else the one to NICs. */
  readonly intra: boolean;
}

/** Speed of channels, GB/s. */
export interface ChannelSpeed {
  readonly bwIntra: number;
  readonly bwInter: number;
}

/** A one-way link, or a port of a NIC, and what channels take from it. GB/s. */
export interface LinkLoad {
  readonly from: TopoNode;
  readonly to: TopoNode;
  /** Undefined for a port, which is counted apart from the link to it. */
  readonly link: TopoLink | undefined;
  readonly capacity: number;
  readonly load: number;
  /** Part of the load that is the surcharge of ways through an Intel CPU. */
  readonly intelSurcharge: number;
}

/** On PCI links of a GPU's way through an Intel CPU. */
const INTEL_FACTOR = 6 / 5;

/** Part of the bandwidth that GPUs below compute capability 8.0 send back for what they receive. */
const OLD_GPU_REVERSE_SHARE = 1 / 8;

/** Loads and capacities closer than this are equal: the search rounds to thousandths. */
export const TOLERANCE = 0.0005;

/** The paths that one channel of a graph takes, in the search's order. */
export function pathsOfChannel(system: TopoSystem, graph: TopoGraph, channel: number): PathUse[] {
  const { GPU, NVS } = system.nodes;
  const { intra, inter } = graph.channels[channel]!;
  const gpus = intra.map((rank) => GPU.find((gpu) => gpu.rank === rank)!);
  const [first] = gpus;
  if (first === undefined) return [];
  const uses: PathUse[] = [];
  const take = (from: TopoNode | undefined, to: TopoNode | undefined, share: number, isInside: boolean) => {
    if (from !== undefined && to !== undefined && share > 0) uses.push({ from, to, share, intra: isInside });
  };
  const nic = (end: 0 | 1): NetNode | undefined => system.nodes.NET.find(({ id }) => id === inter?.[end]);
  const last = gpus.at(-1);
  take(nic(0), first, 1, false);
  switch (graph.pattern) {
    case Pattern.RING:
      take(last, nic(1), 1, false);
      break;
    case Pattern.BALANCED_TREE:
      take(first, nic(1), 1 / 2, false);
      take(gpus[1] ?? first, nic(1), 1 / 2, false);
      break;
    case Pattern.SPLIT_TREE:
      take(gpus[1] ?? first, nic(1), 1, false);
      break;
    default:
      take(first, nic(1), 1, false);
  }
  if (graph.pattern === Pattern.NVLS) {
    const [nvs] = NVS;
    // The head receives what it reduces and what it sends.
    for (const gpu of GPU) take(nvs, gpu, gpu === first ? 2 : 1, true);
    for (const gpu of GPU) take(gpu, nvs, gpu === first ? 2 : 1, true);
  } else if (graph.pattern === Pattern.COLLNET_DIRECT) {
    for (const gpu of GPU) if (gpu !== first) take(first, gpu, 1 / (GPU.length - 1), true);
    for (const gpu of GPU) if (gpu !== first) take(gpu, first, 1 / (GPU.length - 1), true);
  } else {
    for (let at = 1; at < gpus.length; at++) take(gpus[at - 1], gpus[at], 1, true);
    const closes = graph.pattern === Pattern.RING && inter === null && gpus.length > 1;
    if (closes) take(last, first, 1, true);
  }
  return uses;
}

/**
 * Loads of all links and ports that the channels touch, fullest first.
 *
 * @param count channels; beyond those of the graph, its orders are repeated
 */
export function linkLoads(
  system: TopoSystem,
  graph: TopoGraph,
  speed: ChannelSpeed = graph,
  count: number = graph.nChannels,
): LinkLoad[] {
  const loads = new Map<TopoLink | NetNode, { -readonly [K in keyof LinkLoad]: LinkLoad[K] }>();
  const add = (from: TopoNode, link: TopoLink, need: number, surcharge: number) => {
    let load = loads.get(link);
    if (load === undefined) {
      load = { from, to: link.to, link, capacity: link.bandwidth, load: 0, intelSurcharge: 0 };
      loads.set(link, load);
    }
    load.load += need;
    load.intelSurcharge += surcharge;
  };
  const { nChannels } = graph;
  if (nChannels === 0 || count === 0) return [];
  for (let own = 0; own < Math.min(nChannels, count); own++) {
    // Channel c beyond the last has the order of channel c modulo their number.
    const times = Math.floor((count - own - 1) / nChannels) + 1;
    for (const use of pathsOfChannel(system, graph, own)) {
      const bandwidth = (use.intra ? speed.bwIntra : speed.bwInter) * use.share * times;
      addPath(use, bandwidth, add);
    }
    const start = graph.channels[own]!.inter?.[0];
    const nic = system.nodes.NET.find(({ id }) => id === start);
    if (nic !== undefined) addPort(system, nic, Math.trunc(speed.bwInter) * times, loads);
  }
  return [...loads.values()].sort((a, b) => b.load / b.capacity - a.load / a.capacity);
}

/** Ports of the same card and number share their bandwidth; whole GB/s count. */
function addPort(
  { nodes: { NET } }: TopoSystem,
  nic: NetNode,
  bandwidth: number,
  loads: Map<TopoLink | NetNode, { -readonly [K in keyof LinkLoad]: LinkLoad[K] }>,
): void {
  const first = NET.find(({ asic, port }) => asic === nic.asic && port === nic.port) ?? nic;
  const load = loads.get(first);
  if (load !== undefined) load.load += bandwidth;
  else {
    const capacity = first.bandwidth;
    loads.set(first, {
      from: first,
      to: first,
      link: undefined,
      capacity,
      load: bandwidth,
      intelSurcharge: 0,
    });
  }
}

function addPath(
  { from, to }: PathUse,
  bandwidth: number,
  add: (from: TopoNode, link: TopoLink, need: number, surcharge: number) => void,
): void {
  const path = pathBetween(from, to);
  if (path === undefined) return;
  const isIntel = path.hops.some(
    ({ to: cpu }) => cpu.type === 'CPU' && cpu.arch === CpuArch.X86 && cpu.vendor === CpuVendor.INTEL,
  );
  const factor = isIntel && path.type === PathType.PHB && from.type === 'GPU' ? INTEL_FACTOR : 1;
  let near = from;
  for (const link of path.hops) {
    const far = link.to;
    const need = link.type === LinkType.PCI ? bandwidth * factor : bandwidth;
    add(near, link, need, need - bandwidth);
    let share = far.type === 'DEV' && far.sm < 80 && from.type !== 'GPU' ? OLD_GPU_REVERSE_SHARE : 0;
    if (link.type === LinkType.NVL && far.type === 'CPU' && far.arch === CpuArch.POWER) share += 1;
    const start = near;
    const back = far.links.find((other) => other.type === link.type && other.to === start);
    if (share > 0 && back !== undefined) add(far, back, need * share, 0);
    near = far;
  }
}

/** The load that exceeds its link most, undefined if all fit. */
export function shortageAt(
  system: TopoSystem,
  graph: TopoGraph,
  speed: ChannelSpeed,
  count: number,
): LinkLoad | undefined {
  const [fullest] = linkLoads(system, graph, speed, count);
  return fullest !== undefined && fullest.load > fullest.capacity + TOLERANCE ? fullest : undefined;
}

/** The fullest link of a graph, undefined if its channels take no link (a single GPU). */
export function fullestLink(system: TopoSystem, graph: TopoGraph): LinkLoad | undefined {
  return linkLoads(system, graph).find(({ link }) => link?.type !== LinkType.LOC);
}

/** Loads on links of the same kind that are as full: `of` is one of them. */
export function equallyFull(loads: readonly LinkLoad[], of: LinkLoad): LinkLoad[] {
  const near = (a: number, b: number) => Math.abs(a - b) < TOLERANCE;
  return loads.filter(
    ({ from, to, link, load, capacity }) =>
      from.type === of.from.type &&
      to.type === of.to.type &&
      link?.type === of.link?.type &&
      near(load, of.load) &&
      near(capacity, of.capacity),
  );
}
