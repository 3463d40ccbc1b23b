/**
 * Why GPUs of one machine cannot reach each other's memory, and why a machine falls apart into several nodes.
 */
import type { Domain } from '../../cluster.js';
import { pathOrNone } from '../../paths/path.js';
import { checkP2p, p2pLevel, type ReachContext, type Refusal } from '../../paths/reach.js';
import type { TopologySettings } from '../../settings.js';
import { CpuVendor, type GpuNode, type TopoSystem } from '../../system/node.js';
import { PATH_TYPE_NAMES, PathType } from '../../system/path-type.js';
import { withPlainPaths } from '../plain-paths.js';
import { bandwidthText, countText, listText } from '../quantities.js';
import { meaningOf, pathTypeName } from '../type-legend.js';
import { because, type Explanation } from './explanation.js';
import { gpusText, pairsText } from './gpu-groups.js';

/** GPUs of one machine, before it was split, and its domains. */
export interface MachineView {
  /** The first domain's view of the machine. */
  readonly domains: readonly Domain[];
  readonly settings: TopologySettings;
}

/** Two GPUs of one machine. */
export interface Pair {
  readonly from: GpuNode;
  readonly to: GpuNode;
  /** Path of the hardware. */
  readonly type: PathType;
  readonly refused: Refusal | undefined;
  /** The path that is used in place, GB/s. */
  readonly bandwidth: number;
  /** Neither peer-to-peer nor shared memory: the network. */
  readonly overNetwork: boolean;
  /** They ended up in different nodes of a machine that was split. */
  readonly apart: boolean;
}

/** What decides about peer-to-peer: the paths of the hardware. */
function contextOf({ domains, settings }: MachineView): ReachContext {
  const { whole, comm, localHost } = domains[0]!;
  return { system: withPlainPaths(whole, settings.nvbDisable), comm, settings, localHost };
}

/** All pairs of GPUs of a machine. */
export function gpuPairs(view: MachineView, context: ReachContext = contextOf(view)): Pair[] {
  const { GPU } = view.domains[0]!.whole.nodes;
  const plain = context.system.nodes.GPU;
  return GPU.flatMap((from, a) =>
    GPU.slice(a + 1).map((to): Pair => {
      const there = plain[from.index]!;
      const here = plain[to.index]!;
      const { refused } = checkP2p(context, there, here);
      const { bandwidth, type: used } = pathOrNone(from, to);
      const apart = view.domains.some(
        ({ ranks, rankOffset }) =>
          ranks.includes(from.rank + rankOffset) !== ranks.includes(to.rank + rankOffset),
      );
      const overNetwork = used >= PathType.NET || apart;
      return { overNetwork, apart, from, to, type: pathOrNone(there, here).type, refused, bandwidth };
    }),
  );
}

/** Sentences on all pairs of GPUs of a machine. */
export function peerExplanations(view: MachineView): Explanation[] {
  const { whole, rankOffset } = view.domains[0]!;
  if (whole.nodes.GPU.length < 2) return [];
  const context = contextOf(view);
  const said: Explanation[] = [];
  const groups = groupBy(
    gpuPairs(view, context),
    ({ type, refused, overNetwork }) => `${refused} ${type} ${overNetwork}`,
  );
  groups.sort(([a], [b]) => a!.type - b!.type);
  for (const alike of groups) {
    const { type, refused } = alike[0]!;
    const ranks = alike.map(({ from, to }): [number, number] => {
      const [a, b] = [from.rank + rankOffset, to.rank + rankOffset];
      return a < b ? [a, b] : [b, a];
    });
    const evidence = {
      refused: refused ?? 'none',
      type: pathTypeName(type),
      pairs: alike.length,
      level: PATH_TYPE_NAMES[p2pLevel(context)],
    };
    const text = sentence(pairsText(ranks), type, refused, alike, context);
    said.push(because('p2p', text, evidence));
  }
  return said;
}

function sentence(
  who: string,
  type: PathType,
  refused: Refusal | undefined,
  pairs: readonly Pair[],
  context: ReachContext,
): string {
  const path = `${pathTypeName(type)} (${meaningOf(type)})`;
  const level = PATH_TYPE_NAMES[p2pLevel(context)];
  const bandwidths = [...new Set(pairs.map(({ bandwidth }) => bandwidthText(bandwidth)))];
  const at = `at ${listText(bandwidths)} GB/s`;
  const { apart } = pairs[0]!;
  const instead = pairs[0]!.overNetwork ? 'They go over the network.' : `They go through host memory ${at}.`;
  switch (refused) {
    case undefined:
      return apart
        ? `${who}: allowed over ${path}, and not used: they are in different nodes of this machine (see above) and go over the network.`
        : `${who}: allowed, path ${path} ${at}.`;
    case 'path type above level':
      return (
        `${who}: refused, the path ${path} is beyond the level ${level} ${levelReason(context)}. ` +
        `${instead} ${remedy(context, type)}${apart ? ' The machine would stay split, though (see above).' : ''}`
      );
    case 'NVML reports P2P not supported':
      return (
        `${who}: refused, the driver (NVML) reports that peer-to-peer access over ${path} does not work. ` +
        `${instead} Often an IOMMU, ACS or a virtual machine is the cause; NCCL_IGNORE_DISABLED_P2P=2 makes ` +
        'NCCL not ask.'
      );
    case 'different /dev/shm':
      return `${who}: refused, their ranks have different /dev/shm (containers of their own). They go over the network.`;
    case 'different host':
      return `${who}: refused, they are in different hosts that do not share an NVLink domain. They go over the network.`;
    default:
      return `${who}: refused: ${refused}. ${instead}`;
  }
}

function levelReason({ settings, system }: ReachContext): string {
  if (settings.p2pLevel === PathType.LOC) return 'that NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC sets';
  if (settings.p2pLevel !== undefined) return 'that NCCL_P2P_LEVEL sets';
  const [cpu] = system.nodes.CPU;
  const vendor = cpu?.vendor === CpuVendor.AMD ? 'with more than 2 GPUs' : 'on this processor';
  return `that is NCCL's default ${vendor}`;
}

function remedy({ settings }: ReachContext, type: PathType): string {
  if (settings.p2pLevel === PathType.LOC) return 'Without the variable the path type would decide.';
  return `NCCL_P2P_LEVEL=${PATH_TYPE_NAMES[Math.min(type, PathType.SYS)]} would allow it, if the machine can do it.`;
}

/** Why the GPUs of one machine are several nodes; none if they are one. */
export function splitExplanations({ domains, settings }: MachineView): Explanation[] {
  if (domains.length < 2) return [];
  const { whole, rankOffset } = domains[0]!;
  const plain = withPlainPaths(whole, settings.nvbDisable);
  const pairs = domains.flatMap((a, at) =>
    domains.slice(at + 1).flatMap((b) => a.ranks.flatMap((from) => b.ranks.map((to) => [from, to] as const))),
  );
  const gpu = (rank: number) => whole.nodes.GPU.find((one) => one.rank === rank - rankOffset)!;
  const between = pairs.map(([a, b]) => {
    const { bandwidth } = pathOrNone(gpu(a), gpu(b));
    const plainType = pathOrNone(plain.nodes.GPU[gpu(a).index]!, plain.nodes.GPU[gpu(b).index]!).type;
    const net = Math.min(bestNet(plain, gpu(a).index), bestNet(plain, gpu(b).index));
    return { bandwidth, net, plainType };
  });
  const faster = between.filter(({ bandwidth, net }) => net > bandwidth);
  const nodes = listText(domains.map(({ ranks }) => gpusText(ranks)));
  const names = `The ${countText(whole.nodes.GPU.length, 'GPU')} of this machine count as ${domains.length} nodes: ${nodes}.`;
  if (faster.length > 0) {
    const own = Math.max(...faster.map(({ bandwidth }) => bandwidth));
    const net = Math.min(...faster.map((one) => one.net));
    const type = Math.max(...faster.map(({ plainType }) => plainType)) as PathType;
    return [
      because(
        'split',
        `${names} Between them the network is the faster way: ${oneDecimal(net)} GB/s from each GPU to a NIC near it, ` +
          `${oneDecimal(net)} > ${oneDecimal(own)} GB/s through the machine (${pathTypeName(type)}, ${meaningOf(type)}). ` +
          `NCCL_NET_DISABLE_INTRA=1 keeps them together, with ${oneDecimal(own)} GB/s or less between them.`,
        { net, own, nodes: domains.length },
      ),
    ];
  }
  const shm = settings.shmDisable
    ? 'neither peer-to-peer nor shared memory (NCCL_SHM_DISABLE=1) connects them. Without that variable they would be one node.'
    : 'neither peer-to-peer nor shared memory connects them.';
  return [because('split', `${names} Between them ${shm}`, { nodes: domains.length })];
}

/** The best NIC that a GPU reaches by PCIe switches only, GB/s. */
function bestNet(plain: TopoSystem, index: number): number {
  const gpu = plain.nodes.GPU[index]!;
  const near = plain.nodes.NET.map((net) => pathOrNone(gpu, net)).filter(({ type }) => type <= PathType.PXB);
  return Math.max(0, ...near.map(({ bandwidth }) => bandwidth));
}

const oneDecimal = (value: number): string =>
  Number.isInteger(value) ? value.toFixed(1) : bandwidthText(value);

function groupBy<T>(items: readonly T[], key: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const own = groups.get(key(item));
    if (own === undefined) groups.set(key(item), [item]);
    else own.push(item);
  }
  return [...groups.values()];
}
