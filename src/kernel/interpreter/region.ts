/** A simulated allocation: its bytes and, per byte, who stored and who loaded it last. */

import type { History } from './messages.js';

/** Flags of a byte. */
export const STORED = 1;
/** The last store was a synchronising one. */
export const SYNCHRONISED = 2;
/** Some waiting thread wants to know of stores here. */
export const WATCHED = 4;
/** The cell keeps the messages of synchronising stores. */
export const REMEMBERED = 8;

/** Addresses are region number times this, plus the offset. */
export const REGION_SPAN = 4294967296;

export interface RegionOptions {
  /** Starts as zeros; otherwise loads of bytes that nobody stored are faults. */
  zeroed?: boolean;
  /** Programs may only load from it. */
  readOnly?: boolean;
  /** Only the owner's programs may touch it, as an unregistered user buffer of another process. */
  private?: boolean;
  /** Stands for these addresses, in as many memories: only multicast statements may use it. */
  replicas?: readonly number[];
}

export class Region {
  readonly view: DataView;
  readonly flags: Uint8Array;
  /** Stamp of the last store of each byte. */
  readonly writer: Uint32Array;
  /** Number of the reader set of each byte since the last store. */
  readonly readers: Uint32Array;
  readonly histories = new Map<number, History>();
  readonly readOnly: boolean;
  readonly private: boolean;
  readonly replicas: readonly number[] | undefined;

  constructor(
    readonly id: number,
    readonly name: string,
    readonly bytes: number,
    readonly owner: number,
    options: RegionOptions,
  ) {
    // Whole cells of 8 bytes, so that the end needs no special care.
    const padded = Math.ceil(bytes / 8) * 8;
    this.view = new DataView(new ArrayBuffer(padded));
    this.flags = new Uint8Array(padded);
    this.writer = new Uint32Array(padded);
    this.readers = new Uint32Array(padded);
    this.readOnly = options.readOnly ?? false;
    this.private = options.private ?? false;
    this.replicas = options.replicas;
    if (options.zeroed) this.flags.fill(STORED, 0, bytes);
  }

  get base(): number {
    return this.id * REGION_SPAN;
  }

  /** Marks bytes as stored by the host. */
  stored(at: number, bytes: number): void {
    this.flags.fill(STORED, at, at + bytes);
    this.writer.fill(0, at, at + bytes);
    this.readers.fill(0, at, at + bytes);
  }

  /** Between two runs: whatever was stored is as if stored by the host. */
  settle(): void {
    for (let i = 0; i < this.flags.length; i++) this.flags[i] = this.flags[i]! & STORED;
    this.writer.fill(0);
    this.readers.fill(0);
    this.histories.clear();
  }
}
