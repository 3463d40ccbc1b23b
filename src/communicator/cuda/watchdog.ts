/**
 * Keeps the time limit of ranks on GPUs, and notices that peers die, while their event loop is blocked: a thread of its
 * own looks after them (watchdog-worker.ts). One per process, from the first rank on; it keeps no process alive.
 *
 * Streams of other libraries may be gone at any time; there it knows marks behind the work of the rank.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { CudaTeam } from './cuda-team.js';
import type { ToWatchdog, WatchdogStart, Watched } from './watchdog-worker.js';

/** Limits of the thread's JavaScript heap, MiB: it holds a few numbers per rank. */
const HEAP_LIMITS = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 32, stackSizeMb: 1 };

const PROBE = new URL('./stream-probe.js', import.meta.url).href;

let shared: Watchdog | undefined;

/** A rank that is looked after. */
export interface Watch {
  /** A mark (the handle of an event) is behind work of the rank in another stream from now on. */
  addEvent(event: number): void;
  stop(): Promise<void>;
}

export class Watchdog {
  readonly #port: MessagePort;
  /** Who waits for an answer that a rank is not looked after any more. */
  readonly #leaving = new Map<number, () => void>();
  #next = 0;
  #gone = false;
  readonly #worker: Worker;

  /** `probe` is the module that tells whether streams are busy, for tests. */
  constructor(probe: string = PROBE) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#worker = new Worker(new URL('./watchdog-worker.js', import.meta.url), {
      workerData: { port: port2, probe } satisfies WatchdogStart,
      transferList: [port2],
      resourceLimits: HEAP_LIMITS,
      execArgv: [],
      name: 'tutti watchdog',
    });
    port1.on('message', (id: number) => this.#answered(id));
    port1.unref();
    this.#worker.unref();
    // Without it ranks whose event loop is blocked are not looked after, as where no thread can be started.
    this.#worker.on('error', () => this.#end());
    this.#worker.on('exit', () => this.#end());
  }

  /** The watchdog of this process. */
  static shared(): Watchdog {
    if (shared === undefined || shared.#gone) shared = new Watchdog();
    return shared;
  }

  #end(): void {
    this.#gone = true;
    for (const id of [...this.#leaving.keys()]) this.#answered(id);
  }

  #answered(id: number): void {
    this.#leaving.get(id)?.();
    this.#leaving.delete(id);
    if (this.#leaving.size === 0) this.#port.unref();
  }

  /** Looks after a rank until `stop` is called; when that resolves, its stream and marks may go. */
  watch(watched: Watched): Watch {
    const id = this.#next++;
    this.#send({ kind: 'add', id, watched });
    return {
      addEvent: (event) => this.#send({ kind: 'event', id, event }),
      stop: async () => {
        if (this.#gone) return;
        this.#port.ref();
        await new Promise<void>((resolve) => {
          this.#leaving.set(id, resolve);
          this.#send({ kind: 'remove', id });
        });
      },
    };
  }

  #send(message: ToWatchdog): void {
    this.#port.postMessage(message);
  }

  /** Ends the thread. */
  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** Has somebody look after a rank while its event loop is blocked. */
export function watchRank(team: CudaTeam, stream: number, timeoutMs: number): Watch {
  const { rank, size, host, calls, processes, device } = team;
  if (size === 1) return { addEvent: () => {}, stop: async () => {} };
  const { own: board, all: boards } = calls.addresses;
  const peers = processes.flatMap((process, peer) =>
    process === undefined ? [] : [{ rank: peer, process }],
  );
  const { context } = device;
  return Watchdog.shared().watch({
    rank,
    heap: host.buffer,
    board,
    boards,
    timeoutMs,
    context,
    streams: [stream],
    peers,
  });
}
