/**
 * Teams of ranks on GPUs that are processes of one host. Areas and buffers are opened by the peers (CUDA IPC), and
 * names of buffers are numbers of allocations and offsets in them.
 *
 * Every rank says what went wrong on its side before anybody goes on, so that all fail together and alike.
 */
import type { Bootstrap } from '../../bootstrap/bootstrap.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceHeap } from '../../device/cuda/device-heap.js';
import { ipcHandle, OpenedMemory } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { ownIdentity } from '../../system/process-liveness.js';
import { exchange, processControl } from '../process-control.js';
import type { Settings } from '../settings.js';
import type { CudaTeam } from './cuda-team.js';
import type { GpuPrograms } from './gpu-programs.js';
import { gpuTeam, MAX_RANKS_PER_DEVICE } from './local-cuda-team.js';
import { MappedMemory } from './mapped-memory.js';
import { type PeerMessage, PeerMessages } from './peer-messages.js';
import { RankResources } from './rank-resources.js';

/** What a rank tells the others about itself. Plain JSON: it is sent once. */
interface Introduction {
  readonly process: string;
  readonly uuid: string;
  readonly label: string;
  readonly multiprocessors: number;
  readonly area: number;
  readonly handle: string;
}

/** A rank's introduction, or what kept it from having one. */
interface Report {
  readonly problem?: string;
}

/** Throws what ranks have reported; every rank throws the same. */
function checkReports(reports: readonly Report[]): void {
  const culprit = reports.findIndex(({ problem }) => problem !== undefined);
  if (culprit < 0) return;
  throw new TuttiError('unhandledCudaError', `rank ${culprit}: ${reports[culprit]!.problem}`, {
    rank: culprit,
  });
}

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Throws `invalidUsage` when the ranks' processes cannot reach each other's GPUs. */
function checkOneHost(bootstrap: Bootstrap): void {
  const [first] = bootstrap.members;
  const other = bootstrap.members.find(({ hostHash }) => hostHash !== first!.hostHash);
  if (other === undefined) return;
  throw new TuttiError(
    'invalidUsage',
    `rank 0 is on ${first!.hostName}, rank ${other.rank} on ${other.hostName}; ranks on GPUs must be on one host`,
    { rank: other.rank },
  );
}

export interface ProcessCudaTeamOptions {
  readonly settings: Settings;
  readonly programs: GpuPrograms;
  readonly chunkBytes?: number;
  /** What tells this rank's process from others; for tests, whose ranks share one. */
  readonly identity?: string;
}

/** Brings the ranks of a bootstrap together, each on a GPU. `open` gives this rank's GPU, or throws. */
export async function openCudaProcessTeam(
  bootstrap: Bootstrap,
  open: () => { driver: CudaDriver; device: CudaDevice },
  { settings, programs, identity = JSON.stringify(ownIdentity()), ...heapOptions }: ProcessCudaTeamOptions,
): Promise<CudaTeam> {
  const { rank, size } = bootstrap;
  const opened: OpenedMemory[] = [];
  let driver: CudaDriver | undefined;
  let resources: RankResources | undefined;
  let mapped: MappedMemory | undefined;
  let messages: PeerMessages | undefined;
  const giveBack = () => {
    for (const memory of opened.splice(0)) memory.close();
    mapped?.close();
    messages?.close();
    resources?.close();
  };
  try {
    checkOneHost(bootstrap);
    if (!settings.peerToPeer) {
      throw new TuttiError(
        'invalidUsage',
        'NCCL_P2P_DISABLE=1 forbids what processes on GPUs need; unset it, or use the GPUs in one process: createLocalCommunicators([cuda(0), cuda(1)])',
        { rank },
      );
    }
    let own: Introduction | undefined;
    let problem: string | undefined;
    let introductions: (Introduction & Report)[];
    try {
      const gpu = open();
      driver = gpu.driver;
      const { device } = gpu;
      resources = new RankResources(driver, device, size, programs.sizes);
      const { uuid, label, multiprocessors } = device;
      const area = resources.area.address;
      own = { process: identity, uuid, label, multiprocessors, area, handle: ipcHandle(device, area) };
    } catch (error) {
      problem = textOf(error);
    }
    introductions = await exchange<Introduction & Report>(
      bootstrap,
      'cuda introduction',
      own ?? ({ problem } as Introduction & Report),
    );
    checkReports(introductions);
    const { device, kernels, words, statuses, overlaps } = resources!;
    const isLocal = (peer: number) => introductions[peer]!.process === identity;
    const areas: number[] = [];
    try {
      const gpu = gpuTeam(introductions, 'mapped');
      if (gpu.ranksPerDevice > MAX_RANKS_PER_DEVICE) {
        throw new TuttiError('invalidUsage', `more than ${MAX_RANKS_PER_DEVICE} ranks share a GPU`);
      }
      introductions.forEach((other, peer) => {
        if (isLocal(peer)) {
          const there = driver!.deviceOf(other.uuid);
          if (there?.isRetained === true) device.enablePeer(there);
          areas.push(other.area);
        } else {
          const memory = new OpenedMemory(
            device,
            Buffer.from(other.handle, 'base64'),
            `rank ${peer} (${other.label})`,
          );
          opened.push(memory);
          areas.push(memory.address);
        }
      });
      mapped = new MappedMemory(device, rank, size, isLocal);
    } catch (error) {
      problem = textOf(error);
    }
    checkReports(await exchange<Report>(bootstrap, 'cuda areas', problem === undefined ? {} : { problem }));

    const memory = mapped!;
    const control = processControl(bootstrap, settings.timeoutMs);
    let operations = 0;
    /** Operations of ranks that have left. */
    const left = new Map<number, number>();
    const departures: (() => void)[] = [];
    type Listener = Parameters<CudaTeam['onTrouble']>[0];
    const listeners: Listener[] = [];
    /** News that came before anybody listened. */
    const early: Parameters<Listener>[] = [];
    const trouble: Listener = (...news) => {
      if (listeners.length === 0) early.push(news);
      for (const listener of listeners) listener(...news);
    };
    const onMessage = (peer: number, message: PeerMessage) => {
      if (message.type !== 'leaving') memory.handle(peer, message);
      else {
        left.set(peer, message.operations);
        for (const listener of departures) listener();
        if (operations <= message.operations) return;
        // It waits for our goodbye, which cannot come.
        control.tell({ kind: 'left', culprit: peer });
        trouble({ kind: 'left', culprit: peer });
      }
    };
    messages = await PeerMessages.connect(bootstrap, onMessage, (peer) =>
      trouble({ kind: 'corrupt', culprit: peer }),
    );
    const links = messages;
    memory.connect(links, (peer, text) =>
      trouble({ kind: 'aborted', culprit: peer }, `it cannot open memory of rank ${rank}: ${text}`),
    );
    control.onTrouble((news, detail) => {
      memory.giveUp();
      trouble(news, detail);
    });
    const heap = new DeviceHeap(device, {
      ...heapOptions,
      onAdd: (chunk) => memory.announce(chunk.memory.address, chunk.memory.bytes),
      onRemove: (chunk) => memory.withdraw(chunk.memory.address),
    });
    /** Allocations of foreign buffers, by the buffer's address. */
    const adopted = new Map<number, number[]>();
    const distinct = new Set(introductions.map(({ uuid }) => uuid)).size;
    return {
      rank,
      size,
      device,
      kernels,
      programs,
      gpu: gpuTeam(introductions, 'mapped'),
      overlaps,
      sharesThread: false,
      description: `${size} processes of one host on ${distinct === 1 ? '1 GPU' : `${distinct} GPUs`}, memory mapped; this one on ${device.label}`,
      areas,
      maps: memory.table,
      words,
      statuses,
      allGather: control.allGather,
      barrier: control.barrier,
      onTrouble: (listener) => {
        listeners.push(listener);
        for (const news of early.splice(0)) listener(...news);
      },
      tell: (news) => {
        memory.giveUp();
        control.tell(news);
      },
      allocate: (bytes) => heap.allocate(bytes),
      free: (address) => heap.free(address),
      adopt: (address) => {
        const found = memory.exportable(address);
        if (found === undefined) return;
        memory.announce(found.start, found.bytes);
        adopted.set(address, [...(adopted.get(address) ?? []), found.start]);
      },
      release: (address) => {
        const start = adopted.get(address)?.pop();
        if (start !== undefined) void memory.withdraw(start);
      },
      nameOf: (_buffer, address) => memory.nameOf(address),
      mapped: () => memory.settled,
      countLaunches: (more) => {
        operations += more;
      },
      departed: () => {
        for (const [peer, count] of left) if (count <= operations) return peer;
        return undefined;
      },
      onDeparture: (listener) => {
        departures.push(listener);
      },
      raiseAbort: (news) => resources!.raiseAbort(news),
      farewell: async () => {
        links.sendAll({ type: 'leaving', operations });
        if ([...left.values()].some((count) => count > operations)) return false;
        try {
          await control.barrier('close');
          return true;
        } catch {
          // A rank that is gone cannot be waited for.
          return false;
        }
      },
      close: async (graceful) => {
        for (const one of opened.splice(0)) one.close();
        memory.closeOpened();
        // Nobody's memory may go while others have it open.
        if (graceful) await control.barrier('cuda memory').catch(() => {});
        heap.close();
        giveBack();
        await bootstrap.close();
      },
    };
  } catch (error) {
    giveBack();
    await bootstrap.close().catch(() => {});
    throw error;
  }
}
