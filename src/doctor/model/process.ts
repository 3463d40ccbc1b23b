/**
 * One process that runs NCCL, as its log describes it.
 *
 * Everything is optional: logs are cut, filtered by subsystem, and differ from version to version. Lines that say the
 * same again are counted, not kept, so that the model of a large job stays small.
 */
import { largest } from './extremes.js';
import type { Place, Stated } from './place.js';
import type { Trouble } from './trouble.js';
import type { TuningTable } from './tuning-table.js';

/** A port of an InfiniBand or RoCE adapter, as NCCL lists it. */
export interface Hca {
  readonly name: string;
  readonly port: number;
  /** IB or RoCE. */
  readonly link: string;
  /** Its network can reduce (SHARP). */
  readonly hasSharp?: true;
}

export interface SocketInterface {
  readonly name: string;
  /** Without port. */
  readonly address: string;
}

/** A library that NCCL was to load and could not. */
export interface LibraryFailure {
  /** The file that was opened. */
  readonly library: string;
  /** The file that is missing or wrong: the library itself, or one that it needs. */
  readonly missing: string;
  readonly reason: string;
  readonly at: Place;
}

export type TransportKind = 'P2P' | 'SHM' | 'NET' | 'COLLNET';

/** All channels of one process from one rank to another over the same way. */
export interface Connection {
  readonly from: number;
  readonly to: number;
  /** End of the edge that this process is: both for edges inside a host. */
  readonly end: 'send' | 'receive' | 'both';
  readonly kind: TransportKind;
  /** The way as it is printed: `P2P/CUMEM/read`, `NET/IB/0/GDRDMA`. */
  readonly via: string;
  /** The network of NET edges: IB, Socket, the name of a plugin. */
  readonly network: string | undefined;
  readonly gpuDirect: boolean;
  readonly at: Place;
  channels: number;
}

/** The last call of a collective that a rank logged. */
export interface LoggedCall {
  readonly name: string;
  readonly opCount: number;
  readonly count: number;
  readonly type: number;
  readonly at: Place;
}

/** A rank of a communicator, inside a process. */
export interface Member {
  readonly comm: string;
  /** The same for all ranks of a communicator; absent before NCCL 2.19. */
  commId: string | undefined;
  rank: number | undefined;
  size: number | undefined;
  cudaDevice: number | undefined;
  /** As printed: hexadecimal without leading zeros, `1b000`. */
  busId: string | undefined;
  nodes: number | undefined;
  localRanks: number | undefined;
  started: Place | undefined;
  completed: Place | undefined;
  abortStarted: Place | undefined;
  abortCompleted: Place | undefined;
  destroyed: Place | undefined;
  lastCall: LoggedCall | undefined;
}

/** Which algorithm and protocol NCCL took for a call. */
export interface Choice {
  readonly operation: string;
  readonly bytes: number;
  readonly algorithm: string;
  readonly protocol: string;
  readonly at: Place;
}

/** A device in NCCL's tree of the machine (`NCCL_DEBUG_SUBSYS=GRAPH`). */
export interface TreeDevice {
  readonly kind: 'GPU' | 'NIC';
  /** Bus id as printed in the tree, without the number of the system. */
  readonly id: string;
  /** It hangs on a CPU, with no bridge or switch between. */
  readonly isOnCpu: boolean;
  /** The CPU above it, as printed: `CPU/0-1`. */
  readonly cpu: string | undefined;
  readonly linkGBs: number;
  readonly at: Place;
  /** To other GPUs or their switches, all together; absent where the tree has no such line below it. */
  nvlinkGBs?: number;
}

export interface SystemTree {
  readonly at: Place;
  readonly maxGBs: number;
  readonly totalGBs: number;
  readonly devices: TreeDevice[];
  /** Lines of CPUs. */
  readonly cpus: Place[];
}

/** The processors that NCCL's threads of a GPU may use. */
export interface Affinity {
  readonly gpu: number;
  readonly processors: number;
  /** Processors next to the GPU, where the line tells. */
  readonly near: number | undefined;
  readonly at: Place;
}

export interface LoggedTrouble {
  readonly trouble: Trouble;
  /** The message. */
  readonly text: string;
  readonly isWarning: boolean;
  readonly at: Place;
  /** As printed, where the line has one. */
  readonly time: string | undefined;
  readonly rank: number | undefined;
}

export interface NcclProcess {
  readonly host: string;
  readonly pid: number;
  readonly first: Place;
  /** The last line of the log; its number moves on while files are read. */
  last: { readonly file: string; line: number };
  version: Stated<string> | undefined;
  cudaDriver: Stated<number> | undefined;
  bootstrap: (SocketInterface & { readonly at: Place }) | undefined;
  readonly environment: Map<string, Stated<string>>;
  hcas: Stated<readonly Hca[]> | undefined;
  noIbDevice: Place | undefined;
  /** `GPU Direct RDMA Disabled for HCA 0`, the first such line. */
  gpuDirectOff: Place | undefined;
  sockets: Stated<readonly SocketInterface[]> | undefined;
  network: Stated<string> | undefined;
  readonly libraryFailures: LibraryFailure[];
  readonly members: Member[];
  readonly connections: Map<string, Connection>;
  /** Line of `Connected all rings`; `isGpuDirect` where it tells. */
  rings: { readonly at: Place; readonly isGpuDirect: boolean | undefined } | undefined;
  readonly choices: Choice[];
  /** The estimates of its first communicator that printed them. */
  tuning: TuningTable | undefined;
  tree: SystemTree | undefined;
  affinity: Affinity | undefined;
  /** Its first line of the level TRACE. */
  traced: Place | undefined;
  topologyFile: Stated<string> | undefined;
  multicast: Stated<boolean> | undefined;
  channels: { readonly collective: number; readonly nvls: number; readonly at: Place } | undefined;
  readonly troubles: LoggedTrouble[];
  /** Calls that returned an error, as `init.cc:2110 -> 4`: the first ones. */
  readonly failedReturns: { readonly code: number; readonly at: Place; readonly text: string }[];
  /** No log, but what a framework quotes of it. */
  readonly isQuoted: boolean;
  /** Troubles beyond those kept. */
  moreTroubles: number;
}

/** The rank of a process in its newest communicator. */
export function rankOf(process: NcclProcess): number | undefined {
  return process.members.findLast(({ rank }) => rank !== undefined)?.rank;
}

/** Number of nodes of the largest communicator of a process. */
export function nodesOf(process: NcclProcess): number | undefined {
  const all = process.members.flatMap(({ nodes }) => nodes ?? []);
  return all.length === 0 ? undefined : largest(all);
}

export function newProcess(host: string, pid: number, first: Place, isQuoted = false): NcclProcess {
  return {
    isQuoted,
    failedReturns: [],
    host,
    pid,
    first,
    last: { ...first },
    version: undefined,
    cudaDriver: undefined,
    bootstrap: undefined,
    environment: new Map(),
    hcas: undefined,
    noIbDevice: undefined,
    gpuDirectOff: undefined,
    sockets: undefined,
    network: undefined,
    libraryFailures: [],
    members: [],
    connections: new Map(),
    rings: undefined,
    choices: [],
    tuning: undefined,
    tree: undefined,
    affinity: undefined,
    traced: undefined,
    topologyFile: undefined,
    multicast: undefined,
    channels: undefined,
    troubles: [],
    moreTroubles: 0,
  };
}
