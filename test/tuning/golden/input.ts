/** From a golden file to the input of the cost model, as test/golden/README.md describes the fields. */

import { PATH_TYPE_NAMES, type PathType } from '#src/topology/system/path-type.js';
import type { ModelGraph, TuningInput } from '#src/tuning/input.js';
import { tuningSettings } from '#src/tuning/settings.js';
import type { GoldenGraph } from '../../topology/golden/format.js';
import type { TuningGolden } from './format.js';

export function goldenInput(file: TuningGolden): TuningInput {
  const { oracle, system, aligned, comm, channels, nvlsChannelsInfo } = file;
  const perNode = new Map<number, number>();
  for (const node of comm.rankToNode) perNode.set(node, (perNode.get(node) ?? 0) + 1);
  const sizes = [...perNode.values()];
  return {
    nRanks: oracle.nRanks,
    nNodes: comm.nNodes,
    localRanks: perNode.get(comm.rankToNode[0]!)!,
    minLocalRanks: Math.min(...sizes),
    maxLocalRanks: Math.max(...sizes),
    sm: system.nodes.GPU.find(({ rank }) => rank === 0)!.sm,
    minSm: oracle.minCompCap,
    maxSm: oracle.maxCompCap,
    cpuArch: comm.cpuArch,
    cpuVendor: comm.cpuVendor,
    graphs: {
      ring: modelGraph(aligned.ring),
      tree: modelGraph(aligned.tree),
      collnetDirect: modelGraph(aligned.collnetDirect),
      collnetChain: modelGraph(aligned.collnetChain),
      nvls: modelGraph(aligned.nvls),
    },
    maxTreePattern: comm.maxTreePattern,
    hasNvswitch: (system.nodes.NVS ?? []).length > 0,
    nChannels: comm.nChannels,
    collnet: {
      enabled: comm.collnetEnable === 1,
      chainSupported: true,
      allGather: true,
      reduceScatter: true,
      supports: () => true,
      setupHeads: comm.collNetHeadsNum,
      directHeads: channels[0]?.collnetDirect?.[0]?.nHeads ?? 0,
    },
    nvls: {
      enabled: comm.nvlsSupport === 1,
      nChannels: comm.nvlsChannels,
      heads: nvlsChannelsInfo?.nHeads ?? 0,
    },
    minNetBw: comm.minNetBw,
    mnnvl: false,
    plainNetDevice: true,
    minCtas: 1,
    maxCtas: 64,
    ctaPolicy: 0,
    cuda118: false,
    settings: tuningSettings(oracle.env),
  };
}

function modelGraph(graph: GoldenGraph): ModelGraph {
  const typeOf = (name: string) => PATH_TYPE_NAMES.indexOf(name as never) as PathType;
  const { nChannels, bwIntra, bwInter, latencyInter, typeIntra, typeInter, sameChannels } = graph;
  return {
    nChannels,
    bwIntra: Math.fround(bwIntra),
    bwInter: Math.fround(bwInter),
    latencyInter: Math.fround(latencyInter),
    typeIntra: typeOf(typeIntra),
    typeInter: typeOf(typeInter),
    sameChannels: sameChannels !== 0,
  };
}
