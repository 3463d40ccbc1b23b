/**
 * Virtual memory as other libraries make it (PyTorch's expandable segments): pieces of a GPU's memory, mapped one behind the
 * other and made accessible to some GPUs.
 */
import { createRequire } from 'node:module';

const koffi = createRequire(import.meta.url)('koffi');
const library = koffi.load('libcuda.so.1');

const PINNED = 1; // CU_MEM_ALLOCATION_TYPE_PINNED
const DEVICE = 1; // CU_MEM_LOCATION_TYPE_DEVICE
const READ_AND_WRITE = 3; // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
const FILE_DESCRIPTOR = 1; // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

function call(declaration) {
  const f = library.func(declaration);
  return (...args) => {
    const code = f(...args);
    if (code !== 0) throw new Error(`${declaration.split('(')[0].split(' ')[1]}: error ${code}`);
  };
}

const granularity = call(
  'int cuMemGetAllocationGranularity(_Out_ size_t *bytes, const void *properties, int option)',
);
const reserve = call(
  'int cuMemAddressReserve(_Out_ uintptr_t *address, size_t bytes, size_t alignment, uintptr_t wish, uint64_t flags)',
);
const create = call(
  'int cuMemCreate(_Out_ uint64_t *handle, size_t bytes, const void *properties, uint64_t flags)',
);
const map = call(
  'int cuMemMap(uintptr_t address, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)',
);
const setAccess = call(
  'int cuMemSetAccess(uintptr_t address, size_t bytes, const void *descriptors, size_t count)',
);
const unmap = call('int cuMemUnmap(uintptr_t address, size_t bytes)');
const release = call('int cuMemRelease(uint64_t handle)');
const freeAddress = call('int cuMemAddressFree(uintptr_t address, size_t bytes)');

/**
 * `pieces` pieces of GPU `gpu`, the smallest there are; the context of a GPU must be current. `shared`: they are made for
 * sharing with other processes by file descriptors.
 */
export function makeVirtualMemory(gpu, pieces, accessible, shared = false) {
  // CUmemAllocationProp: type, handle types, location, and three words that are 0.
  const properties = new Int32Array(8);
  properties.set([PINNED, shared ? FILE_DESCRIPTOR : 0, DEVICE, gpu]);
  const out = [0];
  granularity(out, properties, 0);
  const pieceBytes = Number(out[0]);
  const bytes = pieces * pieceBytes;
  reserve(out, bytes, 0, 0, 0);
  const address = Number(out[0]);
  const handles = Array.from({ length: pieces }, (_, piece) => {
    create(out, pieceBytes, properties, 0);
    const handle = out[0];
    map(address + piece * pieceBytes, pieceBytes, 0, handle, 0);
    return handle;
  });
  const descriptors = Int32Array.from(accessible.flatMap((one) => [DEVICE, one, READ_AND_WRITE]));
  setAccess(address, bytes, descriptors, accessible.length);
  return {
    address,
    bytes,
    free: () => {
      unmap(address, bytes);
      for (const handle of handles) release(handle);
      freeAddress(address, bytes);
    },
  };
}
