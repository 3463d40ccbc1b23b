/**
 * Virtual memory of other libraries (cuMemCreate and cuMemMap; PyTorch's expandable segments) for other processes.
 *
 * A range of addresses consists of pieces, each with a handle of its own. What was made to be shared is exported as one file
 * descriptor for each piece; another process imports these, and maps them one behind the other at addresses of its own,
 * with access for its own GPU. Whoever holds a handle keeps the memory, so importers outlive what its owner does with it.
 *
 * Source: CUDA driver API, virtual memory management (cuda.h).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { CudaDevice } from './cuda-device.js';
import { CUDA } from './cuda-error.js';
import { ATTRIBUTE, bytesText, pointerAttribute } from './device-memory.js';
import type { Out } from './driver-functions.js';

/** CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. */
const FILE_DESCRIPTOR = 1;

/** CU_MEM_LOCATION_TYPE_DEVICE, and CU_MEM_ACCESS_FLAGS_PROT_READWRITE. */
export const LOCATION_DEVICE = 1;
export const READ_AND_WRITE = 3;

/** Pieces of a range that others map: at 2 MiB, the smallest, 1 GiB, at 20 MiB, as PyTorch makes them, 10 GiB. */
const MOST_PIECES = 512;

/** A mapped allocation. */
interface Piece {
  readonly start: number;
  readonly bytes: number;
}

/** The pieces that hold a range, in order; undefined where the driver knows of none. */
function piecesOf(device: CudaDevice, address: number, bytes: number): Piece[] | undefined {
  const pieces: Piece[] = [];
  device.makeCurrent();
  for (let at = address; at < address + bytes; ) {
    const start = pointerAttribute(device, ATTRIBUTE.mappingStart, at) ?? 0;
    const length = pointerAttribute(device, ATTRIBUTE.mappingBytes, at) ?? 0;
    if (start === 0 || start > at || start + length <= at) return undefined;
    if (pieces.length === MOST_PIECES) {
      throw new TuttiError(
        'invalidUsage',
        `${bytesText(bytes)} consist of more than ${MOST_PIECES} pieces of virtual memory`,
      );
    }
    pieces.push({ start, bytes: length });
    at = start + length;
  }
  return pieces;
}

/** A range of virtual memory, held so that nothing else can come in its place. */
export class HeldRange {
  /** Of whole pieces. */
  readonly start: number;
  readonly bytes: number;
  readonly pieces: readonly Piece[];
  readonly #device: CudaDevice;
  readonly #handles: number[] = [];

  /** Throws a TuttiError that says why others cannot have it. */
  constructor(device: CudaDevice, address: number, bytes: number) {
    const pieces = piecesOf(device, address, bytes);
    if (pieces === undefined) {
      throw new TuttiError('invalidUsage', 'the driver does not say what its memory consists of');
    }
    if (pieces.some(({ start }) => !isForSharing(device, start))) {
      throw new TuttiError(
        'invalidUsage',
        'its memory was made without a file descriptor for others (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)',
      );
    }
    this.#device = device;
    this.pieces = pieces;
    this.start = pieces[0]!.start;
    this.bytes = pieces.reduce((sum, piece) => sum + piece.bytes, 0);
    const { calls } = device;
    try {
      for (const { start } of pieces) {
        this.#handles.push(
          calls.value(
            (out) => calls.functions.cuMemRetainAllocationHandle(out, start),
            `hold virtual memory of ${device.label}`,
          ),
        );
      }
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** Whether another range is a part of this one: of the same allocations at the same addresses. */
  holds(other: HeldRange): boolean {
    const first = this.pieces.findIndex(({ start }) => start === other.start);
    if (first < 0 || first + other.pieces.length > this.pieces.length) return false;
    return other.#handles.every((handle, k) => handle === this.#handles[first + k]);
  }

  /** A file descriptor for each piece, which the caller closes with `close`. Throws what the driver says. */
  export(close: (descriptor: number) => void): number[] {
    const { calls } = this.#device;
    const descriptors: number[] = [];
    this.#device.makeCurrent();
    try {
      for (const handle of this.#handles) {
        descriptors.push(
          calls.value(
            (out) => calls.functions.cuMemExportToShareableHandle(out, handle, FILE_DESCRIPTOR, 0),
            `share virtual memory of ${this.#device.label} with other processes`,
          ),
        );
      }
      return descriptors;
    } catch (error) {
      for (const descriptor of descriptors) close(descriptor);
      throw error;
    }
  }

  release(): void {
    this.#device.makeCurrent();
    for (const handle of this.#handles.splice(0)) this.#device.calls.functions.cuMemRelease(handle);
  }
}

function isForSharing(device: CudaDevice, address: number): boolean {
  return ((pointerAttribute(device, ATTRIBUTE.allowedHandles, address) ?? 0) & FILE_DESCRIPTOR) !== 0;
}

/** Virtual memory of another process, mapped here in one piece. */
export class ImportedMemory {
  readonly device: CudaDevice;
  readonly address: number;
  readonly #bytes: number;
  #mapped = 0;
  #closed = false;

  /**
   * `device` is the GPU whose kernels are to reach it; `sizes` are bytes of the pieces. The descriptors may be closed
   * afterwards. Throws what the driver says.
   */
  constructor(device: CudaDevice, descriptors: readonly number[], sizes: readonly number[], whose: string) {
    const { calls } = device;
    const { functions } = calls;
    const what = `map virtual memory of ${whose} on ${device.label}`;
    this.device = device;
    this.#bytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
    device.makeCurrent();
    const handles: number[] = [];
    try {
      for (const descriptor of descriptors) {
        handles.push(
          calls.value(
            (out) => functions.cuMemImportFromShareableHandle(out, descriptor, FILE_DESCRIPTOR),
            what,
          ),
        );
      }
      const reserve = (out: Out) => functions.cuMemAddressReserve(out, this.#bytes, 0, 0, 0);
      this.address = calls.value(reserve, what);
      try {
        for (const [k, handle] of handles.entries()) {
          calls.check(functions.cuMemMap(this.address + this.#mapped, sizes[k]!, 0, handle, 0), what);
          this.#mapped += sizes[k]!;
        }
        const access = Int32Array.of(LOCATION_DEVICE, device.handle, READ_AND_WRITE);
        calls.check(functions.cuMemSetAccess(this.address, this.#bytes, access, 1), what);
      } catch (error) {
        this.close();
        throw error;
      }
    } finally {
      // A mapping keeps its memory.
      for (const handle of handles) functions.cuMemRelease(handle);
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const { functions } = this.device.calls;
    this.device.makeCurrent();
    // There is nothing left to do about a failure, but memory that stays mapped must keep its addresses.
    const code = this.#mapped === 0 ? CUDA.success : functions.cuMemUnmap(this.address, this.#mapped);
    if (code === CUDA.success) functions.cuMemAddressFree(this.address, this.#bytes);
  }
}
