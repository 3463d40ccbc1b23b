/**
 * Memory that another library has made: how far it goes, and who reaches it.
 *
 * Virtual memory (cuMemCreate and cuMemMap; PyTorch's expandable segments) consists of pieces that are mapped one behind
 * the other, each of which the driver tells alone, and every GPU must be given access to it; memory of cuMemAlloc is one
 * piece, and whoever has peer access reaches it.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { CudaDevice } from './cuda-device.js';
import { CUDA } from './cuda-error.js';
import { type PointerFacts, pointerFacts } from './device-memory.js';
import type { Out } from './driver-functions.js';

/** CU_MEM_LOCATION_TYPE_DEVICE, and CU_MEM_ACCESS_FLAGS_PROT_READWRITE. */
const LOCATION_DEVICE = 1;
const READ_AND_WRITE = 3;

/** Pieces of virtual memory that hold so many bytes from an address on, at least the one that it lies in. */
function piecesFrom(device: CudaDevice, address: number, bytes: number, first: PointerFacts): PointerFacts[] {
  const pieces = [first];
  for (let end = first.start + first.bytes; end < address + bytes; ) {
    let next: PointerFacts;
    try {
      next = pointerFacts(device, end, 'the pointer');
    } catch (error) {
      // Nothing is mapped there.
      if (TuttiError.is(error)) break;
      throw error;
    }
    if (next.start !== end || next.bytes === 0 || next.shareable || next.device !== first.device) break;
    pieces.push(next);
    end += next.bytes;
  }
  return pieces;
}

/** How many bytes there are from an address on, as far as somebody wants to know; 0 where the driver does not say. */
export function bytesFrom(device: CudaDevice, address: number, wanted: number, facts: PointerFacts): number {
  if (facts.bytes === 0) return 0;
  const pieces = facts.shareable ? [facts] : piecesFrom(device, address, wanted, facts);
  const { start, bytes } = pieces.at(-1)!;
  return start + bytes - address;
}

/** Whether all these GPUs of this process may read and write so many bytes from an address on. */
export function isReachedBy(
  device: CudaDevice,
  address: number,
  bytes: number,
  peers: Iterable<CudaDevice>,
): boolean {
  const facts = pointerFacts(device, address, 'the pointer');
  if (facts.shareable) return true;
  if (facts.bytes === 0) return false;
  const { functions } = device.calls;
  const pieces = piecesFrom(device, address, bytes, facts);
  for (const peer of peers) {
    const location = Int32Array.of(LOCATION_DEVICE, peer.handle);
    for (const { start } of pieces) {
      const flags: Out = [0];
      const code = functions.cuMemGetAccess(flags, location, start);
      if (code !== CUDA.success || Number(flags[0]) !== READ_AND_WRITE) return false;
    }
  }
  return true;
}
