/**
 * Latency of an algorithm with a protocol for a function: microseconds before and between the bytes of a message.
 *
 * A start-up value, and for each step the latency of the link it crosses. (NCCL 2.30.7, tuning.cc.)
 */
import { CpuArch, CpuVendor } from '../topology/system/node.js';
import { PathType } from '../topology/system/path-type.js';
import { graphOf, isScattered, ringSteps } from './algorithms.js';
import { f32, log2Floor } from './arithmetic.js';
import type { ModelCell } from './bandwidth.js';
import type { Link, TuningConstants } from './constants.js';
import { ranksPerNode, type TuningInput, wholeRanksPerNode } from './input.js';
import { type NcclAlgorithm, ProtocolId } from './names.js';

/** Microseconds per further GPU of a node in CollNet direct. */
const COLLNET_PEER_LATENCY = 0.4;
/** PAT overlaps its network steps, and pays for each rank. */
const PAT_NET_OVERLAP = 3.5;
const PAT_RANK_LATENCY = 2.8;

/** Microseconds as a float. */
export function modelLatency(input: TuningInput, constants: TuningConstants, cell: ModelCell): number {
  const { fn, algorithm, protocol } = cell;
  const { nRanks, nNodes } = input;
  const p = ProtocolId[protocol];
  const graph = graphOf(input.graphs, algorithm);
  const local: Link = graph.typeIntra === PathType.NVL ? 'NVLINK' : 'PCI';
  const hw = (link: Link, of: NcclAlgorithm) => f32(constants.hwLatencies[link][of][p]!);
  const base = f32(constants.baseLatencies[algorithm][p]!);
  const intra = hw(local, algorithm);
  // One GPU per node: the value of trees, which is that of older versions.
  let inter = f32(hw('NET', ranksPerNode(input) === 1 ? 'Tree' : algorithm) + graph.latencyInter);
  if (protocol === 'Simple') inter = f32(inter + graph.latencyInter);
  const peers = wholeRanksPerNode(input) - 1;

  switch (algorithm) {
    case 'Ring': {
      const level = nNodes === 1 ? local : 'NET';
      const steps = ringSteps(fn, nRanks);
      if (fn !== 'AllReduce' && !isScattered(fn)) {
        if (graph.sameChannels) return f32(base + hw(level, 'Ring'));
        return f32(base + f32(steps * hw(level, protocol === 'Simple' ? 'Tree' : 'Ring')));
      }
      const overhead = nNodes > 1 ? netOverhead(input) : 0;
      const step = Math.max(intra, protocol === 'Simple' ? f32(overhead * 3) : overhead);
      const netSteps = nNodes === 1 ? 0 : fn === 'AllReduce' ? 2 * (nNodes - 1) : nNodes - 1;
      return f32(base + f32(f32((steps - netSteps) * step) + f32(netSteps * inter)));
    }
    case 'Tree':
      return f32(base + f32(2 * f32(f32(peers * intra) + f32(log2Floor(nNodes) * inter))));
    case 'CollNetDirect':
      return f32(base + (2 * (Math.min(1, peers) * intra + peers * COLLNET_PEER_LATENCY) + inter));
    case 'CollNetChain':
      return f32(base + f32(f32(2 * peers * intra) + inter));
    case 'NVLS':
      return nNodes > 1 ? f32(intra + inter) : intra;
    case 'NVLSTree':
      return f32(base + f32(intra + f32(2 * log2Floor(nNodes) * inter)));
    case 'PAT':
      return f32(base + (log2Floor(nNodes) * (inter / PAT_NET_OVERLAP) + nRanks * PAT_RANK_LATENCY));
  }
}

/** Microseconds that posting one network operation takes the proxy, as a float. */
function netOverhead({ settings, cpuArch, cpuVendor }: TuningInput): number {
  if (settings.netOverhead !== undefined) return f32(settings.netOverhead * 0.001);
  return cpuArch === CpuArch.X86 && cpuVendor === CpuVendor.AMD ? 2 : 1;
}

/** Constants as the model uses them: on POWER, trees cross PCI as slowly as rings do. */
export function constantsFor(constants: TuningConstants, cpuArch: number): TuningConstants {
  if (cpuArch !== CpuArch.POWER) return constants;
  const copy = structuredClone(constants);
  copy.hwLatencies.PCI.Tree[ProtocolId.Simple] = copy.hwLatencies.PCI.Ring[ProtocolId.Simple]!;
  return copy;
}
