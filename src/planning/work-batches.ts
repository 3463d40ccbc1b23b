/**
 * Packs the works of one plan into batches per channel, as the kernel reads them.
 *
 * A batch names a function, a base offset and a bit per work; works that lie too far from the base go on in an
 * extension of it. (NCCL 2.30.7, enqueue.cc.)
 */

/** Kinds of work with their numbers in a batch record. */
export const WorkType = { P2P: 0, COLLECTIVE: 1, REGISTERED_COLLECTIVE: 2, BROADCAST: 3 } as const;
export type WorkType = (typeof WorkType)[keyof typeof WorkType];

/** Bytes of a work by kind; all works of a batch have the size of its kind. */
export const WORK_BYTES: Readonly<Record<WorkType, number>> = { 0: 48, 1: 128, 2: 320, 3: 48 };

/** Bytes of a batch record. */
export const BATCH_BYTES = 16;

/** Works of send and receive in one batch. */
export const P2P_WORKS_PER_BATCH = 8;

/** Bytes of collective work in one batch. */
const COLLECTIVE_BYTES_PER_BATCH = 1024;

/** Works that one record can name: bits of its set. */
const BITS = 64;

export interface PlacedWork {
  readonly type: WorkType;
  /** Id of the device function. */
  readonly function: number | string;
  /** Bytes from the start of the plan's work. */
  readonly offset: number;
  /** Send and receive: pass through all rounds, and round. */
  readonly epoch?: number;
  readonly round?: number;
}

/** A batch record. */
export interface WorkBatch {
  readonly type: WorkType;
  readonly function: number | string;
  /** Bytes from the start of the plan's work to the first work that the set can name. */
  readonly baseOffset: number;
  /** Bit i: the work at `baseOffset` + i times the size of a work. */
  workSet: bigint;
  /** The next batch of the channel belongs to this one. */
  nextExtends: boolean;
}

export interface BatchOptions {
  /** NCCL_P2P_EPOCH_ENABLE: works of different passes do not share a batch. */
  readonly separateEpochs?: boolean;
  /** Broadcasts in one batch, by the shared memory of the device. */
  readonly broadcastsPerBatch?: number;
}

/** The batches of one channel under construction. */
export class ChannelBatches {
  readonly batches: WorkBatch[] = [];
  readonly #separateEpochs: boolean;
  readonly #broadcasts: number;
  // Of the present batch, counted through its extensions.
  #works = 0;
  #bytes = 0;
  #epoch = 0;
  #rounds: number[] = [];

  constructor({ separateEpochs = true, broadcastsPerBatch = Number.POSITIVE_INFINITY }: BatchOptions = {}) {
    this.#separateEpochs = separateEpochs;
    this.#broadcasts = broadcastsPerBatch;
  }

  /** Number of batches of send and receive that are not extensions: gives proxy operations their number. */
  get p2pBatches(): number {
    let count = 0;
    for (const [at, { type }] of this.batches.entries()) {
      const extension = at > 0 && this.batches[at - 1]!.nextExtends;
      if (type === WorkType.P2P && !extension) count += 1;
    }
    return count;
  }

  add(work: PlacedWork): void {
    const size = WORK_BYTES[work.type];
    let last = this.batches.at(-1);
    if (last === undefined || this.#needsNew(last, work, size)) {
      last = this.#start(work);
      this.#works = 0;
      this.#bytes = 0;
      this.#epoch = work.epoch ?? 0;
      this.#rounds = [];
    } else {
      const offset = work.offset - last.baseOffset;
      if (offset > (BITS - 1) * size || offset % size !== 0) {
        last.nextExtends = true;
        last = this.#start(work);
      }
    }
    last.workSet |= 1n << BigInt((work.offset - last.baseOffset) / size);
    this.#works += 1;
    this.#bytes += size;
    if (work.round !== undefined) this.#rounds.push(work.round);
  }

  #start({ type, function: fn, offset }: PlacedWork): WorkBatch {
    const batch = { type, function: fn, baseOffset: offset, workSet: 0n, nextExtends: false };
    this.batches.push(batch);
    return batch;
  }

  #needsNew(last: WorkBatch, work: PlacedWork, size: number): boolean {
    if (last.type !== work.type || last.function !== work.function) return true;
    if (work.type === WorkType.P2P) {
      const round = work.round ?? 0;
      const group = Math.floor(round / P2P_WORKS_PER_BATCH);
      return (
        (this.#separateEpochs && (work.epoch ?? 0) !== this.#epoch) ||
        this.#works >= P2P_WORKS_PER_BATCH ||
        this.#rounds.some((other) => other === round || Math.floor(other / P2P_WORKS_PER_BATCH) !== group) ||
        this.#bytes + size > COLLECTIVE_BYTES_PER_BATCH
      );
    }
    if (work.type === WorkType.BROADCAST) return this.#works >= this.#broadcasts;
    return this.#bytes + size > COLLECTIVE_BYTES_PER_BATCH;
  }
}

/** A batch with the distance, in records, to the next one of its channel (0 if it is the last). */
export interface OrderedBatch extends WorkBatch {
  readonly channel: number;
  readonly nextJump: number;
}

/** Lays the batches of all channels out in rounds: the first batch of the k-th active channel is record k. */
export function orderBatches(channels: ReadonlyMap<number, ChannelBatches>): OrderedBatch[] {
  const active = [...channels].filter(([, { batches }]) => batches.length > 0).sort(([a], [b]) => a - b);
  const order: { channel: number; batch: WorkBatch }[] = [];
  const longest = Math.max(0, ...active.map(([, { batches }]) => batches.length));
  for (let at = 0; at < longest; at++) {
    for (const [channel, { batches }] of active) {
      const batch = batches[at];
      if (batch !== undefined) order.push({ channel, batch });
    }
  }
  return order.map(({ channel, batch }, at) => {
    const next = order.findIndex((other, index) => index > at && other.channel === channel);
    return { ...batch, channel, nextJump: next < 0 ? 0 : next - at };
  });
}
