/**
 * A long-lived connection that carries control messages as frames.
 *
 * It is unref'ed while idle, so a script that has nothing else to do ends; `hold` and `release` bracket a
 * pending operation, which keeps the process alive. It reports its end exactly once, with a reason.
 */
import type { Socket } from 'node:net';
import { ignoreSocketErrors } from './authenticated-listener.js';
import { encodeFrameHead, FrameParser } from './frame.js';

/** A rank or a cable that vanishes without a FIN is noticed after this idle time plus the system's probes, ms. */
const KEEP_ALIVE_DELAY_MS = 10_000;
/** Longest time that unsent bytes keep a process alive that has nothing else to do, ms (a stopped peer). */
const FLUSH_HOLD_MS = 5_000;

export interface ControlConnectionHandlers {
  /** May throw for a message that makes no sense: the connection is then closed with that reason. */
  onMessage(payload: Uint8Array): void;
  onClosed(reason: string): void;
}

export class ControlConnection {
  readonly #socket: Socket;
  readonly #parser: FrameParser;
  readonly #handlers: ControlConnectionHandlers;
  #holds = 0;
  #closed = false;
  #reason: string | undefined;

  /** @param socket after the handshake, paused */
  constructor(socket: Socket, maxFrameBytes: number, handlers: ControlConnectionHandlers) {
    this.#socket = socket;
    this.#parser = new FrameParser(maxFrameBytes);
    this.#handlers = handlers;
    ignoreSocketErrors(socket);
    socket.setKeepAlive(true, KEEP_ALIVE_DELAY_MS);
    socket.unref();
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#reason ??= error.code === 'ECONNRESET' ? 'connection reset' : error.message;
    });
    socket.on('close', () => this.#finish(this.#reason ?? 'connection closed'));
    if (socket.destroyed) setImmediate(() => this.#finish('connection closed'));
    else socket.resume();
  }

  get closed(): boolean {
    return this.#closed;
  }

  #receive(chunk: Buffer): void {
    this.#parser.push(chunk);
    try {
      for (let frame = this.#parser.next(); frame !== undefined; frame = this.#parser.next()) {
        if (this.#closed) return;
        this.#handlers.onMessage(frame);
      }
    } catch (error) {
      this.destroy(`a message made no sense: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #finish(reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#handlers.onClosed(reason);
  }

  /**
   * Queues one message given in parts (later parts are not copied, so one body may go to many ranks).
   * Bytes that the system does not take at once keep the process alive for a moment.
   */
  send(head: Uint8Array, ...body: Uint8Array[]): void {
    if (this.#closed || this.#socket.destroyed || this.#socket.writableEnded) return;
    this.hold();
    let held = true;
    const release = (): void => {
      if (!held) return;
      held = false;
      clearTimeout(timer);
      this.release();
    };
    const timer = setTimeout(release, FLUSH_HOLD_MS).unref();
    const bodyBytes = body.reduce((sum, part) => sum + part.length, 0);
    this.#socket.cork();
    this.#socket.write(encodeFrameHead(head, bodyBytes), release);
    for (const part of body) this.#socket.write(part);
    this.#socket.uncork();
  }

  /** Keeps the process alive until the matching `release`. */
  hold(): void {
    if (this.#holds++ === 0) this.#socket.ref();
  }

  release(): void {
    if (--this.#holds === 0) this.#socket.unref();
  }

  /**
   * Sends what is queued, then ends the connection; resolves when it is closed, after `timeoutMs` at the latest.
   * A caller who awaits it holds the connection.
   */
  end(timeoutMs: number): Promise<void> {
    const socket = this.#socket;
    if (socket.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => socket.destroy(), timeoutMs);
      timer.unref();
      socket.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      socket.end();
    });
  }

  destroy(reason: string): void {
    this.#reason ??= reason;
    this.#socket.destroy();
  }
}
