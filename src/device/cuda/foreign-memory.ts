/**
 * Who reaches memory that another library has made.
 *
 * Memory of cuMemAlloc is reached by whoever has peer access. To virtual memory (cuMemCreate and cuMemMap; PyTorch's expandable
 * segments) every GPU must be given access, for each of the pieces that it consists of.
 */
import type { CudaDevice } from './cuda-device.js';
import { CUDA } from './cuda-error.js';
import { pointerFacts } from './device-memory.js';
import type { Out } from './driver-functions.js';
import { LOCATION_DEVICE, READ_AND_WRITE } from './virtual-memory.js';

/** Pieces of virtual memory begin at multiples of this: the granularity of all GPUs. */
const PIECE_BYTES = 2 ** 21;

/** Whether all these GPUs of this process may read and write so many bytes from an address on. */
export function isReachedBy(
  device: CudaDevice,
  address: number,
  bytes: number,
  peers: Iterable<CudaDevice>,
): boolean {
  if (pointerFacts(device, address, 'the pointer').shareable) return true;
  const { functions } = device.calls;
  for (const peer of peers) {
    const location = Int32Array.of(LOCATION_DEVICE, peer.handle);
    for (let at = address; at < address + bytes; at = PIECE_BYTES * (Math.floor(at / PIECE_BYTES) + 1)) {
      const flags: Out = [0];
      const code = functions.cuMemGetAccess(flags, location, at);
      if (code !== CUDA.success || Number(flags[0]) !== READ_AND_WRITE) return false;
    }
  }
  return true;
}
