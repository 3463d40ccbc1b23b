/**
 * The NCCL_* variables that steer topology, search and connection, read once into plain values.
 *
 * Names, defaults and reading rules are NCCL's (2.30.7): integers as C reads them, names of path types exactly,
 * policies without regard to case.
 */
import { cInteger } from './c-integer.js';
import { type LogSink, SILENT } from './log.js';
import { PATH_TYPE_NAMES, PathType } from './system/path-type.js';

/** How many of its nearest NICs a GPU spreads its channels over. */
export type NetDevsPolicy =
  | { readonly kind: 'AUTO' | 'ALL' }
  | { readonly kind: 'MAX'; readonly limit: number };

export interface TopologySettings {
  /** NCCL_CROSS_NIC: 0 never, 1 always, 2 if better. */
  readonly crossNic: number;
  /** NCCL_NVB_DISABLE: no NVLink path through another GPU. */
  readonly nvbDisable: boolean;
  /** NCCL_P2P_DISABLE and NCCL_P2P_LEVEL: worst path type for peer-to-peer; undefined leaves it to the machine. */
  readonly p2pLevel: PathType | undefined;
  /** NCCL_IGNORE_DISABLED_P2P: 0 heed NVML, 1 heed silently, 2 do not ask. */
  readonly ignoreDisabledP2p: number;
  /** NCCL_NET_GDR_LEVEL: worst path type for GPUDirect RDMA; undefined leaves it to the machine. */
  readonly gdrLevel: PathType | undefined;
  /** NCCL_NET_GDR_READ: 0 no, 1 yes, negative: by the machine. */
  readonly gdrRead: number;
  /** NCCL_NET_GDR_C2C. */
  readonly gdrC2c: boolean;
  /** NCCL_NET_GDR_MLOPART. */
  readonly gdrMloPart: boolean;
  /** NCCL_NET_FORCE_FLUSH. */
  readonly forceFlush: boolean;
  /** NCCL_NET_DISABLE_INTRA: never use the network inside a host. */
  readonly netDisableIntra: boolean;
  /** NCCL_P2P_USE_CUDA_MEMCPY: copy engines move what goes from GPU to GPU; they do not relay through a third one. */
  readonly p2pMemcpy: boolean;
  /** NCCL_SHM_DISABLE. */
  readonly shmDisable: boolean;
  /** NCCL_PXN_DISABLE. */
  readonly pxnDisable: boolean;
  /** NCCL_PXN_C2C. */
  readonly pxnC2c: boolean;
  /** NCCL_P2P_PXN_LEVEL. */
  readonly p2pPxnLevel: number;
  /** NCCL_NETDEVS_POLICY. */
  readonly netDevsPolicy: NetDevsPolicy;
  /** NCCL_MNNVL_ENABLE: 0 no, 1 yes, 2 if the ranks are on several hosts. */
  readonly mnnvlEnable: number;
  /** NCCL_MNNVL_UUID: -1 keeps the driver's. */
  readonly mnnvlUuid: bigint;
  /** NCCL_MNNVL_CLIQUE_ID: -1 keeps the driver's, -2 hashes the chassis serial number. */
  readonly mnnvlCliqueId: number;
  /** NCCL_MNNVL_CROSS_CLIQUE. */
  readonly mnnvlCrossClique: boolean;
  /** NCCL_MNNVL_SCATTER_NETS_ENABLE. */
  readonly scatterNets: boolean;
  /** NCCL_MNNVL_RAIL_PER_HOST. */
  readonly railPerHost: boolean;
  /** NCCL_TOPO_SPLIT_MLOPART. */
  readonly splitMloPart: boolean;
  /** NCCL_MIN_NCHANNELS, else NCCL_MIN_NRINGS; 0 to 64. */
  readonly minChannels: number;
  /** NCCL_MAX_NCHANNELS, else NCCL_MAX_NRINGS; 1 to 64. */
  readonly maxChannels: number;
  /** NCCL_MIN_CTAS and NCCL_MAX_CTAS: 1 to 64; undefined leaves it to the communicator's configuration. */
  readonly minCtas: number | undefined;
  readonly maxCtas: number | undefined;
  /** NCCL_NVLS_NCHANNELS: channels of NVLS, 0 or less: by the machine; undefined leaves it to the configuration. */
  readonly nvlsCtas: number | undefined;
  /** NCCL_NCHANNELS_PER_NET_PEER: P2P channels to a peer that only the network reaches; undefined likewise. */
  readonly channelsPerNetPeer: number | undefined;
  /** NCCL_WORK_ARGS_BYTES: size of kernel arguments, which bounds the channels of one launch. */
  readonly workArgsBytes: bigint;
  /** NCCL_UNPACK_DOUBLE_NCHANNELS. */
  readonly unpackDoubleChannels: boolean;
  /** NCCL_MIN_P2P_NCHANNELS, NCCL_MAX_P2P_NCHANNELS. */
  readonly minP2pChannels: number;
  readonly maxP2pChannels: number;
  /** NCCL_P2P_PER_CHANNEL_NET_BW: GB/s. */
  readonly p2pPerChannelNetBw: number;
  /** NCCL_P2P_MAX_PEERS: peers a rank talks to at once; undefined leaves it to the communicator's configuration. */
  readonly p2pMaxPeers: number | undefined;
  /** NCCL_NVLS_CHUNKSIZE, NCCL_NVLSTREE_MAX_CHUNKSIZE: bytes; undefined leaves them to the machine. */
  readonly nvlsChunkSize: number | undefined;
  readonly nvlsTreeMaxChunkSize: number | undefined;
  /** NCCL_IGNORE_NET_MISMATCH, NCCL_IGNORE_COLLNET_MISMATCH: ranks may have different numbers of network devices. */
  readonly ignoreNetMismatch: boolean;
  readonly ignoreCollnetMismatch: boolean;
  /** NCCL_COLLNET_NODE_THRESHOLD. */
  readonly collnetNodeThreshold: number;
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Channels of a communicator at most. */
export const MAX_CHANNELS = 64;

/** Old numeric forms of NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL; larger numbers count as the last. */
const NUMERIC_LEVELS: readonly PathType[] = [
  PathType.LOC,
  PathType.PIX,
  PathType.PXB,
  PathType.PHB,
  PathType.SYS,
];

/** Number of a path type that a level variable may name: LOC to SYS. */
const NAMED_LEVELS: readonly string[] = PATH_TYPE_NAMES.slice(0, PathType.SYS + 1);

/** Reads the variables; unreadable ones count as unset, with a line of log where NCCL writes one. */
export function topologySettings(env: Environment = {}, log: LogSink = SILENT): TopologySettings {
  const wide = (name: string, fallback: bigint): bigint => {
    const text = env[name];
    if (text === undefined || text === '') return fallback;
    const value = cInteger(text);
    if (value !== BigInt.asIntN(64, value)) {
      log('INFO', 'ENV', `Invalid value ${text} for ${name}, using default ${fallback}.`);
      return fallback;
    }
    log('INFO', 'ENV', `${name} set by environment to ${value}.`);
    return value;
  };
  const integer = (name: string, fallback: number): number => Number(wide(name, BigInt(fallback)));
  const flag = (name: string, fallback: boolean) => integer(name, fallback ? 1 : 0) !== 0;
  const optional = (name: string) => {
    const value = integer(name, UNSET);
    return value === UNSET ? undefined : value;
  };
  const first = (names: readonly string[], fallback: number) => {
    for (const name of names) {
      const value = optional(name);
      if (value !== undefined) return value;
    }
    return fallback;
  };

  return {
    crossNic: integer('NCCL_CROSS_NIC', 2),
    nvbDisable: flag('NCCL_NVB_DISABLE', false),
    p2pLevel:
      integer('NCCL_P2P_DISABLE', 0) === 1
        ? PathType.LOC
        : levelOf(env.NCCL_P2P_LEVEL, 'NCCL_P2P_LEVEL', log),
    ignoreDisabledP2p: integer('NCCL_IGNORE_DISABLED_P2P', 0),
    gdrLevel: levelOf(env.NCCL_NET_GDR_LEVEL, 'NCCL_NET_GDR_LEVEL', log),
    gdrRead: integer('NCCL_NET_GDR_READ', -2),
    gdrC2c: flag('NCCL_NET_GDR_C2C', true),
    gdrMloPart: flag('NCCL_NET_GDR_MLOPART', false),
    forceFlush: flag('NCCL_NET_FORCE_FLUSH', false),
    netDisableIntra: integer('NCCL_NET_DISABLE_INTRA', 0) === 1,
    p2pMemcpy: flag('NCCL_P2P_USE_CUDA_MEMCPY', false),
    shmDisable: integer('NCCL_SHM_DISABLE', 0) === 1,
    pxnDisable: integer('NCCL_PXN_DISABLE', 0) === 1,
    pxnC2c: flag('NCCL_PXN_C2C', true),
    p2pPxnLevel: integer('NCCL_P2P_PXN_LEVEL', 2),
    netDevsPolicy: policyOf(env.NCCL_NETDEVS_POLICY, log),
    mnnvlEnable: integer('NCCL_MNNVL_ENABLE', 2),
    mnnvlUuid: wide('NCCL_MNNVL_UUID', -1n),
    mnnvlCliqueId: integer('NCCL_MNNVL_CLIQUE_ID', -1),
    mnnvlCrossClique: flag('NCCL_MNNVL_CROSS_CLIQUE', false),
    scatterNets: flag('NCCL_MNNVL_SCATTER_NETS_ENABLE', true),
    railPerHost: flag('NCCL_MNNVL_RAIL_PER_HOST', false),
    splitMloPart: flag('NCCL_TOPO_SPLIT_MLOPART', true),
    minChannels: minChannels(first(['NCCL_MIN_NCHANNELS', 'NCCL_MIN_NRINGS'], 0), log),
    maxChannels: maxChannels(first(['NCCL_MAX_NCHANNELS', 'NCCL_MAX_NRINGS'], MAX_CHANNELS), log),
    minCtas: ctas(optional('NCCL_MIN_CTAS')),
    maxCtas: ctas(optional('NCCL_MAX_CTAS')),
    nvlsCtas: optional('NCCL_NVLS_NCHANNELS'),
    channelsPerNetPeer: ctas(optional('NCCL_NCHANNELS_PER_NET_PEER')),
    workArgsBytes: wide('NCCL_WORK_ARGS_BYTES', DEFAULT_WORK_ARGS_BYTES),
    unpackDoubleChannels: flag('NCCL_UNPACK_DOUBLE_NCHANNELS', true),
    minP2pChannels: integer('NCCL_MIN_P2P_NCHANNELS', 1),
    maxP2pChannels: integer('NCCL_MAX_P2P_NCHANNELS', MAX_CHANNELS),
    p2pPerChannelNetBw: integer('NCCL_P2P_PER_CHANNEL_NET_BW', 14),
    p2pMaxPeers: optional('NCCL_P2P_MAX_PEERS'),
    nvlsChunkSize: env.NCCL_NVLS_CHUNKSIZE ? integer('NCCL_NVLS_CHUNKSIZE', NVLS_CHUNK_SIZE) : undefined,
    nvlsTreeMaxChunkSize: optional('NCCL_NVLSTREE_MAX_CHUNKSIZE'),
    ignoreNetMismatch: flag('NCCL_IGNORE_NET_MISMATCH', true),
    ignoreCollnetMismatch: flag('NCCL_IGNORE_COLLNET_MISMATCH', false),
    collnetNodeThreshold: integer('NCCL_COLLNET_NODE_THRESHOLD', 2),
  };
}

/** What counts if NCCL_NVLS_CHUNKSIZE is set to something that is no number of 64 bits, bytes. */
const NVLS_CHUNK_SIZE = 131_072;

/** NCCL's mark of an integer variable that nobody set. */
const UNSET = -2;

/** No bound but the hardware's: the largest 64-bit integer. */
const DEFAULT_WORK_ARGS_BYTES = (1n << 63n) - 1n;

/** A number of CTAs or channels from the environment; NCCL ignores those below 1. */
const ctas = (value: number | undefined): number | undefined =>
  value === undefined || value <= 0 ? undefined : Math.min(value, MAX_CHANNELS);

function levelOf(text: string | undefined, name: string, log: LogSink): PathType | undefined {
  if (text === undefined || text === '') return undefined;
  let level: PathType | undefined;
  const named = NAMED_LEVELS.indexOf(text);
  if (named >= 0) level = named as PathType;
  else if (/^\d+$/.test(text)) level = NUMERIC_LEVELS[Math.min(Number(text), NUMERIC_LEVELS.length - 1)];
  if (level !== undefined) log('INFO', 'ENV', `${name} set by environment to ${PATH_TYPE_NAMES[level]}`);
  return level;
}

function policyOf(text: string | undefined, log: LogSink): NetDevsPolicy {
  if (text === undefined || /^auto$/i.test(text)) return { kind: 'AUTO' };
  if (/^all$/i.test(text)) return { kind: 'ALL' };
  const limit = /^max:/i.test(text) ? Number(cInteger(text.slice(4))) : 0;
  if (limit > 0) return { kind: 'MAX', limit };
  log('INFO', 'NET', `NCCL_NETDEVS_POLICY: unable to recognize '${text}', using AUTO`);
  return { kind: 'AUTO' };
}

function minChannels(value: number, log: LogSink): number {
  if (value > MAX_CHANNELS) {
    log('INFO', 'ENV', `User asked for a minimum of ${value} channels, limiting to ${MAX_CHANNELS}`);
    return MAX_CHANNELS;
  }
  return Math.max(0, value);
}

function maxChannels(value: number, log: LogSink): number {
  if (value < 1) {
    log('INFO', 'ENV', `User asked for a maximum of ${value} channels, setting it to 1`);
    return 1;
  }
  return Math.min(value, MAX_CHANNELS);
}
