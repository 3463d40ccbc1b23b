/**
 * Teams of ranks on GPUs that live in one process and are objects of one thread. Names of buffers are addresses: GPUs
 * of one process share an address space, and peer access makes each other's memory reachable. Where it does not, areas
 * lie in memory of the host, which all GPUs reach, and all data go through them.
 */
import { areaLayout } from '../../collectives/gpu/area.js';
import { STAGED } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { CHUNK_BYTES, DeviceHeap } from '../../device/cuda/device-heap.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import { isReachedBy } from '../../device/cuda/foreign-memory.js';
import { createLocalControls } from '../local-control.js';
import { boardHeap } from './board-heap.js';
import { teamNumber } from './board-list.js';
import { CallBoards, isBehind } from './call-boards.js';
import type { CudaTeam } from './cuda-team.js';
import type { Allocation } from './device-buffer.js';
import { areIdle, whenIdle } from './device-work.js';
import type { GpuPrograms } from './gpu-programs.js';
import { checkSharing, gpuTeam } from './gpu-team.js';
import { RankResources } from './rank-resources.js';
import { type FindRings, ringOrder } from './ring-order.js';

function describeTeam(devices: readonly CudaDevice[], onHost: boolean): string {
  const distinct = [...new Set(devices)];
  const where =
    distinct.length === 1
      ? `on ${distinct[0]!.label}`
      : `on GPUs ${distinct.map(({ index }) => index).join(', ')} (${distinct[0]!.name}), which ${onHost ? 'meet in memory of the host' : "reach each other's memory"}`;
  return devices.length === 1 ? `one rank ${where}` : `${devices.length} ranks of one process ${where}`;
}

export interface LocalCudaTeamOptions {
  readonly timeoutMs: number;
  readonly programs: GpuPrograms;
  /** GPUs may use each other's memory where they can; otherwise everything goes through memory of the host. */
  readonly peerToPeer?: boolean;
  /** All ranks compare what they call before they begin. */
  readonly check?: boolean;
  /** For tests: other ways to find the order of rings than to look at the machine. */
  readonly findRings?: FindRings;
  /** Chunks in which memory for buffers is taken from the driver; by default as large as is good for GPUs. */
  readonly chunkBytes?: number;
}

/** Makes the teams of ranks on these GPUs, in rank order. */
export function createLocalCudaTeams(
  driver: CudaDriver,
  devices: readonly CudaDevice[],
  options: LocalCudaTeamOptions,
): CudaTeam[] {
  const {
    timeoutMs,
    programs,
    peerToPeer = true,
    check = false,
    chunkBytes = CHUNK_BYTES,
    findRings,
  } = options;
  checkSharing(devices);
  const size = devices.length;
  const onHost = !peerToPeer || devices.some((device) => devices.some((peer) => !device.canAccess(peer)));
  const wholeLines =
    !onHost && devices.every((device) => devices.every((peer) => device.storesWholeLines(peer)));
  const sizes = programs.sizesFor(wholeLines);
  areaLayout(size, sizes);
  const host = boardHeap();
  const ranks: RankResources[] = [];
  try {
    for (const device of devices) {
      const resources = new RankResources(driver, device, host);
      ranks.push(resources);
      resources.makeArea(size, sizes, onHost);
    }
    if (!onHost) for (const device of devices) for (const peer of devices) device.enablePeer(peer);
  } catch (error) {
    for (const rank of ranks) rank.close();
    throw error;
  }
  const controls = createLocalControls(size, timeoutMs);
  const order = ringOrder(devices, {
    sizes,
    onHost,
    ...(findRings === undefined ? {} : { find: findRings }),
  });
  const gpu = gpuTeam(devices, { addressing: 'plain', wholeLines }, order);
  const description = describeTeam(devices, onHost);
  const areas = ranks.map(({ area }) => area.address);
  const boards = ranks.map(({ board }) => board);
  const team = teamNumber();
  const calls = devices.map(({ index: gpu }, rank) => new CallBoards(host, rank, boards, { team, gpu }));
  const left = new Set<number>();
  const departures: (() => void)[] = [];
  const spansDevices = new Set(devices).size > 1;
  const heaps = devices.map(
    (device) => new DeviceHeap(device, { chunkBytes, whenIdle: (act) => whenIdle(devices, act) }),
  );

  return devices.map((device, rank): CudaTeam => {
    const { kernels, words, overlaps } = ranks[rank]!;
    const own = calls[rank]!;
    const control = controls[rank]!;
    const heap = heaps[rank]!;
    /** Foreign memory by address and bytes: how many buffers of this communicator are there, and whether peers reach it. */
    const adopted = new Map<string, { count: number; reached: boolean }>();
    const keyOf = ({ address, bytes }: Pick<Allocation, 'address' | 'bytes'>) => `${address} ${bytes}`;
    const isReached = (allocation: Allocation) =>
      !allocation.foreign || adopted.get(keyOf(allocation))?.reached === true;
    return {
      rank,
      size,
      device,
      kernels,
      programs,
      gpu,
      overlaps,
      sharesThread: size > 1,
      description,
      onHost,
      ...(order === undefined ? {} : { rings: order.text }),
      areas,
      maps: 0,
      words,
      host,
      calls: own,
      check,
      processes: devices.map(() => undefined),
      allGather: control.allGather,
      barrier: control.barrier,
      onTrouble: control.onTrouble,
      tell: control.tell,
      allocate: (bytes) => heap.allocate(bytes),
      free: (address) => heap.free(address),
      adopt: (address, bytes) => {
        const key = keyOf({ address, bytes });
        // Peers reach what cuMemAlloc made; virtual memory has access rights of its own, that of pools is nobody else's.
        const reached = !spansDevices || isReachedBy(device, address, bytes, new Set(devices));
        adopted.set(key, { count: (adopted.get(key)?.count ?? 0) + 1, reached });
      },
      release: (address, bytes) => {
        const key = keyOf({ address, bytes });
        const known = adopted.get(key);
        if (known !== undefined && --known.count === 0) adopted.delete(key);
      },
      nameOf: ({ allocation }, address) => (onHost || !isReached(allocation) ? STAGED : address),
      refusal: ({ allocation }) => {
        if (isReached(allocation)) return undefined;
        return 'not all GPUs have access to its memory, or it was wrapped by another communicator';
      },
      mapped: () => undefined,
      unanswered: [],
      departed: () => {
        if (left.has(rank)) return undefined;
        for (const one of left) if (!isBehind(own.begun, calls[one]!.begun)) return one;
        return undefined;
      },
      onDeparture: (listener) => {
        departures.push(listener);
      },
      farewell: async () => {
        left.add(rank);
        for (const listener of departures) listener();
        // Somebody waits on its GPU for a call that this rank will not make.
        return !calls.some(
          ({ begun, messages }, peer) =>
            isBehind(own.begun, begun) || (messages.lacks(rank) && !areIdle([devices[peer]!])),
        );
      },
      close: async () => {
        // Memory goes when the last rank has left: until then others may still look at it.
        if (!control.leave()) return;
        for (const one of calls) one.close();
        const given = whenIdle(devices, () => {
          for (const one of heaps) one.close();
          for (const one of ranks) one.close();
        });
        // Another communicator may wait for calls that come after this one: nobody waits for it here.
        if (areIdle(devices)) await given;
        else given.catch(() => {});
      },
    };
  });
}
