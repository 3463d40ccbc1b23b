/**
 * Makes and verifies test data with the device programs of the data generators, for buffers in the heap and for
 * ordinary arrays (through a window of the heap, piece by piece).
 */

import {
  fillProgram,
  type TestDataKind,
  TestDataWork,
  testDataName,
  verifyProgram,
} from '../../collectives/test-data.js';
import type { HostDevice } from '../../device/host/host-device.js';
import { instantiate, loadModule, programsOf } from '../../device/host/kernels.js';
import { createWaiter, type Waiter } from '../../device/host/waiting.js';
import type { WasmFunction } from '../../device/host/webassembly.js';
import type { ElementType, ReduceOp } from '../../kernel/element-types.js';
import { WASM_TRAITS } from '../../kernel/ir.js';
import { compileWasm } from '../../kernel/wasm/compile.js';
import { type DataSegment, describeSegment, kindOf } from './data-plan.js';
import { elementBytes } from './type-names.js';

/** Bytes of the heap through which ordinary arrays are filled and compared. */
const PIECE_BYTES = 1 << 20;

export class TestData {
  readonly #device: HostDevice;
  readonly #waiter: Waiter;
  readonly #descriptor: number;
  readonly #programs = new Map<string, WasmFunction>();
  #piece = 0;

  constructor(device: HostDevice) {
    this.#device = device;
    this.#waiter = createWaiter({ device });
    this.#descriptor = device.allocatePrivate(TestDataWork.size);
  }

  #program(mode: 'fill' | 'verify', kind: TestDataKind): WasmFunction {
    const name = `${mode}_${testDataName(kind)}`;
    let program = this.#programs.get(name);
    if (program === undefined) {
      const build = mode === 'fill' ? fillProgram : verifyProgram;
      const module = loadModule(compileWasm(build(kind, WASM_TRAITS)));
      program = programsOf(module, instantiate(module, this.#device.memory, this.#waiter))[0]!;
      this.#programs.set(name, program);
    }
    return program;
  }

  /** Runs a program over a segment of the bytes; the result is the number of wrong elements. */
  #run(
    mode: 'fill' | 'verify',
    bytes: Uint8Array,
    segment: DataSegment,
    type: ElementType,
    op: ReduceOp | undefined,
  ): number {
    if (segment.count <= 0) return 0;
    const device = this.#device;
    const program = this.#program(mode, kindOf(segment, type, op));
    const work = TestDataWork.at(device.dataView, this.#descriptor);
    const address = device.addressOf(bytes);
    if (address !== undefined) {
      describeSegment(work, segment, address, type, op);
      program(this.#descriptor, 0, 1);
      return work.get('wrong');
    }
    if (this.#piece === 0) this.#piece = device.allocate(PIECE_BYTES);
    const size = elementBytes(type);
    const most = PIECE_BYTES / size;
    let wrong = 0;
    for (let done = 0; done < segment.count; done += most) {
      const count = Math.min(most, segment.count - done);
      const from = (segment.start + done) * size;
      const outside = bytes.subarray(from, from + count * size);
      const inside = device.u8.subarray(this.#piece, this.#piece + count * size);
      if (mode === 'verify') inside.set(outside);
      const part = { ...segment, first: segment.first + done, count, start: 0 };
      describeSegment(work, part, this.#piece, type, op);
      program(this.#descriptor, 0, 1);
      if (mode === 'fill') outside.set(inside);
      wrong += work.get('wrong');
    }
    return wrong;
  }

  /** Writes the segments; positions count elements from the start of the bytes. */
  fill(
    bytes: Uint8Array,
    segments: readonly DataSegment[],
    type: ElementType,
    op: ReduceOp | undefined,
  ): void {
    for (const segment of segments) this.#run('fill', bytes, segment, type, op);
  }

  /** Compares every element of the segments; the result is how many are wrong. */
  verify(
    bytes: Uint8Array,
    segments: readonly DataSegment[],
    type: ElementType,
    op: ReduceOp | undefined,
  ): number {
    let wrong = 0;
    for (const segment of segments) wrong += this.#run('verify', bytes, segment, type, op);
    return wrong;
  }

  close(): void {
    if (this.#piece !== 0) this.#device.free(this.#piece);
    this.#device.freePrivate(this.#descriptor);
    this.#waiter.close();
  }
}
