/**
 * A driver without a GPU: memory is that of an interpreter, kernels are device programs that run there, streams are
 * queues that make progress when somebody asks. It keeps account of everything that has to be given back.
 *
 * Kernels of one team start together: when each of its ranks has one at the head of its stream. A kernel whose partners
 * do not come ends when its abort word is set, as on a GPU.
 */
import { fstatSync, readFileSync } from 'node:fs';
import { RankBoard } from '#src/communicator/cuda/rank-board.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import type { DriverFunctions, Out, ProcessMemory } from '#src/device/cuda/driver-functions.js';
import { type Launch, Machine } from '#src/kernel/interpreter/machine.js';
import { type Program, STATUS } from '#src/kernel/ir.js';
import { libc } from '#src/system/libc.js';
import { type NativeLibrary, openLibrary } from '#src/system/native-library.js';

export interface FakeDriverOptions {
  readonly gpus?: number;
  /** Ranks of the team whose kernels start together. */
  readonly ranks?: number;
  readonly version?: number;
  readonly multiprocessors?: number;
  readonly seed?: number;
  /** Bytes of memory of each GPU. */
  readonly memory?: number;
  /** Whether GPU a reaches GPU b. */
  readonly access?: (a: number, b: number) => boolean;
  /** Whether lines of 128 bytes arrive whole at other GPUs. */
  readonly wholeLines?: boolean;
  /** Queries that streams need for every step; 0 by default. */
  readonly delay?: number;
  /** Threads of a warp. */
  readonly warpSize?: number;
  /** A kernel fills its GPU: those that are launched later wait until it is over. */
  readonly exclusive?: boolean;
}

interface Kernel {
  readonly program: Program;
  readonly rank: number;
  /** Kernels of a team start together. */
  readonly team: number;
  /** When it was launched. */
  readonly turn: number;
  readonly descriptor: Uint8Array;
  readonly abort: number;
  readonly status: number;
  readonly blocks: number;
  readonly threads: number;
}

/** Something in a stream: an act, which says whether it could be done, or a kernel. */
type Work = (() => boolean) | Kernel;

interface FakeStream {
  readonly device: number;
  queue: Work[];
  captured: Work[] | undefined;
}

/** Memory of this process that GPUs reach. */
interface Registered {
  /** Where kernels find it: a region of the interpreter, the same for all mappings of the same pages. */
  readonly address: number;
  readonly bytes: number;
  /** The memory itself. */
  readonly view: DataView;
  readonly device: number;
}

interface Allocation {
  readonly bytes: number;
  readonly device: number;
  readonly host: boolean;
  readonly name: string;
  /** Of virtual memory: the GPUs that may access each piece. */
  readonly accessible?: readonly (readonly number[])[];
  /** Of virtual memory: it was made for sharing by file descriptors. */
  readonly shared?: boolean;
}

/** Virtual memory that was mapped from descriptors, at the address where its owner has it. */
interface Mapping {
  readonly device: number;
  readonly address: number;
  readonly bytes: number;
}

/** Bytes of a piece of virtual memory. */
const PIECE_BYTES = 2 ** 21;

/** Start of a context's handle; the device's index is added. */
const CONTEXT = 0xc0;

/** Addresses of arrays of this process: beyond all regions of the interpreter. */
const FIRST_ARRAY = 2 ** 47;

/** Calls that need not be made in the context of their stream. */
const BY_STREAM: ReadonlySet<string> = new Set([
  'cuLaunchKernel',
  'cuGraphLaunch',
  'cuEventRecord',
  'cuStreamWaitEvent',
]);

let ownProcess: NativeLibrary | undefined;

/** Reaches memory of this process by its address. */
function libraryOfProcess(): NativeLibrary {
  ownProcess ??= openLibrary('libc.so.6', 'there is no C library');
  return ownProcess;
}

/** Names the pages at an address: the file and the place in it where a file is mapped, else the address. */
function pagesAt(address: number): string {
  for (const line of readFileSync('/proc/self/maps', 'latin1').split('\n')) {
    const [, from, to, offset, device, inode] =
      /^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) (\S+) (\d+)/.exec(line) ?? [];
    if (from === undefined || address < Number.parseInt(from, 16) || address >= Number.parseInt(to!, 16))
      continue;
    if (inode === '0') break;
    return `${device} ${inode} ${Number.parseInt(offset!, 16) + address - Number.parseInt(from, 16)}`;
  }
  return `anonymous ${address}`;
}

function isKernel(work: Work): work is Kernel {
  return typeof work === 'object';
}

export class FakeDriver implements DriverFunctions, ProcessMemory {
  readonly machine: Machine;
  /** Programs by the name of their function. */
  readonly programs = new Map<string, Program>();
  /** Functions that fail: the code, and how many calls succeed before. */
  readonly failures = new Map<keyof DriverFunctions, { code: number; after?: number }>();
  /** Names of all calls that changed something. */
  readonly log: string[] = [];
  /** Calls that would have blocked the thread behind a kernel that waits. */
  readonly blocked: string[] = [];
  /** Kernels that a graph or a call has put into a stream. */
  launches = 0;
  loads = 0;
  links = 0;
  /** Graphs that were launched into a stream that was captured. */
  nested = 0;
  readonly retained: number[];
  readonly live = {
    memory: new Map<number, Allocation>(),
    streams: new Map<number, FakeStream>(),
    events: new Map<number, { done: number; recorded: number }>(),
    modules: new Map<number, string>(),
    links: new Map<number, string>(),
    graphs: new Map<number, Work[]>(),
    executables: new Map<number, Work[]>(),
    opened: new Set<number>(),
    /** Handles of virtual memory: how many hold them. */
    held: new Map<number, number>(),
    reserved: new Map<number, Mapping>(),
    mapped: new Map<number, Mapping>(),
    /** By address in this process. */
    registered: new Map<number, Registered>(),
  };
  readonly #options: Required<FakeDriverOptions>;
  /** Streams that were destroyed before their work was done: it goes on. */
  readonly #orphans = new Set<FakeStream>();
  readonly #arrays = new Map<ArrayBufferLike, number>();
  readonly #functions = new Map<number, string>();
  /** Abort words of the ranks of each team. */
  readonly #ranks = new Map<number, number[]>();
  #turns = 0;
  /** Regions of registered memory, by the pages that it consists of. */
  readonly #pages = new Map<string, number>();
  #nextArray = FIRST_ARRAY;
  #nextHandle = 0x10000;
  #context = 0;
  #queries = 0;

  constructor(options: FakeDriverOptions = {}) {
    this.#options = {
      gpus: 1,
      ranks: 1,
      version: 13000,
      multiprocessors: 4,
      seed: 1,
      memory: 2 ** 34,
      access: () => true,
      wholeLines: true,
      delay: 0,
      warpSize: 4,
      exclusive: false,
      ...options,
    };
    this.retained = new Array<number>(this.#options.gpus).fill(0);
    this.machine = new Machine({
      seed: this.#options.seed,
      memory: 'weak',
      warpSize: this.#options.warpSize,
      maxSteps: 5e7,
    });
    // Address 0 is nobody's.
    this.machine.region('null', 8, 0);
  }

  /** What has not been given back, by name; empty when all is well. */
  get leaks(): string[] {
    const { memory, ...rest } = this.live;
    const found = [...memory.values()].map(({ name }) => name);
    for (const [name, items] of Object.entries(rest)) if (items.size > 0) found.push(`${items.size} ${name}`);
    for (const [gpu, count] of this.retained.entries()) {
      if (count > 0) found.push(`context of GPU ${gpu}`);
    }
    return found;
  }

  #result(name: keyof DriverFunctions): number {
    const failure = this.failures.get(name);
    if (failure === undefined) return CUDA.success;
    if ((failure.after ?? 0) > 0) {
      failure.after = failure.after! - 1;
      return CUDA.success;
    }
    return failure.code;
  }

  /** Result of a call that needs a current context. */
  #inContext(name: keyof DriverFunctions): number {
    const code = this.#result(name);
    if (code !== CUDA.success) return code;
    const device = this.#context - CONTEXT;
    return this.#context !== 0 && this.retained[device]! > 0 ? CUDA.success : CUDA.invalidContext;
  }

  get #device(): number {
    return this.#context - CONTEXT;
  }

  #handle<T>(map: Map<number, T>, out: Out, value: T): void {
    const handle = (this.#nextHandle += 16);
    map.set(handle, value);
    out[0] = handle;
  }

  // ---- memory of the process ----

  view(address: number, _bytes: number): ArrayBuffer {
    const known = [...this.#arrays].find(([, at]) => at === address);
    if (known !== undefined) return known[0] as ArrayBuffer;
    return this.machine.view(address).buffer as ArrayBuffer;
  }

  addressOf(array: ArrayBufferView): number {
    let base = this.#arrays.get(array.buffer);
    if (base === undefined) {
      base = this.#nextArray;
      // Eight bytes off sixteen: alignment is nobody's present.
      this.#nextArray += Math.ceil(array.buffer.byteLength / 4096 + 1) * 4096 + 8;
      this.#arrays.set(array.buffer, base);
    }
    return base + array.byteOffset;
  }

  #bytesAt(address: number, bytes: number): Uint8Array {
    for (const [buffer, base] of this.#arrays) {
      if (address >= base && address + bytes <= base + buffer.byteLength) {
        return new Uint8Array(buffer, address - base, bytes);
      }
    }
    throw new Error(`no array lies at ${address}`);
  }

  #word(address: number): number {
    return Number(new DataView(this.#bytesAt(address, 8).slice().buffer).getBigUint64(0, true));
  }

  // ---- driver, devices, contexts ----

  cuInit(): number {
    return this.#result('cuInit');
  }
  cuDriverGetVersion(version: Out): number {
    version[0] = this.#options.version;
    return this.#result('cuDriverGetVersion');
  }
  cuGetErrorName(code: number, text: [string | null]): number {
    const name = Object.entries(CUDA).find(([, value]) => value === code)?.[0];
    text[0] = name === undefined ? null : `CUDA_ERROR_${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
    return name === undefined ? CUDA.invalidValue : CUDA.success;
  }
  cuGetErrorString(code: number, text: [string | null]): number {
    text[0] = `text of ${code}`;
    return CUDA.success;
  }
  cuDeviceGetCount(count: Out): number {
    count[0] = this.#options.gpus;
    return this.#result('cuDeviceGetCount');
  }
  cuDeviceGet(device: Out, ordinal: number): number {
    device[0] = ordinal;
    return this.#result('cuDeviceGet');
  }
  cuDeviceGetName(name: Uint8Array): number {
    name.set(new TextEncoder().encode('Fake GPU\0'));
    return CUDA.success;
  }
  cuDeviceGetUuid(uuid: Uint8Array, device: number): number {
    uuid.fill(device + 1);
    return CUDA.success;
  }
  cuDeviceGetPCIBusId(text: Uint8Array, _bytes: number, device: number): number {
    text.set(new TextEncoder().encode(`0000:0${device}:00.0\0`));
    return CUDA.success;
  }
  cuDeviceGetAttribute(value: Out, attribute: number): number {
    const { multiprocessors } = this.#options;
    value[0] =
      ({ 16: multiprocessors, 19: 1, 41: 1, 75: 9, 76: 0 } as Record<number, number>)[attribute] ?? 0;
    return this.#result('cuDeviceGetAttribute');
  }
  cuDeviceTotalMem(bytes: Out): number {
    bytes[0] = this.#options.memory;
    return CUDA.success;
  }
  cuDeviceCanAccessPeer(can: Out, device: number, peer: number): number {
    can[0] = this.#options.access(device, peer) ? 1 : 0;
    return CUDA.success;
  }
  cuDeviceGetP2PAttribute(value: Out, attribute: number, device: number, peer: number): number {
    const { access, wholeLines } = this.#options;
    value[0] = attribute === 3 && wholeLines && access(device, peer) ? 1 : 0;
    return this.#result('cuDeviceGetP2PAttribute');
  }
  cuDevicePrimaryCtxRetain(context: Out, device: number): number {
    const code = this.#result('cuDevicePrimaryCtxRetain');
    if (code !== CUDA.success) return code;
    this.retained[device]! += 1;
    context[0] = CONTEXT + device;
    return CUDA.success;
  }
  cuDevicePrimaryCtxRelease(device: number): number {
    this.log.push(`release ${device}`);
    this.retained[device]! -= 1;
    return this.#result('cuDevicePrimaryCtxRelease');
  }
  cuCtxSetCurrent(context: number): number {
    this.log.push(`current ${context - CONTEXT}`);
    this.#context = context;
    return CUDA.success;
  }
  cuCtxEnablePeerAccess(context: number): number {
    this.log.push(`peer ${this.#device} ${context - CONTEXT}`);
    return this.#inContext('cuCtxEnablePeerAccess');
  }

  // ---- memory ----

  #allocate(out: Out, bytes: number, host: boolean): number {
    const code = this.#inContext(host ? 'cuMemHostAlloc' : 'cuMemAlloc');
    if (code !== CUDA.success) return code;
    const used = [...this.live.memory.values()].filter((one) => one.device === this.#device);
    if (used.reduce((sum, one) => sum + one.bytes, bytes) > this.#options.memory) return CUDA.outOfMemory;
    const name = `${bytes} bytes of ${host ? 'the host' : `GPU ${this.#device}`}`;
    out[0] = this.machine.region(name, bytes, this.#device, { zeroed: true });
    this.live.memory.set(out[0], { bytes, device: this.#device, host, name });
    return CUDA.success;
  }
  cuMemAlloc(address: Out, bytes: number): number {
    return this.#allocate(address, bytes, false);
  }
  /** Notes that a call waits for the GPU, while a kernel there may wait for what this thread does later. */
  #waitsForGpu(name: keyof DriverFunctions): void {
    this.pump();
    const waits = [...this.live.streams.values()].some(
      ({ device, queue }) => device === this.#device && queue.some(isKernel),
    );
    if (waits) this.blocked.push(name);
  }
  cuMemFree(address: number): number {
    this.#waitsForGpu('cuMemFree');
    return this.live.memory.delete(address) ? this.#inContext('cuMemFree') : CUDA.invalidValue;
  }
  cuMemGetInfo(free: Out, total: Out): number {
    free[0] = 0;
    total[0] = this.#options.memory;
    return CUDA.success;
  }
  cuMemHostAlloc(address: Out, bytes: number): number {
    return this.#allocate(address, bytes, true);
  }
  cuMemFreeHost(address: number): number {
    return this.live.memory.delete(address) ? this.#inContext('cuMemFreeHost') : CUDA.invalidValue;
  }
  cuMemHostRegister(address: number, bytes: number): number {
    const code = this.#inContext('cuMemHostRegister');
    if (code !== CUDA.success) return code;
    for (const [known, { bytes: length }] of this.live.registered) {
      if (address < known + length && known < address + bytes) return CUDA.hostMemoryAlreadyRegistered;
    }
    const pages = pagesAt(address);
    let region = this.#pages.get(pages);
    if (region === undefined) {
      region = this.machine.region(`${bytes} bytes registered`, bytes, this.#device, { zeroed: true });
      this.#pages.set(pages, region);
    }
    const view = new DataView(libraryOfProcess().view(address, bytes));
    this.live.registered.set(address, { address: region, bytes, view, device: this.#device });
    return CUDA.success;
  }
  cuMemHostUnregister(address: number): number {
    this.#waitsForGpu('cuMemHostUnregister');
    return this.live.registered.delete(address) ? this.#inContext('cuMemHostUnregister') : CUDA.invalidValue;
  }
  cuMemHostGetDevicePointer(address: Out, host: number): number {
    address[0] = this.live.registered.get(host)?.address ?? host;
    return CUDA.success;
  }
  /** The number of a communicator on the board of an abort word; 0 for a word that is on none. */
  #teamOf(abort: number): number {
    const { team } = RankBoard.fields;
    for (const { address, bytes, view } of this.live.registered.values()) {
      if (abort === address && bytes >= RankBoard.size) return view.getUint32(team.offset, true);
    }
    return 0;
  }
  /** A word that the host may write while kernels run. */
  #hostWord(address: number): number {
    for (const one of this.live.registered.values()) {
      const at = address - one.address;
      if (at >= 0 && at < one.bytes) return one.view.getUint32(at, true);
    }
    return Number(this.machine.read('u32', address));
  }
  #find(address: number): readonly [number, Allocation] | undefined {
    return [...this.live.memory].find(([base, { bytes }]) => address >= base && address < base + bytes);
  }
  cuMemGetAddressRange(base: Out, bytes: Out, address: number): number {
    const found = this.#find(address);
    if (found === undefined) return CUDA.invalidValue;
    base[0] = found[0];
    bytes[0] = found[1].bytes;
    return CUDA.success;
  }
  cuPointerGetAttribute(value: Out, attribute: number, address: number): number {
    const found = this.#find(address);
    if (found === undefined) return CUDA.invalidValue;
    const [base, { host, device, bytes, accessible, shared = false }] = found;
    const known: Record<number, number> = {
      2: host ? 1 : 2,
      9: device,
      11: base,
      12: bytes,
      10: accessible === undefined ? 1 : 0,
      13: 1,
      14: shared ? 1 : 0,
    };
    if (accessible !== undefined) {
      const piece = base + PIECE_BYTES * Math.floor((address - base) / PIECE_BYTES);
      known[18] = Math.min(PIECE_BYTES, base + bytes - piece);
      known[19] = piece;
    }
    value[0] = known[attribute] ?? 0;
    return CUDA.success;
  }
  cuMemGetAccess(flags: Out, location: Int32Array, address: number): number {
    const [base, { accessible = undefined } = {}] = this.#find(address) ?? [0];
    if (location[0] !== 1 || accessible === undefined) return CUDA.invalidValue;
    const piece = accessible[Math.floor((address - base) / PIECE_BYTES)]!;
    flags[0] = piece.includes(location[1]!) ? 3 : 0;
    return this.#result('cuMemGetAccess');
  }
  /** Virtual memory of the current GPU, as another library makes it: the GPUs that may access each piece. */
  virtualMemory(bytes: number, accessible: readonly (readonly number[])[], shared = false): number {
    const device = this.#device;
    const name = `virtual memory of GPU ${device}`;
    const address = this.machine.region(name, bytes, device, { zeroed: true });
    this.live.memory.set(address, { bytes, device, host: false, name, accessible, shared });
    return address;
  }
  /** Puts other memory into the place of a piece, as a library does that gives memory back. */
  replacePiece(address: number): void {
    this.#handles.delete(address);
  }
  /** Handles of pieces by where these lie, and the other way. */
  readonly #handles = new Map<number, number>();
  readonly #pieces = new Map<number, number>();
  /** Handles by the inodes of the files that stand for them. */
  readonly #exported = new Map<bigint, number>();
  /** Where reservations lie next: pieces that were imported last. */
  #imported: number[] = [];

  cuMemRetainAllocationHandle(handle: Out, address: number): number {
    const code = this.#result('cuMemRetainAllocationHandle');
    if (code !== CUDA.success) return code;
    const piece: Out = [0];
    if (this.cuPointerGetAttribute(piece, 19, address) !== CUDA.success) return CUDA.invalidValue;
    let known = this.#handles.get(piece[0]);
    if (known === undefined) {
      known = this.#nextHandle += 16;
      this.#handles.set(piece[0], known);
      this.#pieces.set(known, piece[0]);
    }
    return this.#hold(handle, known);
  }
  #hold(out: Out, handle: number): number {
    out[0] = handle;
    this.live.held.set(handle, (this.live.held.get(handle) ?? 0) + 1);
    return CUDA.success;
  }
  cuMemRelease(handle: number): number {
    const count = this.live.held.get(handle) ?? 0;
    if (count > 1) this.live.held.set(handle, count - 1);
    else this.live.held.delete(handle);
    return count > 0 ? CUDA.success : CUDA.invalidValue;
  }
  cuMemExportToShareableHandle(descriptor: Out, handle: number, type: number): number {
    const code = this.#result('cuMemExportToShareableHandle');
    if (code !== CUDA.success) return code;
    if (type !== 1 || !this.live.held.has(handle)) return CUDA.invalidValue;
    descriptor[0] = libc()!.memfdCreate('piece of a fake GPU', 1);
    this.#exported.set(fstatSync(descriptor[0], { bigint: true }).ino, handle);
    return CUDA.success;
  }
  cuMemImportFromShareableHandle(handle: Out, descriptor: number): number {
    const code = this.#inContext('cuMemImportFromShareableHandle');
    if (code !== CUDA.success) return code;
    const known = this.#exported.get(fstatSync(descriptor, { bigint: true }).ino);
    if (known === undefined) return CUDA.invalidValue;
    this.#imported.push(this.#pieces.get(known)!);
    return this.#hold(handle, known);
  }
  /** Addresses are those of the owner: the interpreter has every byte at one address only. */
  cuMemAddressReserve(address: Out, bytes: number): number {
    const imported = this.#imported;
    this.#imported = [];
    const code = this.#result('cuMemAddressReserve');
    if (code !== CUDA.success) return code;
    address[0] = imported[0]!;
    const reservation = { device: this.#device, address: address[0], bytes };
    this.live.reserved.set((this.#nextHandle += 16), reservation);
    return CUDA.success;
  }
  /** Takes one of these mappings of the current GPU off. */
  #takeOff(from: Map<number, Mapping>, address: number, bytes: number): boolean {
    const found = [...from].find(
      ([, one]) => one.device === this.#device && one.address === address && one.bytes === bytes,
    );
    return found !== undefined && from.delete(found[0]);
  }
  cuMemAddressFree(address: number, bytes: number): number {
    return this.#takeOff(this.live.reserved, address, bytes) ? CUDA.success : CUDA.invalidValue;
  }
  cuMemMap(address: number, bytes: number, offset: number, handle: number): number {
    const code = this.#result('cuMemMap');
    if (code !== CUDA.success) return code;
    const size: Out = [0];
    this.cuPointerGetAttribute(size, 18, address);
    const fits = [...this.live.reserved.values()].some(
      (one) => address >= one.address && address + bytes <= one.address + one.bytes,
    );
    if (!fits || offset !== 0 || this.#pieces.get(handle) !== address || size[0] !== bytes)
      return CUDA.invalidValue;
    this.live.mapped.set((this.#nextHandle += 16), { device: this.#device, address, bytes });
    return CUDA.success;
  }
  cuMemUnmap(address: number, bytes: number): number {
    this.#waitsForGpu('cuMemUnmap');
    let at = address;
    while (at < address + bytes) {
      const piece = [...this.live.mapped.values()].find(
        (one) => one.device === this.#device && one.address === at,
      );
      if (piece === undefined || !this.#takeOff(this.live.mapped, at, piece.bytes)) return CUDA.invalidValue;
      at += piece.bytes;
    }
    return CUDA.success;
  }
  cuMemSetAccess(address: number, bytes: number, descriptors: Int32Array, count: number): number {
    const code = this.#result('cuMemSetAccess');
    if (code !== CUDA.success) return code;
    const [type, device, flags] = descriptors;
    const mapped = [...this.live.mapped.values()]
      .filter((one) => one.device === this.#device && one.address >= address)
      .reduce((sum, one) => sum + (one.address + one.bytes <= address + bytes ? one.bytes : 0), 0);
    const right = count === 1 && type === 1 && device === this.#device && flags === 3 && mapped >= bytes;
    if (!right) return CUDA.invalidValue;
    const owner = this.#find(address)?.[1].device;
    return owner !== undefined && this.#options.access(device, owner) ? CUDA.success : CUDA.invalidDevice;
  }
  cuMemcpyHtoDAsync(to: number, from: ArrayBufferView, bytes: number, stream: number): number {
    // The driver takes a copy of pageable memory.
    const data = new Uint8Array(from.buffer, from.byteOffset, bytes).slice();
    return this.#act('cuMemcpyHtoDAsync', stream, () => this.machine.writeArray(to, data));
  }
  cuMemcpyDtoHAsync(to: ArrayBufferView, from: number, bytes: number, stream: number): number {
    return this.#act('cuMemcpyDtoHAsync', stream, () => {
      new Uint8Array(to.buffer, to.byteOffset, bytes).set(this.machine.readArray(from, Uint8Array, bytes));
    });
  }
  cuMemcpyDtoDAsync(to: number, from: number, bytes: number, stream: number): number {
    return this.#act('cuMemcpyDtoDAsync', stream, () =>
      this.machine.writeArray(to, this.machine.readArray(from, Uint8Array, bytes)),
    );
  }
  cuMemsetD8Async(to: number, value: number, bytes: number, stream: number): number {
    return this.#act('cuMemsetD8Async', stream, () =>
      this.machine.writeArray(to, new Uint8Array(bytes).fill(value)),
    );
  }
  cuIpcGetMemHandle(handle: Uint8Array, address: number): number {
    if (this.#find(address)?.[1].accessible !== undefined) return CUDA.invalidValue;
    new DataView(handle.buffer).setFloat64(0, address);
    return this.#inContext('cuIpcGetMemHandle');
  }
  cuIpcOpenMemHandle(address: Out, { bytes }: { bytes: Uint8Array }): number {
    const code = this.#inContext('cuIpcOpenMemHandle');
    if (code !== CUDA.success) return code;
    address[0] = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0);
    this.live.opened.add(address[0]);
    return code;
  }
  cuIpcCloseMemHandle(address: number): number {
    this.#waitsForGpu('cuIpcCloseMemHandle');
    return this.live.opened.delete(address) ? CUDA.success : CUDA.invalidValue;
  }

  // ---- streams and events ----

  #put(name: keyof DriverFunctions, stream: number, work: Work): number {
    const code = this.#inContext(name);
    if (code !== CUDA.success) return code;
    const found = this.live.streams.get(stream);
    if (found === undefined) return CUDA.invalidContext;
    // As two H200 do with driver 580: launches and events go where their stream belongs, whatever is current.
    if (!BY_STREAM.has(name) && found.device !== this.#device) return CUDA.invalidContext;
    (found.captured ?? found.queue).push(work);
    return CUDA.success;
  }

  #act(name: keyof DriverFunctions, stream: number, act: () => void): number {
    return this.#put(name, stream, () => {
      act();
      return true;
    });
  }

  get #streams(): FakeStream[] {
    return [...this.live.streams.values(), ...this.#orphans];
  }

  /** Does what can be done. */
  pump(): void {
    if (this.#queries++ < this.#options.delay) return;
    this.#queries = 0;
    for (let moved = true; moved; ) {
      moved = false;
      for (const { queue } of this.#streams) {
        while (queue.length > 0 && !isKernel(queue[0]!) && queue[0]!()) {
          queue.shift();
          moved = true;
        }
      }
      moved = this.#runKernels() || moved;
    }
  }

  /** Streams with a kernel at their head that has its place on the GPU. */
  get #runnable(): FakeStream[] {
    const heads = this.#streams.filter(({ queue }) => queue[0] && isKernel(queue[0]));
    if (!this.#options.exclusive) return heads;
    const turnOf = ({ queue }: FakeStream) => (queue[0] as Kernel).turn;
    return heads.filter((one) =>
      heads.every((other) => other.device !== one.device || turnOf(other) >= turnOf(one)),
    );
  }

  #runKernels(): boolean {
    const heads = this.#runnable;
    const aborted = (kernel: Kernel) => this.#hostWord(kernel.abort) !== 0;
    const teams = new Map<number, Map<number, FakeStream>>();
    for (const stream of heads) {
      const { team, rank } = stream.queue[0] as Kernel;
      if (!teams.has(team)) teams.set(team, new Map());
      if (!teams.get(team)!.has(rank)) teams.get(team)!.set(rank, stream);
    }
    for (const ofTeam of teams.values()) {
      const streams = [...ofTeam.values()];
      const kernels = streams.map(({ queue }) => queue[0] as Kernel);
      if (streams.length < this.#options.ranks || kernels.some(aborted)) continue;
      const launched = kernels.map((kernel) => this.#start(kernel));
      this.machine.run();
      kernels.forEach((kernel, k) => {
        const { statuses } = launched[k]!;
        for (let block = 0; block < kernel.blocks; block++) {
          const own = statuses.slice(block * kernel.threads, (block + 1) * kernel.threads);
          this.machine.write('u32', kernel.status + 4 * block, own.find((status) => status !== 0) ?? 0);
        }
      });
      for (const { queue } of streams) queue.shift();
      return true;
    }
    for (const { queue } of heads) {
      const kernel = queue[0] as Kernel;
      if (!aborted(kernel)) continue;
      this.machine.write('u32', kernel.status, STATUS.aborted);
      queue.shift();
      return true;
    }
    return false;
  }

  #start({ program, rank, descriptor, blocks, threads }: Kernel): Launch {
    const region = this.machine.region('descriptor', descriptor.length, rank, {
      zeroed: true,
      readOnly: true,
    });
    this.machine.writeArray(region, descriptor);
    return this.machine.launch(program, { rank, descriptor: region, blocks, threads });
  }

  cuStreamCreate(stream: Out): number {
    const code = this.#inContext('cuStreamCreate');
    if (code !== CUDA.success) return code;
    this.#handle(this.live.streams, stream, { device: this.#device, queue: [], captured: undefined });
    return CUDA.success;
  }
  cuStreamDestroy(stream: number): number {
    const found = this.live.streams.get(stream);
    if (found !== undefined && found.queue.length > 0) this.#orphans.add(found);
    return this.live.streams.delete(stream) ? CUDA.success : CUDA.invalidValue;
  }
  cuStreamQuery(stream: number): number {
    const code = this.#inContext('cuStreamQuery');
    if (code !== CUDA.success) return code;
    this.pump();
    const found = this.live.streams.get(stream);
    if (found === undefined) return CUDA.invalidValue;
    return found.queue.length === 0 ? CUDA.success : CUDA.notReady;
  }
  cuStreamSynchronize(stream: number): number {
    for (let k = 0; k <= this.#options.delay; k++) this.pump();
    if (this.live.streams.get(stream)!.queue.length > 0)
      throw new Error('the thread would be blocked for ever');
    return this.#result('cuStreamSynchronize');
  }
  cuStreamWaitEvent(stream: number, event: number): number {
    const state = this.live.events.get(event)!;
    const target = state.recorded;
    return this.#put('cuStreamWaitEvent', stream, () => state.done >= target);
  }
  cuStreamIsCapturing(stream: number, status: Out): number {
    status[0] = this.live.streams.get(stream)?.captured === undefined ? 0 : 1;
    return CUDA.success;
  }
  cuStreamGetCtx(stream: number, context: Out): number {
    const found = this.live.streams.get(stream);
    if (found === undefined) return CUDA.invalidValue;
    context[0] = CONTEXT + found.device;
    return CUDA.success;
  }
  cuEventCreate(event: Out): number {
    const code = this.#inContext('cuEventCreate');
    if (code === CUDA.success) this.#handle(this.live.events, event, { done: 0, recorded: 0 });
    return code;
  }
  cuEventDestroy(event: number): number {
    return this.live.events.delete(event) ? CUDA.success : CUDA.invalidValue;
  }
  cuEventRecord(event: number, stream: number): number {
    const state = this.live.events.get(event)!;
    const number = ++state.recorded;
    return this.#act('cuEventRecord', stream, () => {
      state.done = Math.max(state.done, number);
    });
  }
  cuEventQuery(event: number): number {
    const code = this.#inContext('cuEventQuery');
    if (code !== CUDA.success) return code;
    this.pump();
    const { done, recorded } = this.live.events.get(event)!;
    return done >= recorded ? CUDA.success : CUDA.notReady;
  }
  cuEventElapsedTime(milliseconds: Out): number {
    milliseconds[0] = 1;
    return CUDA.success;
  }

  // ---- kernels ----

  cuLinkCreate(_count: number, _options: number, _values: number, state: Out): number {
    const code = this.#inContext('cuLinkCreate');
    if (code === CUDA.success) this.#handle(this.live.links, state, '');
    return code;
  }
  cuLinkAddData(state: number, _type: number, data: Uint8Array, bytes: number): number {
    this.live.links.set(state, new TextDecoder().decode(data.subarray(0, bytes - 1)));
    return this.#result('cuLinkAddData');
  }
  cuLinkComplete(state: number, image: Out, bytes: Out): number {
    const code = this.#result('cuLinkComplete');
    if (code !== CUDA.success) return code;
    this.links += 1;
    const cubin = new TextEncoder().encode(`cubin ${this.live.links.get(state)}`);
    image[0] = this.addressOf(cubin);
    bytes[0] = cubin.length;
    return CUDA.success;
  }
  cuLinkDestroy(state: number): number {
    this.live.links.delete(state);
    return CUDA.success;
  }
  cuModuleLoadData(module: Out, image: Uint8Array): number {
    const code = this.#inContext('cuModuleLoadData');
    if (code !== CUDA.success) return code;
    const text = new TextDecoder().decode(image);
    if (!text.startsWith('cubin ')) return CUDA.noBinaryForGpu;
    this.loads += 1;
    this.#handle(this.live.modules, module, text);
    return CUDA.success;
  }
  cuModuleUnload(module: number): number {
    return this.live.modules.delete(module) ? this.#inContext('cuModuleUnload') : CUDA.invalidValue;
  }
  cuModuleGetFunction(fn: Out, module: number, name: string): number {
    if (!this.live.modules.get(module)?.includes(name)) return CUDA.notFound;
    this.#handle(this.#functions, fn, name);
    return this.#result('cuModuleGetFunction');
  }
  cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out): number {
    blocks[0] = 2;
    return CUDA.success;
  }
  cuLaunchKernel(
    fn: number,
    gridX: number,
    _gridY: number,
    _gridZ: number,
    blockX: number,
    _blockY: number,
    _blockZ: number,
    _sharedBytes: number,
    stream: number,
    parameters: number,
  ): number {
    const program = this.programs.get(this.#functions.get(fn) ?? '');
    if (program === undefined) return CUDA.invalidValue;
    const [descriptor, abort, status] = [0, 8, 16].map((at) => this.#word(parameters + at));
    if (descriptor! % 16 !== 0) return CUDA.invalidValue;
    const abortWord = this.#word(abort!);
    this.launches += 1;
    const team = this.#teamOf(abortWord);
    if (!this.#ranks.has(team)) this.#ranks.set(team, []);
    const ranks = this.#ranks.get(team)!;
    if (!ranks.includes(abortWord)) ranks.push(abortWord);
    return this.#put('cuLaunchKernel', stream, {
      program,
      rank: ranks.indexOf(abortWord) % this.#options.ranks,
      team,
      turn: ++this.#turns,
      // Everything up to the two addresses behind it.
      descriptor: this.#bytesAt(descriptor!, abort! - descriptor!).slice(),
      abort: abortWord,
      status: this.#word(status!),
      blocks: gridX,
      threads: blockX,
    });
  }

  cuLaunchKernelEx(config: number, fn: number, parameters: number): number {
    const view = new DataView(this.#bytesAt(config, 56).slice().buffer);
    const word = (at: number) => view.getUint32(at, true);
    if (word(48) !== 1) return CUDA.invalidValue;
    const stream = Number(view.getBigUint64(32, true));
    return this.cuLaunchKernel(
      fn,
      word(0),
      word(4),
      word(8),
      word(12),
      word(16),
      word(20),
      0,
      stream,
      parameters,
    );
  }

  // ---- graphs ----

  cuStreamBeginCapture(stream: number): number {
    const code = this.#inContext('cuStreamBeginCapture');
    if (code === CUDA.success) this.live.streams.get(stream)!.captured = [];
    return code;
  }
  cuStreamEndCapture(stream: number, graph: Out): number {
    const found = this.live.streams.get(stream)!;
    const captured = found.captured!;
    found.captured = undefined;
    const code = this.#result('cuStreamEndCapture');
    if (code === CUDA.success) this.#handle(this.live.graphs, graph, captured);
    return code;
  }
  cuGraphInstantiate(executable: Out, graph: number): number {
    const code = this.#result('cuGraphInstantiate');
    if (code === CUDA.success) this.#handle(this.live.executables, executable, this.live.graphs.get(graph)!);
    return code;
  }
  cuGraphLaunch(executable: number, stream: number): number {
    if (this.live.streams.get(stream)?.captured !== undefined) this.nested += 1;
    let code: number = CUDA.success;
    for (const work of this.live.executables.get(executable)!) {
      const again = isKernel(work) ? { ...work, turn: ++this.#turns } : work;
      code ||= this.#put('cuGraphLaunch', stream, again);
    }
    return code;
  }
  cuGraphExecDestroy(executable: number): number {
    return this.live.executables.delete(executable) ? CUDA.success : CUDA.invalidValue;
  }
  cuGraphDestroy(graph: number): number {
    return this.live.graphs.delete(graph) ? CUDA.success : CUDA.invalidValue;
  }
}
