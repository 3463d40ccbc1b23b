/**
 * Channels and chunk sizes of NVLS, by generation of the GPUs, size of the nodes and speed of the network.
 *
 * (NCCL 2.30.7.)
 */
import type { TopologySettings } from '../settings.js';
import { PathType } from '../system/path-type.js';
import { type ConnectConfig, ctaBounds, nvlsCtas } from './config.js';

export interface NvlsSizes {
  readonly nChannels: number;
  /** Bytes that one channel moves at a time, and the most of it in trees over several nodes. */
  readonly chunkSize: number;
  readonly treeMaxChunkSize: number;
}

export interface NvlsFacts {
  readonly nNodes: number;
  /** Compute capability times 10 of the own GPU, and the lowest of all. */
  readonly sm: number;
  readonly minSm: number;
  /** Ranks of the smallest node. */
  readonly minLocalRanks: number;
  /** GB/s of the slowest NIC in use. */
  readonly minNetBw: number;
  /** Worst path between GPU and NIC in the aligned NVLS graph. */
  readonly typeInter: PathType;
}

const KIB = 1024;
const BLACKWELL = 100;

/** Channels that keep an NVSwitch of each generation busy. */
const HOPPER_CHANNELS = 16;
const BLACKWELL_CHANNELS = 24;
const BLACKWELL_NODES_CHANNELS = 32;

const DEFAULT_CHUNK_SIZE = 128 * KIB;

/** GB/s that NICs of 400 and 800 Gbit/s reach at least. */
const NIC_400G = 48;
const NIC_800G = 96;

/** From this many nodes on, trees are deep enough to want smaller chunks. */
const DEEP_TREE_NODES = 4;

export function nvlsSizes(
  facts: NvlsFacts,
  settings: TopologySettings,
  config: ConnectConfig = {},
): NvlsSizes {
  const { nNodes, sm } = facts;
  const tuned = facts.minSm >= BLACKWELL && nNodes > 1 ? blackwellNodes(facts) : {};
  const several = nNodes > 1 ? BLACKWELL_NODES_CHANNELS : BLACKWELL_CHANNELS;
  const machine = tuned.nChannels ?? (sm >= BLACKWELL ? several : HOPPER_CHANNELS);
  const ctas = ctaBounds(settings, config);
  const chunkSize = settings.nvlsChunkSize ?? tuned.chunkSize ?? DEFAULT_CHUNK_SIZE;
  const untuned = nNodes >= DEEP_TREE_NODES ? 64 * KIB : chunkSize;
  return {
    nChannels: Math.min(
      Math.max(ctas.min, Math.min(ctas.max, nvlsCtas(settings, config) ?? machine)),
      config.parent?.nvlsChannels ?? Number.POSITIVE_INFINITY,
    ),
    chunkSize,
    treeMaxChunkSize: settings.nvlsTreeMaxChunkSize ?? tuned.treeMaxChunkSize ?? untuned,
  };
}

/** Measured settings for Blackwell on several nodes; what is absent keeps its default. */
function blackwellNodes({ nNodes, minLocalRanks, minNetBw, typeInter }: NvlsFacts): Partial<NvlsSizes> {
  if (nNodes === 2 && minNetBw >= NIC_400G) {
    if (minLocalRanks <= 4) return { nChannels: 32, chunkSize: 256 * KIB, treeMaxChunkSize: 256 * KIB };
    const near = minLocalRanks <= 8 && typeInter <= PathType.PXB && minNetBw < NIC_800G;
    return { nChannels: 32, treeMaxChunkSize: (minLocalRanks >= 16 || near ? 64 : 128) * KIB };
  }
  if (minNetBw >= NIC_800G) {
    if (minLocalRanks <= 8) return { nChannels: 24, chunkSize: 256 * KIB, treeMaxChunkSize: 256 * KIB };
    return { nChannels: 32, treeMaxChunkSize: (minLocalRanks < 32 ? 128 : 64) * KIB };
  }
  if (minNetBw >= NIC_400G) {
    return { nChannels: 24, treeMaxChunkSize: (typeInter <= PathType.PXB ? 64 : 128) * KIB };
  }
  return {};
}
