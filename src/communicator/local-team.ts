/**
 * Teams of ranks that live in one process and share one heap. Their control messages are plain JavaScript:
 * all ranks are objects of the calling thread, only their executors are threads.
 */

import type { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';
import { type RankAreaShape, rankAreaBytes, receiverOffset, senderOffset } from './rank-area.js';
import type { RingLinks, Team, Trouble } from './team.js';

/** One meeting of all ranks: contributions so far, and who waits for the rest. */
interface Meeting {
  readonly parts: Uint8Array[];
  arrived: number;
  readonly done: Promise<Uint8Array[]>;
  readonly resolve: (parts: Uint8Array[]) => void;
  readonly reject: (error: TuttiError) => void;
}

function newMeeting(size: number): Meeting {
  let resolve!: (parts: Uint8Array[]) => void;
  let reject!: (error: TuttiError) => void;
  const done = new Promise<Uint8Array[]>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  // A meeting that fails while nobody waits must not end the process.
  done.catch(() => {});
  return { parts: new Array(size), arrived: 0, done, resolve, reject };
}

/** Makes the teams of `size` ranks in this thread. */
export function createLocalTeams(device: HostDevice, size: number, shape: RankAreaShape): Team[] {
  const areas: number[] = [];
  const meetings = new Map<string, Meeting>();
  const listeners: ((trouble: Trouble) => void)[][] = Array.from({ length: size }, () => []);
  let failure: TuttiError | undefined;
  let open = size;
  try {
    for (let rank = 0; rank < size; rank++) areas.push(device.allocate(rankAreaBytes(shape), 4096));
  } catch (error) {
    for (const area of areas) device.free(area);
    throw error;
  }
  const segments = new Array<number>(size).fill(device.segmentBase);

  const makeTeam = (rank: number): Team => {
    const sequences = new Map<string, number>();
    const next = (rank + 1) % size;
    const prev = (rank + size - 1) % size;
    const allGather = async (bytes: Uint8Array, label: string): Promise<Uint8Array[]> => {
      if (failure !== undefined) throw failure;
      const sequence = sequences.get(label) ?? 0;
      sequences.set(label, sequence + 1);
      const key = `${label} ${sequence}`;
      let meeting = meetings.get(key);
      if (meeting === undefined) {
        meeting = newMeeting(size);
        meetings.set(key, meeting);
      }
      meeting.parts[rank] = bytes;
      meeting.arrived += 1;
      if (meeting.arrived === size) {
        meetings.delete(key);
        meeting.resolve(meeting.parts);
      }
      return meeting.done;
    };
    return {
      rank,
      size,
      device,
      localSize: size,
      shared: true,
      sharesThread: size > 1,
      description: `${size} ranks in one process, memory shared`,
      shape,
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
      allGather,
      barrier: async (label) => {
        await allGather(new Uint8Array(0), label);
      },
      onTrouble: (listener) => {
        listeners[rank]!.push(listener);
      },
      tell: (trouble) => {
        failure ??= new TuttiError(
          'remoteError',
          `rank ${trouble.culprit} has left the communicator (${trouble.kind})`,
          { rank: trouble.culprit },
        );
        for (const meeting of meetings.values()) meeting.reject(failure);
        meetings.clear();
        listeners.forEach((list, other) => {
          if (other !== rank) for (const listener of list) listener(trouble);
        });
      },
      close: async () => {
        // Areas go when the last rank has left: until then others may still look at them.
        open -= 1;
        if (open === 0) for (const area of areas) device.free(area);
      },
    };
  };
  return Array.from({ length: size }, (_, rank) => makeTeam(rank));
}
