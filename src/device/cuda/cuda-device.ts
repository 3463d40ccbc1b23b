/**
 * One GPU and its primary context, which everything of this process on that GPU shares (other CUDA libraries too).
 *
 * The context is retained while somebody needs it and released with the last of them; kernels that were loaded into
 * it go before it does.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { CUDA } from './cuda-error.js';
import type { DriverCalls } from './driver-calls.js';
import { LaunchCosts } from './launch-costs.js';

/** CUdevice_attribute. */
const ATTRIBUTE = {
  multiprocessors: 16,
  unifiedAddressing: 41,
  major: 75,
  minor: 76,
  canMapHostMemory: 19,
} as const;

/** CU_STREAM_LEGACY (1, also 0) and CU_STREAM_PER_THREAD (2) stand for a stream of whatever context is current. */
const LAST_COMMON_STREAM = 2;

/** CUdevice_P2PAttribute: atomic operations on the other GPU's memory, which NVLink has and PCIe lacks. */
const P2P_NATIVE_ATOMICS = 3;

/** Something that lives in a context and must go before it. */
export interface ContextResident {
  leaveContext(): void;
}

function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end < 0 ? bytes.length : end)).toString('latin1');
}

export class CudaDevice {
  readonly calls: DriverCalls;
  /** The driver's index, from 0; CUDA_VISIBLE_DEVICES decides about the order. */
  readonly index: number;
  readonly handle: number;
  readonly name: string;
  /** `GPU-` and 32 hexadecimal digits, as nvidia-smi prints it. */
  readonly uuid: string;
  readonly pciBusId: string;
  readonly major: number;
  readonly minor: number;
  readonly multiprocessors: number;
  /** What launches on it cost this thread. */
  readonly launchCosts = new LaunchCosts();
  readonly #residents = new Set<ContextResident>();
  #users = 0;
  #context = 0;
  /** GPUs whose memory kernels here may use, and which context that was said of. */
  readonly #peers = new Map<number, number>();
  /** Contexts that there have been: those of another time may have the same handle. */
  #contexts = 0;

  constructor(calls: DriverCalls, index: number) {
    const { functions } = calls;
    this.calls = calls;
    this.index = index;
    const what = `ask GPU ${index} for its properties`;
    this.handle = calls.value((out) => functions.cuDeviceGet(out, index), what);
    const name = new Uint8Array(256);
    calls.check(functions.cuDeviceGetName(name, name.length, this.handle), what);
    this.name = textOf(name);
    const uuid = new Uint8Array(16);
    calls.check(functions.cuDeviceGetUuid(uuid, this.handle), what);
    this.uuid = `GPU-${Buffer.from(uuid)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`;
    const bus = new Uint8Array(32);
    calls.check(functions.cuDeviceGetPCIBusId(bus, bus.length, this.handle), what);
    this.pciBusId = textOf(bus).toLowerCase();
    const attribute = (which: number): number =>
      calls.value((out) => functions.cuDeviceGetAttribute(out, which, this.handle), what);
    this.major = attribute(ATTRIBUTE.major);
    this.minor = attribute(ATTRIBUTE.minor);
    this.multiprocessors = attribute(ATTRIBUTE.multiprocessors);
    if (attribute(ATTRIBUTE.unifiedAddressing) !== 1 || attribute(ATTRIBUTE.canMapHostMemory) !== 1) {
      throw new TuttiError(
        'unhandledCudaError',
        `GPU ${index} (${this.name}) cannot be used: it has no addresses in common with the host`,
      );
    }
  }

  /** For people: index and name. */
  get label(): string {
    return `GPU ${this.index} (${this.name})`;
  }

  /** Total memory, bytes. */
  get totalBytes(): number {
    return this.calls.value(
      (out) => this.calls.functions.cuDeviceTotalMem(out, this.handle),
      `ask ${this.label} for its memory`,
    );
  }

  /** The context, while it is retained. */
  get context(): number {
    if (this.#context === 0)
      throw new TuttiError('internalError', `the context of GPU ${this.index} is not retained`);
    return this.#context;
  }

  /** Whether somebody holds the context. */
  get isRetained(): boolean {
    return this.#users > 0;
  }

  /** Keeps the context until `release` is called as often. */
  retain(): void {
    if (this.#users === 0) {
      this.#context = this.calls.value(
        (out) => this.calls.functions.cuDevicePrimaryCtxRetain(out, this.handle),
        `use ${this.label}`,
      );
      this.#contexts += 1;
    }
    this.#users += 1;
  }

  release(): void {
    if (this.#users === 0) throw new TuttiError('internalError', `GPU ${this.index} was released too often`);
    this.#users -= 1;
    if (this.#users > 0) return;
    for (const resident of this.#residents) resident.leaveContext();
    this.#residents.clear();
    this.#peers.clear();
    this.calls.forget(this.#context);
    this.#context = 0;
    // A context that is broken says so here too, and goes all the same.
    this.calls.functions.cuDevicePrimaryCtxRelease(this.handle);
  }

  /** Calls `leaveContext` before the context goes. */
  addResident(resident: ContextResident): void {
    this.#residents.add(resident);
  }

  /** Calls of this thread mean this GPU from here on. */
  makeCurrent(): void {
    this.calls.makeCurrent(this.#context);
  }

  /** The same for calls that work in a stream, which says which GPU it belongs to; some handles mean the current one's. */
  makeCurrentFor(stream: number): void {
    if (stream <= LAST_COMMON_STREAM) this.calls.makeCurrent(this.#context);
    else this.calls.expectCurrent(this.#context);
  }

  /** Whether kernels here may use the memory of another GPU. */
  canAccess(peer: CudaDevice): boolean {
    if (peer === this) return true;
    const can = this.calls.value(
      (out) => this.calls.functions.cuDeviceCanAccessPeer(out, this.handle, peer.handle),
      `ask whether ${this.label} reaches ${peer.label}`,
    );
    return can === 1;
  }

  /**
   * Whether 128 bytes that a warp here stores at once arrive whole in another GPU's memory: over NVLink, between GPUs of
   * one generation or Hopper and newer.
   */
  storesWholeLines(peer: CudaDevice): boolean {
    if (peer === this) return true;
    const alike = peer.major === this.major && peer.minor === this.minor;
    if (!alike && Math.min(peer.major, this.major) < 9) return false;
    const atomics = this.calls.value(
      (out) =>
        this.calls.functions.cuDeviceGetP2PAttribute(out, P2P_NATIVE_ATOMICS, this.handle, peer.handle),
      `ask how ${this.label} reaches ${peer.label}`,
    );
    return atomics === 1;
  }

  /** Lets kernels here use the memory of another GPU of this process, whose context must be retained. */
  enablePeer(peer: CudaDevice): void {
    if (peer === this || this.#peers.get(peer.index) === peer.#contexts) return;
    this.makeCurrent();
    const code = this.calls.functions.cuCtxEnablePeerAccess(peer.context, 0);
    if (code !== CUDA.peerAccessAlreadyEnabled) {
      this.calls.check(code, `let ${this.label} use the memory of ${peer.label}`);
    }
    this.#peers.set(peer.index, peer.#contexts);
  }
}
