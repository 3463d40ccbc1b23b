/**
 * The fields of a golden file. test/golden/README.md has their meaning.
 *
 * Our own results are turned into the same shape (shape.ts), so that one comparison of two trees does for all.
 */

/** Parameters of one golden file. */
export interface Oracle {
  readonly nodes: number;
  readonly gpusPerNode: number;
  readonly nRanks: number;
  readonly mnnvl: 0 | 1;
  readonly traysPerClique: number;
  readonly lastNodeDiffers: 0 | 1;
  readonly nvls: 0 | 1;
  readonly collnet: 0 | 1;
  readonly nop2p: 0 | 1;
  readonly env: Readonly<Record<string, string>>;
}

/** Type, GB/s and "TYPE/index" of the far end. */
export type GoldenLink = readonly [type: string, bandwidth: number, to: string];

/** A node: `i` (index), `id`, `links` and what its type has. */
export type GoldenNode = Readonly<Record<string, number | string | readonly GoldenLink[]>>;

/** Type, GB/s, number of hops, and in small systems the far ends of the hops. */
export type GoldenPath =
  | readonly [type: string, bandwidth: number, hops: number]
  | readonly [type: string, bandwidth: number, hops: number, through: string];

export interface GoldenSystem {
  readonly maxBw?: number;
  readonly totalBw?: number;
  readonly inter?: number;
  readonly nHosts: number;
  readonly nodes: Readonly<Record<string, readonly GoldenNode[]>>;
  /** By "A-B", by index of A (an empty list: no table), by index of B. */
  readonly paths?: Readonly<Record<string, readonly (readonly GoldenPath[])[]>>;
}

export interface GoldenChannel {
  readonly intra: readonly number[];
  readonly inter?: readonly string[];
  readonly interDev?: readonly number[];
}

export interface GoldenGraph {
  readonly id: number;
  readonly pattern: number;
  readonly crossNic: number;
  readonly collNet: number;
  readonly minChannels: number;
  readonly maxChannels: number;
  readonly nChannels: number;
  readonly bwIntra: number;
  readonly bwInter: number;
  readonly latencyInter: number;
  readonly typeIntra: string;
  readonly typeInter: string;
  readonly sameChannels: number;
  readonly nHops: number;
  /** Absent in aligned graphs. */
  readonly channels?: readonly GoldenChannel[];
}

/** Names of the five graphs. */
export const GRAPH_NAMES = ['ring', 'tree', 'collnetChain', 'collnetDirect', 'nvls'] as const;
export type GraphName = (typeof GRAPH_NAMES)[number];

export interface GoldenDomain extends Readonly<Record<GraphName, GoldenGraph>> {
  readonly leaderRank: number;
  readonly ranks: readonly number[];
}

export interface GoldenRings {
  readonly ring: readonly number[];
  readonly ringPrevNextConsistent: boolean;
  readonly treeUp: readonly number[];
  readonly treeDown: readonly (readonly number[])[];
  readonly treeDepth: number;
  readonly collnetChain?: readonly (readonly number[])[];
  readonly collnetDirect?: readonly Readonly<Record<string, number | readonly number[]>>[];
}

export interface GoldenNvls {
  readonly nHeads: number;
  readonly headRank: readonly number[];
  readonly treeUp0: readonly number[];
  readonly treeDown0: readonly (readonly number[])[];
  readonly treeUp1: readonly number[];
  readonly treeDown1: readonly (readonly number[])[];
}

/** What is compared; every part may be missing while the program that computes it is not whole. */
export interface GoldenParts {
  readonly system?: GoldenSystem;
  readonly domainSystems?: readonly GoldenSystem[];
  readonly nDomains?: number;
  readonly search?: readonly GoldenDomain[];
  readonly aligned?: Readonly<Record<GraphName, GoldenGraph>>;
  readonly comm?: Readonly<Record<string, number | readonly number[]>>;
  readonly channels?: readonly GoldenRings[];
  readonly nvlsChannelsInfo?: GoldenNvls;
  readonly tuning?: GoldenTuning;
  /** By function. */
  readonly decisions?: Readonly<Record<string, readonly GoldenDecision[]>>;
}

/** By algorithm: LL, LL128, Simple. */
export type ByAlgorithm = Readonly<Record<string, readonly number[]>>;

export interface GoldenTuning {
  readonly maxThreads: ByAlgorithm;
  readonly threadThresholds: ByAlgorithm;
  /** By function. */
  readonly latencies: Readonly<Record<string, ByAlgorithm>>;
  readonly bandwidths: Readonly<Record<string, ByAlgorithm>>;
}

/** A decision and where the call is placed, or NCCL's error code in place of one. */
export interface GoldenDecision {
  readonly bytes: number;
  readonly error?: number;
  readonly count?: number;
  readonly algo?: string;
  readonly proto?: string;
  readonly time?: number;
  /** By "algorithm/protocol". */
  readonly costs?: Readonly<Record<string, number>>;
  readonly nMaxChannels?: number;
  readonly nWarps?: number;
  readonly threads?: number;
  readonly channelLo?: number;
  readonly channelHi?: number;
  readonly nChannels?: number;
  /** Counts and chunks of the first, the middle and the last channels, or of the whole. */
  readonly countLo?: number;
  readonly countMid?: number;
  readonly countHi?: number;
  readonly chunkBytesLo?: number;
  readonly chunkBytesMid?: number;
  readonly chunkBytesHi?: number;
  readonly collnetCount?: number;
  readonly chunkCount?: number;
}

export interface GoldenFile extends GoldenParts {
  readonly oracle: Oracle;
}
