/**
 * What a search finds: how many channels, at which bandwidth, and the order of GPUs and the NICs of each.
 *
 * (NCCL 2.30.7, graph.h.)
 */
import type { PathType } from '../system/path-type.js';

/** Shapes that are searched, with NCCL's numbers. */
export const Pattern = {
  /** The NIC is spread over the first two GPUs. */
  BALANCED_TREE: 1,
  /** Receiving and sending NIC are at the first and at the second GPU. */
  SPLIT_TREE: 2,
  /** All NIC traffic at the first GPU. */
  TREE: 3,
  RING: 4,
  NVLS: 5,
  COLLNET_DIRECT: 6,
} as const;
export type Pattern = (typeof Pattern)[keyof typeof Pattern];

/** The five searches; the numbers are NCCL's graph ids. */
export const GraphId = { RING: 0, TREE: 1, COLLNET_CHAIN: 2, NVLS: 3, COLLNET_DIRECT: 4 } as const;
export type GraphId = (typeof GraphId)[keyof typeof GraphId];

/** NIC id of a channel that has none. */
export const NO_NIC = 0xffff_ffff_ffff_ffffn;

export interface GraphChannel {
  /** Ranks in order; for NVLS only the first (the head) has meaning. */
  readonly intra: readonly number[];
  /** Ids of the NET nodes at both ends; `null` where the system is not connected to others. */
  readonly inter: readonly [bigint, bigint] | null;
}

/** Result of one search, or its start values. Bandwidths in GB/s, 32-bit floats. */
export interface TopoGraph {
  readonly id: GraphId;
  pattern: Pattern;
  /** 0 never, 1 always allowed, 2 channels in pairs that swap NICs. */
  crossNic: number;
  readonly collNet: boolean;
  minChannels: number;
  maxChannels: number;
  nChannels: number;
  /** Of each channel, inside the system and to the network. */
  bwIntra: number;
  bwInter: number;
  /** Microseconds. */
  latencyInter: number;
  /** Worst path type in use. */
  typeIntra: PathType;
  typeInter: PathType;
  /** All channels have the same order of GPUs. */
  sameChannels: boolean;
  nHops: number;
  channels: GraphChannel[];
}

/** The graphs of one system (domain), by use. */
export interface TopoGraphs {
  readonly ring: TopoGraph;
  readonly tree: TopoGraph;
  readonly collnetChain: TopoGraph;
  readonly collnetDirect: TopoGraph;
  readonly nvls: TopoGraph;
}

/** A graph before its search: nothing found. */
export function startGraph(
  id: GraphId,
  pattern: Pattern,
  collNet: boolean,
  minChannels: number,
  maxChannels: number,
): TopoGraph {
  return {
    id,
    pattern,
    crossNic: 0,
    collNet,
    minChannels,
    maxChannels,
    nChannels: 0,
    bwIntra: 0,
    bwInter: 0,
    latencyInter: 0,
    typeIntra: 0,
    typeInter: 0,
    sameChannels: false,
    nHops: 0,
    channels: [],
  };
}
