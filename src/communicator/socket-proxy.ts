/**
 * A rank's network proxy as its main thread sees it: starts the thread, brings it together with the neighbours'
 * proxies, hears of trouble, ends it. Idle or busy, the thread does not keep the process alive.
 */
import { MessageChannel, type MessagePort, SHARE_ENV, Worker } from 'node:worker_threads';
import type { RetryRule } from '../bootstrap/dial.js';
import type { SocketAddress } from '../bootstrap/socket-address.js';
import { TuttiError } from '../errors/tutti-error.js';
import { threadFailure } from '../system/thread-failure.js';
import type { FromSocketProxy, SocketProxyStart, ToSocketProxy } from './socket-proxy-worker.js';

/** Limits of the worker's JavaScript heap in MiB: data never lie in it. */
const HEAP_LIMITS = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 64, stackSizeMb: 1 };

/** Milliseconds that the thread has to end after `close`: its own farewell takes a second at most. */
const CLOSE_MS = 2000;

const THREAD = "the network proxy's thread";

type Expected = 'listening' | 'connected' | 'running';

export class SocketProxy {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #exited: Promise<void>;
  readonly #onTrouble: (word: number, detail: string) => void;
  readonly #onFailure: (error: TuttiError) => void;
  #waiting:
    | { kind: Expected; resolve(message: FromSocketProxy): void; reject(error: TuttiError): void }
    | undefined;
  #running = false;
  #failure: TuttiError | undefined;
  #closing: Promise<void> | undefined;

  /** The callbacks are for the time after `run`; before it, failures are thrown. */
  constructor(
    start: Omit<SocketProxyStart, 'port'>,
    onTrouble: (word: number, detail: string) => void,
    onFailure: (error: TuttiError) => void,
  ) {
    this.#onTrouble = onTrouble;
    this.#onFailure = onFailure;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#worker = new Worker(new URL('./socket-proxy-worker.js', import.meta.url), {
      workerData: { ...start, port: port2 } satisfies SocketProxyStart,
      transferList: [port2],
      resourceLimits: HEAP_LIMITS,
      env: SHARE_ENV,
      execArgv: [],
      name: `tutti network of rank ${start.rank}`,
    });
    port1.on('message', (message: FromSocketProxy) => this.#receive(message));
    port1.unref();
    this.#worker.on('error', (cause) => this.#fail(threadFailure(THREAD, undefined, cause)));
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        this.#fail(threadFailure(THREAD, code));
        resolve();
      });
    });
    this.#worker.unref();
  }

  #send(message: ToSocketProxy): void {
    this.#port.postMessage(message);
  }

  #receive(message: FromSocketProxy): void {
    if (message.kind === 'trouble') this.#onTrouble(message.word, message.detail);
    else if (message.kind === 'failed') {
      const { code, message: text, rank } = message.error;
      this.#fail(new TuttiError(code, text, rank === undefined ? {} : { rank }));
    } else if (this.#waiting?.kind === message.kind) {
      const { resolve } = this.#waiting;
      this.#waiting = undefined;
      resolve(message);
    }
  }

  #fail(error: TuttiError): void {
    if (this.#failure !== undefined || this.#closing !== undefined) return;
    this.#failure = error;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(error);
    if (this.#running) this.#onFailure(error);
  }

  /** Waits for the thread's answer; that keeps the process alive. */
  async #expect<K extends Expected>(kind: K): Promise<Extract<FromSocketProxy, { kind: K }>> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#worker.ref();
    try {
      const answer = await new Promise<FromSocketProxy>((resolve, reject) => {
        this.#waiting = { kind, resolve, reject };
      });
      return answer as Extract<FromSocketProxy, { kind: K }>;
    } finally {
      this.#worker.unref();
    }
  }

  /** Where the successor's proxy connects to. Throws `systemError` when the address cannot be used. */
  async listening(): Promise<SocketAddress> {
    return (await this.#expect('listening')).address;
  }

  /** Connects to the predecessor and waits for the successor. Throws as `dial`, and `timeout` naming a rank. */
  async connect(address: SocketAddress, timeoutMs: number, retry: RetryRule): Promise<void> {
    this.#send({ kind: 'connect', address, timeoutMs, retry });
    await this.#expect('connected');
  }

  /** Data move from now on. All ranks must be connected. */
  async run(): Promise<void> {
    this.#send({ kind: 'run' });
    await this.#expect('running');
    this.#running = true;
  }

  /** Has messages between this rank and a peer carried from now on. */
  carryMessages(message: Omit<Extract<ToSocketProxy, { kind: 'peer' }>, 'kind'>): void {
    if (this.#closing === undefined) this.#send({ kind: 'peer', ...message });
  }

  /** Tells the neighbours that this rank gives up; they pass it on. */
  tell(word: number): void {
    if (this.#closing === undefined) this.#send({ kind: 'tell', word });
  }

  /** Ends the thread; data under way arrive first. Nothing touches the rings' memory afterwards. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#worker.ref();
    let timer: NodeJS.Timeout | undefined;
    if (this.#running && this.#failure === undefined) {
      this.#send({ kind: 'close' });
      timer = setTimeout(() => void this.#worker.terminate(), CLOSE_MS);
    } else void this.#worker.terminate();
    await this.#exited;
    clearTimeout(timer);
    this.#port.close();
  }
}
