/**
 * Bandwidth of an algorithm with a protocol for a function: GB/s by which the time of a message's bytes is computed.
 *
 * From the graph's channels to what they carry together, less what protocol and algorithm lose, to what the user's
 * message sees. Every line rounds where NCCL's does. (NCCL 2.30.7, tuning.cc.)
 */
import { MIXED_CPUS } from '../topology/connect/cpu.js';
import { Pattern } from '../topology/search/graph.js';
import { CpuVendor } from '../topology/system/node.js';
import { graphOf, isCollnet, isNvls, isScattered, ringSteps } from './algorithms.js';
import { f32, MAX_F32 } from './arithmetic.js';
import { generationOf, NVLS_EFFICIENCY, scaleOf, type TuningConstants } from './constants.js';
import { type ModelGraph, ranksPerNode, type TuningInput } from './input.js';
import type { NcclAlgorithm, NcclFunction, NcclProtocol } from './names.js';

/** Share of a channel's bandwidth that is data with LL128, and that a tree reaches: 120 of 128 bytes, and losses. */
const LL128_SHARE = 0.92;
/** LL: half of every 16 bytes are flags; a tree's inner ranks send and receive at once and lose more. */
const RING_LL_SHARE = 0.5;
const TREE_LL_DIVISOR = 3.8;
/** Tree with LL128 in one node and over several. */
const TREE_LL128_SHARE = 7 / 9;
const TREE_LL128_NET_SHARE = 120 / 128;
/** All traffic of a node passes one GPU. */
const PLAIN_TREE_SHARE = 0.85;
const PAT_SHARE = 0.75;
/** CollNet direct: share of the network's bandwidth when gathering, and of all from Hopper on. */
const COLLNET_NET_SHARE = f32(0.9);
const COLLNET_HOPPER_SHARE = 0.85;

/** A candidate that the model computes. */
export interface ModelCell {
  readonly fn: NcclFunction;
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
}

/** GB/s as a float; NaN or 0 if the graph has no channels. */
export function modelBandwidth(input: TuningInput, constants: TuningConstants, cell: ModelCell): number {
  const { fn, algorithm } = cell;
  const graph = graphOf(input.graphs, algorithm);
  const bus = busBandwidth(input, constants, cell, graph);
  if (algorithm !== 'Ring' && isScattered(fn)) return bus;
  const byRing = algorithm === 'Ring' || isNvls(algorithm);
  const ratio = byRing ? f32(input.nRanks / ringSteps(fn, input.nRanks)) : 0.5;
  return f32(bus * ratio);
}

/** GB/s that all channels carry together, before it is counted by what the user's message sees. */
export function carriedBandwidth(input: TuningInput, constants: TuningConstants, cell: ModelCell): number {
  return busBandwidth(input, constants, cell, graphOf(input.graphs, cell.algorithm));
}

/** What all channels carry. */
function busBandwidth(
  input: TuningInput,
  constants: TuningConstants,
  { fn, algorithm, protocol }: ModelCell,
  graph: ModelGraph,
): number {
  const { nNodes, minSm } = input;
  const { nChannels } = graph;
  const generation = generationOf(minSm);
  const scale = scaleOf(nNodes);
  const perChannel = isNvls(algorithm)
    ? nvlsBandwidth(input, constants, fn, algorithm)
    : nNodes <= 2 || isCollnet(algorithm)
      ? graph.bwIntra
      : graph.bwInter;
  let bus = f32(nChannels * perChannel);
  switch (algorithm) {
    case 'Ring':
      if (protocol === 'LL') return f32(Math.min(llCap(input, constants), bus * RING_LL_SHARE));
      if (protocol === 'LL128') {
        const cap = nChannels * constants.perChMaxRingLL128Bws[generation][scale];
        return f32(Math.min(bus * LL128_SHARE, cap));
      }
      return bus;
    case 'Tree':
      bus = f32(Math.min(bus * LL128_SHARE, nChannels * constants.perChMaxTreeBws[generation][scale]));
      if (protocol === 'LL') bus = f32(Math.min(bus / TREE_LL_DIVISOR, llCap(input, constants)));
      if (protocol === 'LL128') {
        const share = nNodes === 1 ? TREE_LL128_SHARE : TREE_LL128_NET_SHARE;
        const cap = nChannels * constants.perChMaxTreeLL128Bws[generation][scale];
        bus = f32(Math.min(bus * share, cap));
      }
      return input.maxTreePattern === Pattern.TREE ? f32(bus * PLAIN_TREE_SHARE) : bus;
    case 'PAT':
      return f32(bus * PAT_SHARE);
    case 'CollNetDirect':
      return protocol === 'Simple' ? collnetDirect(input, fn, graph, bus) : 0;
    case 'CollNetChain':
      return protocol === 'Simple' ? bus : 0;
    default:
      return bus;
  }
}

/** Cap of LL: on several nodes the CPU decides, as the proxies' polling limits it. */
function llCap({ nNodes, minSm, cpuVendor }: TuningInput, { llMaxBws }: TuningConstants): number {
  const amd = cpuVendor === CpuVendor.AMD || cpuVendor === MIXED_CPUS;
  const row = nNodes === 1 ? generationOf(minSm) : amd ? 'Ampere' : 'Volta';
  return llMaxBws[row][scaleOf(nNodes)];
}

/** One channel of NVLS or of an NVLS tree. */
function nvlsBandwidth(
  input: TuningInput,
  constants: TuningConstants,
  fn: NcclFunction,
  algorithm: NcclAlgorithm,
): number {
  const { nNodes, graphs, minSm } = input;
  const { bwIntra, bwInter, nChannels } = graphs.nvls;
  const generation = generationOf(minSm);
  const switched = f32(bwIntra * NVLS_EFFICIENCY[generation]);
  let intra = f32(f32(switched * (nChannels - 1)) / nChannels);
  if (fn === 'AllReduce') intra = f32(intra * 2);
  else {
    const ppn = ranksPerNode(input);
    intra = f32(intra * f32(f32(ppn - 1) / ppn));
  }
  const tree = algorithm === 'NVLSTree';
  const inter = tree && nNodes <= 2 ? f32(bwInter * 2) : bwInter;
  const cap = tree ? f32(constants.perChMaxNVLSTreeBws[generation][scaleOf(nNodes)]) : MAX_F32;
  return Math.min(intra, inter, cap);
}

function collnetDirect(input: TuningInput, fn: NcclFunction, graph: ModelGraph, bus: number): number {
  const ppn = ranksPerNode(input);
  if (isScattered(fn)) return f32(ppn * Math.min(graph.bwIntra, f32(graph.bwInter * COLLNET_NET_SHARE)));
  let factor = f32(ppn / graph.nChannels);
  factor = f32(factor - f32(f32(factor - 1) / 2));
  const spread = f32(bus / factor);
  return input.minSm >= 90 ? f32(spread * COLLNET_HOPPER_SHARE) : spread;
}
