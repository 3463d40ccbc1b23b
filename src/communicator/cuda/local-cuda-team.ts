/**
 * Teams of ranks on GPUs that live in one process and are objects of one thread. Names of buffers are addresses: GPUs
 * of one process share an address space, and peer access makes each other's memory reachable. Where it does not, areas
 * lie in memory of the host, which all GPUs reach, and all data go through them.
 */
import { areaLayout } from '../../collectives/gpu/area.js';
import type { GpuTeam } from '../../collectives/gpu/call.js';
import { STAGED } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { CHUNK_BYTES, DeviceHeap } from '../../device/cuda/device-heap.js';
import { pointerFacts } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { createLocalControls } from '../local-control.js';
import type { Trouble } from '../team.js';
import type { CudaTeam } from './cuda-team.js';
import type { GpuPrograms } from './gpu-programs.js';
import { RankResources } from './rank-resources.js';

/** Kernels that a GPU runs at a time for sure: streams beyond it may wait for each other (hardware queues). */
export const MAX_RANKS_PER_DEVICE = 8;

/** Throws `invalidUsage` when ranks could not run at the same time. */
function checkDevices(devices: readonly CudaDevice[]): void {
  for (const device of devices) {
    const here = devices.filter((other) => other === device).length;
    if (here > MAX_RANKS_PER_DEVICE) {
      throw new TuttiError(
        'invalidUsage',
        `${here} ranks on ${device.label}; at most ${MAX_RANKS_PER_DEVICE} ranks can share a GPU`,
      );
    }
  }
}

/** What all ranks know alike of the GPUs of a team. */
export function gpuTeam(
  devices: readonly { readonly uuid: string; readonly multiprocessors: number }[],
  addressing: GpuTeam['addressing'],
): GpuTeam {
  const perDevice = new Map<string, number>();
  for (const { uuid } of devices) perDevice.set(uuid, (perDevice.get(uuid) ?? 0) + 1);
  return {
    ranks: devices.length,
    multiprocessors: Math.min(...devices.map(({ multiprocessors }) => multiprocessors)),
    ranksPerDevice: Math.max(...perDevice.values()),
    addressing,
  };
}

function describeTeam(devices: readonly CudaDevice[], onHost: boolean): string {
  const distinct = [...new Set(devices)];
  const where =
    distinct.length === 1
      ? `on ${distinct[0]!.label}`
      : `on GPUs ${distinct.map(({ index }) => index).join(', ')} (${distinct[0]!.name}), which ${onHost ? 'meet in memory of the host' : "reach each other's memory"}`;
  return `${devices.length} ranks of one process ${where}`;
}

export interface LocalCudaTeamOptions {
  readonly timeoutMs: number;
  readonly programs: GpuPrograms;
  /** GPUs may use each other's memory where they can; otherwise everything goes through memory of the host. */
  readonly peerToPeer?: boolean;
  /** Chunks in which memory for buffers is taken from the driver; by default as large as is good for GPUs. */
  readonly chunkBytes?: number;
}

/** Makes the teams of ranks on these GPUs, in rank order. */
export function createLocalCudaTeams(
  driver: CudaDriver,
  devices: readonly CudaDevice[],
  { timeoutMs, programs, peerToPeer = true, chunkBytes = CHUNK_BYTES }: LocalCudaTeamOptions,
): CudaTeam[] {
  checkDevices(devices);
  areaLayout(devices.length, programs.sizes);
  const size = devices.length;
  const onHost = !peerToPeer || devices.some((device) => devices.some((peer) => !device.canAccess(peer)));
  const ranks: RankResources[] = [];
  try {
    for (const device of devices) ranks.push(new RankResources(driver, device, size, programs.sizes, onHost));
    if (!onHost) for (const device of devices) for (const peer of devices) device.enablePeer(peer);
  } catch (error) {
    for (const rank of ranks) rank.close();
    throw error;
  }
  const controls = createLocalControls(size, timeoutMs);
  const gpu = gpuTeam(devices, 'plain');
  const description = describeTeam(devices, onHost);
  const areas = ranks.map(({ area }) => area.address);
  const launches = new Array<number>(size).fill(0);
  const left = new Set<number>();
  const departures: (() => void)[] = [];
  const spansDevices = new Set(devices).size > 1;
  const heaps = devices.map((device) => new DeviceHeap(device, { chunkBytes }));

  return devices.map((device, rank): CudaTeam => {
    const { kernels, words, statuses, overlaps } = ranks[rank]!;
    const control = controls[rank]!;
    const heap = heaps[rank]!;
    /** Foreign memory that peers reach, by address. */
    const reachable = new Map<number, number>();
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
      areas,
      maps: 0,
      words,
      statuses,
      allGather: control.allGather,
      barrier: control.barrier,
      onTrouble: control.onTrouble,
      tell: control.tell,
      allocate: (bytes) => heap.allocate(bytes),
      free: (address) => heap.free(address),
      adopt: (address, bytes) => {
        // Peers reach what cuMemAlloc made; memory of pools and of mappings has access rights of its own.
        if (!spansDevices || pointerFacts(device, address, 'wrap').shareable) reachable.set(address, bytes);
      },
      release: (address) => {
        reachable.delete(address);
      },
      nameOf: ({ allocation }, address) =>
        onHost || (allocation.foreign && !reachable.has(allocation.address)) ? STAGED : address,
      mapped: () => undefined,
      countLaunches: (operations) => {
        launches[rank]! += operations;
      },
      departed: () => {
        if (left.has(rank)) return undefined;
        for (const one of left) if (launches[one]! <= launches[rank]!) return one;
        return undefined;
      },
      onDeparture: (listener) => {
        departures.push(listener);
      },
      raiseAbort: (trouble: Trouble) => {
        for (const one of ranks) one.raiseAbort(trouble);
      },
      farewell: async () => {
        left.add(rank);
        for (const listener of departures) listener();
        // Somebody waits on its GPU for a call that this rank will not make.
        return !launches.some((count) => count > launches[rank]!);
      },
      close: async () => {
        // Memory goes when the last rank has left: until then others may still look at it.
        if (!control.leave()) return;
        for (const one of heaps) one.close();
        for (const one of ranks) one.close();
      },
    };
  });
}
