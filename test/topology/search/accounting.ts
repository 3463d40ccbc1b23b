/**
 * What the channels of a graph take from each link, added up plainly: the reference that found graphs are checked
 * against. It knows nothing of how a search goes, only what each shape of channel sends where.
 */
import { Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import {
  CpuArch,
  CpuVendor,
  type TopoLink,
  type TopoNode,
  type TopoSystem,
} from '#src/topology/system/node.js';
import { LinkType, PathType } from '#src/topology/system/path-type.js';

/** GB/s taken from a link, and how many times something was taken. */
export interface Use {
  bandwidth: number;
  times: number;
}

/** A way that a channel uses, with the share of its bandwidth that goes over it. */
interface Way {
  readonly from: TopoNode;
  readonly to: TopoNode;
  readonly factor: number;
}

/** All ways of all channels. */
export function waysOf(graph: TopoGraph, system: TopoSystem): Way[] {
  const { GPU, NET, NVS } = system.nodes;
  const gpu = (rank: number) => GPU.find((one) => one.rank === rank)!;
  const net = (id: bigint) => NET.find((one) => one.id === id)!;
  const ways: Way[] = [];
  const add = (from: TopoNode, to: TopoNode, factor = 1) => ways.push({ from, to, factor });
  for (const { intra, inter } of graph.channels) {
    const gpus = intra.map(gpu);
    const [first, second, last] = [gpus[0]!, gpus[1], gpus.at(-1)!];
    const ends = inter?.map(net);
    if (ends !== undefined) add(ends[0]!, first);
    switch (graph.pattern) {
      case Pattern.RING:
        if (ends !== undefined) add(last, ends[1]!);
        else add(last, first);
        break;
      case Pattern.BALANCED_TREE:
        if (ends !== undefined) for (const one of [first, second!]) add(one, ends[1]!, 1 / 2);
        break;
      case Pattern.SPLIT_TREE:
        if (ends !== undefined) add(second!, ends[1]!);
        break;
      default:
        if (ends !== undefined) add(first, ends[1]!);
    }
    if (graph.pattern === Pattern.NVLS) {
      for (const one of GPU) {
        const factor = one === first ? 2 : 1;
        add(NVS[0]!, one, factor);
        add(one, NVS[0]!, factor);
      }
    } else if (graph.pattern === Pattern.COLLNET_DIRECT) {
      for (const one of gpus.slice(1)) {
        add(first, one, 1 / (GPU.length - 1));
        add(one, first, 1 / (GPU.length - 1));
      }
    } else {
      for (let i = 1; i < gpus.length; i++) add(gpus[i - 1]!, gpus[i]!);
    }
  }
  return ways;
}

const isInside = ({ type }: TopoNode): boolean => type === 'GPU' || type === 'NVS';

/** What the ways of a graph take from links. */
export function usesOf(graph: TopoGraph, system: TopoSystem): Map<TopoLink, Use> {
  const uses = new Map<TopoLink, Use>();
  const take = (link: TopoLink, bandwidth: number) => {
    const use = uses.get(link) ?? { bandwidth: 0, times: 0 };
    use.bandwidth += bandwidth;
    use.times += 1;
    uses.set(link, use);
  };
  for (const { from, to, factor } of waysOf(graph, system)) {
    const path = from.paths[to.type]![to.index]!;
    const bandwidth = (isInside(from) && isInside(to) ? graph.bwIntra : graph.bwInter) * factor;
    const intel = path.hops.some(
      ({ to: node }) => node.type === 'CPU' && node.arch === CpuArch.X86 && node.vendor === CpuVendor.INTEL,
    );
    const pciBandwidth =
      path.type === PathType.PHB && from.type === 'GPU' && intel ? (bandwidth * 6) / 5 : bandwidth;
    let near = from;
    for (const link of path.hops) {
      const far = link.to;
      const start = near;
      const need = link.type === LinkType.PCI ? pciBandwidth : bandwidth;
      take(link, need);
      let backwards = 0;
      if (far.type === 'DEV' && far.sm < 80 && from.type !== 'GPU') backwards += need / 8;
      if (link.type === LinkType.NVL && far.type === 'CPU' && far.arch === CpuArch.POWER) backwards += need;
      if (backwards > 0)
        take(far.links.find(({ type, to: back }) => type === link.type && back === start)!, backwards);
      near = far;
    }
  }
  return uses;
}

/** Half a unit of the rounding after each use, GB/s. */
export const ROUNDING = 0.0005;
