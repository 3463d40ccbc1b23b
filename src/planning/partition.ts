/**
 * Cuts collectives over channels: one after the other, each channel gets about the same traffic, in cells that are
 * worth the start of a channel. A collective may begin in the middle of a channel's share and end in another's.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */
import { chunkBytes, messageBytes } from './chunk-size.js';
import {
  type PlannedCommunicator,
  type PlannedTask,
  trafficFactor,
  usesCollnet,
  usesNvls,
} from './nccl-task.js';

/** Least traffic that a channel is started for, bytes. */
export const MIN_CHANNEL_TRAFFIC = 32768;

/** Cells and shares are multiples of this many bytes. */
const CELL_ALIGNMENT = 16;

/** Parts of one segment kind: elements, and bytes moved at a time. */
export interface Segment {
  readonly count: number;
  readonly chunkBytes: number;
}

/** Where a collective runs. Channels between `lo` and `hi` are all alike. */
export interface Placement {
  readonly channelLo: number;
  readonly channelHi: number;
  /** First, every middle, and last channel; undefined if the channels share the whole (`shared`). */
  readonly segments: { readonly lo: Segment; readonly mid: Segment; readonly hi: Segment } | undefined;
  /** All channels together work on this. */
  readonly shared: Segment | undefined;
}

/** The plan that collectives are placed in. */
export interface PlanRoom {
  /** Would a plan of so many batches and work bytes be within the budget? */
  allows(batches: number, workBytes: number): boolean;
  /** Is there room for so many more batches and work bytes? */
  fits(batches: number, workBytes: number): boolean;
  /** A collective has got its place; the works that it makes count from now on. */
  placed(task: PlannedTask, placement: Placement): void;
}

/** A plan without bounds. */
export const UNBOUNDED: PlanRoom = { allows: () => true, fits: () => true, placed: () => {} };

/** Bytes of work that a collective stores per plan. */
export const COLLECTIVE_WORK_BYTES = 128;

/** The same with registered NVLS buffers. */
export const REGISTERED_WORK_BYTES = 320;

/** Works that fit into one batch, for the first guess. */
const WORKS_PER_BATCH = 4;

const workBytes = ({ nvlsRegistered }: PlannedTask): number =>
  nvlsRegistered === true ? REGISTERED_WORK_BYTES : COLLECTIVE_WORK_BYTES;

const alignUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/** Traffic of a task as the planner weighs it: LL doubles the bytes and halves the bandwidth. */
export function taskTraffic(task: PlannedTask, nRanks: number): number {
  return task.count * task.elementBytes * multiplier(task, nRanks);
}

function multiplier(task: PlannedTask, nRanks: number): number {
  return trafficFactor(task.function, nRanks) * (task.protocol === 'LL' ? 4 : 1);
}

/**
 * Places tasks, in order, on channels.
 *
 * @returns a placement for each task that found room; the rest waits for the next plan
 */
export function partitionCollectives(
  tasks: readonly PlannedTask[],
  comm: PlannedCommunicator,
  room: PlanRoom = UNBOUNDED,
): Placement[] {
  return new Partitioner(comm, room).place(tasks);
}

class Partitioner {
  readonly #comm: PlannedCommunicator;
  readonly #room: PlanRoom;
  #channel = 0;
  #used = 0;

  constructor(comm: PlannedCommunicator, room: PlanRoom) {
    this.#comm = comm;
    this.#room = room;
  }

  place(tasks: readonly PlannedTask[]): Placement[] {
    const { nRanks } = this.#comm;
    const shares = this.#estimate(tasks);
    const placements: Placement[] = [];
    let kind = -1;
    for (const task of tasks.slice(0, shares.count)) {
      const own = this.#kindOf(task);
      if (own !== kind) {
        kind = own;
        this.#channel = 0;
        this.#used = 0;
      }
      const perChannel = alignUp(Math.floor(shares.traffic[kind]! / shares.channels[kind]!), CELL_ALIGNMENT);
      const placed =
        kind >= 2 ? this.#placeShared(task) : this.#placeCut(task, perChannel, this.#limitOf(kind), nRanks);
      if (placed === undefined) break;
      this.#room.placed(task, placed);
      placements.push(placed);
    }
    return placements;
  }

  /** 0 plain, 1 NVLS, 2 CollNet, 3 NVLS over CollNet. */
  #kindOf(task: PlannedTask): number {
    return (usesCollnet(task, this.#comm.nNodes) ? 2 : 0) + (usesNvls(task) ? 1 : 0);
  }

  #limitOf(kind: number): number {
    const { nChannels, nvlsChannels } = this.#comm;
    if (kind === 1) return nvlsChannels;
    return kind === 3 ? Math.min(nChannels, nvlsChannels) : nChannels;
  }

  /** Traffic and channels of each kind, over the tasks that will probably fit. */
  #estimate(tasks: readonly PlannedTask[]): { count: number; traffic: number[]; channels: number[] } {
    const traffic = [0, 0, 0, 0];
    const channels = [0, 0, 0, 0];
    let count = 0;
    let bytes = 0;
    for (const task of tasks) {
      const size = workBytes(task);
      if (!this.#room.allows(Math.ceil(count / WORKS_PER_BATCH), bytes + size)) break;
      count += 1;
      bytes += size;
      const kind = this.#kindOf(task);
      traffic[kind]! += Math.max(MIN_CHANNEL_TRAFFIC, taskTraffic(task, this.#comm.nRanks));
      channels[kind] = Math.min(channels[kind]! + task.maxChannels, this.#limitOf(kind));
    }
    return { count, traffic, channels };
  }

  #placeShared(task: PlannedTask): Placement | undefined {
    const { maxChannels, count } = task;
    if (!this.#room.fits(maxChannels, workBytes(task))) return undefined;
    const bytes = messageBytes(task, count, this.#comm.nRanks);
    const chunk = chunkBytes(task, this.#comm, maxChannels, bytes);
    return {
      channelLo: 0,
      channelHi: maxChannels - 1,
      segments: undefined,
      // Stored as whole elements.
      shared: { count, chunkBytes: Math.floor(chunk / task.elementBytes) * task.elementBytes },
    };
  }

  #placeCut(task: PlannedTask, perChannel: number, limit: number, nRanks: number): Placement | undefined {
    const { elementBytes, count } = task;
    const factor = multiplier(task, nRanks);
    const cell = alignUp(Math.ceil(MIN_CHANNEL_TRAFFIC / factor), CELL_ALIGNMENT);
    const cellElements = Math.floor(cell / elementBytes);
    const cells = Math.ceil((count * elementBytes) / cell);
    const cellTraffic = cell * factor;

    let channel = this.#channel;
    let per = Math.min(cells, Math.ceil(perChannel / cellTraffic));
    let lo =
      channel + 1 === limit ? cells : Math.min(cells, Math.ceil((perChannel - this.#used) / cellTraffic));
    let mid = Math.floor((cells - lo) / per);
    let hi = (cells - lo) % per;
    if (limit < channel + (lo > 0 ? 1 : 0) + mid + (hi > 0 ? 1 : 0)) {
      mid = limit - channel - 2;
      per = Math.floor((cells - lo) / (mid + 1));
      hi = per + ((cells - lo) % (mid + 1));
    }
    if (hi === 0 && mid !== 0) {
      hi = per;
      mid -= 1;
    }
    if (lo === 0) {
      channel += 1;
      if (mid === 0) {
        lo = hi;
        hi = 0;
      } else {
        lo = per;
        mid -= 1;
      }
    }
    const countMid = mid > 0 ? per * cellElements : 0;
    let countLo = lo * cellElements;
    let countHi = hi * cellElements;
    const surplus = cells * cellElements - count;
    if (countHi !== 0) countHi -= surplus;
    else countLo -= surplus;
    const channels = (countLo !== 0 ? 1 : 0) + mid + (hi !== 0 ? 1 : 0);
    if (!this.#room.fits(channels, workBytes(task))) return undefined;

    const segment = (elements: number): Segment => ({
      count: elements,
      chunkBytes: elements === 0 ? 0 : chunkBytes(task, this.#comm, 1, messageBytes(task, elements, nRanks)),
    });
    const placement: Placement = {
      channelLo: channel,
      channelHi: channel + channels - 1,
      segments: { lo: segment(countLo), mid: segment(countMid), hi: segment(countHi) },
      shared: undefined,
    };
    // The next task begins where this one's last channel ends.
    if (hi > 0) {
      channel += channels - 1;
      this.#used = hi * cellElements * elementBytes * factor;
    } else {
      this.#used += lo * cellElements * elementBytes * factor;
    }
    if (this.#used >= perChannel && channel + 1 !== limit) {
      channel += 1;
      this.#used = 0;
    }
    this.#channel = channel;
    return placement;
  }
}
