/**
 * A team of ranks on GPUs as one of them sees it: where everybody's area is, how buffers are named to the others, how
 * kernels are ended, and the control messages.
 */
import type { GpuTeam } from '../../collectives/gpu/call.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import type { KernelWords } from '../../device/cuda/kernel-launch.js';
import type { KernelLibrary } from '../../device/cuda/kernel-library.js';
import type { HostDevice } from '../../device/host/host-device.js';
import type { ProcessIdentity } from '../../system/process-liveness.js';
import type { Control } from '../local-control.js';
import type { CallBoards } from './call-boards.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { GpuPrograms } from './gpu-programs.js';

export interface CudaTeam extends Control {
  readonly rank: number;
  readonly size: number;
  readonly device: CudaDevice;
  readonly kernels: KernelLibrary;
  readonly programs: GpuPrograms;
  /** What all ranks know alike. */
  readonly gpu: GpuTeam;
  /** Whether kernels may be launched that begin before the one before is over. */
  readonly overlaps: boolean;
  /** Other ranks of this team run their JavaScript in this very thread. */
  readonly sharesThread: boolean;
  /** One line for people: how the ranks are connected. */
  readonly description: string;
  /** Ranks meet in memory of the host, and all data go through it. */
  readonly onHost: boolean;
  /** One line for people: in which order rings over connections go, where there are any. */
  readonly rings?: string;
  /** The areas of all ranks, at addresses of this rank's GPU. */
  readonly areas: readonly number[];
  /** Table of the ranks' mapped allocations in this GPU's memory; 0 where names are plain addresses. */
  readonly maps: number;
  /** What every kernel of this rank gets. */
  readonly words: KernelWords;
  /** The heap that holds the boards. */
  readonly host: HostDevice;
  /** What the ranks call, and the words that end their kernels. */
  readonly calls: CallBoards;
  /** All ranks compare their calls before they begin, instead of finding out when they look at each other's boards. */
  readonly check: boolean;
  /** Processes of the other ranks; undefined for those of this one. */
  readonly processes: readonly (ProcessIdentity | undefined)[];

  /** Memory for a buffer. */
  allocate(bytes: number): number;
  free(address: number): void;
  /** Lets the peers reach memory of somebody else; `release` ends it. */
  adopt(address: number, bytes: number): void;
  release(address: number, bytes: number): void;
  /** The name of an address in a buffer for the peers (names.ts); STAGED where they cannot reach it. */
  nameOf(buffer: DeviceBuffer, address: number): number | bigint;
  /** Why peers do not reach a buffer of another library, whose data are copied then; undefined where they do. */
  refusal(buffer: DeviceBuffer): string | undefined;
  /** Settles when all memory that was allocated or adopted so far can be named. Undefined: that is now. */
  mapped(): Promise<void> | undefined;
  /** Ranks for which `mapped` waits. */
  readonly unanswered: readonly number[];

  /** A rank that has left and will not make this rank's next call, or undefined. */
  departed(): number | undefined;
  /** Calls back when `departed` has begun to name somebody. */
  onDeparture(listener: () => void): void;
  /** Says goodbye: afterwards nobody counts on this rank. Tells whether all ranks have done so. */
  farewell(): Promise<boolean>;
  /** Gives everything back; no kernel of this rank may run any more. */
  close(graceful: boolean): Promise<void>;
}
