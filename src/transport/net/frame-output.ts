/** Where frames go that are to be sent on a connection. */
import type { Socket } from 'node:net';
import { encodeLinkFrame, FRAME_BYTES, type FrameKind } from './link-frame.js';

export interface FrameOutput {
  /** Takes another frame or slice now. */
  readonly isFree: boolean;
  /** Something waits for `flush`. */
  readonly hasFrames: boolean;
  frame(kind: FrameKind, channel?: number, bytes?: number, step?: number, tail?: number): void;
  /** A `data` frame; the payload stays where it is until it has been sent. */
  slice(channel: number, step: number, tail: number, payload: Uint8Array): void;
  /** Sends what was given, at least in part; `isFree` comes true by itself or with later flushes. */
  flush(): void;
}

/** Whether the output takes a frame, if need be after a flush: false only while something cannot be sent. */
export function makeRoom(output: FrameOutput): boolean {
  if (!output.isFree) output.flush();
  return output.isFree;
}

/** Writes of up to so many bytes are put together first: copying costs less than a list of buffers. */
const JOINED_BYTES = 2048;

/** Frames for a socket of the event loop, which keeps what the system does not take. */
export class SocketOutput implements FrameOutput {
  readonly #socket: Socket;
  #parts: Uint8Array[] = [];
  #total = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get isFree(): boolean {
    return true;
  }

  get hasFrames(): boolean {
    return this.#parts.length > 0;
  }

  frame(kind: FrameKind, channel = 0, bytes = 0, step = 0, tail = 0): void {
    this.#parts.push(encodeLinkFrame(kind, channel, bytes, step, tail));
    this.#total += FRAME_BYTES;
  }

  slice(channel: number, step: number, tail: number, payload: Uint8Array): void {
    this.frame('data', channel, payload.length, step, tail);
    if (payload.length === 0) return;
    this.#parts.push(payload);
    this.#total += payload.length;
  }

  flush(): void {
    const parts = this.#parts;
    if (parts.length === 0) return;
    const total = this.#total;
    this.#parts = [];
    this.#total = 0;
    const socket = this.#socket;
    if (!socket.writable) return;
    if (parts.length === 1) socket.write(parts[0]!);
    else if (total <= JOINED_BYTES) socket.write(Buffer.concat(parts, total));
    else {
      socket.cork();
      for (const part of parts) socket.write(part);
      socket.uncork();
    }
  }
}
