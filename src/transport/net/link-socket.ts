/**
 * A connection between proxies: an ordinary socket until both ends have proved themselves, then a source of
 * frames.
 *
 * The end that receives slices opens the connection, because only there Node lets the caller name the memory
 * that the system reads into (`onread`): slices then go from the network into their slot without a copy. While
 * the handshake lasts the bytes are passed on as the usual `data` events.
 */
import { connect, type Socket } from 'node:net';
import type { SocketAddress } from '../../bootstrap/socket-address.js';
import type { FrameReader } from './frame-reader.js';

/**
 * Bytes read at a time where a frame begins: several small frames come at once, and the beginning of a large
 * slice that comes with them costs little to copy. A handshake frame fits too.
 */
const SCRATCH_BYTES = 4096;

/** What is used of Node's handle of a connection. */
interface StreamHandle {
  readonly fd?: number;
  reading: boolean;
  readStart(): number;
  readStop(): number;
}

export class LinkSocket {
  readonly socket: Socket;
  readonly #direct: boolean;
  readonly #scratch = new Uint8Array(SCRATCH_BYTES);
  #reader: FrameReader | undefined;
  /** Where Node puts what it reads next: it asks when it has read, and not again before the next read. */
  #given: Uint8Array = this.#scratch;
  #atFrameEnd: (() => void) | undefined;
  #onFault: (error: unknown) => void = () => {};

  private constructor(socket: Socket | undefined, address: SocketAddress | undefined) {
    this.#direct = socket === undefined;
    this.socket =
      socket ??
      connect({
        host: address!.host,
        port: address!.port,
        noDelay: true,
        onread: {
          buffer: () => {
            this.#given = this.#space();
            return this.#given;
          },
          callback: (count, buffer) => this.#received(count, buffer),
        },
      });
  }

  /** Begins a connection whose slices are read in place. */
  static connect(address: SocketAddress): LinkSocket {
    return new LinkSocket(undefined, address);
  }

  /** A connection that the other end began; what it reads is small. */
  static accepted(socket: Socket): LinkSocket {
    return new LinkSocket(socket, undefined);
  }

  /** From now on the bytes are frames. `onFault` gets what the reader throws; nothing is read afterwards. */
  start(reader: FrameReader, onFault: (error: unknown) => void): void {
    this.#reader = reader;
    this.#onFault = onFault;
    if (!this.#direct) this.socket.on('data', (chunk) => this.#take(() => reader.push(chunk)));
    this.socket.resume();
  }

  /** The descriptor, or -1 where Node does not tell. */
  get #fd(): number {
    return this.#handle?.fd ?? -1;
  }

  get #handle(): StreamHandle | undefined {
    return (this.socket as unknown as { _handle?: StreamHandle })._handle ?? undefined;
  }

  /**
   * The event loop can let go of the connection now: it is sound, all that was written is with the system, and Node does
   * not hold a place for the rest of a payload, which others would read.
   */
  get canLend(): boolean {
    const { socket } = this;
    const isSound = !socket.destroyed && socket.readable && socket.writable;
    const isIdle = socket.writableLength === 0 && socket.readableLength === 0;
    const isBetween = this.#given === this.#scratch;
    return isSound && isIdle && isBetween && this.#reader !== undefined && this.#fd >= 0;
  }

  /** Calls `act` once when Node next stands between frames; in place of what an earlier call asked for. */
  atFrameEnd(act: () => void): void {
    this.#atFrameEnd = act;
  }

  /** The event loop does not read from now on; others do, with this descriptor, and go on where the reader stands. */
  lend(): number {
    const handle = this.#handle!;
    handle.readStop();
    // Node must take it for reading: its stream would start that again by itself, when a resume comes into effect.
    handle.reading = true;
    this.#reader!.save();
    return this.#fd;
  }

  /** The event loop reads again; `unsent` is what is to be written first. */
  takeBack(unsent: readonly Uint8Array[]): void {
    this.#reader?.load();
    if (this.socket.destroyed) return;
    for (const bytes of unsent) this.socket.write(bytes);
    const handle = this.#handle;
    if (handle === undefined) return;
    handle.reading = true;
    handle.readStart();
  }

  /** Somebody else has read what is not allowed. */
  refuse(error: unknown): void {
    this.#take(() => {
      throw error;
    });
  }

  #space(): Uint8Array {
    const reader = this.#reader;
    return reader === undefined || reader.betweenFrames ? this.#scratch : reader.space();
  }

  #received(count: number, buffer: Uint8Array): boolean {
    const reader = this.#reader;
    if (reader === undefined) {
      // Handshake code keeps what it gets, so it gets a copy.
      if (buffer === this.#scratch) this.socket.emit('data', Buffer.from(buffer.subarray(0, count)));
    } else if (buffer === this.#scratch) this.#take(() => reader.push(buffer.subarray(0, count)));
    else this.#take(() => reader.advance(count));
    if (this.#atFrameEnd !== undefined && reader?.betweenFrames === true) {
      // Node asks for the next place after this.
      queueMicrotask(this.#atFrameEnd);
      this.#atFrameEnd = undefined;
    }
    return true;
  }

  #take(read: () => void): void {
    if (this.socket.destroyed) return;
    try {
      read();
    } catch (error) {
      this.#reader = undefined;
      this.socket.destroy();
      this.#onFault(error);
    }
  }
}
