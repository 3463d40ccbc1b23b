/**
 * What the threads share that carry the connections of one rank.
 *
 * Either the proxy's event loop owns the connections, or programs drive them while they wait: whoever waits reads and
 * writes the sockets itself, so that nobody has to be woken. The state of every connection therefore lies in memory that
 * all threads of the rank see, and changes hands between frames or in the middle of one. A thread touches it while it
 * holds the lock; the proxy takes the connections back whenever it has something to do with them.
 *
 *     head       words of STATE, layout of messages, control frames that wait for the proxy, text of a fault
 *     channels   counters of a ring channel each
 *     links      for each connection words of LINK, the header that is under way, frames to be sent
 */
import { FRAME_BYTES } from './link-frame.js';

/** Who may touch the connections. */
export const OWNER = {
  /** The proxy's event loop. */
  proxy: 0,
  /** Programs that wait, one thread at a time. */
  programs: 1,
  /** The proxy, to the end. */
  proxyForGood: 2,
} as const;

/** Words (32 bits) of the head. */
export const STATE = {
  owner: 0,
  /** A program would like to drive. */
  wanted: 1,
  lock: 2,
  /** Frames that programs have received, and turns in which they have driven: counters, around. */
  progress: 3,
  drives: 4,
  /** The proxy is to take the connections back; the second for good. */
  due: 5,
  broken: 6,
  /** Control frames that wait for the proxy. */
  notes: 7,
  /** Number of the link that said nonsense, from 1; length of what is to be said of it. */
  fault: 8,
  faultBytes: 9,
  /** First of nine words of MessageLinkLayout. */
  messageLayout: 16,
} as const;

/** Words of a link. */
export const LINK = {
  /** Descriptor while programs may use it, or -1. */
  fd: 0,
  /** Bytes that have come of a header or payload; 1 for payload, its address and length. */
  filled: 1,
  inPayload: 2,
  payload: 3,
  payloadBytes: 4,
  /** Range of the frames to be sent, and what is to follow of a slice. */
  outStart: 5,
  outEnd: 6,
  outPayload: 7,
  outBytes: 8,
  /** Counters of messages, and five words of MessageLinkAddresses. */
  carried: 9,
  received: 10,
  returned: 11,
  credited: 12,
  places: 13,
} as const;

const WORD = 4;
const NOTES_AT = 128;
const NOTE_BYTES = 32;
/** Control frames that may wait: a few a second come. */
export const MAX_NOTES = 16;
const FAULT_AT = NOTES_AT + MAX_NOTES * NOTE_BYTES;
const FAULT_BYTES = 384;
const HEAD_BYTES = FAULT_AT + FAULT_BYTES;
const CHANNEL_BYTES = 64;
const LINK_HEADER_AT = 96;
const LINK_OUT_AT = 128;
/** Frames and small slices that are sent with one call. */
export const OUT_BYTES = 4096;
const LINK_BYTES = LINK_OUT_AT + OUT_BYTES;

/** Counters of a channel, see RingCarrier; a number of 64-bit floats each. */
export const CHANNEL = { sent: 0, credited: 1, received: 2, returned: 3, small: 4 } as const;

/** Links of the ring; those of messages follow. */
export const RING_LINKS = { prev: 0, next: 1 } as const;
export const FIRST_MESSAGE_LINK = 2;

export interface CarrierStateShape {
  readonly channels: number;
  readonly links: number;
}

export class CarrierState {
  readonly buffer: SharedArrayBuffer;
  readonly i32: Int32Array;
  readonly #u8: Uint8Array;
  readonly #f64: Float64Array;
  readonly #word: number;
  readonly #channels: number;
  readonly shape: CarrierStateShape;

  /** `address` is a multiple of 8, the memory behind it zero. */
  constructor(buffer: SharedArrayBuffer, address: number, shape: CarrierStateShape) {
    this.buffer = buffer;
    this.shape = shape;
    this.i32 = new Int32Array(buffer);
    this.#u8 = new Uint8Array(buffer);
    this.#f64 = new Float64Array(buffer);
    this.#word = address / WORD;
    this.#channels = (address + HEAD_BYTES) / 8;
  }

  static bytes({ channels, links }: CarrierStateShape): number {
    return HEAD_BYTES + channels * CHANNEL_BYTES + links * LINK_BYTES;
  }

  /** State of its own, for a proxy whose connections no program drives. */
  static own(shape: CarrierStateShape): CarrierState {
    return new CarrierState(new SharedArrayBuffer(CarrierState.bytes(shape)), 0, shape);
  }

  /** Index of a word of the head. */
  word(name: keyof typeof STATE): number {
    return this.#word + STATE[name];
  }

  load(name: keyof typeof STATE): number {
    return Atomics.load(this.i32, this.word(name));
  }

  store(name: keyof typeof STATE, value: number): void {
    Atomics.store(this.i32, this.word(name), value);
  }

  tryLock(): boolean {
    return Atomics.compareExchange(this.i32, this.word('lock'), 0, 1) === 0;
  }

  unlock(): void {
    this.store('lock', 0);
  }

  /** Index of a channel's first counter in `f64`. */
  channelAt(channel: number): number {
    return this.#channels + (channel * CHANNEL_BYTES) / 8;
  }

  get f64(): Float64Array {
    return this.#f64;
  }

  /** The memory of a link. */
  link(index: number): LinkState {
    const at = this.#channels * 8 + this.shape.channels * CHANNEL_BYTES + index * LINK_BYTES;
    return {
      buffer: this.buffer,
      i32: this.i32,
      word: at / WORD,
      header: this.#u8.subarray(at + LINK_HEADER_AT, at + LINK_HEADER_AT + FRAME_BYTES),
      outAt: at + LINK_OUT_AT,
    };
  }

  /** Leaves a control frame to the proxy; false when too many wait. */
  leaveNote(link: number, header: Uint8Array): boolean {
    const count = this.load('notes');
    if (count >= MAX_NOTES) return false;
    const at = this.#word * WORD + NOTES_AT + count * NOTE_BYTES;
    this.i32[at / WORD] = link;
    this.#u8.set(header, at + 8);
    this.store('notes', count + 1);
    return true;
  }

  /** The control frames that wait, which are then forgotten. */
  takeNotes(): { readonly link: number; readonly header: Uint8Array }[] {
    const notes = Array.from({ length: this.load('notes') }, (_, index) => {
      const at = this.#word * WORD + NOTES_AT + index * NOTE_BYTES;
      return { link: this.i32[at / WORD]!, header: this.#u8.slice(at + 8, at + 8 + FRAME_BYTES) };
    });
    this.store('notes', 0);
    return notes;
  }

  leaveFault(link: number, text: string): void {
    if (this.load('fault') !== 0) return;
    const bytes = Buffer.from(text).subarray(0, FAULT_BYTES);
    this.#u8.set(bytes, this.#word * WORD + FAULT_AT);
    this.store('faultBytes', bytes.length);
    this.store('fault', link + 1);
  }

  takeFault(): { readonly link: number; readonly text: string } | undefined {
    const link = this.load('fault') - 1;
    if (link < 0) return undefined;
    this.store('fault', 0);
    const at = this.#word * WORD + FAULT_AT;
    return { link, text: Buffer.from(this.#u8.slice(at, at + this.load('faultBytes'))).toString() };
  }
}

export interface LinkState {
  readonly buffer: SharedArrayBuffer;
  readonly i32: Int32Array;
  /** Index of the first word of LINK. */
  readonly word: number;
  /** The header that is under way. */
  readonly header: Uint8Array;
  /** Address of OUT_BYTES for frames to be sent. */
  readonly outAt: number;
}
