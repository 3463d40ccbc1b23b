/**
 * Makes and verifies test data in the memory of a GPU, with the device programs of the data generators: nothing but
 * the number of wrong elements comes back.
 */
import {
  fillProgram,
  type TestDataKind,
  TestDataWork,
  testDataName,
  verifyProgram,
} from '../../collectives/test-data.js';
import { CubinCache } from '../../device/cuda/cubin-cache.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceMemory, HostMemory } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import { KernelLaunch } from '../../device/cuda/kernel-launch.js';
import { KernelLibrary } from '../../device/cuda/kernel-library.js';
import type { Stream } from '../../device/cuda/stream.js';
import type { ElementType, ReduceOp } from '../../kernel/element-types.js';
import { architectureFor, compilePtx } from '../../kernel/ptx/compile.js';
import { ptxTraits } from '../../kernel/ptx/traits.js';
import { type DataSegment, describeSegment, kindOf } from './data-plan.js';

/** Threads of a block, and blocks per multiprocessor: enough to keep the GPU's memory busy. */
const THREADS = 256;
const BLOCKS_PER_MULTIPROCESSOR = 4;

/** Where the statuses of the blocks begin behind the abort word, and bytes of one. */
const STATUS_OFFSET = 256;
const STATUS_BYTES = 4;

/** Programs take the address of their descriptor. */
const ADDRESS_BYTES = 8;

export class CudaTestData {
  readonly #device: CudaDevice;
  readonly #stream: Stream;
  readonly #kernels: KernelLibrary;
  readonly #launches = new Map<string, KernelLaunch>();
  /** The descriptor on the GPU, and as it is written and read here. */
  readonly #descriptor: DeviceMemory;
  readonly #image = new Uint8Array(TestDataWork.size);
  readonly #words: HostMemory;
  readonly #blocks: number;

  /** Works on the GPU of `stream`, in order with what else is in it. The device must be retained. */
  constructor(driver: CudaDriver, stream: Stream) {
    const { device } = stream;
    this.#device = device;
    this.#stream = stream;
    this.#blocks = BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors;
    this.#kernels = new KernelLibrary(device, driver.version, new CubinCache());
    this.#descriptor = new DeviceMemory(device, TestDataWork.size);
    this.#words = new HostMemory(device, STATUS_OFFSET + STATUS_BYTES * this.#blocks);
  }

  #launch(mode: 'fill' | 'verify', kind: TestDataKind): KernelLaunch {
    const key = `${mode}_${testDataName(kind)}`;
    let launch = this.#launches.get(key);
    if (launch === undefined) {
      const build = mode === 'fill' ? fillProgram : verifyProgram;
      const { major, minor } = this.#device;
      const fn = this.#kernels.kernel(key, () => {
        const program = build(kind, ptxTraits());
        const arch = architectureFor(major, minor);
        return { name: program.name, ptx: compilePtx(program, { arch, threads: THREADS }) };
      });
      const { address } = this.#words;
      launch = new KernelLaunch(
        this.#device,
        { name: key, fn, blocks: this.#blocks, threads: THREADS, descriptorBytes: ADDRESS_BYTES },
        { abort: address, status: address + STATUS_OFFSET },
      );
      launch.descriptor.setBigUint64(0, BigInt(this.#descriptor.address), true);
      this.#launches.set(key, launch);
    }
    return launch;
  }

  /** Runs a program over a segment of the memory at `address`; the result is the number of wrong elements. */
  #run(
    mode: 'fill' | 'verify',
    address: number,
    segment: DataSegment,
    type: ElementType,
    op: ReduceOp | undefined,
  ): number {
    if (segment.count <= 0) return 0;
    const work = TestDataWork.at(new DataView(this.#image.buffer), 0);
    describeSegment(work, segment, address, type, op);
    this.#stream.copyIn(this.#descriptor.address, this.#image);
    this.#launch(mode, kindOf(segment, type, op)).launch(this.#stream.handle);
    if (mode === 'verify') this.#stream.copyOut(this.#image, this.#descriptor.address);
    this.#stream.synchronize();
    return mode === 'verify' ? work.get('wrong') : 0;
  }

  /** Writes the segments; positions count elements from `address`. */
  fill(address: number, segments: readonly DataSegment[], type: ElementType, op: ReduceOp | undefined): void {
    for (const segment of segments) this.#run('fill', address, segment, type, op);
  }

  /** Compares every element of the segments; the result is how many are wrong. */
  verify(
    address: number,
    segments: readonly DataSegment[],
    type: ElementType,
    op: ReduceOp | undefined,
  ): number {
    let wrong = 0;
    for (const segment of segments) wrong += this.#run('verify', address, segment, type, op);
    return wrong;
  }

  close(): void {
    this.#descriptor.free();
    this.#words.free();
  }
}
