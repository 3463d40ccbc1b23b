/**
 * What the model must know of each algorithm: which graph it runs on, which functions and protocols exist, and how
 * many steps a function takes.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import type { ModelGraph, ModelGraphs } from './input.js';
import type { NcclAlgorithm, NcclFunction, NcclProtocol } from './names.js';

const GRAPH: Readonly<Record<NcclAlgorithm, keyof ModelGraphs>> = {
  Tree: 'tree',
  Ring: 'ring',
  CollNetDirect: 'collnetDirect',
  CollNetChain: 'collnetChain',
  NVLS: 'nvls',
  NVLSTree: 'nvls',
  PAT: 'tree',
};

/** Name of the graph that an algorithm's channels come from. */
export const graphNameOf = (algorithm: NcclAlgorithm): keyof ModelGraphs => GRAPH[algorithm];

/** The graph that an algorithm's channels come from. */
export const graphOf = (graphs: ModelGraphs, algorithm: NcclAlgorithm): ModelGraph =>
  graphs[GRAPH[algorithm]];

const GATHER_LIKE: readonly NcclFunction[] = ['AllGather', 'ReduceScatter'];

/** All-gather and reduce-scatter: every rank has a block of its own. */
export const isScattered = (fn: NcclFunction): boolean => GATHER_LIKE.includes(fn);

const SERVED: Readonly<Record<NcclAlgorithm, readonly NcclFunction[]>> = {
  Tree: ['AllReduce'],
  Ring: ['Broadcast', 'Reduce', 'AllGather', 'ReduceScatter', 'AllReduce'],
  CollNetDirect: [...GATHER_LIKE, 'AllReduce'],
  CollNetChain: ['AllReduce'],
  NVLS: [...GATHER_LIKE, 'AllReduce'],
  NVLSTree: ['AllReduce'],
  PAT: GATHER_LIKE,
};

/** Functions that an algorithm can do. */
export const functionsOf = (algorithm: NcclAlgorithm): readonly NcclFunction[] => SERVED[algorithm];

/** Whether an algorithm has kernels for a protocol. */
export const hasProtocol = (algorithm: NcclAlgorithm, protocol: NcclProtocol): boolean =>
  protocol === 'Simple' || algorithm === 'Ring' || algorithm === 'Tree';

export const isCollnet = (algorithm: NcclAlgorithm): boolean =>
  algorithm === 'CollNetDirect' || algorithm === 'CollNetChain';

export const isNvls = (algorithm: NcclAlgorithm): boolean => algorithm === 'NVLS' || algorithm === 'NVLSTree';

/** Steps of a ring; a broadcast passes every rank once. */
export function ringSteps(fn: NcclFunction, nRanks: number): number {
  if (fn === 'AllReduce') return 2 * (nRanks - 1);
  return isScattered(fn) ? nRanks - 1 : nRanks;
}
