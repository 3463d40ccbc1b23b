/**
 * Everything that the cost model knows of a communicator: agreed on by all ranks, so that all decide alike.
 *
 * `from-topology.ts` makes it from the topology part's result. (NCCL 2.30.7, tuning.cc, init.cc.)
 */
import type { ElementType } from '../kernel/element-types.js';
import type { TopoGraph } from '../topology/search/graph.js';
import type { TuningSettings } from './settings.js';

/** What the model takes from a searched and aligned graph. */
export type ModelGraph = Pick<
  TopoGraph,
  'nChannels' | 'bwIntra' | 'bwInter' | 'latencyInter' | 'typeIntra' | 'typeInter' | 'sameChannels'
>;

export interface ModelGraphs {
  readonly ring: ModelGraph;
  readonly tree: ModelGraph;
  readonly collnetDirect: ModelGraph;
  readonly collnetChain: ModelGraph;
  readonly nvls: ModelGraph;
}

/** Operators that a collective network knows. */
export type NetworkOperator = 'sum' | 'prod' | 'max' | 'min';

/** CollNet as it stands after its set-up. */
export interface CollnetFacts {
  /** In use; false switches off all that needs it. */
  readonly enabled: boolean;
  /** The first ranks of all chain channels are heads. */
  readonly chainSupported: boolean;
  /** What the plugin can do. */
  readonly allGather: boolean;
  readonly reduceScatter: boolean;
  readonly supports: (operator: NetworkOperator, type: ElementType) => boolean;
  /** Heads of a node that were set up, and heads of the own node's CollNet direct graph. */
  readonly setupHeads: number;
  readonly directHeads: number;
}

export interface NvlsFacts {
  readonly enabled: boolean;
  /** Channels of NVLS calls. */
  readonly nChannels: number;
  /** Heads of the node that has fewest. */
  readonly heads: number;
}

export interface TuningInput {
  readonly nRanks: number;
  readonly nNodes: number;
  /** Ranks of the own node, and of the smallest and the largest node. */
  readonly localRanks: number;
  readonly minLocalRanks: number;
  readonly maxLocalRanks: number;
  /** Compute capability times 10: of the own GPU, lowest and highest of all. */
  readonly sm: number;
  readonly minSm: number;
  readonly maxSm: number;
  /** `CpuArch` and `CpuVendor`, or MIXED_CPUS. */
  readonly cpuArch: number;
  readonly cpuVendor: number;
  readonly graphs: ModelGraphs;
  /** `Pattern` of trees: the highest of all ranks. */
  readonly maxTreePattern: number;
  /** There is an NVSwitch in the own system. */
  readonly hasNvswitch: boolean;
  /** Channels of collectives. */
  readonly nChannels: number;
  readonly collnet: CollnetFacts;
  readonly nvls: NvlsFacts;
  /** GB/s of the slowest NIC in use. */
  readonly minNetBw: number;
  /** NVLink joins hosts. */
  readonly mnnvl: boolean;
  /** The network device hands data over as they are (no unpacking on the GPU). */
  readonly plainNetDevice: boolean;
  /** Channels of a call that configuration and environment allow. */
  readonly minCtas: number;
  readonly maxCtas: number;
  /** `CtaPolicy` bits. */
  readonly ctaPolicy: number;
  /** The kernels were built by CUDA 11.8, whose LL128 had a defect. */
  readonly cuda118: boolean;
  readonly settings: TuningSettings;
}

/** Ranks of a node, a fraction if nodes differ: single precision. */
export const ranksPerNode = ({ nRanks, nNodes }: TuningInput): number => Math.fround(nRanks / nNodes);

/** Ranks of a node, rounded down. */
export const wholeRanksPerNode = ({ nRanks, nNodes }: TuningInput): number => Math.floor(nRanks / nNodes);
