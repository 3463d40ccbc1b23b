/**
 * A prepared operation's launch: as a CUDA graph of one kernel, or as the kernel itself. The driver needs half as long for
 * the graph (on two H200: 1.3 us and 2.8 us, on a cold processor 2.2 us and 4.2 us), but the GPU loses 1.2 us more from one
 * graph to the next, since kernels can overlap. So calls that take the GPU long are launched as kernels, and the others as
 * what launches cost here and now makes the faster one (LaunchCosts).
 */
import { Graph } from '../../device/cuda/graph.js';
import type { LaunchCosts } from '../../device/cuda/launch-costs.js';
import { Stream } from '../../device/cuda/stream.js';
import type { CallRecord } from './call-boards.js';
import type { CudaOperation } from './cuda-operation.js';
import type { PreparedWork } from './cuda-prepared.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';

/** Kernels and graphs in turns are slower than either: a launch must be better by this part to change over. */
const MARGIN = 0.05;

/** No host takes so long for a launch, us: no graph is made for calls that are worth it. */
const SLOWEST_LAUNCH = 8;

export class PreparedKernel implements PreparedWork {
  readonly #team: CudaTeam;
  readonly #operation: CudaOperation;
  readonly #costs: LaunchCosts;
  /** What a launch as a kernel may cost to be the better one, us. */
  readonly #worthwhile: number;
  #graph: Graph | undefined;
  #asKernel = false;
  #released = false;

  constructor(team: CudaTeam, operation: CudaOperation) {
    this.#team = team;
    this.#operation = operation;
    this.#costs = team.device.launchCosts;
    this.#worthwhile = operation.worthwhileLaunch;
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
    if (this.#released || this.#graph !== undefined) return;
    if (!this.#operation.moves || this.#worthwhile > SLOWEST_LAUNCH) return;
    const stream = new Stream(this.#team.device);
    try {
      this.#graph = Graph.capture(stream, () => this.#operation.launch(stream.handle));
    } finally {
      stream.destroy();
    }
  }

  launch(stream: number, recorded: boolean): void {
    const graph = this.#graph;
    // In a graph that is being recorded a kernel is better than a graph in a graph.
    if (recorded || graph === undefined) {
      this.#operation.launch(stream);
      return;
    }
    const costs = this.#costs;
    const began = costs.begin();
    const limit = this.#worthwhile * (this.#asKernel ? 1 + MARGIN : 1 - MARGIN);
    this.#asKernel = costs.kernel < limit;
    if (this.#asKernel) this.#operation.launch(stream);
    else graph.launch(stream);
    if (began !== 0) costs.end(began, !this.#asKernel, this.#worthwhile);
  }

  uses(buffer: DeviceBuffer): boolean {
    return this.#operation.uses(buffer);
  }

  release(): void {
    this.#released = true;
    this.#graph?.destroy();
    this.#graph = undefined;
  }
}
