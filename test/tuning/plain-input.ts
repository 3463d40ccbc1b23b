/** Communicators that tests of the cost model start from; each test changes what it is about. */

import { PathType } from '#src/topology/system/path-type.js';
import type { ModelGraph, TuningInput } from '#src/tuning/input.js';
import { type TuningTables, tuningTables } from '#src/tuning/model.js';
import {
  entryOf,
  FunctionId,
  NCCL_PROTOCOLS,
  type NcclAlgorithm,
  type NcclFunction,
} from '#src/tuning/names.js';
import { tuningSettings } from '#src/tuning/settings.js';

/** A graph of channels over NVLink. */
export function graph(
  nChannels: number,
  bwIntra: number,
  bwInter: number,
  change: Partial<ModelGraph> = {},
): ModelGraph {
  return {
    nChannels,
    bwIntra: Math.fround(bwIntra),
    bwInter: Math.fround(bwInter),
    latencyInter: 0,
    typeIntra: PathType.NVL,
    typeInter: PathType.PIX,
    sameChannels: true,
    ...change,
  };
}

/** What a search that was not made leaves. */
export const NO_GRAPH: ModelGraph = { ...graph(0, 0, 0), typeIntra: 0, typeInter: 0, sameChannels: false };

type Change = Omit<Partial<TuningInput>, 'graphs' | 'settings' | 'collnet' | 'nvls'> & {
  readonly graphs?: Partial<TuningInput['graphs']>;
  readonly collnet?: Partial<TuningInput['collnet']>;
  readonly nvls?: Partial<TuningInput['nvls']>;
  readonly env?: Readonly<Record<string, string>>;
};

/** One node of 8 Hopper GPUs with an NVSwitch and Intel CPUs; NVLS in use, CollNet not. */
export function plainInput({ env, graphs, collnet, nvls, ...change }: Change = {}): TuningInput {
  const ring = graph(12, 30, 30);
  return {
    nRanks: 8,
    nNodes: 1,
    localRanks: 8,
    minLocalRanks: 8,
    maxLocalRanks: 8,
    sm: 90,
    minSm: 90,
    maxSm: 90,
    cpuArch: 1,
    cpuVendor: 1,
    graphs: {
      ring,
      tree: ring,
      collnetDirect: NO_GRAPH,
      collnetChain: NO_GRAPH,
      nvls: graph(8, 40, 40),
      ...graphs,
    },
    maxTreePattern: 1,
    hasNvswitch: true,
    nChannels: 24,
    collnet: {
      enabled: false,
      chainSupported: true,
      allGather: true,
      reduceScatter: true,
      supports: () => true,
      setupHeads: 8,
      directHeads: 8,
      ...collnet,
    },
    nvls: { enabled: true, nChannels: 16, heads: 8, ...nvls },
    minNetBw: 0,
    mnnvl: false,
    plainNetDevice: true,
    minCtas: 1,
    maxCtas: 64,
    ctaPolicy: 0,
    cuda118: false,
    ...change,
    settings: tuningSettings(env),
  };
}

/** Four such nodes with slower NICs, NVLS off. */
export function fourNodes(change: Change = {}): TuningInput {
  const channels = graph(8, 48, 24, { latencyInter: 2.5 });
  return plainInput({
    nRanks: 32,
    nNodes: 4,
    nChannels: 16,
    minNetBw: 48,
    ...change,
    graphs: { ring: channels, tree: channels, nvls: NO_GRAPH, ...change.graphs },
    nvls: { enabled: false, nChannels: 0, heads: 0, ...change.nvls },
  });
}

/** Two Hopper nodes where the network reduces and the NVSwitch does too. */
export function collnetNodes(change: Change = {}): TuningInput {
  const channels = graph(8, 48, 48);
  return plainInput({
    nRanks: 16,
    nNodes: 2,
    nChannels: 16,
    minNetBw: 48,
    ...change,
    graphs: {
      ring: channels,
      tree: channels,
      nvls: channels,
      collnetDirect: channels,
      collnetChain: channels,
      ...change.graphs,
    },
    collnet: { enabled: true, ...change.collnet },
  });
}

/** One GPU per node, where PAT is in use. */
export function singleGpuNodes(change: Change = {}): TuningInput {
  const channels = graph(2, 12, 12, { latencyInter: 5, typeIntra: PathType.LOC });
  return plainInput({
    nRanks: 4,
    nNodes: 4,
    localRanks: 1,
    minLocalRanks: 1,
    maxLocalRanks: 1,
    sm: 80,
    minSm: 80,
    maxSm: 80,
    cpuVendor: 2,
    hasNvswitch: false,
    nChannels: 4,
    ...change,
    graphs: { ring: channels, tree: channels, nvls: NO_GRAPH, ...change.graphs },
    nvls: { enabled: false, nChannels: 0, heads: 0, ...change.nvls },
  });
}

/** Tables of an input. */
export const tablesOf = (input: TuningInput): TuningTables => tuningTables(input);

/** LL, LL128 and Simple of one algorithm. */
export function row(table: Float32Array, fn: NcclFunction, algorithm: NcclAlgorithm): number[] {
  return NCCL_PROTOCOLS.map((protocol) => table[entryOf(fn, algorithm, protocol)]!);
}

/** Rules that exclude a candidate, in the order in which they are listed. */
export function rulesOf(
  tables: TuningTables,
  fn: NcclFunction,
  algorithm: NcclAlgorithm,
  protocol: (typeof NCCL_PROTOCOLS)[number] = 'Simple',
): string[] {
  return tables.exclusions[FunctionId[fn]]!.filter(
    (one) => one.algorithm === algorithm && one.protocol === protocol,
  ).map(({ rule }) => rule);
}
