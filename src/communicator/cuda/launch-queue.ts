/**
 * The order of a rank's launches, and when they may happen.
 *
 * Launches follow each other in the order of the calls, on whatever stream: the areas through which ranks meet belong
 * to one operation at a time. Usually a launch happens at once. One that needs a kernel which is not loaded yet waits
 * until the GPU has nothing to do, because loading may wait for the GPU, and kernels there may wait for ranks whose
 * calls this thread has not made yet; one whose buffers peers have not mapped yet waits for them. Those behind it wait
 * too.
 */
import { Event, ForeignStream, Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { listRanks } from '../diagnosis.js';
import type { CallRecord } from './call-boards.js';
import type { Completions } from './completions.js';
import type { CudaFailure } from './cuda-failure.js';
import type { Launchable } from './cuda-operation.js';
import type { CudaTeam } from './cuda-team.js';
import { addWork, isIdle, removeWork } from './device-work.js';
import { ForeignStreams, type StreamHandle } from './foreign-streams.js';
import { LaunchesAhead, MOST_AHEAD } from './launches-ahead.js';
import { MappingWait, mappingWaits } from './mapping-waits.js';
import { type Polled, pollSoon } from './poller.js';

export class LaunchQueue {
  readonly #team: CudaTeam;
  readonly #failure: CudaFailure;
  readonly #completions: Completions;
  /** The stream of calls that name none. */
  readonly stream: Stream;
  readonly #foreign: ForeignStreams;
  /** Where the last launch went. */
  #last: Stream;
  #bridge: Event | undefined;
  readonly #begunByPeers = () => {
    const { calls, rank, size } = this.#team;
    return Array.from({ length: size }, (_, peer) => (peer === rank ? undefined : calls.begunBy(peer)));
  };
  /** Where ranks share this thread. */
  readonly #ahead: LaunchesAhead | undefined;
  /** Settles, without an error, when the launches that wait have happened. */
  #turn: Promise<void> | undefined;
  /** The last that has its turn is a launch that does not wait for what other ranks call. */
  #turnMaps = false;
  /** Launches on this GPU that wait for peers to map buffers, and those of this queue. */
  readonly #waits: Set<MappingWait>;
  readonly #ownWaits = new Set<MappingWait>();
  /** While a graph is recorded: the stream that is captured. */
  #capturing = false;
  #closed = false;

  /** `onForeign` is told of the mark in each stream of another library that is used. */
  constructor(
    team: CudaTeam,
    failure: CudaFailure,
    completions: Completions,
    onForeign: (mark: number) => void = () => {},
  ) {
    this.#team = team;
    this.#failure = failure;
    this.#completions = completions;
    this.#foreign = new ForeignStreams(team.device, team.rank, onForeign);
    this.#ahead = team.sharesThread ? new LaunchesAhead() : undefined;
    this.#waits = mappingWaits(team.device);
    this.stream = new Stream(team.device);
    this.#last = this.stream;
    addWork(team.device, this.stream);
  }

  /** The stream that a call means. Throws `invalidArgument` for one of another GPU. */
  streamOf(handle: StreamHandle | undefined): Stream {
    if (handle === undefined) return this.stream;
    if ((typeof handle === 'bigint' ? Number(handle) : handle) === this.stream.handle) return this.stream;
    // Calls that wait for their turn hold on to their streams.
    return this.#foreign.of(handle, (stream) => stream === this.#last || this.#turn !== undefined);
  }

  /** Nothing waits for its turn, and the last launch went into the stream of calls that name none. */
  get isPlain(): boolean {
    return (
      this.#turn === undefined &&
      this.#last === this.stream &&
      !this.#capturing &&
      this.#team.mapped() === undefined
    );
  }

  /** Puts loaded work into that stream; only while `isPlain`. */
  launchPlain(work: Launchable): void {
    this.#begin(work, false);
    this.#put(work, this.stream, false);
  }

  /** Whether a launch would happen at once. */
  isReady(work: Launchable): boolean {
    return this.#turn === undefined && this.#team.mapped() === undefined && this.#mayLoad(work);
  }

  /**
   * Whether loading would not wait for the GPU. What only makes launches cheaper (a graph) is made then too: else the
   * driver waits for kernels there, which may wait for ranks that this thread calls later.
   */
  get loadsAtOnce(): boolean {
    return !this.#capturing && isIdle(this.#team.device);
  }

  #mayLoad(work: Launchable): boolean {
    return work.isLoaded || this.#capturing || isIdle(this.#team.device);
  }

  /** Puts work into a stream, at once or in its turn; undefined when it was at once. */
  submit(work: Launchable, stream: Stream): Promise<void> | undefined {
    const compares = this.#team.check && !this.#capturing && work.records.length > 0;
    return this.#submit(work, stream, compares, this.#waits.size === 0 || this.#capturing);
  }

  /**
   * `compares`: all ranks tell each other first what they are about to do. `overtakes`: launches of other communicators
   * that wait for peers to map buffers are not waited for.
   */
  #submit(
    work: Launchable,
    stream: Stream,
    compares: boolean,
    overtakes: boolean,
  ): Promise<void> | undefined {
    if (!compares && overtakes && this.isReady(work)) {
      this.#launch(work, stream);
      return undefined;
    }
    if (this.#capturing) {
      throw new TuttiError(
        'invalidUsage',
        `${work.name}: it cannot be recorded before earlier calls and allocations are done; await them (or comm.synchronize()) first`,
        { rank: this.#team.rank },
      );
    }
    const isMapping = this.#team.mapped() !== undefined;
    const maps = isMapping && !compares && (this.#turn === undefined || this.#turnMaps);
    const before = [this.#turn, ...[...this.#waits].map(({ passed }) => passed)];
    const wait = maps ? new MappingWait(this.#waits) : undefined;
    if (wait !== undefined) this.#ownWaits.add(wait);
    const act = this.#inTurn(work, stream, Promise.all(before), compares).finally(() => {
      if (wait !== undefined) this.#pass([wait]);
    });
    return this.#takeTurn(act, maps);
  }

  /** Launches of other communicators need not wait for these any more. */
  #pass(waits: Iterable<MappingWait>): void {
    for (const wait of waits) {
      this.#ownWaits.delete(wait);
      wait.pass();
    }
  }

  /** What comes later waits until this is done. */
  #takeTurn(act: Promise<void>, maps = false): Promise<void> {
    this.#turnMaps = maps;
    const turn = act
      .catch(() => {})
      .then(() => {
        if (this.#turn === turn) this.#turn = undefined;
      });
    this.#turn = turn;
    return act;
  }

  /** Puts work into a stream now. Throws `invalidUsage` when it would have to wait. */
  launchNow(work: Launchable, stream: Stream): void {
    if (this.#capturing || this.isReady(work)) {
      // Who does not wait for others is compared by what it leaves on its board.
      this.#submit(work, stream, false, true);
      return;
    }
    throw new TuttiError(
      'invalidUsage',
      `${work.name}: run() came before earlier calls or copies, or the loading of its kernel, were done; await them and its \`ready\` first, or use start()`,
      { rank: this.#team.rank },
    );
  }

  /** Settles when a launch of it would happen at once. */
  async becomeReady(work: Launchable): Promise<void> {
    await this.#turn;
    await this.#mapped(work.name);
    while (!this.#closed && !work.isLoaded && !isIdle(this.#team.device)) await this.#idle(work);
    if (this.#closed) {
      throw new TuttiError('invalidUsage', `${work.name}: the communicator was closed before it was ready`, {
        rank: this.#team.rank,
      });
    }
    this.#failure.check();
    if (this.loadsAtOnce) work.load();
  }

  async #inTurn(
    work: Launchable,
    stream: Stream,
    before: Promise<unknown>,
    compares: boolean,
  ): Promise<void> {
    await before;
    this.#failure.check();
    if (compares) await this.#compare(work);
    await this.#mapped(work.name);
    this.#failure.check();
    while (!this.#mayLoad(work)) {
      this.#pass(this.#ownWaits);
      await this.#idle(work);
    }
    this.#failure.check();
    this.#launch(work, stream);
  }

  /** Settles when the peers have all buffers; at the time limit the communicator has failed. */
  async #mapped(call: string): Promise<void> {
    const waiting = this.#team.mapped();
    if (waiting === undefined) return;
    const end = this.#failure.limitMapping(call);
    try {
      await waiting;
    } finally {
      end();
    }
  }

  /** All ranks tell each other what they are about to do. Throws where they do not agree. */
  async #compare({ records }: Launchable): Promise<void> {
    let all: CallRecord[][];
    try {
      const own = Float64Array.from(records.flatMap(({ signature, count }) => [signature, count]));
      const parts = await this.#team.allGather(new Uint8Array(own.buffer), 'check');
      all = parts.map((bytes) => {
        const values = new Float64Array(bytes.slice().buffer);
        return Array.from({ length: values.length / 2 }, (_, i) => ({
          signature: values[2 * i]!,
          count: values[2 * i + 1]!,
        }));
      });
    } catch (error) {
      throw this.#failure.meetingFailed(error);
    }
    for (const [peer, others] of all.entries()) {
      for (let i = 0; i < Math.max(records.length, others.length); i++) {
        const own = records[i];
        const other = others[i];
        if (own?.signature === other?.signature && own?.count === other?.count) continue;
        throw this.#failure.mismatch({ own, peer, other });
      }
    }
    this.#failure.check();
  }

  /**
   * Resolves when the GPU has done what this process has put on it, another rank has loaded what the work needs (it may
   * wait for this one), or the communicator has failed.
   */
  #idle(work: Launchable): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Polled = {
        poll: () => {
          try {
            if (this.#failure.error === undefined && !this.#closed && !this.#mayLoad(work)) return true;
            resolve();
          } catch (error) {
            reject(this.#failure.broken(error));
          }
          return false;
        },
      };
      pollSoon(waiter);
    });
  }

  #launch(work: Launchable, stream: Stream): void {
    // A recorded graph depends on nothing that happened before; whoever launches it sees to the order.
    if (this.#capturing) {
      if (stream !== this.stream) {
        throw new TuttiError(
          'invalidUsage',
          `${work.name}: a call that is recorded goes into the graph and names no stream; name it to graph.run(stream)`,
          { rank: this.#team.rank },
        );
      }
      work.launch(stream.handle, true);
      return;
    }
    const before = this.#last;
    if (stream !== before) this.#follow(stream);
    // Another library may record it; then nothing is done yet, and what comes next still follows what was.
    const recorded = stream instanceof ForeignStream && stream.isCapturing;
    this.#begin(work, recorded);
    this.#put(work, stream, recorded);
    if (recorded) this.#last = before;
    else if (stream instanceof ForeignStream) stream.setMark();
  }

  /** Puts work into a stream that others may wait for: where that fails the communicator has failed, for all. */
  #put(work: Launchable, stream: Stream, recorded: boolean): void {
    try {
      work.launch(stream.handle, recorded);
    } catch (error) {
      throw this.#failure.broken(error);
    }
  }

  /**
   * Shows the other ranks what is about to run. Throws where another one does something else, and the failure where the
   * watchdog has ended the kernels while a launch let this thread wait.
   */
  #begin({ name, records, messages }: Launchable, recorded: boolean): void {
    const { calls, rank } = this.#team;
    if (calls.isEnded) this.#failure.checkOwn();
    const behind = this.#ahead?.next(calls.begun, this.#begunByPeers);
    if (behind !== undefined && behind.length > 0) {
      throw new TuttiError(
        'invalidUsage',
        `${name}: rank ${rank} has ${MOST_AHEAD} launches on its GPU that wait for ${listRanks(behind)} of the same thread, which would stand still with a few more; call the ranks of a thread in turns`,
        { rank },
      );
    }
    const mismatch = calls.begin(records);
    if (mismatch !== undefined) throw this.#failure.mismatch(mismatch);
    if (messages === undefined) return;
    if (recorded) {
      calls.messages.beginUnseen(messages);
      return;
    }
    const difference = calls.messages.begin(messages);
    if (difference !== undefined) throw this.#failure.messageMismatch(difference);
  }

  /** Lets a stream wait for the last launch, which went into another one. */
  #follow(stream: Stream): void {
    const last = this.#last;
    this.#last = stream;
    if (stream.isCapturing) return;
    if (last instanceof ForeignStream) stream.waitFor(last.mark);
    else if (!last.isCapturing) {
      this.#bridge ??= new Event(this.#team.device);
      this.#bridge.record(last.handle);
      stream.waitFor(this.#bridge);
    }
  }

  /**
   * Does something in the own stream (a copy) when everything before is done; what is called later waits for it: the
   * driver may block this thread until the stream has come to it, and no kernel may lie in between that waits for others.
   */
  inOrder(call: string, act: (stream: Stream) => void): Promise<void> {
    return this.#takeTurn(this.#alone(call, act, this.#turn));
  }

  async #alone(call: string, act: (stream: Stream) => void, before: Promise<void> | undefined) {
    await before;
    this.#failure.checkOwn();
    if (this.#last !== this.stream) this.#follow(this.stream);
    await this.#completions.after(this.stream.handle, call);
    this.#failure.checkOwn();
    act(this.stream);
  }

  /**
   * Sets fresh memory to zeros before everything that is called later, in whatever stream, and where the GPU has nothing
   * to do at once.
   */
  clear(address: number, bytes: number): void {
    const idle = isIdle(this.#team.device);
    if (this.#last !== this.stream) this.#follow(this.stream);
    this.stream.fill(address, 0, bytes);
    if (idle) this.stream.synchronize();
  }

  /** What is called inside `record` is recorded instead of being done. */
  whileCapturing<T>(record: () => T): T {
    this.#capturing = true;
    try {
      return record();
    } finally {
      this.#capturing = false;
    }
  }

  get isCapturing(): boolean {
    return this.#capturing;
  }

  /** Resolves when everything that was called for so far is done, and peers have all buffers: graphs can be recorded. */
  async settled(call: string): Promise<void> {
    await this.#turn;
    await this.#mapped(call);
    await this.drained(call);
  }

  /** Resolves when everything that was called for so far is done. */
  async drained(call: string): Promise<void> {
    await this.#turn;
    if (this.#last !== this.stream) this.#follow(this.stream);
    await this.#completions.after(this.stream.handle, call);
  }

  /** Whether nothing of this rank runs. Throws what went wrong on the GPU. */
  get isIdle(): boolean {
    return this.stream.isIdle && this.#foreign.areIdle;
  }

  close(): void {
    this.#closed = true;
    removeWork(this.#team.device, this.stream);
    this.#foreign.close();
    this.#bridge?.destroy();
    this.stream.destroy();
  }
}
