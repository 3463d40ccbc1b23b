/** The ranks of this process with what the loops need: buffers, prepared operations, events, graphs. */

import { cudaDriver } from '../../dist/device/cuda/driver.js';
import { Event, Stream } from '../../dist/device/cuda/stream.js';
import { Communicator, createLocalCommunicators, cuda, group } from '../../dist/index.js';

const FLOAT_BYTES = 4;

/** No sample takes this long unless a kernel waits for something that does not come, ms. */
const STUCK_MS = 10_000;

/** Of memory that nobody wrote: every byte is this, which makes a not-a-number of every float. */
const POISON_BYTE = 0xff;

export class LoopRank {
  #comm;
  #device;
  #stream;
  #start;
  #stop;
  #free;
  /** Made with `allocate`: of the largest size. */
  #send;
  #recv;

  constructor(comm, device, free) {
    this.#comm = comm;
    this.#device = device;
    this.#free = free;
    this.#stream = new Stream(device, comm.stream);
    this.#start = new Event(device, { timing: true });
    this.#stop = new Event(device, { timing: true });
  }

  get rank() {
    return this.#comm.rank;
  }

  get size() {
    return this.#comm.size;
  }

  allocate(bytes) {
    this.#send = this.#comm.alloc(Float32Array, bytes / FLOAT_BYTES);
    this.#recv = this.#comm.alloc(Float32Array, bytes / FLOAT_BYTES);
  }

  async writeSend(array) {
    await this.#send.subarray(0, array.length).copyFrom(array);
  }

  poisonReceive(bytes) {
    this.#stream.fill(this.#recv.address, POISON_BYTE, bytes);
  }

  /** Elements `from` to `to` of the receive buffer. */
  async readReceive(from, to) {
    return await this.#recv.subarray(from, to).read();
  }

  /**
   * The operation, ready to run: `run` enqueues it, `record` puts it into the graph that is being captured. All ranks
   * prepare together. `bytes`: the larger side of a rank.
   */
  async prepare(operation, bytes) {
    const elements = bytes / FLOAT_BYTES;
    const share = elements / this.size;
    const send = this.#send.subarray(0, operation === 'allGather' ? share : elements);
    const recv = this.#recv.subarray(0, operation === 'reduceScatter' ? share : elements);
    if (operation === 'sendRecv') return await this.#prepareExchange(send, recv);
    const prepared = this.#comm.prepare[operation](send, recv);
    await prepared.ready;
    const run = () => prepared.run();
    return { run, record: run, release: () => prepared.release() };
  }

  /** Send to the next rank and receive from the one before: a group of messages, replayed from a graph. */
  async #prepareExchange(send, recv) {
    const comm = this.#comm;
    const next = (this.rank + 1) % this.size;
    const before = (this.rank + this.size - 1) % this.size;
    const record = () =>
      group(() => {
        comm.send(send, next);
        comm.recv(recv, before);
      });
    await record();
    const prepared = comm.capture(record);
    return { run: () => prepared.run(), record, release: () => prepared.release() };
  }

  /** Records what `record` calls in a graph. */
  capture(record) {
    return this.#comm.capture(record);
  }

  /** Waits until everything in the stream is done; ends kernels that never will. */
  synchronize() {
    const until = performance.now() + STUCK_MS;
    while (!this.#stream.isIdle) {
      if (performance.now() < until) continue;
      const message = `rank ${this.rank}: the GPU was not done after ${STUCK_MS} ms`;
      this.#comm.abort(message);
      throw new Error(message);
    }
  }

  recordStart() {
    this.#start.record(this.#stream.handle);
  }

  recordStop() {
    this.#stop.record(this.#stream.handle);
  }

  /** Microseconds between the two marks, once they are passed. */
  elapsedUs() {
    return this.#stop.millisecondsSince(this.#start) * 1e3;
  }

  /** Bytes that the GPU has less than before the communicator was made. */
  usedBytes() {
    return this.#free - freeBytes(this.#device);
  }
}

function freeBytes(device) {
  device.makeCurrent();
  const free = [0];
  const { calls } = device;
  calls.check(calls.functions.cuMemGetInfo(free, [0]), 'ask for free memory');
  return free[0];
}

/**
 * Makes the communicators: of all GPUs in this process, or as one rank of a launcher's.
 * @param {{ gpus: number, rank?: number }} place rank: this process's
 */
export async function openRanks({ gpus, rank }) {
  const driver = cudaDriver();
  const indices = rank === undefined ? Array.from({ length: gpus }, (_, index) => index) : [rank];
  const devices = indices.map((index) => driver.device(index));
  // Contexts are made before the clock starts, and their memory is not the communicator's.
  for (const device of devices) device.retain();
  const free = devices.map(freeBytes);
  const begin = performance.now();
  const comms =
    rank === undefined
      ? await createLocalCommunicators(indices.map((index) => cuda(index)))
      : [await Communicator.fromEnv({ device: cuda(rank) })];
  const initMs = performance.now() - begin;
  return {
    initMs,
    description: comms[0].description,
    ranks: comms.map((comm, k) => new LoopRank(comm, devices[k], free[k])),
    meet: () => Promise.all(comms.map((comm) => comm.barrier())),
    close: async () => {
      await Promise.all(comms.map((comm) => comm.close()));
      for (const device of devices) device.release();
    },
  };
}
