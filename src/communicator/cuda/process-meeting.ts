/**
 * How ranks on GPUs that are processes of one host come to reach each other.
 *
 * 1. Each says who it is, on which GPU, and which GPUs that one does not reach. From this all know alike where areas
 *    are to lie: in the GPUs' memory, which the others open (CUDA IPC), or in memory of the host that the processes
 *    share, where GPUs do not reach each other or may not.
 * 2. Each maps the boards of the others (rank-board.ts), makes its area and says where it is.
 * 3. Each opens the areas of the others.
 *
 * After every step all hear what went wrong anywhere, so that all fail together and alike.
 */

import type { Bootstrap } from '../../bootstrap/bootstrap.js';
import type { AreaSizes } from '../../collectives/gpu/area.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { CUDA, CudaResult } from '../../device/cuda/cuda-error.js';
import { ipcHandle, OpenedMemory, RegisteredMemory } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import type { HostDevice, PeerWindow } from '../../device/host/host-device.js';
import { errorText } from '../../errors/error-text.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { ownIdentity } from '../../system/process-liveness.js';
import { decodeAnnouncement, encodeAnnouncement } from '../../system/shared-memory.js';
import { exchange } from '../process-control.js';
import { teamNumber } from './board-list.js';
import { checkSharing } from './gpu-team.js';
import {
  areApart,
  checkAgreement,
  checkComparison,
  checkOneHost,
  checkReports,
  type Introduction,
  type Report,
  storeWholeLines,
} from './introduction.js';
import { hostAreaBytes, RankResources } from './rank-resources.js';
import { type FindRings, type RingOrder, ringOrder } from './ring-order.js';

/** Where a rank's area is, and whether it could map the boards of all. */
interface Place extends Report {
  readonly noBoards?: string;
  readonly address: number;
  /** In the GPU's memory. */
  readonly handle?: string;
  /** In memory of the host: offset in the segment. */
  readonly offset?: number;
  /** What rank 0 says of rings. */
  readonly order?: RingOrder | undefined;
  /** See BoardOwner; that of rank 0 counts. */
  readonly team: number;
}

/** How opening the areas of the others went. */
interface Opening extends Report {
  /** This rank's GPU does not reach one of them. */
  readonly apart?: boolean;
}

/** What `act` gives, or its error as a report. */
function attempt<T>(act: () => T): T | Report {
  try {
    return act();
  } catch (error) {
    return { problem: errorText(error), ...(TuttiError.is(error) ? { code: error.code } : {}) };
  }
}

/** Uuids of the GPUs that this process sees and this GPU does not reach. */
function unreachableFrom(driver: CudaDriver, device: CudaDevice): string[] {
  return Array.from({ length: driver.deviceCount }, (_, index) => driver.device(index))
    .filter((peer) => !device.canAccess(peer))
    .map(({ uuid }) => uuid);
}

/** Uuids of the GPUs that this process sees and this GPU stores whole lines to. */
function wholeLinesFrom(driver: CudaDriver, device: CudaDevice): string[] {
  return Array.from({ length: driver.deviceCount }, (_, index) => driver.device(index))
    .filter((peer) => device.storesWholeLines(peer))
    .map(({ uuid }) => uuid);
}

/** Whether the driver says that a GPU does not reach another one. */
function doesNotReach(error: unknown): boolean {
  const { cause } = error as { cause?: unknown };
  return cause instanceof CudaResult && cause.code === CUDA.peerAccessUnsupported;
}

/** Something that a rank holds of others. */
interface Held {
  readonly address: number;
  letGo(): void;
}

function letGo(opened: Held[]): void {
  for (const one of opened.splice(0)) one.letGo();
}

/** Memory of the host that another rank made. */
function registered(device: CudaDevice, host: number, bytes: number): Held {
  const memory = new RegisteredMemory(device, host, bytes);
  return { address: memory.address, letGo: () => memory.free() };
}

/** Memory of a GPU that another process made. */
function openedMemory(device: CudaDevice, handle: string, whose: string): Held {
  const memory = new OpenedMemory(device, Buffer.from(handle, 'base64'), whose);
  return { address: memory.address, letGo: () => memory.close() };
}

/** Memory of another GPU of this process, maybe of another thread, which has the same context. */
function withinProcess(device: CudaDevice, there: CudaDevice | undefined, address: number): Held {
  if (there === undefined || there === device) return { address, letGo: () => {} };
  there.retain();
  try {
    device.enablePeer(there);
  } catch (error) {
    there.release();
    throw error;
  }
  return { address, letGo: () => there.release() };
}

export interface MeetingOptions {
  /** This rank's GPU; throws where there is none. */
  readonly open: () => { driver: CudaDriver; device: CudaDevice };
  /** The memory of the host to share; throws where there is none. */
  readonly heap: () => HostDevice;
  /** See GpuPrograms. */
  readonly sizesFor: (wholeLines: boolean) => AreaSizes;
  readonly agreement: string;
  readonly check: boolean;
  readonly peerToPeer: boolean;
  /** What tells this rank's process from others. */
  readonly identity: string;
  /** See Introduction. */
  readonly descriptors: string | undefined;
  /** For tests: other ways to find the order of rings than to look at the machine. */
  readonly findRings?: FindRings | undefined;
}

/** What a rank reaches when all have met. */
export interface ProcessMeeting {
  readonly device: CudaDevice;
  readonly host: HostDevice;
  readonly resources: RankResources;
  readonly introductions: readonly Introduction[];
  /** The areas of all ranks, at addresses of this rank's GPU. */
  readonly areas: readonly number[];
  /** Areas lie in memory of the host. */
  readonly onHost: boolean;
  /** As in GpuTeam. */
  readonly wholeLines: boolean;
  readonly order: RingOrder | undefined;
  /** See BoardOwner. */
  readonly team: number;
  /** Addresses of the boards in the heap; only the own one where processes cannot share memory. */
  readonly boards: readonly (number | undefined)[];
  isLocal(rank: number): boolean;
  /** Lets go of what belongs to others. */
  leave(): void;
  /** Gives everything back. `graceful`: nobody uses this rank's memory any more. */
  close(graceful: boolean): void;
}

/** Brings the ranks of a bootstrap together. Throws, at all ranks alike, what any of them has met. */
export async function meetProcesses(bootstrap: Bootstrap, options: MeetingOptions): Promise<ProcessMeeting> {
  const { rank, size } = bootstrap;
  const { open, heap, sizesFor, agreement, check, peerToPeer, identity, descriptors, findRings } = options;
  const windows: PeerWindow[] = [];
  const opened: Held[] = [];
  let gpu: { driver: CudaDriver; device: CudaDevice } | undefined;
  let shared: HostDevice | undefined;
  let resources: RankResources | undefined;
  const leave = () => {
    letGo(opened);
    for (const window of windows.splice(0)) window.close();
  };
  const close = (graceful: boolean) => {
    leave();
    resources?.close(!graceful);
  };
  try {
    checkOneHost(bootstrap);
    const introduce = (): Introduction => {
      gpu = open();
      const { driver, device } = gpu;
      const host = heap();
      shared = host;
      resources = new RankResources(driver, device, host);
      const { uuid, label, multiprocessors, pciBusId } = device;
      const { announcement } = host;
      return {
        identity,
        process: ownIdentity(),
        uuid,
        label,
        multiprocessors,
        pciBusId,
        peerToPeer,
        unreachable: unreachableFrom(driver, device),
        wholeLinesTo: wholeLinesFrom(driver, device),
        ...(announcement === undefined
          ? { noSegment: host.windows.reason }
          : { segment: new TextDecoder().decode(encodeAnnouncement(announcement)) }),
        board: resources.board - host.segmentBase,
        ...(descriptors === undefined ? {} : { descriptors }),
        agreement,
        check,
      };
    };
    const introductions = await exchange<Introduction>(
      bootstrap,
      'cuda introduction',
      attempt(introduce) as Introduction,
    );
    checkReports(introductions);
    checkSharing(introductions);
    checkAgreement(introductions);
    checkComparison(introductions);
    const { driver, device } = gpu!;
    const own = resources!;
    const host = shared!;
    const isLocal = (peer: number) => introductions[peer]!.identity === identity;

    const bases: number[] = [];
    const mapBoards = (): string | undefined => {
      try {
        for (const { segment, noSegment } of introductions) {
          if (segment === undefined) return noSegment ?? 'a process has no memory to share';
          const window = host.openWindow(decodeAnnouncement(new TextEncoder().encode(segment)));
          windows.push(window);
          bases.push(window.base);
        }
        return undefined;
      } catch (error) {
        return errorText(error);
      }
    };
    const noBoards = mapBoards();
    /** Whether all ranks see all boards. */
    let seen = true;

    let order: RingOrder | undefined;
    let team = 0;

    /** Makes the areas and opens those of the others; undefined where some rank's GPU turns out not to reach one. */
    const placeAreas = async (onHost: boolean): Promise<number[] | undefined> => {
      const sizes = sizesFor(!onHost && storeWholeLines(introductions));
      const place = (): Place => {
        own.makeArea(size, sizes, onHost);
        const { address, heapAddress } = own.area;
        return {
          address,
          team: teamNumber(),
          ...(rank === 0
            ? {
                order: ringOrder(introductions, {
                  sizes,
                  onHost,
                  ...(findRings === undefined ? {} : { find: findRings }),
                }),
              }
            : {}),
          ...(noBoards === undefined ? {} : { noBoards }),
          ...(heapAddress === undefined
            ? { handle: ipcHandle(device, address) }
            : { offset: heapAddress - host.segmentBase }),
        };
      };
      const places = await exchange<Place>(bootstrap, 'cuda areas', attempt(place) as Place);
      checkReports(places);
      order = places[0]!.order;
      team = places[0]!.team;
      const blind = places.findIndex((one) => one.noBoards !== undefined);
      seen = blind < 0;
      if (onHost && !seen) {
        throw new TuttiError(
          'systemError',
          `the GPUs do not reach each other's memory, or may not (NCCL_P2P_DISABLE=1), and rank ${blind} cannot share memory of the host with all others: ${places[blind]!.noBoards}`,
          { rank: blind },
        );
      }
      const areas: number[] = [];
      const openArea = (peer: number): number => {
        const { address, handle, offset } = places[peer]!;
        const { uuid, label } = introductions[peer]!;
        if (isLocal(peer) && onHost) return address;
        const memory = isLocal(peer)
          ? withinProcess(device, driver.deviceOf(uuid), address)
          : handle === undefined
            ? registered(device, host.baseAddress + bases[peer]! + offset!, hostAreaBytes(size, sizes))
            : openedMemory(device, handle, `rank ${peer} (${label})`);
        opened.push(memory);
        return memory.address;
      };
      const openAreas = (): Opening => {
        try {
          for (let peer = 0; peer < size; peer++) areas.push(openArea(peer));
          return {};
        } catch (error) {
          return doesNotReach(error) ? { apart: true } : { problem: errorText(error) };
        }
      };
      const openings = await exchange<Opening>(bootstrap, 'cuda opened', openAreas());
      checkReports(openings);
      return openings.some(({ apart }) => apart === true) ? undefined : areas;
    };

    let onHost = areApart(introductions);
    let areas = await placeAreas(onHost);
    if (areas === undefined) {
      // GPUs of others that this process does not see could not be asked about.
      onHost = true;
      letGo(opened);
      // Nobody's area may go while others have it open.
      await bootstrap.barrier('cuda apart');
      areas = (await placeAreas(onHost))!;
    }
    host.unlinkSegment();
    return {
      device,
      host,
      resources: own,
      introductions,
      areas,
      onHost,
      wholeLines: !onHost && storeWholeLines(introductions),
      order,
      team,
      boards: introductions.map(({ board }, peer) =>
        seen ? bases[peer]! + board : peer === rank ? own.board : undefined,
      ),
      isLocal,
      leave,
      close,
    };
  } catch (error) {
    // Others may have mapped what was to be shared already.
    close(false);
    throw error;
  }
}
