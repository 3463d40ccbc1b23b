/**
 * CUDA graphs: what is put into streams while they are captured is kept and replayed with one call.
 */
import type { CudaDevice } from './cuda-device.js';
import type { Stream } from './stream.js';

/** CU_STREAM_CAPTURE_MODE_RELAXED: this thread may do other things with the driver meanwhile. */
const RELAXED = 2;

export class Graph {
  readonly #device: CudaDevice;
  readonly #graph: number;
  readonly #executable: number;
  #gone = false;

  private constructor(device: CudaDevice, graph: number, executable: number) {
    this.#device = device;
    this.#graph = graph;
    this.#executable = executable;
  }

  /** Captures what `record` puts into the stream. Throws what `record` throws; nothing is left captured then. */
  static capture(stream: Stream, record: () => void): Graph {
    const { device } = stream;
    const { functions } = device.calls;
    device.makeCurrent();
    device.calls.check(functions.cuStreamBeginCapture(stream.handle, RELAXED), 'begin to capture a graph');
    try {
      record();
    } catch (error) {
      device.makeCurrent();
      const graph: [number] = [0];
      if (functions.cuStreamEndCapture(stream.handle, graph) === 0 && graph[0] !== 0) {
        functions.cuGraphDestroy(graph[0]);
      }
      throw error;
    }
    device.makeCurrent();
    const graph = device.calls.value(
      (out) => functions.cuStreamEndCapture(stream.handle, out),
      'end the capture of a graph',
    );
    try {
      const executable = device.calls.value(
        (out) => functions.cuGraphInstantiate(out, graph, 0),
        'instantiate a graph',
      );
      return new Graph(device, graph, executable);
    } catch (error) {
      functions.cuGraphDestroy(graph);
      throw error;
    }
  }

  /** Puts a replay into a stream. */
  launch(stream: number): void {
    this.#device.makeCurrentFor(stream);
    const code = this.#device.calls.functions.cuGraphLaunch(this.#executable, stream);
    if (code !== 0) this.#device.calls.check(code, `launch a graph on ${this.#device.label}`);
  }

  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    const { functions } = this.#device.calls;
    this.#device.makeCurrent();
    functions.cuGraphExecDestroy(this.#executable);
    functions.cuGraphDestroy(this.#graph);
  }
}
