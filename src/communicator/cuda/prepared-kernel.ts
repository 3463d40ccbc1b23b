/**
 * A prepared operation's launch: a CUDA graph of one kernel. The driver needs half as long to launch it as to launch
 * the kernel itself (on two H200: 2.2 us and 4.2 us). Kernels that take the GPU longer than that are launched as they are,
 * because they can overlap.
 */
import { Graph } from '../../device/cuda/graph.js';
import { Stream } from '../../device/cuda/stream.js';
import type { CallRecord } from './call-boards.js';
import type { CudaOperation } from './cuda-operation.js';
import type { PreparedWork } from './cuda-prepared.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';

export class PreparedKernel implements PreparedWork {
  readonly #team: CudaTeam;
  readonly #operation: CudaOperation;
  #graph: Graph | undefined;

  constructor(team: CudaTeam, operation: CudaOperation) {
    this.#team = team;
    this.#operation = operation;
  }

  get name(): string {
    return this.#operation.name;
  }

  get records(): readonly CallRecord[] {
    return this.#operation.records;
  }

  get explanation(): string {
    return this.#operation.explanation;
  }

  get isLoaded(): boolean {
    return this.#operation.isLoaded;
  }

  load(): void {
    this.#operation.load();
    if (this.#graph !== undefined || !this.#operation.moves || this.#operation.outlastsItsLaunch) return;
    const stream = new Stream(this.#team.device);
    try {
      this.#graph = Graph.capture(stream, () => this.#operation.launch(stream.handle));
    } finally {
      stream.destroy();
    }
  }

  launch(stream: number, recorded: boolean): void {
    // In a graph that is being recorded a kernel is better than a graph in a graph.
    if (recorded || this.#graph === undefined) this.#operation.launch(stream);
    else this.#graph.launch(stream);
  }

  uses(buffer: DeviceBuffer): boolean {
    return this.#operation.uses(buffer);
  }

  release(): void {
    this.#graph?.destroy();
    this.#graph = undefined;
  }
}
