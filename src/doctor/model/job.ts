/**
 * The model of a job: everything that the files say, by subject, each fact with its line. Rules read nothing else.
 */
import type { XmlElement } from '../../topology/xml/element.js';
import type { BenchRun, PairRow, WireTest } from './bench.js';
import type { RankDump } from './dump.js';
import type { FrameworkEvent } from './framework.js';
import type {
  Counter,
  GidEntry,
  GpuLinks,
  IbPort,
  KernelEvent,
  KernelModules,
  LinkMatrix,
  MemorySample,
  Mount,
  NetworkInterface,
  PciDevice,
  ShellCommand,
  SocketSummary,
  SystemValue,
} from './machine.js';
import type { Place, Stated } from './place.js';
import type { NcclProcess } from './process.js';
import type { RasReport } from './ras.js';

/** What was read from one file. */
export interface FileRecord {
  readonly name: string;
  lines: number;
  /** Kinds of content that were recognised. */
  readonly kinds: Set<string>;
  /** Why it, or a part of it, could not be read. */
  readonly problems: string[];
  /** Why NCCL could not read it as a topology or graph file. */
  refusedTopology: { readonly text: string; readonly line: number } | undefined;
  /** The text ends in the middle of a line, as where a copy was cut. */
  endsInLine: boolean;
  /** The last line with text in it. */
  last: Place | undefined;
  /** Processes of NCCL that write to it. */
  readonly processes: Set<NcclProcess>;
}

export interface TopologyDocument {
  readonly kind: 'system' | 'graphs';
  readonly root: XmlElement;
  readonly file: string;
  /** What NCCL would ignore or refuse. */
  readonly notes: readonly string[];
}

export interface Job {
  readonly files: FileRecord[];
  readonly processes: NcclProcess[];
  /** Versions that are printed without a process: one for each rank, or for each run. */
  readonly bareVersions: Stated<string>[];
  readonly benches: BenchRun[];
  readonly pairRows: PairRow[];
  readonly wireTests: WireTest[];
  readonly ras: RasReport[];
  readonly dumps: RankDump[];
  readonly events: FrameworkEvent[];
  readonly topologies: TopologyDocument[];
  readonly matrices: LinkMatrix[];
  readonly pci: PciDevice[];
  readonly gids: GidEntry[];
  readonly ports: IbPort[];
  readonly links: GpuLinks[];
  readonly counters: Counter[];
  readonly values: SystemValue[];
  readonly sockets: SocketSummary[];
  readonly mounts: Mount[];
  readonly modules: KernelModules[];
  readonly interfaces: NetworkInterface[];
  readonly kernelEvents: KernelEvent[];
  readonly commands: ShellCommand[];
  /** Samples of the memory of GPUs, in the order of their files. */
  readonly memory: MemorySample[];
}

export function emptyJob(): Job {
  return {
    files: [],
    processes: [],
    bareVersions: [],
    benches: [],
    pairRows: [],
    wireTests: [],
    ras: [],
    dumps: [],
    events: [],
    topologies: [],
    matrices: [],
    pci: [],
    gids: [],
    ports: [],
    links: [],
    counters: [],
    values: [],
    sockets: [],
    mounts: [],
    modules: [],
    interfaces: [],
    kernelEvents: [],
    commands: [],
    memory: [],
  };
}
