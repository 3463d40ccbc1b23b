/**
 * The recent synchronising stores of one 4-byte cell.
 *
 * In weak mode a synchronising load may see any of them that is neither older than one that happens before
 * the load, nor older than what the thread saw in this cell already, nor overdue. This is the C++ memory
 * model for relaxed and release/acquire accesses, run forward as in C11Tester (Luo and Demsky, 2021): it
 * covers store buffers, loads out of order, and caches that are not multi-copy atomic. In strong mode only
 * the newest is kept.
 */

import type { Located, Publication, Stamp } from './clock.js';

export interface Message {
  /** Global number of the store; both cells of an 8-byte store have the same. */
  readonly order: number;
  /** Step of the machine at which it was stored. */
  readonly step: number;
  readonly value: number;
  readonly stamp: Stamp;
  readonly initialized: boolean;
  /** Who stored it, for scopes; undefined for the content before the first synchronising store. */
  readonly from: Located | undefined;
  /** What it publishes; undefined for nothing. */
  readonly published: Publication | undefined;
}

/** Messages that a cell keeps in weak mode: how far behind a load can be. */
export const REMEMBERED_MESSAGES = 8;

export class History {
  /** In the order of storing, never empty. */
  readonly messages: Message[];
  /** Order of the message that each thread loaded last. */
  readonly floors = new Map<number, number>();

  constructor(base: Message) {
    this.messages = [base];
  }

  newest(): Message {
    return this.messages[this.messages.length - 1]!;
  }

  push(message: Message, keep: number): void {
    this.messages.push(message);
    if (this.messages.length > keep) this.messages.shift();
  }

  /** The newest message that was there at a point of the global order. */
  at(order: number): Message {
    for (let i = this.messages.length - 1; i > 0; i--) {
      if (this.messages[i]!.order <= order) return this.messages[i]!;
    }
    return this.messages[0]!;
  }
}
