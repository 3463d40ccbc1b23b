/**
 * Which NIC a GPU uses for a channel, and which GPU a NIC belongs to.
 *
 * The nearest NICs are shared out among the GPUs that stand equally near to them, so that neighbours do not crowd on
 * one card. (NCCL 2.30.7, topo.cc and paths.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { MAX_CHANNELS, type NetDevsPolicy } from '../settings.js';
import { nodeName } from '../system/edit.js';
import type { CpuNode, GpuNode, NetNode, TopoSystem } from '../system/node.js';
import { localNodes, pathOrNone } from './path.js';

/**
 * The NIC that a GPU prefers for a channel.
 *
 * @throws TuttiError internalError if no network port is described at all.
 */
export function preferredNic(
  system: TopoSystem,
  gpu: GpuNode,
  channel: number,
  policy: NetDevsPolicy,
): NetNode {
  const nets = localNodes(gpu, 'NET').indices;
  if (nets.length === 0) {
    throw new TuttiError(
      'internalError',
      `Could not find any local path from gpu ${nodeName(gpu)} to net: the topology has no network port that ` +
        'this GPU reaches; add a <net>, or use one node only',
      { rank: gpu.rank },
    );
  }
  const gpus = Math.max(1, localNodes(system.nodes.NET[nets[0]!]!, 'GPU').indices.length);
  let at = gpu.dev % gpus;
  const bits = Math.log2(nets.length);
  if (Number.isInteger(bits)) at = reverseBits(at, bits);
  at += channel % nicsPerGpu(policy, nets.length, gpus);
  const { id } = system.nodes.NET[nets[at % nets.length]!]!;
  return system.nodes.NET.find((net) => net.id === id)!;
}

/** NICs that one GPU spreads its channels over. */
function nicsPerGpu(policy: NetDevsPolicy, nets: number, gpus: number): number {
  switch (policy.kind) {
    case 'AUTO':
      return Math.ceil(nets / gpus);
    case 'ALL':
      return nets;
    case 'MAX':
      return Math.min(policy.limit, nets);
  }
}

function reverseBits(value: number, bits: number): number {
  let reversed = 0;
  for (let bit = 0; bit < bits; bit++) reversed |= ((value >> bit) & 1) << (bits - 1 - bit);
  return reversed;
}

/** The NICs that a GPU prefers, in channel order, up to the one before the first repeats. */
export function preferredNics(system: TopoSystem, gpu: GpuNode, policy: NetDevsPolicy): NetNode[] {
  const nics = [preferredNic(system, gpu, 0, policy)];
  for (let channel = 1; channel < MAX_CHANNELS; channel++) {
    const nic = preferredNic(system, gpu, channel, policy);
    if (nic === nics[0]) break;
    nics.push(nic);
  }
  return nics;
}

/** The GPU that a NIC belongs to: of those nearest to it, the first that prefers it for a channel. */
export function gpuOfNic(system: TopoSystem, net: NetNode, policy: NetDevsPolicy): GpuNode | undefined {
  const near = localNodes(net, 'GPU').indices;
  for (let channel = 0; channel < MAX_CHANNELS; channel++) {
    for (const index of near) {
      const gpu = system.nodes.GPU[index]!;
      if (gpu.paths.NET !== undefined && preferredNic(system, gpu, channel, policy).id === net.id) return gpu;
    }
  }
  return undefined;
}

/**
 * The CPU nearest to a GPU.
 *
 * @throws TuttiError internalError if it hangs below none.
 */
export function localCpu(system: TopoSystem, gpu: GpuNode): CpuNode {
  let best: CpuNode | undefined;
  let hops = Number.POSITIVE_INFINITY;
  for (const index of localNodes(gpu, 'CPU').indices) {
    const cpu = system.nodes.CPU[index]!;
    const count = pathOrNone(gpu, cpu).hops.length;
    if (count < hops) [best, hops] = [cpu, count];
  }
  if (best === undefined) {
    throw new TuttiError('internalError', `could not find a CPU close to GPU ${nodeName(gpu)}`, {
      rank: gpu.rank,
    });
  }
  return best;
}

/** What the NICs of a rank can carry. */
export interface NetCapacity {
  /** GB/s: the narrowest path to a preferred NIC; limited by PCI too. */
  readonly minBandwidth: number;
  /** NICs that are needed to fill the GPU's way to its CPU. */
  readonly count: number;
  /** GB/s of those NICs together. */
  readonly total: number;
}

/** NICs of a GPU as its communicator counts them. Bandwidths are 32-bit floats. */
export function netCapacity(system: TopoSystem, gpu: GpuNode, policy: NetDevsPolicy): NetCapacity {
  const nics = preferredNics(system, gpu, policy);
  const bandwidths = nics.map((nic) => pathOrNone(gpu, nic).bandwidth);
  const enough = pathOrNone(gpu, localCpu(system, gpu)).bandwidth;
  let total = 0;
  let count = 0;
  for (const bandwidth of bandwidths) {
    total = Math.fround(total + bandwidth);
    count += 1;
    if (total >= enough) break;
  }
  return { minBandwidth: Math.min(...bandwidths), count, total };
}
