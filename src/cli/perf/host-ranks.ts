/**
 * The ranks of this process on host memory.
 *
 * In a process of its own a rank runs prepared operations synchronously, as a program in a hurry would. Ranks
 * that share a process are threads: their operations are submitted to executors and awaited together.
 */
import type { Buffer } from '../../communicator/buffers.js';
import type { Communicator } from '../../communicator/communicator.js';
import { HostDevice } from '../../device/host/host-device.js';
import { arrayFor } from '../../kernel/numeric.js';
import type { Combination } from './combinations.js';
import type { DataSegment } from './data-plan.js';
import { hostRankPlace } from './environment.js';
import { type HostOperation, prepareHypercube } from './hypercube.js';
import type { PerfRanks, Region, Sides, Timed, TimedLoop } from './perf-ranks.js';
import type { RankPlace } from './report.js';
import type { CollectiveName } from './sizes.js';
import { TestData } from './test-data.js';
import { elementBytes } from './type-names.js';

/**
 * V8 compiles functions after some hundreds of calls, one after the other, on the cores on which ranks wait for each other:
 * on two of them all are done after 4000 to 8000 calls.
 */
const ACQUAINTANCE = { inline: 8000, threads: 500 } as const;

interface LocalRank {
  readonly comm: Communicator;
  send: Uint8Array;
  recv: Uint8Array;
}

export interface HostRanksOptions {
  readonly collective: CollectiveName;
  /** Buffers in the shared heap that peers can reach, or ordinary typed arrays. */
  readonly memory: 'window' | 'array';
}

export class HostRanks implements PerfRanks<HostOperation> {
  readonly #options: HostRanksOptions;
  readonly #ranks: LocalRank[];
  readonly #data: TestData;
  /** True when ranks share this thread and only promises can be used. */
  readonly #threads: boolean;
  readonly size: number;
  readonly room: number;
  readonly places: readonly RankPlace[];
  readonly connections: readonly string[] = [];

  private constructor(
    options: HostRanksOptions,
    comms: readonly Communicator[],
    device: HostDevice,
    facts: readonly (readonly number[])[],
  ) {
    this.#options = options;
    this.#ranks = comms.map((comm) => ({ comm, send: new Uint8Array(), recv: new Uint8Array() }));
    this.#threads = comms.length > 1;
    this.#data = new TestData(device);
    this.size = comms[0]!.size;
    this.places = facts.map(([pid], rank) => hostRankPlace(rank, rank, pid!));
    this.room =
      options.memory === 'window' ? Math.min(...facts.map(([, bytes]) => bytes!)) : Number.POSITIVE_INFINITY;
  }

  static async open(options: HostRanksOptions, comms: readonly Communicator[]): Promise<HostRanks> {
    const device = HostDevice.shared();
    // Who is where, and how much memory everybody has.
    const facts = await gatherNumbers(comms, () => [process.pid, largestBytes(device, comms.length)]);
    return new HostRanks(options, comms, device, facts);
  }

  get ranks(): number[] {
    return this.#ranks.map(({ comm }) => comm.rank);
  }

  get acquaintance(): number {
    return this.#threads ? ACQUAINTANCE.threads : ACQUAINTANCE.inline;
  }

  makeBuffers(bytes: number): void {
    const isWindow = this.#options.memory === 'window';
    for (const rank of this.#ranks) {
      // Bytes are enough for elements of every type.
      if (rank.send.length === bytes) continue;
      const make = () => (isWindow ? rank.comm.alloc(Uint8Array, bytes) : new Uint8Array(bytes));
      rank.send = make();
      rank.recv = make();
    }
  }

  async barrier(): Promise<void> {
    await Promise.all(this.#ranks.map(({ comm }) => comm.barrier()));
  }

  gather(own: (index: number) => readonly number[]): Promise<number[][]> {
    return gatherNumbers(
      this.#ranks.map(({ comm }) => comm),
      own,
    );
  }

  #bytes(index: number, { buffer, from, bytes }: Region): Uint8Array {
    return this.#ranks[index]![buffer].subarray(from, from + bytes);
  }

  prepare(index: number, combination: Combination, { input, output }: Sides): HostOperation {
    const { type, op, root } = combination;
    const { comm } = this.#ranks[index]!;
    const ArrayType = arrayFor(type) as unknown as new (
      buffer: ArrayBufferLike,
      offset: number,
      length: number,
    ) => Buffer;
    const view = (bytes: Uint8Array) =>
      new ArrayType(bytes.buffer, bytes.byteOffset, bytes.byteLength / elementBytes(type));
    const send = view(this.#bytes(index, input));
    const recv = view(this.#bytes(index, output));
    const reduction = op === undefined ? { type } : { type, op };
    const rooted = root === undefined ? {} : { root };
    switch (this.#options.collective) {
      case 'all_reduce':
        return comm.prepare.allReduce(send, recv, reduction);
      case 'reduce':
        return comm.prepare.reduce(send, recv, { ...reduction, ...rooted });
      case 'broadcast':
        return comm.prepare.broadcast(send, recv, { type, ...rooted });
      case 'all_gather':
        return comm.prepare.allGather(send, recv, { type });
      case 'reduce_scatter':
        return comm.prepare.reduceScatter(send, recv, reduction);
      case 'alltoall':
        return comm.prepare.allToAll(send, recv, { type });
      case 'gather':
        return comm.prepare.gather(send, recv, { type, ...rooted });
      case 'scatter':
        return comm.prepare.scatter(send, recv, { type, ...rooted });
      case 'sendrecv':
        return comm.prepare.group(() => {
          void comm.send(send, (comm.rank + 1) % comm.size);
          void comm.recv(recv, (comm.rank + comm.size - 1) % comm.size);
        });
      case 'hypercube':
        return prepareHypercube(comm, send, recv);
    }
  }

  async once(operations: readonly HostOperation[]): Promise<void> {
    if (this.#threads) await Promise.all(operations.map((operation) => operation.start()));
    else operations[0]!.run();
  }

  time(sequence: readonly (readonly HostOperation[])[], loop: TimedLoop): Promise<Timed> {
    return this.#threads ? this.#timeThreads(sequence, loop) : this.#timeInline(sequence, loop);
  }

  /** The loop of a rank that has this thread for itself. */
  async #timeInline(
    sequence: readonly (readonly HostOperation[])[],
    { blocking, perIteration, aggregated }: TimedLoop,
  ): Promise<Timed> {
    const operations = sequence.map((all) => all[0]!);
    const samples: number[] = [];
    const start = performance.now();
    let last = start;
    for (let i = 0; i < operations.length; i++) {
      operations[i]!.run();
      if (blocking === 1) await this.barrier();
      if (perIteration && (i + 1) % aggregated === 0) {
        const now = performance.now();
        samples.push(((now - last) * 1e3) / aggregated);
        last = now;
      }
    }
    const microseconds = ((performance.now() - start) * 1e3) / operations.length;
    // A synchronous operation is complete when it returns: enqueueing and completing take the same time.
    return { microseconds, cpu: microseconds, samples };
  }

  /** The loop of ranks that share this thread: submit to all executors, then wait for all. */
  async #timeThreads(
    sequence: readonly (readonly HostOperation[])[],
    { blocking, perIteration, aggregated }: TimedLoop,
  ): Promise<Timed> {
    const samples: number[] = [];
    const start = performance.now();
    let last = start;
    let pending: Promise<void>[] = [];
    for (let i = 0; i < sequence.length; i++) {
      for (const operation of sequence[i]!) pending.push(operation.start());
      if (blocking !== 0 || perIteration) {
        await Promise.all(pending);
        pending = [];
        if (blocking === 1) await this.barrier();
        if (perIteration && (i + 1) % aggregated === 0) {
          const now = performance.now();
          samples.push(((now - last) * 1e3) / aggregated);
          last = now;
        }
      }
    }
    const cpu = ((performance.now() - start) * 1e3) / sequence.length;
    await Promise.all(pending);
    return { microseconds: ((performance.now() - start) * 1e3) / sequence.length, cpu, samples };
  }

  async clear(index: number, region: Region): Promise<void> {
    this.#bytes(index, region).fill(0);
  }

  async fill(index: number, region: Region, segments: readonly DataSegment[], { type, op }: Combination) {
    this.#data.fill(this.#bytes(index, region), segments, type, op);
  }

  async verify(index: number, region: Region, segments: readonly DataSegment[], { type, op }: Combination) {
    return this.#data.verify(this.#bytes(index, region), segments, type, op);
  }

  close(): void {
    this.#data.close();
  }
}

/** Bytes that the buffers of one rank may have at most, given the memory that is left in the heap. */
function largestBytes(device: HostDevice, ranksHere: number): number {
  // A send and a receive buffer per rank; a sixteenth stays free for control blocks and staging.
  return Math.floor((device.freeBytes * 15) / 16 / 2 / ranksHere / 64) * 64;
}

/** The numbers of every rank, in rank order. */
async function gatherNumbers(
  comms: readonly Communicator[],
  own: (index: number) => readonly number[],
): Promise<number[][]> {
  const { size } = comms[0]!;
  let result: number[][] = [];
  await Promise.all(
    comms.map(async (comm, index) => {
      const values = Float64Array.from(own(index));
      const all = new Float64Array(values.length * size);
      await comm.allGather(values, all);
      result = Array.from({ length: size }, (_, r) =>
        Array.from(all.subarray(r * values.length, (r + 1) * values.length)),
      );
    }),
  );
  return result;
}
