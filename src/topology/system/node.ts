/**
 * The graph of a machine: nodes by type, one-way links with bandwidth, and the table of best paths.
 *
 * A "GPU" node is one rank's GPU, a "DEV" node the physical device under it, which carries all links; "NVS" stands
 * for all NVSwitches; a "NIC" card has ports ("NET", and the sub-devices "GIN" and "RMA"). The order of nodes, links
 * and hops decides what the search finds, so nothing here is sorted for beauty. (NCCL 2.30.7, topo.h.)
 */
import type { LinkType, PathType } from './path-type.js';

/** Types of nodes in NCCL's order. */
export const NODE_TYPES = ['GPU', 'PCI', 'NVS', 'CPU', 'NIC', 'NET', 'GIN', 'RMA', 'DEV', 'CXB'] as const;
export type NodeType = (typeof NODE_TYPES)[number];

/** One way from a node to another. */
export interface TopoLink {
  readonly type: LinkType;
  /** GB/s (10^9 bytes), a 32-bit float. */
  bandwidth: number;
  to: TopoNode;
}

/** The best way from a node to another; `hops` are links of the nodes on the way, first hop first. */
export interface TopoPath {
  type: PathType;
  /** GB/s of the narrowest link, a 32-bit float; 0 if there is no path. */
  bandwidth: number;
  hops: readonly TopoLink[];
}

interface NodeBase<T extends NodeType> {
  readonly type: T;
  /** Host number in the upper 8 bits, local id in the lower 56. Ids need not be unique. */
  readonly id: bigint;
  /** Position among the nodes of this type. */
  index: number;
  /** In NCCL's order: decreasing bandwidth, and for nodes below a CPU the link upwards last. */
  links: TopoLink[];
  /**
   * Paths from this node to the nodes of a type, by index of the other node. A missing table and a table with
   * unreached slots (type DIS) are different things (see paths/).
   */
  paths: Partial<Record<NodeType, TopoPath[]>>;
}

export interface GpuNode extends NodeBase<'GPU'> {
  /** NVML device index. */
  readonly dev: number;
  readonly rank: number;
  /** Compute capability times 10. */
  readonly sm: number;
  /** Can do GPUDirect RDMA. */
  readonly gdr: boolean;
  /** MLOPart partition, -1 if the GPU is whole. */
  readonly mloPart: number;
  readonly parent: DevNode;
}

export interface DevNode extends NodeBase<'DEV'> {
  readonly dev: number;
  readonly sm: number;
  /** Ranks on this device when the system was built; trimming does not lower it. */
  gpuCount: number;
  /** Vendor, device, subsystem vendor and subsystem device, 16 bits each. */
  readonly device: bigint;
  readonly mloPart: number;
  /** Bus id of the physical GPU, also for a partition. */
  readonly busId: string;
}

export interface PciNode extends NodeBase<'PCI'> {
  /** Vendor, device, subsystem vendor and subsystem device, 16 bits each. */
  device: bigint;
  readonly busId: string;
}

export interface CpuNode extends NodeBase<'CPU'> {
  readonly arch: CpuArch;
  readonly vendor: CpuVendor;
  readonly model: CpuModel;
  /** Hex words of 32 CPUs, comma separated, most significant first; '' if unknown. */
  readonly affinity: string;
  /** NUMA number as the file has it; -1 if unknown. */
  readonly numaId: number;
}

export interface NicNode extends NodeBase<'NIC'> {
  /** '' for a virtual interface. */
  readonly busId: string;
}

export interface PortNode<T extends 'NET' | 'GIN' | 'RMA' = 'NET' | 'GIN' | 'RMA'> extends NodeBase<T> {
  /** The plugin's name of the device, '' if the file has none. */
  readonly name: string;
  /** The plugin's number of the device. */
  readonly dev: number;
  /** Id of the physical card. */
  readonly asic: bigint;
  readonly port: number;
  /** GB/s, a 32-bit float. */
  readonly bandwidth: number;
  /** Microseconds, a 32-bit float. */
  readonly latency: number;
  readonly gdr: boolean;
  /** Can do CollNet. */
  readonly coll: boolean;
  readonly maxConnections: number;
  /** -1 if undefined. */
  readonly rail: number;
  readonly plane: number;
  /** Hash of the bus id of the nearest PCI device above (of the asic if there is none). */
  readonly pciId: bigint;
  /** Index of the GPU that prefers this port, -1 if none does. Stored with the paths. */
  localGpu: number;
}
export type NetNode = PortNode<'NET'>;

export interface NvsNode extends NodeBase<'NVS'> {}
export interface CxbNode extends NodeBase<'CXB'> {}

/** Node type to its interface. */
export interface NodeOfType {
  GPU: GpuNode;
  PCI: PciNode;
  NVS: NvsNode;
  CPU: CpuNode;
  NIC: NicNode;
  NET: NetNode;
  GIN: PortNode<'GIN'>;
  RMA: PortNode<'RMA'>;
  DEV: DevNode;
  CXB: CxbNode;
}
export type TopoNode = NodeOfType[NodeType];

/** CPU architecture, NCCL's numbers. */
export const CpuArch = { UNKNOWN: 0, X86: 1, POWER: 2, ARM: 3 } as const;
export type CpuArch = (typeof CpuArch)[keyof typeof CpuArch];

/** CPU vendor, NCCL's numbers; -1 where the architecture has none. */
export const CpuVendor = { UNDEFINED: -1, UNKNOWN: 0, INTEL: 1, AMD: 2, ZHAOXIN: 3 } as const;
export type CpuVendor = (typeof CpuVendor)[keyof typeof CpuVendor];

/** CPU model class, NCCL's numbers: Intel's BDW 1, SKL 2, SRP 3, ERP 4; Zhaoxin's Yongfeng 1; -1 if unset. */
export type CpuModel = -1 | 0 | 1 | 2 | 3 | 4;

/** The machine as one rank sees it: one host, or all hosts of an NVLink domain's clique. */
export interface TopoSystem {
  readonly nodes: { readonly [T in NodeType]: NodeOfType[T][] };
  /** Hash of each host, by host number (the upper 8 bits of ids). */
  readonly hosts: readonly bigint[];
  /** True if the communicator has ranks outside this system: the search then uses NICs. */
  inter: boolean;
  /** GB/s: ceiling of one channel and of one GPU, for the search. */
  maxBw: number;
  totalBw: number;
}

/** Host number of a node. */
export const hostOf = (node: { readonly id: bigint }): number => Number(node.id >> 56n);

/** Id without the host number. */
export const localIdOf = (node: { readonly id: bigint }): bigint => node.id & LOCAL_ID_MASK;

/** The lower 56 bits of a node id. */
export const LOCAL_ID_MASK = (1n << 56n) - 1n;
