/**
 * The host as a device: one shared WebAssembly memory per thread that owns ranks, and windows into the memory
 * of other processes inside it.
 *
 * Device programs are Wasm and reach one memory only. So everything they touch is brought into it: buffers are
 * allocated there, and the segments of peers are mapped (mmap with MAP_FIXED) over page-aligned parts of it.
 * The addresses that programs use are offsets in this memory. It is laid out as
 *
 *     0          one Wasm page that stays unused: address 0 is "no address"
 *     64 KiB     private area: command rings, waiting state, nothing that peers see
 *     privateEnd own segment: what `allocate` hands out and peers map
 *     own end    address space for the windows of peers
 *
 * 4 GiB of address space cost nothing until pages are touched. Where the C library cannot be reached the own
 * segment is an ordinary part of the memory and there are no windows (`windows.reason` says why).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { type Libc, libc, libcProblem } from '../../system/libc.js';
import {
  mapAnonymous,
  type SegmentAnnouncement,
  type SegmentMethod,
  SharedSegment,
} from '../../system/shared-memory.js';
import { instantiate, loadModule } from './kernels.js';
import { RangeAllocator } from './range-allocator.js';
import type { Waiter } from './waiting.js';
import { type WasmInstance, type WasmMemory, type WasmModule, wasm } from './webassembly.js';
import { checkWindows } from './window-check.js';

/** Size of a Wasm page; also a multiple of the page size of every system (64 KiB on some Arm kernels). */
export const WASM_PAGE = 65536;

/** Most pages that a 32-bit Wasm memory can have: 4 GiB. */
const MOST_PAGES = 65536;

/** Least bytes of a heap that is worth having: private area, segment header and some buffers. */
const LEAST_BYTES = 4 << 20;

/** Bytes of the private area, unless the heap is so small that a sixteenth of it is less. */
const PRIVATE_BYTES = 16 << 20;

/** Processes that are expected to map each other where nobody says how many. */
const DEFAULT_LOCAL_RANKS = 8;

/** Start of every own segment that is not handed out: its cookie, and words for the self-check. */
const SEGMENT_HEADER_BYTES = 4096;

/** Blocks start on cache lines, so that neighbours never share one. */
const GRANULE = 64;

/** From this size on, freed memory goes back to the system, and fresh pages are cheaper than clearing old ones. */
const DISCARD_BYTES = 1 << 20;

/** Unit in which pages are given back: a multiple of the system's page size. */
const DISCARD_UNIT = WASM_PAGE;

export interface HostDeviceOptions {
  /** Processes of this host that will map each other's memory: the address space is shared out evenly. */
  localRanks?: number;
  /** Bytes of the whole heap, default 4 GiB or the environment variable TUTTI_HEAP_BYTES. */
  heapBytes?: number;
  /** How the own segment is made; default: a memory file. */
  method?: SegmentMethod;
}

/** A peer's memory seen in this heap. */
export interface PeerWindow {
  /** Address of the segment's first byte in this heap. */
  readonly base: number;
  /** Bytes that may be accessed. */
  readonly size: number;
  /** Takes the window away when its last user has closed it. */
  close(): void;
}

/** Constructor of any typed array. */
export interface TypedArrayConstructor<T extends ArrayBufferView> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: SharedArrayBuffer, byteOffset: number, length: number): T;
}

interface Mapping {
  readonly base: number;
  readonly size: number;
  users: number;
}

/** The own part of the heap, made at first use. */
interface OwnSegment {
  readonly allocator: RangeAllocator;
  readonly segment: SharedSegment | undefined;
  readonly windowSpace: RangeAllocator;
  /** No byte at or above this address has ever been handed out: memory there is zero. */
  dirtyEnd: number;
  /** Memory below this address is reserved (method posix). */
  reservedEnd: number;
}

let shared: HostDevice | undefined;

/** Devices of this thread, whose segments are closed when the thread ends. */
const open = new Set<HostDevice>();
let watchesExit = false;

export class HostDevice {
  readonly memory: WasmMemory;
  readonly buffer: SharedArrayBuffer;
  readonly u8: Uint8Array;
  readonly i32: Int32Array;
  readonly dataView: DataView;
  /** Bytes of the heap. */
  readonly size: number;
  /** Address of the heap in the process, 0 where it cannot be known. */
  readonly baseAddress: number;
  readonly #libc: Libc | null;
  readonly #private: RangeAllocator;
  readonly #method: SegmentMethod | undefined;
  readonly #mappings = new Map<string, Mapping>();
  readonly #attached = new Set<() => Promise<void> | void>();
  readonly #sameMemory = new WeakMap<SharedArrayBuffer, boolean>();
  #localRanks: number;
  #own: OwnSegment | undefined;
  #noWindows = '';
  #closed = false;

  constructor(options: HostDeviceOptions = {}) {
    this.#localRanks = checkLocalRanks(options.localRanks ?? DEFAULT_LOCAL_RANKS);
    this.#method = options.method;
    this.memory = reserveMemory(options.heapBytes ?? heapBytesFromEnvironment());
    this.buffer = this.memory.buffer as SharedArrayBuffer;
    this.size = this.buffer.byteLength;
    this.u8 = new Uint8Array(this.buffer);
    this.i32 = new Int32Array(this.buffer);
    this.dataView = new DataView(this.buffer);
    this.#libc = libc();
    this.baseAddress = this.#libc?.addressOf(this.u8) ?? 0;
    this.#private = new RangeAllocator(WASM_PAGE, privateEnd(this.size), GRANULE);
    open.add(this);
    if (!watchesExit) {
      watchesExit = true;
      process.on('exit', () => {
        for (const device of open) device.#own?.segment?.close();
      });
    }
  }

  /**
   * The device of this thread, made at the first call. `localRanks` of later calls counts as long as no memory
   * has been allocated.
   */
  static shared(options: HostDeviceOptions = {}): HostDevice {
    if (shared === undefined || shared.#closed) shared = new HostDevice(options);
    else if (options.localRanks !== undefined && shared.#own === undefined) {
      shared.#localRanks = checkLocalRanks(options.localRanks);
    }
    return shared;
  }

  /** Processes that the address space is shared out to. */
  get localRanks(): number {
    return this.#localRanks;
  }

  /** Address of the own segment's first byte. */
  get segmentBase(): number {
    return privateEnd(this.size);
  }

  /** Bytes of the own segment. */
  get segmentSize(): number {
    const { allocator } = this.#prepare();
    return allocator.end - this.segmentBase;
  }

  /** Whether peers can map this device's memory and it theirs, and why not. Checked once, by trying. */
  get windows(): { readonly supported: boolean; readonly reason: string } {
    this.#prepare();
    return { supported: this.#noWindows === '', reason: this.#noWindows };
  }

  /** What peers need to map the own segment; undefined where windows are not supported. */
  get announcement(): SegmentAnnouncement | undefined {
    const { segment } = this.#prepare();
    return this.#noWindows === '' ? segment?.announcement : undefined;
  }

  /** Bytes of the own segment that are free. */
  get freeBytes(): number {
    return this.#prepare().allocator.freeBytes;
  }

  /**
   * Address of zeroed memory that peers can see. `align` is a power of two. Throws `systemError` when there is
   * no block of that size, `invalidArgument` for sizes that make no sense.
   */
  allocate(bytes: number, align = GRANULE): number {
    this.#checkOpen();
    checkRequest(bytes, align);
    const own = this.#prepare();
    const address = own.allocator.allocate(bytes, align);
    if (address === undefined) {
      throw outOfMemory('the heap', bytes, own.allocator, remedyForHeap(this.#localRanks));
    }
    const end = address + (own.allocator.sizeOf(address) ?? 0);
    try {
      this.#reserve(own, end);
      this.#clear(own, address, end);
    } catch (error) {
      own.allocator.free(address);
      throw error;
    }
    own.dirtyEnd = Math.max(own.dirtyEnd, end);
    return address;
  }

  /** Gives memory of `allocate` back. A foreign address or a second free is an `invalidArgument`. */
  free(address: number): void {
    const own = this.#prepare();
    const size = own.allocator.free(address);
    if (size === undefined) {
      throw new TuttiError(
        'invalidArgument',
        `address ${address} is not the start of allocated memory of this device (freed twice?)`,
      );
    }
    if (size >= DISCARD_BYTES) this.#discard(own, address, address + size);
  }

  /**
   * A typed array of zeros inside the heap, which collectives use without copying. The memory stays taken until
   * `freeArray`, or until the device is closed: the garbage collector cannot free it, because views made by
   * `subarray` keep the whole heap's buffer alive and not the array they were made of.
   */
  alloc<T extends ArrayBufferView>(ArrayType: TypedArrayConstructor<T>, length: number): T {
    if (typeof ArrayType !== 'function' || !(ArrayType.BYTES_PER_ELEMENT > 0)) {
      const given = typeof ArrayType === 'function' ? ArrayType.name : JSON.stringify(ArrayType);
      throw new TuttiError(
        'invalidArgument',
        `alloc: ${given} is not a typed-array class; pass Float32Array or another one`,
      );
    }
    if (!Number.isSafeInteger(length) || length < 0) {
      throw new TuttiError('invalidArgument', `cannot allocate an array of ${length} elements`);
    }
    const address = this.allocate(length * ArrayType.BYTES_PER_ELEMENT);
    return new ArrayType(this.buffer, address, length);
  }

  /** Frees an array of `alloc`. Neither it nor views of it may be used afterwards. */
  freeArray(array: ArrayBufferView): void {
    const address = this.addressOf(array);
    if (address === undefined) {
      throw new TuttiError('invalidArgument', 'the array is not in the memory of this device');
    }
    this.free(address);
  }

  /** Address of a view's first byte in the heap; undefined when the view is of other memory. */
  addressOf(view: ArrayBufferView): number | undefined {
    const { buffer } = view;
    if (buffer === this.buffer) return view.byteOffset;
    if (!(buffer instanceof SharedArrayBuffer) || buffer.byteLength !== this.size) return undefined;
    // A view that went to another thread and back has a buffer object of its own over the same memory.
    let same = this.#sameMemory.get(buffer);
    if (same === undefined) {
      same = this.#libc?.addressOf(new Uint8Array(buffer)) === this.baseAddress;
      this.#sameMemory.set(buffer, same);
    }
    return same ? view.byteOffset : undefined;
  }

  /** False for a view of the heap that reaches beyond what `allocate` has handed out: it was freed, for instance. */
  isAllocated(view: ArrayBufferView): boolean {
    const from = this.addressOf(view);
    return from === undefined || this.#prepare().allocator.isInUse(from, from + view.byteLength);
  }

  /** Like `allocate`, but in the private area, which peers do not see and which does not count as heap. */
  allocatePrivate(bytes: number, align = GRANULE): number {
    this.#checkOpen();
    checkRequest(bytes, align);
    const address = this.#private.allocate(bytes, align);
    if (address === undefined) {
      throw outOfMemory('the private area', bytes, this.#private, 'close communicators that are not needed');
    }
    this.u8.fill(0, address, address + bytes);
    return address;
  }

  freePrivate(address: number): void {
    if (this.#private.free(address) === undefined) {
      throw new TuttiError('internalError', `address ${address} is not allocated in the private area`);
    }
  }

  /**
   * Maps a peer's segment, or its first `bytes`, into this heap. The same segment is mapped once however often
   * it is opened; the own one is where it is. Throws `systemError` when windows are not supported, when there is
   * not enough address space or when the peer cannot be reached, `remoteError` when the segment is not the
   * announced one.
   */
  openWindow(announcement: SegmentAnnouncement, bytes = announcement.size): PeerWindow {
    this.#checkOpen();
    const own = this.#prepare();
    if (this.#noWindows !== '') {
      throw new TuttiError('systemError', `cannot map the memory of another process: ${this.#noWindows}`);
    }
    if (!Number.isSafeInteger(bytes) || bytes <= 0 || bytes > announcement.size) {
      const most = announcement.size;
      throw new TuttiError('invalidArgument', `a window of ${bytes} bytes: the segment has ${most}`);
    }
    if (announcement.cookie === own.segment?.announcement.cookie) {
      return { base: this.segmentBase, size: own.segment.size, close: () => {} };
    }
    const size = Math.ceil(bytes / WASM_PAGE) * WASM_PAGE;
    // The cookie names the segment; a longer window of the same segment is another mapping.
    for (const [key, mapping] of this.#mappings) {
      if (key.startsWith(announcement.cookie) && mapping.size >= size) return this.#use(key, mapping);
    }
    const segment = SharedSegment.open(announcement);
    let base: number | undefined;
    try {
      base = own.windowSpace.allocate(size);
      if (base === undefined) {
        const remedy = `set localRanks to the number of processes of this host (it is ${this.#localRanks})`;
        throw outOfMemory('the address space for windows of peers', size, own.windowSpace, remedy);
      }
      segment.mapAt(this.baseAddress + base, size);
    } catch (error) {
      if (base !== undefined) own.windowSpace.free(base);
      throw error;
    } finally {
      // The mapping keeps the memory alive; the descriptor is not needed any more.
      segment.close();
    }
    const mapping: Mapping = { base, size, users: 0 };
    const key = `${announcement.cookie}:${base}`;
    this.#mappings.set(key, mapping);
    return this.#use(key, mapping);
  }

  #use(key: string, mapping: Mapping): PeerWindow {
    mapping.users += 1;
    let closed = false;
    return {
      base: mapping.base,
      size: mapping.size,
      close: () => {
        if (closed) return;
        closed = true;
        mapping.users -= 1;
        if (mapping.users === 0 && this.#mappings.delete(key)) this.#unmap(mapping);
      },
    };
  }

  #unmap(mapping: Mapping): void {
    // Zeros instead of a hole: a program that still holds an address must not fault.
    mapAnonymous(this.baseAddress + mapping.base, mapping.size);
    this.#own?.windowSpace.free(mapping.base);
  }

  /** Compiles a device program; the same bytes are compiled once. */
  loadModule(bytes: Uint8Array): WasmModule {
    return loadModule(bytes);
  }

  /** An instance of a device program over this heap, for the calling thread. */
  instantiate(module: WasmModule, waiter: Waiter): WasmInstance {
    return instantiate(module, this.memory, waiter);
  }

  /** Takes the segment's name out of /dev/shm (method posix), once all peers have opened it. */
  unlinkSegment(): void {
    this.#own?.segment?.unlink();
  }

  /** Has `close` called before the device's memory goes away; returns what undoes that. */
  attach(close: () => Promise<void> | void): () => void {
    this.#attached.add(close);
    return () => this.#attached.delete(close);
  }

  /**
   * Closes what is attached (executors), all windows and the own segment. Arrays of the heap keep their length
   * and lose their content; peers keep what they have mapped.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    open.delete(this);
    for (const close of [...this.#attached]) await close();
    for (const mapping of this.#mappings.values()) this.#unmap(mapping);
    this.#mappings.clear();
    const segment = this.#own?.segment;
    if (segment !== undefined) {
      mapAnonymous(this.baseAddress + this.segmentBase, segment.size);
      segment.close();
    }
  }

  #checkOpen(): void {
    if (this.#closed) throw new TuttiError('invalidUsage', 'the host device has been closed');
  }

  /** Divides the heap and makes the own segment, once. */
  #prepare(): OwnSegment {
    if (this.#own !== undefined) return this.#own;
    this.#checkOpen();
    const base = this.segmentBase;
    const space = this.size - base;
    let segment: SharedSegment | undefined;
    if (this.#libc === null) this.#noWindows = libcProblem();
    else {
      const share = Math.floor(space / Math.max(2, this.#localRanks) / WASM_PAGE) * WASM_PAGE;
      segment = this.#makeSegment(base, share);
    }
    const end = segment === undefined ? this.size : base + segment.size;
    this.#own = {
      allocator: new RangeAllocator(base + SEGMENT_HEADER_BYTES, end, GRANULE),
      segment,
      windowSpace: new RangeAllocator(end, this.size, WASM_PAGE),
      dirtyEnd: base,
      reservedEnd: base + SEGMENT_HEADER_BYTES,
    };
    return this.#own;
  }

  /** The own segment, mapped and checked; undefined (and `#noWindows` set) when that does not work here. */
  #makeSegment(base: number, size: number): SharedSegment | undefined {
    let segment: SharedSegment | undefined;
    let mapped = false;
    try {
      segment = SharedSegment.create(size, this.#method === undefined ? {} : { method: this.#method });
      segment.mapAt(this.baseAddress + base, size);
      mapped = true;
      // The address space behind the segment is still free and serves as the second view.
      checkWindows(this, segment, base, base + size);
      return segment;
    } catch (error) {
      this.#noWindows = error instanceof Error ? error.message : String(error);
      if (mapped) mapAnonymous(this.baseAddress + base, size);
      segment?.close();
      return undefined;
    }
  }

  #reserve(own: OwnSegment, end: number): void {
    if (own.segment === undefined || end <= own.reservedEnd) return;
    const from = own.reservedEnd - this.segmentBase;
    own.segment.reserve(from, end - own.reservedEnd);
    own.reservedEnd = end;
  }

  /** Makes a range read as zero. */
  #clear(own: OwnSegment, from: number, to: number): void {
    const dirty = Math.min(to, own.dirtyEnd);
    if (dirty <= from) return;
    if (dirty - from >= DISCARD_BYTES) this.#discard(own, from, dirty, true);
    else this.u8.fill(0, from, dirty);
  }

  /** Gives whole pages of a range back to the system; `clearRest` also clears the bytes at both ends. */
  #discard(own: OwnSegment, from: number, to: number, clearRest = false): void {
    const { segment } = own;
    // Space in /dev/shm is reserved once and kept: losing it could make a later write fatal.
    if (segment === undefined || segment.announcement.method === 'posix') {
      if (clearRest) this.u8.fill(0, from, to);
      return;
    }
    const first = Math.ceil(from / DISCARD_UNIT) * DISCARD_UNIT;
    const last = Math.floor(to / DISCARD_UNIT) * DISCARD_UNIT;
    segment.discard(first - this.segmentBase, last - first);
    if (!clearRest) return;
    this.u8.fill(0, from, first);
    this.u8.fill(0, last, to);
  }
}

function privateEnd(heapBytes: number): number {
  const sixteenth = Math.floor(heapBytes / 16 / WASM_PAGE) * WASM_PAGE;
  return Math.min(PRIVATE_BYTES, sixteenth);
}

function heapBytesFromEnvironment(): number | undefined {
  const text = process.env.TUTTI_HEAP_BYTES;
  return text === undefined || text === '' ? undefined : Number(text);
}

/** A shared memory of so many bytes, or of the most that can be reserved when no size is asked for. */
function reserveMemory(bytes: number | undefined): WasmMemory {
  const most = MOST_PAGES * WASM_PAGE;
  if (bytes !== undefined && !(Number.isSafeInteger(bytes) && bytes >= LEAST_BYTES && bytes <= most)) {
    throw new TuttiError(
      'invalidArgument',
      `a heap of ${bytes} bytes (heapBytes or TUTTI_HEAP_BYTES): must be from ${LEAST_BYTES} to ${most}`,
    );
  }
  for (let pages = Math.floor((bytes ?? most) / WASM_PAGE); ; pages >>>= 1) {
    try {
      return new wasm.Memory({ initial: pages, maximum: pages, shared: true });
    } catch (cause) {
      if ((pages >>> 1) * WASM_PAGE >= LEAST_BYTES) continue;
      throw new TuttiError(
        'systemError',
        `cannot reserve address space for a heap of ${pages * WASM_PAGE} bytes: a limit on address space ` +
          '(ulimit -v) is too low',
        { cause },
      );
    }
  }
}

function checkLocalRanks(localRanks: number): number {
  if (Number.isSafeInteger(localRanks) && localRanks >= 1) return localRanks;
  throw new TuttiError('invalidArgument', `localRanks is ${localRanks}: must be a positive integer`);
}

function checkRequest(bytes: number, align: number): void {
  if (!Number.isSafeInteger(bytes) || bytes < 0) {
    throw new TuttiError('invalidArgument', `cannot allocate ${bytes} bytes`);
  }
  if (!Number.isSafeInteger(align) || align < 1 || 2 ** Math.round(Math.log2(align)) !== align) {
    throw new TuttiError('invalidArgument', `alignment ${align} is not a power of two`);
  }
}

function outOfMemory(where: string, bytes: number, space: RangeAllocator, remedy: string): TuttiError {
  const total = space.end - space.start;
  return new TuttiError(
    'systemError',
    `out of memory in ${where}: asked for ${bytes} bytes, ${space.freeBytes} of ${total} are free, ` +
      `the largest block has ${space.largestFree}; ${remedy}`,
  );
}

function remedyForHeap(localRanks: number): string {
  return (
    'free arrays that are not needed any more (comm.free), close communicators, use ordinary arrays (which are ' +
    `staged), or have fewer processes on this host (${localRanks} now)`
  );
}
