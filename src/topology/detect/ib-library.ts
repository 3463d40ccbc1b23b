/**
 * What only the verbs library (libibverbs.so.1) tells about InfiniBand and RoCE devices: how many queue pairs a device can
 * have, which NCCL takes for the number of its connections.
 *
 * Layouts are those of the library's public header (infiniband/verbs.h), which keeps them compatible between versions.
 */
import { openLibrary } from '../../system/native-library.js';

const LIBRARY = 'libibverbs.so.1';

/** ibv_device_attr: offset of max_qp, and more room than any version of the structure needs. */
const DEVICE_ATTRIBUTES = { maxQueuePairs: 108, bytes: 1024 } as const;

/**
 * Queue pairs by name of the device (`mlx5_0`); devices that cannot be asked are left out, all of them without the
 * library, without koffi, or without the right to open them. Never throws. `library` is the name or path to load, for
 * tests.
 */
export function readQueuePairs(library: string = LIBRARY): ReadonlyMap<string, number> {
  try {
    return queuePairsOf(library);
  } catch {
    return new Map();
  }
}

function queuePairsOf(name: string): ReadonlyMap<string, number> {
  const library = openLibrary(name, 'verbs devices cannot be asked');
  const listDevices = library.func('uintptr_t ibv_get_device_list(void *count)');
  const freeList = library.func('void ibv_free_device_list(uintptr_t list)');
  const nameOf = library.func('const char *ibv_get_device_name(uintptr_t device)') as unknown as (
    device: bigint,
  ) => string;
  const open = library.func('uintptr_t ibv_open_device(uintptr_t device)');
  const query = library.func('int ibv_query_device(uintptr_t context, void *attributes)');
  const close = library.func('int ibv_close_device(uintptr_t context)');

  const found = new Map<string, number>();
  const count = Buffer.alloc(4);
  const list = listDevices(count);
  if (list === 0) return found;
  try {
    for (const device of library.addressesAt(list, count.readInt32LE())) {
      const context = open(device);
      if (context === 0) continue;
      const attributes = Buffer.alloc(DEVICE_ATTRIBUTES.bytes);
      const answered = query(context, attributes) === 0;
      const queuePairs = attributes.readInt32LE(DEVICE_ATTRIBUTES.maxQueuePairs);
      if (answered && queuePairs > 0) found.set(nameOf(device), queuePairs);
      close(context);
    }
  } finally {
    freeList(list);
  }
  return found;
}
