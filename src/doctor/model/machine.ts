/**
 * What tools say about hosts: buses, links, adapters, interfaces, memory, limits.
 *
 * `host` is filled in at the end of reading where a line alone does not tell it.
 */
import type { Place } from './place.js';

interface OnHost {
  host: string | undefined;
  readonly at: Place;
}

/** `nvidia-smi topo -m`. */
export interface LinkMatrix extends OnHost {
  /** Column names: GPU0, NIC0. */
  readonly columns: readonly string[];
  readonly rows: { readonly name: string; readonly cells: readonly string[]; readonly at: Place }[];
  /** Names of adapters by column: NIC0 is mlx5_0. */
  readonly adapters: Map<string, string>;
}

export interface PciDevice extends OnHost {
  /** Lower case, without domain 0000: `82:00.0`. */
  readonly id: string;
  readonly text: string;
  /** Buses behind a bridge. */
  buses: { readonly primary: number; readonly secondary: number; readonly subordinate: number } | undefined;
  /** ACS control bits that are set. */
  acs: { readonly set: readonly string[]; readonly at: Place } | undefined;
  linkCapable: { readonly speed: number; readonly width: number } | undefined;
  linkStatus:
    | { readonly speed: number; readonly width: number; readonly isDegraded: boolean; readonly at: Place }
    | undefined;
}

export interface GidEntry extends OnHost {
  readonly device: string;
  readonly port: number;
  readonly index: number;
  readonly gid: string;
  readonly ipv4: string | undefined;
  /** v1 or v2. */
  readonly version: string;
  readonly interface: string | undefined;
}

export interface IbPort extends OnHost {
  readonly device: string;
  readonly port: number;
  state: Readonly<{ value: string; at: Place }> | undefined;
  physical: string | undefined;
  rateGbps: { readonly value: number; readonly at: Place } | undefined;
  linkLayer: string | undefined;
}

/** `nvidia-smi nvlink -s` or `nvidia-smi -L` of one GPU. */
export interface GpuLinks extends OnHost {
  readonly gpu: number;
  readonly name: string;
  readonly links: { readonly index: number; readonly GBs: number | undefined; readonly at: Place }[];
}

export interface Counter extends OnHost {
  /** As `rx_discards_phy`. */
  readonly name: string;
  readonly value: number;
  /** The adapter, interface or link, where the command or the output names it. */
  readonly of?: string;
}

/** A setting of the system: sysctl, ulimit. */
export interface SystemValue extends OnHost {
  /** `net.ipv4.ip_local_port_range`, `ulimit.memlock`, `ulimit.nofile`. */
  readonly name: string;
  readonly value: string;
}

/** `ss -s`. */
export interface SocketSummary extends OnHost {
  readonly tcp: number;
}

/** A line of `df`. */
export interface Mount extends OnHost {
  readonly path: string;
  readonly bytes: number;
  readonly freeBytes: number;
}

/** A list of `lsmod`. */
export interface KernelModules extends OnHost {
  readonly names: Map<string, Place>;
}

export interface NetworkInterface extends OnHost {
  readonly name: string;
  isUp: boolean | undefined;
  mtu: number | undefined;
  /** Mbit/s, where a tool tells it. */
  readonly speedMbps?: number;
  readonly addresses: string[];
}

export type KernelEvent = OnHost &
  (
    | { readonly kind: 'xid'; readonly number: number; readonly device: string; readonly text: string }
    | { readonly kind: 'outOfMemory'; readonly pid: number | undefined; readonly text: string }
    | { readonly kind: 'gpuLost'; readonly device: string; readonly text: string }
    | { readonly kind: 'iommuFault'; readonly text: string }
    /** A fatal error of an NVSwitch. */
    | { readonly kind: 'sxid'; readonly number: number; readonly device: string; readonly text: string }
    /** The link of an adapter, as its driver reports it. */
    | {
        readonly kind: 'adapterLink';
        readonly device: string;
        readonly interface: string;
        readonly isUp: boolean;
      }
    /** A cable, a module or the adapter itself reports a fault. */
    | { readonly kind: 'adapterFault'; readonly device: string; readonly text: string }
    /** A test of GPUs that failed; `of` as the output names them. */
    | { readonly kind: 'diagnosticFailed'; readonly test: string; readonly of: string | undefined }
    /** Clocks of a GPU are lowered by heat or by the hardware. */
    | { readonly kind: 'gpuSlowed'; readonly device: string; readonly reason: string }
    /** A file server that does not answer, or a process (`isTask`) that is blocked. */
    | { readonly kind: 'storage'; readonly of: string; readonly isTask: boolean; readonly isOver: boolean }
    /** Uncorrectable errors of the memory of a GPU, as nvidia-smi counts them since the driver was loaded. */
    | { readonly kind: 'gpuMemory'; readonly device: string; readonly gpu: number; readonly count: number }
  );

export interface ShellCommand extends OnHost {
  readonly text: string;
}

/** What the allocator of a framework keeps of the memory of a GPU, in bytes, and what of that is in use. */
export interface MemorySample extends OnHost {
  readonly rank: number | undefined;
  readonly allocated: number;
  readonly reserved: number;
}
