/**
 * The ranks of this process on GPUs: operations are enqueued one behind the other, or replayed from a graph, and waited
 * for once at the end.
 */
import { hostname } from 'node:os';
import type { Buffer } from '../../communicator/buffers.js';
import type { CudaCommunicator } from '../../communicator/cuda/cuda-communicator.js';
import type { PreparedCudaOperation } from '../../communicator/cuda/cuda-prepared.js';
import type { ArrayClass, DeviceBuffer } from '../../communicator/cuda/device-buffer.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import { Event, Stream } from '../../device/cuda/stream.js';
import { arrayFor } from '../../kernel/numeric.js';
import { readNvml } from '../../topology/detect/nvml-library.js';
import type { Combination } from './combinations.js';
import { CudaTestData } from './cuda-test-data.js';
import type { DataSegment } from './data-plan.js';
import { gpuConnections, reasonForHost } from './gpu-connection.js';
import { hypercubeExchange, MessageExchange, neighbourExchange } from './message-exchange.js';
import type { PerfRanks, Region, Sides, Timed, TimedLoop } from './perf-ranks.js';
import type { RankPlace } from './report.js';
import type { CollectiveName } from './sizes.js';

/** Calls until V8 has compiled well what launches, without filling the GPU's queue for long. */
const ACQUAINTANCE = 500;

/** Share of the free memory that buffers may take. */
const MEMORY_SHARE = 15 / 16;

/** Buffers are made in whole numbers of this many bytes. */
const GRANULE = 256;

/** Letters of a GPU's name that ranks tell each other. */
const NAME_LETTERS = 64;

interface GpuRank {
  readonly comm: CudaCommunicator;
  readonly device: CudaDevice;
  readonly stream: Stream;
  readonly data: GpuTestData;
  send: DeviceBuffer | undefined;
  recv: DeviceBuffer | undefined;
}

/** Makes and verifies test data in the memory of a GPU. */
export type GpuTestData = Pick<CudaTestData, 'fill' | 'verify' | 'close'>;

export interface CudaRanksOptions {
  readonly collective: CollectiveName;
  /** Launches of a graph of all timed operations; 0: no graph. */
  readonly graphs: number;
  /** For tests: other test data than those that GPUs make. */
  readonly testData?: (stream: Stream) => GpuTestData;
}

/** `0000:1b:00.0` as its numbers. */
function busNumbers(busId: string): number[] {
  return busId.split(/[:.]/).map((part) => Number.parseInt(part, 16));
}

/** And back. */
function busText(numbers: readonly number[]): string {
  const [domain, bus, device, unit] = numbers;
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0');
  return `${hex(domain!, 4)}:${hex(bus!, 2)}:${hex(device!, 2)}.${hex(unit!, 1)}`;
}

function freeBytes(device: CudaDevice): number {
  const free: [number] = [0];
  device.makeCurrent();
  device.calls.check(device.calls.functions.cuMemGetInfo(free, [0]), `ask ${device.label} for free memory`);
  return free[0];
}

/** An operation on a GPU: prepared by the communicator, or an exchange of messages. */
export type GpuOperation = PreparedCudaOperation | MessageExchange;

/** Puts an operation into the graph that is being captured. */
function record(operation: GpuOperation): void {
  if (operation instanceof MessageExchange) operation.record();
  else operation.run();
}

export class CudaRanks implements PerfRanks<GpuOperation> {
  readonly acquaintance = ACQUAINTANCE;
  readonly #options: CudaRanksOptions;
  readonly #ranks: GpuRank[];
  readonly size: number;
  readonly room: number;
  readonly places: readonly RankPlace[];
  readonly connections: readonly string[];

  private constructor(options: CudaRanksOptions, ranks: GpuRank[], facts: readonly (readonly number[])[]) {
    this.#options = options;
    this.#ranks = ranks;
    this.size = facts.length;
    const gpus = facts.map(([, , index, ...bus]) => ({ index: index!, busId: busText(bus.slice(0, 4)) }));
    this.places = facts.map(([pid, , , ...more], rank): RankPlace => {
      const { index, busId } = gpus[rank]!;
      const model = String.fromCharCode(...more.slice(4).filter((letter) => letter > 0));
      // As nccl-tests writes it: without the function, of which GPUs have one.
      const address = busId.replace(/\.\d$/, '');
      return { rank, group: 0, pid: pid!, host: hostname(), device: index, address, model };
    });
    const sharing = (busId: string) => gpus.filter((gpu) => gpu.busId === busId).length;
    const rooms = facts.map(([, free], rank) => (free! * MEMORY_SHARE) / 2 / sharing(gpus[rank]!.busId));
    this.room = Math.floor(Math.min(...rooms) / GRANULE) * GRANULE;
    const rings = ranks[0]?.comm.rings;
    const unused = ranks[0]?.comm.throughHost === true ? reasonForHost(process.env) : undefined;
    this.connections = [
      ...gpuConnections(readNvml().facts, gpus, unused),
      ...(rings === undefined ? [] : [rings]),
    ];
  }

  static async open(
    options: CudaRanksOptions,
    driver: CudaDriver,
    comms: readonly CudaCommunicator[],
  ): Promise<CudaRanks> {
    const ranks = comms.map((comm): GpuRank => {
      const device = driver.device(comm.device);
      device.retain();
      const stream = new Stream(device, comm.stream);
      const data = options.testData?.(stream) ?? new CudaTestData(driver, stream);
      return { comm, device, stream, data, send: undefined, recv: undefined };
    });
    // Who is where, and how much memory everybody has.
    const facts = await gatherNumbers(comms, (index) => {
      const { device } = ranks[index]!;
      const letters = Array.from({ length: NAME_LETTERS }, (_, k) => device.name.charCodeAt(k) || 0);
      return [process.pid, freeBytes(device), device.index, ...busNumbers(device.pciBusId), ...letters];
    });
    return new CudaRanks(options, ranks, facts);
  }

  get ranks(): number[] {
    return this.#ranks.map(({ comm }) => comm.rank);
  }

  makeBuffers(bytes: number, type: Combination['type']): void {
    const ArrayType = arrayFor(type) as unknown as ArrayClass<Buffer>;
    const length = Math.ceil(bytes / ArrayType.BYTES_PER_ELEMENT);
    for (const rank of this.#ranks) {
      if (rank.send?.ArrayType === ArrayType && rank.send.length === length) continue;
      rank.send?.free();
      rank.recv?.free();
      rank.send = rank.comm.alloc(ArrayType, length);
      rank.recv = rank.comm.alloc(ArrayType, length);
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

  #buffer(index: number, { buffer, from, bytes }: Region): DeviceBuffer {
    const whole = this.#ranks[index]![buffer]!;
    const { BYTES_PER_ELEMENT } = whole.ArrayType;
    return whole.subarray(from / BYTES_PER_ELEMENT, (from + bytes) / BYTES_PER_ELEMENT);
  }

  prepare(index: number, combination: Combination, { input, output }: Sides): GpuOperation {
    const { type, op, root } = combination;
    const { comm } = this.#ranks[index]!;
    const { prepare } = comm;
    const send = this.#buffer(index, input);
    const recv = this.#buffer(index, output);
    const reduction = op === undefined ? { type } : { type, op };
    const rooted = root === undefined ? {} : { root };
    switch (this.#options.collective) {
      case 'all_reduce':
        return prepare.allReduce(send, recv, reduction);
      case 'reduce':
        return prepare.reduce(send, recv, { ...reduction, ...rooted });
      case 'broadcast':
        return prepare.broadcast(send, recv, { type, ...rooted });
      case 'all_gather':
        return prepare.allGather(send, recv, { type });
      case 'reduce_scatter':
        return prepare.reduceScatter(send, recv, reduction);
      case 'alltoall':
        return prepare.allToAll(send, recv, { type });
      case 'gather':
        return prepare.gather(send, recv, { type, ...rooted });
      case 'scatter':
        return prepare.scatter(send, recv, { type, ...rooted });
      case 'sendrecv':
        return neighbourExchange(comm, send, recv);
      case 'hypercube':
        return hypercubeExchange(comm, send, recv);
    }
  }

  async once(operations: readonly GpuOperation[]): Promise<void> {
    await Promise.all(operations.map((operation) => operation.start()));
  }

  async #synchronize(): Promise<void> {
    await Promise.all(this.#ranks.map(({ comm }) => comm.synchronize()));
  }

  time(sequence: readonly (readonly GpuOperation[])[], loop: TimedLoop): Promise<Timed> {
    return this.#options.graphs > 0 ? this.#timeGraphs(sequence) : this.#timeLaunches(sequence, loop);
  }

  async #timeLaunches(
    sequence: readonly (readonly GpuOperation[])[],
    { blocking, perIteration, aggregated }: TimedLoop,
  ): Promise<Timed> {
    const marks = perIteration ? this.#marks(sequence.length / aggregated + 1) : undefined;
    const start = performance.now();
    marks?.record(0);
    for (let i = 0; i < sequence.length; i++) {
      const operations = sequence[i]!;
      for (let k = 0; k < operations.length; k++) operations[k]!.run();
      if (blocking !== 0) await this.#synchronize();
      if (blocking === 1) await this.barrier();
      if ((i + 1) % aggregated === 0) marks?.record((i + 1) / aggregated);
    }
    const cpu = ((performance.now() - start) * 1e3) / sequence.length;
    await this.#synchronize();
    const microseconds = ((performance.now() - start) * 1e3) / sequence.length;
    return { microseconds, cpu, samples: marks?.samples(aggregated) ?? [] };
  }

  /** Records the whole sequence in a graph of every rank and times its launches. */
  async #timeGraphs(sequence: readonly (readonly GpuOperation[])[]): Promise<Timed> {
    const { graphs: launches } = this.#options;
    const graphs = this.#ranks.map(({ comm }, index) =>
      comm.capture(() => {
        for (const operations of sequence) record(operations[index]!);
      }),
    );
    try {
      await this.#synchronize();
      // The first launch of a graph brings it to the GPU.
      await this.once(graphs);
      await this.barrier();
      const operations = sequence.length * launches;
      const start = performance.now();
      for (let i = 0; i < launches; i++) {
        for (let k = 0; k < graphs.length; k++) graphs[k]!.run();
      }
      const cpu = ((performance.now() - start) * 1e3) / operations;
      await this.#synchronize();
      return { microseconds: ((performance.now() - start) * 1e3) / operations, cpu, samples: [] };
    } finally {
      for (const graph of graphs) graph.release();
    }
  }

  /** Marks at the ends of iterations, on every rank. */
  #marks(count: number) {
    const events = this.#ranks.map(({ device }) =>
      Array.from({ length: count }, () => new Event(device, { timing: true })),
    );
    return {
      record: (iteration: number) => {
        for (const [index, own] of events.entries())
          own[iteration]!.record(this.#ranks[index]!.stream.handle);
      },
      /** Microseconds per operation of every iteration, of the slowest rank. */
      samples: (aggregated: number): number[] => {
        const samples = Array.from({ length: count - 1 }, (_, i) =>
          Math.max(...events.map((own) => (own[i + 1]!.millisecondsSince(own[i]!) * 1e3) / aggregated)),
        );
        for (const event of events.flat()) event.destroy();
        return samples;
      },
    };
  }

  async clear(index: number, region: Region): Promise<void> {
    const { stream } = this.#ranks[index]!;
    const { address, byteLength } = this.#buffer(index, region);
    if (byteLength > 0) stream.fill(address, 0, byteLength);
  }

  async fill(index: number, region: Region, segments: readonly DataSegment[], { type, op }: Combination) {
    this.#ranks[index]!.data.fill(this.#buffer(index, region).address, segments, type, op);
  }

  async verify(index: number, region: Region, segments: readonly DataSegment[], { type, op }: Combination) {
    return this.#ranks[index]!.data.verify(this.#buffer(index, region).address, segments, type, op);
  }

  close(): void {
    for (const { data, device } of this.#ranks) {
      data.close();
      device.release();
    }
  }
}

/** The numbers of every rank, in rank order. */
async function gatherNumbers(
  comms: readonly CudaCommunicator[],
  own: (index: number) => readonly number[],
): Promise<number[][]> {
  const { size } = comms[0]!;
  let result: number[][] = [];
  await Promise.all(
    comms.map(async (comm, index) => {
      const values = Float64Array.from(own(index));
      const send = comm.alloc(Float64Array, values.length);
      const recv = comm.alloc(Float64Array, values.length * size);
      await send.copyFrom(values);
      await comm.allGather(send, recv);
      const all = await recv.read();
      send.free();
      recv.free();
      result = Array.from({ length: size }, (_, r) =>
        Array.from(all.subarray(r * values.length, (r + 1) * values.length)),
      );
    }),
  );
  return result;
}
