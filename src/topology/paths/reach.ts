/**
 * What two ranks, or a rank and a NIC, may do directly: peer-to-peer, shared memory, GPUDirect RDMA.
 *
 * The answers come with their reason, because "why is P2P off?" is the question that users ask most.
 * (NCCL 2.30.7, paths.cc and the transports.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { CommInfo, RankInfo } from '../communicator.js';
import { type LogSink, SILENT } from '../log.js';
import type { TopologySettings } from '../settings.js';
import {
  CpuArch,
  CpuVendor,
  type DevNode,
  type GpuNode,
  hostOf,
  type NetNode,
  type TopoSystem,
} from '../system/node.js';
import { PATH_TYPE_NAMES, PathType } from '../system/path-type.js';
import { localCpu } from './local-nics.js';
import { pathOrNone } from './path.js';

/** A system, its communicator and what the user set. */
export interface ReachContext {
  readonly system: TopoSystem;
  readonly comm: CommInfo;
  readonly settings: TopologySettings;
  /** Host hash of the rank that asks: NVML can be asked about its devices only. */
  readonly localHost: bigint;
  readonly log?: LogSink;
}

/** Why a direct way is refused. */
export type Refusal =
  | 'different host'
  | 'different /dev/shm'
  | 'path type above level'
  | 'NVML reports P2P not supported'
  | 'network is faster'
  | 'network is not faster'
  | 'GPU of another node'
  | 'copy engines do not relay'
  | 'point-to-point'
  | 'NCCL_SHM_DISABLE'
  | 'NIC without GPUDirect RDMA'
  | 'GPU without GPUDirect RDMA'
  | 'MLOPart partition'
  | 'NCCL_NET_GDR_READ'
  | 'no GPUDirect read below compute capability 80 without NVLink';

export interface P2pAnswer {
  /** Undefined if allowed. */
  readonly refused: Refusal | undefined;
  /** The GPU that the path goes through. */
  readonly intermediate: GpuNode | undefined;
  /** The reader pulls instead of the writer pushing. */
  readonly read: boolean;
}

/** Worst path type for peer-to-peer between GPUs. */
export function p2pLevel({ system, settings }: ReachContext): PathType {
  if (settings.p2pLevel !== undefined) return settings.p2pLevel;
  const [cpu] = system.nodes.CPU;
  const amd = cpu?.arch === CpuArch.X86 && cpu.vendor === CpuVendor.AMD;
  return amd && system.nodes.DEV.length <= 2 ? PathType.SYS : PathType.PXB;
}

/** May the rank on `from` reach the memory of the rank on `to`? */
export function checkP2p(context: ReachContext, from: GpuNode, to: GpuNode): P2pAnswer {
  const { system, comm, settings, localHost } = context;
  const a = comm.ranks[from.rank]!;
  const b = comm.ranks[to.rank]!;
  const no = (refused: Refusal): P2pAnswer => ({ refused, intermediate: undefined, read: false });
  if (a.hostHash !== b.hostHash) {
    const together = comm.mnnvl && a.clusterUuid !== '' && a.clusterUuid === b.clusterUuid;
    if (!together || a.cliqueId !== b.cliqueId) return no('different host');
  } else if (a.shmDevice !== b.shmDevice) return no('different /dev/shm');

  const path = pathOrNone(from, to);
  let refused: Refusal | undefined;
  if (path.type > p2pLevel(context)) refused = 'path type above level';
  const intermediate = intermediateOf(system, from, to);
  const verify =
    refused === undefined &&
    settings.ignoreDisabledP2p !== 2 &&
    from.parent !== to.parent &&
    a.hostHash === localHost &&
    b.hostHash === localHost;
  if (verify) {
    const devices = [from.parent, ...(intermediate === undefined ? [] : [intermediate.parent]), to.parent];
    for (let i = 1; i < devices.length; i++) {
      if (comm.nvmlP2p(devices[i - 1]!.busId, devices[i]!.busId)) continue;
      sayDisabled(context, devices[i - 1]!, devices[i]!, path.type);
      refused = 'NVML reports P2P not supported';
      break;
    }
  }
  return { refused, intermediate, read: path.type === PathType.NVL && from.sm === 80 && to.sm === 80 };
}

function sayDisabled({ settings, log = SILENT }: ReachContext, a: DevNode, b: DevNode, type: PathType): void {
  if (settings.ignoreDisabledP2p !== 0) return;
  const where = `GPUs ${a.dev} and ${b.dev}`;
  if (type <= PathType.NVB) {
    const text = `P2P is disabled between NVLINK connected ${where}. This should not be the case given their connectivity, and is probably due to a hardware issue. If you still want to proceed, you can set NCCL_IGNORE_DISABLED_P2P=1.`;
    log('WARN', 'GRAPH', text);
    throw new TuttiError('unhandledCudaError', text);
  }
  if (type < PathType.SYS) {
    log(
      'INFO',
      'GRAPH',
      `P2P is disabled between connected ${where}. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.`,
    );
  }
}

/** Hops of a path between GPUs through the device of a third one. */
const BRIDGED_HOPS = 4;

function intermediateOf(system: TopoSystem, from: GpuNode, to: GpuNode): GpuNode | undefined {
  const { hops } = pathOrNone(from, to);
  if (hops.length !== BRIDGED_HOPS) return undefined;
  const middle = hops[1]!.to;
  return middle.type === 'DEV' ? firstRankOn(system, middle) : undefined;
}

/** The first GPU node (rank) on a device, by host and NVML number. */
export function firstRankOn(system: TopoSystem, device: DevNode): GpuNode {
  const found = system.nodes.GPU.find((gpu) => hostOf(gpu) === hostOf(device) && gpu.dev === device.dev);
  if (found !== undefined) return found;
  throw new TuttiError(
    'internalError',
    `ncclTopoDevToRank could not find rank for nvml dev ${device.dev} in systemId ${hostOf(device)}: a path goes ` +
      'through a GPU that no rank uses; set NCCL_NVB_DISABLE=1 or use that GPU too',
  );
}

/** Is the network a faster way between two GPUs of one system than the machine itself? */
export function networkIsFaster({ system, settings }: ReachContext, from: GpuNode, to: GpuNode): boolean {
  if (settings.netDisableIntra) return false;
  const own = pathOrNone(from, to).bandwidth;
  return bestNet(system, from) > own && bestNet(system, to) > own;
}

function bestNet(system: TopoSystem, gpu: GpuNode): number {
  let best = 0;
  for (const net of system.nodes.NET) {
    const { type, bandwidth } = pathOrNone(gpu, net);
    if (type <= PathType.PXB && bandwidth > best) best = bandwidth;
  }
  return best;
}

/** Why the P2P transport does not connect two ranks; undefined if it does. */
export function p2pTransportRefuses(context: ReachContext, from: GpuNode, to: GpuNode): Refusal | undefined {
  const { refused, intermediate } = checkP2p(context, from, to);
  if (refused !== undefined) return refused;
  if (intermediate !== undefined) {
    return context.settings.p2pMemcpy ? 'copy engines do not relay' : undefined;
  }
  return networkIsFaster(context, from, to) ? 'network is faster' : undefined;
}

/** Why the shared-memory transport does not connect two ranks; undefined if it does. */
export function shmTransportRefuses(context: ReachContext, from: GpuNode, to: GpuNode): Refusal | undefined {
  if (context.settings.shmDisable) return 'NCCL_SHM_DISABLE';
  if (networkIsFaster(context, from, to)) return 'network is faster';
  return sharedMemoryRefuses(context, context.comm.ranks[from.rank]!, context.comm.ranks[to.rank]!);
}

/** The same of a peer whose GPU is in no topology of this rank, so that nobody can compare it with the network. */
export function sharedMemoryRefuses(
  { settings }: ReachContext,
  rank: RankInfo,
  peer: RankInfo,
): Refusal | undefined {
  if (settings.shmDisable) return 'NCCL_SHM_DISABLE';
  if (rank.hostHash !== peer.hostHash) return 'different host';
  return rank.shmDevice === peer.shmDevice ? undefined : 'different /dev/shm';
}

export interface GdrAnswer {
  /** Undefined if enabled. */
  readonly refused: Refusal | undefined;
  /** `PCI`: the GPU is reached by PCI although it has a chip-to-chip link to its CPU. */
  readonly mode: 'default' | 'PCI';
  /** Path type that counts, that of the relay GPU for a PXN path. */
  readonly distance: PathType;
}

/** Worst path type for GPUDirect RDMA. */
export function gdrLevel({ gdrLevel: level, gdrC2c }: TopologySettings): PathType {
  return level ?? (gdrC2c ? PathType.P2C : PathType.PXB);
}

/**
 * May a NIC read (`read`, the send direction) or write the memory of a rank's GPU?
 */
export function checkGdr(context: ReachContext, gpu: GpuNode, net: NetNode, read: boolean): GdrAnswer {
  const { system, settings } = context;
  const path = pathOrNone(gpu, net);
  const no = (refused: Refusal): GdrAnswer => ({ refused, mode: 'default', distance: path.type });
  if (!net.gdr) return no('NIC without GPUDirect RDMA');
  if (!gpu.gdr) return no('GPU without GPUDirect RDMA');
  if (gpu.mloPart >= 0 && !settings.gdrMloPart) return no('MLOPart partition');
  if (read) {
    if (settings.gdrRead === 0) return no('NCCL_NET_GDR_READ');
    if (settings.gdrRead < 0 && gpu.sm < 80) {
      const nvlink = system.nodes.GPU.some(
        (other) => other !== gpu && pathOrNone(gpu, other).type === PathType.NVL,
      );
      if (system.nodes.GPU.length > 1 && !nvlink) {
        return no('no GPUDirect read below compute capability 80 without NVLink');
      }
    }
  }
  const relay = path.type === PathType.PXN ? relayOf(system, gpu, net) : gpu;
  const distance = pathOrNone(relay, net).type;
  const throughC2c = pathOrNone(relay, localCpu(system, relay)).type === PathType.C2C;
  return {
    refused: distance > gdrLevel(settings) ? 'path type above level' : undefined,
    mode: throughC2c && distance !== PathType.P2C ? 'PCI' : 'default',
    distance,
  };
}

/** The GPU whose proxy carries the traffic of a PXN path: the first device behind the own one. */
export function relayOf(system: TopoSystem, gpu: GpuNode, net: NetNode): GpuNode {
  const { hops } = pathOrNone(gpu, net);
  for (const { to } of hops.slice(1)) {
    if (to.type === 'NVS') continue;
    if (to.type === 'DEV') {
      const first = to.links.find((link) => link.to.type === 'GPU')?.to;
      if (first?.type === 'GPU') return firstRankOn(system, first.parent);
    }
    break;
  }
  throw new TuttiError(
    'internalError',
    `the ${PATH_TYPE_NAMES[PathType.PXN]} path of rank ${gpu.rank} to NIC ${net.dev} names no relay GPU`,
    { rank: gpu.rank },
  );
}
