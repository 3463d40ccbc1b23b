/**
 * What this thread has put on its GPUs, over all communicators: some calls of the driver wait until a GPU has nothing
 * to do (freeing memory, unpinning that of the host, letting go of a peer's, loading code), and kernels there may wait
 * for ranks whose calls this very thread makes later. Such calls are made when nothing is under way.
 */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { type Polled, pollSoon } from './poller.js';

/** Something that may be under way on a GPU. */
export interface Busy {
  /** Whether everything in it is done. Throws what went wrong in it. */
  readonly isIdle: boolean;
}

/** Where kernels lie that wait for each other, by GPU. */
const workOf = new WeakMap<CudaDevice, Set<Busy>>();

/** From here on this is looked at. */
export function addWork(device: CudaDevice, work: Busy): void {
  let known = workOf.get(device);
  if (known === undefined) workOf.set(device, (known = new Set()));
  known.add(work);
}

export function removeWork(device: CudaDevice, work: Busy): void {
  workOf.get(device)?.delete(work);
}

/** Whether a GPU has done what this thread has put on it. Throws what went wrong there. */
export function isIdle(device: CudaDevice): boolean {
  for (const work of workOf.get(device) ?? []) if (!work.isIdle) return false;
  return true;
}

/** Whether nothing runs on the GPUs; on one that is broken nothing does. */
export function areIdle(devices: Iterable<CudaDevice>): boolean {
  for (const device of devices) {
    try {
      if (!isIdle(device)) return false;
    } catch {
      // Its context is of no more use.
    }
  }
  return true;
}

/** Does something as soon as nothing runs on the GPUs: at once, or later; resolves when it is done. */
export function whenIdle(devices: readonly CudaDevice[], act: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const waiter: Polled = {
      poll: () => {
        if (!areIdle(devices)) return true;
        try {
          act();
          resolve();
        } catch (error) {
          reject(error);
        }
        return false;
      },
    };
    if (waiter.poll(0)) pollSoon(waiter);
  });
}
