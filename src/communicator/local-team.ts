/**
 * Teams of ranks that live in one process and share one heap. Their control messages are plain JavaScript:
 * all ranks are objects of the calling thread, only their executors are threads.
 */

import type { HostDevice } from '../device/host/host-device.js';
import type { HostModel } from '../tuning/host/host-model.js';
import { createLocalControls } from './local-control.js';
import { rankAreaBytes, receiverOffset, senderOffset } from './rank-area.js';
import type { Settings } from './settings.js';
import type { RingLinks, Team } from './team.js';

/** Makes the teams of `size` ranks in this thread. */
export function createLocalTeams(
  device: HostDevice,
  size: number,
  { shape, timeoutMs }: Pick<Settings, 'shape' | 'timeoutMs'>,
  model: HostModel,
): Team[] {
  const areas: number[] = [];
  const extensions: number[] = [];
  const controls = createLocalControls(size, timeoutMs);
  try {
    for (let rank = 0; rank < size; rank++) areas.push(device.allocate(rankAreaBytes(shape), 4096));
  } catch (error) {
    for (const area of areas) device.free(area);
    throw error;
  }
  /** The last rank has left. */
  let isOver = false;
  const segments = new Array<number>(size).fill(device.segmentBase);

  const makeTeam = (rank: number): Team => {
    const control = controls[rank]!;
    const next = (rank + 1) % size;
    const prev = (rank + size - 1) % size;
    return {
      rank,
      size,
      device,
      localSize: size,
      shared: true,
      sharesThread: size > 1,
      description: `${size} ranks in one process, memory shared`,
      shape,
      model,
      area: areas[rank]!,
      areas,
      segments,
      peers: [],
      links: (channel): RingLinks => ({
        nextReceiver: areas[next]! + receiverOffset(shape, channel),
        prevSender: areas[prev]! + senderOffset(shape, channel),
        nextDoorbell: areas[next]!,
        prevDoorbell: areas[prev]!,
      }),
      extend: (bytes, align) => {
        const address = device.allocate(bytes, align);
        extensions.push(address);
        return address;
      },
      allGather: control.allGather,
      barrier: control.barrier,
      departed: control.departed,
      onTrouble: control.onTrouble,
      tell: control.tell,
      get isOver() {
        return isOver;
      },
      close: async () => {
        // Areas go when the last rank has left: until then others may still look at them.
        if (!control.leave()) return;
        isOver = true;
        for (const address of [...areas, ...extensions]) device.free(address);
      },
    };
  };
  return Array.from({ length: size }, (_, rank) => makeTeam(rank));
}
