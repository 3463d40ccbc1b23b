/**
 * One operation on a GPU, ready to be launched as often as wanted: the kernel that `gpuLaunch` chose and its
 * descriptor.
 */
import { signatureOf } from '../../collectives/control-block.js';
import { callBytes, type GpuCollective } from '../../collectives/gpu/call.js';
import type { GpuLaunch } from '../../collectives/gpu/launch.js';
import { KernelLaunch } from '../../device/cuda/kernel-launch.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { CheckedCallOf } from '../call-check.js';
import type { CallRecord } from './call-boards.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { MessageRecord } from './message-boards.js';

export type DeviceCall = CheckedCallOf<DeviceBuffer, Exclude<GpuCollective, 'barrier'>>;

/** Something that can be put into a stream. */
export interface Launchable {
  /** Name of the call, for errors. */
  readonly name: string;
  /** Nothing has to be loaded or compiled first. */
  readonly isLoaded: boolean;
  /** Loads what it needs. Must not be called while kernels wait for each other on this GPU. */
  load(): void;
  /** The operations of all ranks that it stands for. */
  readonly records: readonly CallRecord[];
  /** Messages of this rank that are among it, where there are any. */
  readonly messages?: readonly MessageRecord[];
  /** Puts it into a stream; loaded it must be. `recorded`: the stream may be captured. */
  launch(stream: number, recorded: boolean): void;
}

/** What must be equal on all ranks besides the count. */
function signatureOfCall({ collective, type, op, root }: DeviceCall): number {
  const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
  return signatureOf(collective, type, reduces ? op : undefined, root);
}

/** What the GPU takes longer from one graph to the next than from one kernel to one that overlaps it, us: 1.1 to 1.3. */
const GRAPH_GAP_MICROSECONDS = 1.1;

export class CudaOperation implements Launchable {
  readonly records: readonly CallRecord[];
  readonly call: DeviceCall;
  readonly #team: CudaTeam;
  /** Undefined where nothing is launched: no elements, or a communicator of one rank. */
  readonly #plan: GpuLaunch | undefined;
  #kernel: KernelLaunch | undefined;

  constructor(team: CudaTeam, call: DeviceCall) {
    this.#team = team;
    this.call = call;
    const { collective, type, op, count } = call;
    this.records = [{ signature: signatureOfCall(call), count }];
    this.#plan =
      team.size === 1 || count === 0
        ? undefined
        : team.programs.launch(team.gpu, { collective, type, op, count }, team.rank);
  }

  get name(): string {
    return this.call.collective;
  }

  get explanation(): string {
    const bytes = callBytes(this.call);
    if (this.#plan === undefined) return this.call.count === 0 ? 'nothing to do' : 'one rank: a copy';
    const { label, blocks, threads, reason } = this.#plan;
    const why = reason === undefined ? '' : ` (${reason})`;
    return `${label}: ${bytes} bytes in ${blocks} ${blocks === 1 ? 'block' : 'blocks'} of ${threads} threads${why}${this.#copies}`;
  }

  /** Buffers of other libraries that are copied because peers do not reach them, as the end of a sentence. */
  get #copies(): string {
    const parts = (['send', 'recv'] as const).flatMap((name) => {
      const buffer = this.call[name];
      const refusal = buffer === null ? undefined : this.#team.refusal(buffer);
      return refusal === undefined ? [] : [`; ${name} is copied on the way: ${refusal}`];
    });
    return parts.join('');
  }

  /**
   * Microseconds that the host may take to launch a kernel for kernels to be better than graphs of one kernel: those take
   * the host less, but cannot begin before the one before is over. A loop of launches takes as long as the slower of host
   * and GPU. 0 where kernels cannot overlap either.
   */
  get worthwhileLaunch(): number {
    const team = this.#team;
    const { overlap = false, microseconds = 0 } = this.#plan ?? {};
    if (!overlap || !team.overlaps) return 0;
    return (microseconds + GRAPH_GAP_MICROSECONDS) / (team.sharesThread ? team.size : 1);
  }

  /** Whether it puts anything into a stream. */
  get moves(): boolean {
    const { send, recv, count } = this.call;
    return this.#plan !== undefined || (count > 0 && send?.address !== recv?.address && recv !== null);
  }

  get isLoaded(): boolean {
    return this.#kernel !== undefined || this.#plan === undefined || this.#team.kernels.has(this.#plan.key);
  }

  load(): void {
    if (this.#plan !== undefined && this.#kernel === undefined) this.#kernel = this.#makeKernel(this.#plan);
  }

  #makeKernel(plan: GpuLaunch): KernelLaunch {
    const team = this.#team;
    const { call } = this;
    const { device, kernels, words, programs } = team;
    const fn = kernels.kernel(plan.key, () => programs.text(plan, device));
    const { blocks, threads, compile } = plan;
    const overlap = plan.overlap && team.overlaps;
    const kernel = new KernelLaunch(
      device,
      { name: plan.key, fn, blocks, threads, descriptorBytes: compile.descriptorBytes, overlap },
      words,
    );
    const nameOf = (buffer: DeviceBuffer | null) =>
      buffer === null ? 0 : team.nameOf(buffer, buffer.address);
    plan.write(kernel.descriptor, 0, {
      self: team.rank,
      root: call.root,
      type: call.type,
      op: call.op,
      count: call.count,
      send: call.send?.address ?? 0,
      recv: call.recv?.address ?? 0,
      sendName: nameOf(call.send),
      recvName: nameOf(call.recv),
      maps: team.maps,
      areas: team.areas,
    });
    return kernel;
  }

  launch(stream: number): void {
    if (this.#kernel === undefined) {
      if (this.#plan === undefined) {
        this.#copyAlone(stream);
        return;
      }
      this.load();
    }
    this.#kernel!.launch(stream);
  }

  /** All collectives of one rank: its own data, moved where they belong. */
  #copyAlone(stream: number): void {
    const { send, recv, count, type } = this.call;
    if (count === 0 || send === null || recv === null || send.address === recv.address) return;
    const { device } = this.#team;
    device.makeCurrent();
    const bytes = count * ELEMENT_TYPES[type].size;
    device.calls.check(
      device.calls.functions.cuMemcpyDtoDAsync(recv.address, send.address, bytes, stream),
      `copy within the memory of ${device.label}`,
    );
  }

  /** Whether it works on bytes of an allocation. */
  uses(buffer: DeviceBuffer): boolean {
    return [this.call.send, this.call.recv].some((own) => own?.allocation === buffer.allocation);
  }
}
