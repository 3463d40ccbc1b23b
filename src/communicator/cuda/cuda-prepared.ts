/** Operations on GPUs that are checked and planned once: calls that are launched again and again, and recorded graphs. */
import { TuttiError } from '../../errors/tutti-error.js';
import type { PreparedOperation } from '../prepared-operation.js';
import type { Completions } from './completions.js';
import type { Launchable } from './cuda-operation.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { StreamHandle } from './foreign-streams.js';
import type { LaunchQueue } from './launch-queue.js';

/** An operation that runs on a GPU. */
export interface PreparedCudaOperation extends PreparedOperation {
  /**
   * Puts it into the communicator's stream, or the one that is named, and returns at once: the result is there for
   * what comes later in that stream. It is for loops: the host spends a few microseconds.
   */
  run(stream?: StreamHandle): void;
  /** Puts it into the communicator's stream; resolves when the result is there. */
  start(): Promise<void>;
  /** Resolves when `run` can be called: kernels are loaded, and peers have mapped the buffers. */
  readonly ready: Promise<void>;
}

/** What prepared operations need of their communicator. */
export interface CudaRunner {
  readonly team: CudaTeam;
  readonly queue: LaunchQueue;
  readonly completions: Completions;
  /** Open while calls need not be checked: nothing failed, nobody left. */
  readonly gate: { readonly open: boolean };
  /** Throws when the communicator is closed or has failed. */
  checkUsable(what: string): void;
  forget(prepared: PreparedLaunch): void;
  /** Work that cannot be released before the end. */
  leave(work: PreparedWork): void;
  /** Work was recorded in a graph. */
  recorded(work: PreparedWork): void;
}

export interface PreparedWork extends Launchable {
  readonly explanation: string;
  uses(buffer: DeviceBuffer): boolean;
  /** Gives back what it holds. */
  release?(): void;
}

export class PreparedLaunch implements PreparedCudaOperation {
  readonly ready: Promise<void>;
  readonly #runner: CudaRunner;
  readonly #work: PreparedWork;
  #ended = false;
  /** Why it can never run again. */
  #spoilt: string | undefined;

  constructor(runner: CudaRunner, work: PreparedWork) {
    this.#runner = runner;
    this.#work = work;
    if (runner.queue.isReady(work)) {
      // While a graph is recorded only what its calls cannot do without.
      if (!work.isLoaded || runner.queue.loadsAtOnce) work.load();
      this.ready = Promise.resolve();
    } else {
      this.ready = runner.queue.becomeReady(work);
      this.ready.catch(() => {});
    }
  }

  get explanation(): string {
    return this.#work.explanation;
  }

  run(handle?: StreamHandle): void {
    const { queue, completions } = this.#runner;
    if (this.#ended || !this.#runner.gate.open) this.#checkReady();
    else if (handle === undefined && queue.isPlain && this.#work.isLoaded) {
      queue.launchPlain(this.#work);
      completions.launched(queue.stream);
      return;
    }
    const stream = handle === undefined ? queue.stream : queue.streamOf(handle);
    queue.launchNow(this.#work, stream);
    if (queue.isCapturing) this.#runner.recorded(this.#work);
    else completions.launched(stream);
  }

  async start(): Promise<void> {
    const { queue, completions } = this.#runner;
    this.#checkReady();
    const launched = queue.submit(this.#work, queue.stream);
    if (queue.isCapturing) {
      this.#runner.recorded(this.#work);
      return;
    }
    if (launched !== undefined) await launched;
    await completions.after(queue.stream.handle, this.#work.name);
  }

  #checkReady(): void {
    const { team } = this.#runner;
    this.#runner.checkUsable(this.#work.name);
    const reason = this.#spoilt ?? (this.#ended ? 'the prepared operation was released' : undefined);
    if (reason === undefined) return;
    throw new TuttiError('invalidUsage', `${this.#work.name}: ${reason}; prepare it again`, {
      rank: team.rank,
    });
  }

  /** Whether it works on bytes of a buffer's allocation. */
  uses(buffer: DeviceBuffer): boolean {
    return this.#work.uses(buffer);
  }

  /** Releases it for a reason that later calls are told. */
  spoil(reason: string): void {
    this.#spoilt ??= reason;
    this.release();
  }

  release(): void {
    if (this.#ended) return;
    this.#retire();
    const work = this.#work;
    if (work.release === undefined) return;
    // It may be under way; after a failure it goes when the communicator is closed.
    this.#runner.queue.drained('release').then(
      () => work.release?.(),
      () => this.#runner.leave(work),
    );
  }

  /** Releases it when nothing can be under way any more. */
  releaseNow(): void {
    if (this.#ended) return;
    this.#retire();
    this.#work.release?.();
  }

  #retire(): void {
    this.#ended = true;
    this.#runner.forget(this);
  }
}
