/**
 * The memory of the host that ranks on GPUs share: boards, and areas where GPUs do not reach each other. It is a heap of
 * its own, so that communicators on host memory find theirs as if there were no GPUs.
 */
import { MAX_GPU_RANKS } from '../../collectives/gpu/area.js';
import { HostDevice } from '../../device/host/host-device.js';

/** Address space, bytes, shared out evenly to the processes; pages take memory when they are used. */
const HEAP_BYTES = 2 ** 32;

let heap: HostDevice | undefined;

/** The heap of this process. Throws `systemError` where there is no room for it. */
export function boardHeap(): HostDevice {
  heap ??= new HostDevice({ heapBytes: HEAP_BYTES, localRanks: MAX_GPU_RANKS });
  return heap;
}
