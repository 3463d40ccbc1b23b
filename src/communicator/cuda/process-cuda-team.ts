/**
 * Teams of ranks on GPUs that are processes of one host. Names of buffers are numbers of allocations, which the peers
 * have opened, and offsets in them; where areas lie in memory of the host, all data go through them.
 */
import type { Bootstrap } from '../../bootstrap/bootstrap.js';
import { STAGED } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceHeap } from '../../device/cuda/device-heap.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import type { HostDevice } from '../../device/host/host-device.js';
import { ownIdentity } from '../../system/process-liveness.js';
import { processControl } from '../process-control.js';
import type { Settings } from '../settings.js';
import { boardHeap } from './board-heap.js';
import { CallBoards, isBehind } from './call-boards.js';
import type { CudaTeam } from './cuda-team.js';
import { areIdle, whenIdle } from './device-work.js';
import type { GpuPrograms } from './gpu-programs.js';
import { gpuTeam } from './gpu-team.js';
import { HandlePost } from './handle-post.js';
import { MappedMemory } from './mapped-memory.js';
import { type PeerMessage, PeerMessages } from './peer-messages.js';
import { meetProcesses, type ProcessMeeting } from './process-meeting.js';
import type { FindRings } from './ring-order.js';

export interface ProcessCudaTeamOptions {
  readonly settings: Settings;
  readonly programs: GpuPrograms;
  readonly chunkBytes?: number;
  /** For tests: other ways to find the order of rings than to look at the machine. */
  readonly findRings?: FindRings;
  /** For tests, whose ranks share a process: what tells this rank's process from others, and its heap. */
  readonly identity?: string;
  readonly host?: HostDevice;
}

function describeTeam({ introductions, onHost, device }: ProcessMeeting): string {
  const distinct = new Set(introductions.map(({ uuid }) => uuid)).size;
  const how = onHost ? 'which meet in memory of the host' : 'memory mapped';
  return `${introductions.length} processes of one host on ${distinct === 1 ? '1 GPU' : `${distinct} GPUs`}, ${how}; this one on ${device.label}`;
}

/** Allocations of this rank that peers open, where they can. */
function openMapped(
  { device, onHost, isLocal, introductions }: ProcessMeeting,
  rank: number,
  size: number,
  post: HandlePost,
) {
  if (onHost) return undefined;
  post.connect(introductions.map(({ descriptors }) => descriptors));
  return new MappedMemory(device, rank, size, isLocal, post);
}

/** Brings the ranks of a bootstrap together, each on a GPU. `open` gives this rank's GPU, or throws. */
export async function openCudaProcessTeam(
  bootstrap: Bootstrap,
  open: () => { driver: CudaDriver; device: CudaDevice },
  { settings, programs, identity = JSON.stringify(ownIdentity()), host, ...rest }: ProcessCudaTeamOptions,
): Promise<CudaTeam> {
  const { rank, size } = bootstrap;
  let meeting: ProcessMeeting | undefined;
  let memory: MappedMemory | undefined;
  let messages: PeerMessages | undefined;
  let enlisted: CallBoards | undefined;
  const post = new HandlePost();
  try {
    meeting = await meetProcesses(bootstrap, {
      open,
      heap: () => host ?? boardHeap(),
      sizesFor: programs.sizesFor,
      agreement: programs.agreement,
      check: settings.check,
      peerToPeer: settings.peerToPeer,
      identity,
      descriptors: post.name,
      findRings: rest.findRings,
    });
    const { device, resources, introductions, areas, onHost, wholeLines, boards, order } = meeting;
    memory = openMapped(meeting, rank, size, post);
    const control = processControl(bootstrap, settings.timeoutMs);
    const calls = new CallBoards(meeting.host, rank, boards, { team: meeting.team, gpu: device.index });
    enlisted = calls;
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
    /** What only this rank knows. */
    const raise: Listener = (...news) => {
      memory?.giveUp();
      control.tell(...news);
      trouble(...news);
    };
    const onMessage = (peer: number, message: PeerMessage) => {
      if (message.type !== 'leaving') memory?.handle(peer, message);
      else {
        left.set(peer, message.operations);
        for (const listener of departures) listener();
        const isMissed = calls.messages.lacks(peer) && !areIdle([device]);
        if (!isMissed && !isBehind(message.operations, calls.begun)) return;
        // It waits for our goodbye, which cannot come.
        raise({ kind: 'left', culprit: peer });
      }
    };
    messages = await PeerMessages.connect(bootstrap, onMessage, (peer) =>
      raise({ kind: 'corrupt', culprit: peer }),
    );
    const links = messages;
    memory?.connect(links, (peer, text) =>
      raise({ kind: 'aborted', culprit: peer }, `it cannot open memory of rank ${rank}: ${text}`),
    );
    control.onTrouble((news, detail) => {
      memory?.giveUp();
      trouble(news, detail);
    });
    const heap = new DeviceHeap(device, {
      ...rest,
      onAdd: (chunk) => memory?.announce(chunk.memory.address, chunk.memory.bytes),
      onRemove: (chunk) => memory?.withdraw(chunk.memory.address),
      whenIdle: (act) => whenIdle([device], act),
    });
    const { kernels, words, overlaps } = resources;
    const { leave, close } = meeting;
    /** Some GPU is busy with another communicator while this one is closed. */
    let othersWait = false;
    return {
      rank,
      size,
      device,
      kernels,
      programs,
      gpu: gpuTeam(introductions, { addressing: onHost ? 'plain' : 'mapped', wholeLines }, order),
      ...(order === undefined ? {} : { rings: order.text }),
      overlaps,
      sharesThread: false,
      description: describeTeam(meeting),
      onHost,
      processes: introductions.map(({ process }, peer) => (peer === rank ? undefined : process)),
      areas,
      maps: memory?.table ?? 0,
      words,
      host: meeting.host,
      calls,
      check: settings.check,
      allGather: control.allGather,
      barrier: control.barrier,
      onTrouble: (listener) => {
        listeners.push(listener);
        for (const news of early.splice(0)) listener(...news);
      },
      tell: (news, detail) => {
        memory?.giveUp();
        control.tell(news, detail);
      },
      allocate: (bytes) => heap.allocate(bytes),
      free: (address) => heap.free(address),
      adopt: (address, bytes) => memory?.adopt(address, bytes),
      release: (address, bytes) => memory?.release(address, bytes),
      nameOf: ({ allocation }, address) =>
        (allocation.foreign ? memory?.nameOfAdopted(allocation, address) : memory?.nameOf(address)) ?? STAGED,
      refusal: ({ allocation }) => (allocation.foreign ? memory?.refusalOf(allocation) : undefined),
      mapped: () => memory?.settled,
      get unanswered() {
        return memory?.unanswered ?? [];
      },
      departed: () => {
        for (const [peer, count] of left) if (!isBehind(calls.begun, count)) return peer;
        return undefined;
      },
      onDeparture: (listener) => {
        departures.push(listener);
      },
      farewell: async () => {
        links.sendAll({ type: 'leaving', operations: calls.begun });
        if ([...left.values()].some((count) => isBehind(calls.begun, count))) return false;
        try {
          const idle = await control.allGather(Uint8Array.of(areIdle([device]) ? 1 : 0), 'close');
          othersWait = idle.some(([one]) => one === 0);
          return true;
        } catch {
          // A rank that is gone cannot be waited for.
          return false;
        }
      },
      close: async (graceful) => {
        const giveBack = async () => {
          calls.close();
          await whenIdle([device], () => {
            leave();
            memory?.closeOpened();
          });
          // Nobody's memory may go while others have it open.
          const all =
            graceful &&
            (await control.barrier('cuda memory').then(
              () => true,
              () => false,
            ));
          await whenIdle([device], () => {
            heap.close();
            memory?.close();
            post.close();
            close(all);
          });
          links.close();
          await bootstrap.close();
        };
        const given = giveBack();
        // Another communicator may wait for calls that come after this one, at some rank: nobody waits for it here.
        if (!othersWait && areIdle([device])) await given;
        else given.catch(() => {});
      },
    };
  } catch (error) {
    enlisted?.close();
    memory?.close();
    post.close();
    messages?.close();
    meeting?.close(false);
    await bootstrap.close().catch(() => {});
    throw error;
  }
}
