/** The last operation of a synchronous call, since loops repeat the same call: what it was made for. */

import type { Buffer } from './buffers.js';
import type { CallOptions } from './call-check.js';
import type { Prepared } from './prepared-operation.js';

export class RecentCall {
  readonly prepared: Prepared;
  readonly #first: Buffer | null;
  readonly #second: Buffer | null;
  readonly #lengths: readonly [number | undefined, number | undefined];
  readonly #options: CallOptions;
  readonly #peer: number;

  constructor(
    prepared: Prepared,
    first: Buffer | null,
    second: Buffer | null,
    { type, op, root }: CallOptions,
    peer: number,
  ) {
    this.prepared = prepared;
    this.#first = first;
    this.#second = second;
    this.#lengths = [first?.length, second?.length];
    // A caller may change the object.
    this.#options = {
      ...(type !== undefined && { type }),
      ...(op !== undefined && { op }),
      ...(root !== undefined && { root }),
    };
    this.#peer = peer;
  }

  /** Whether it does what a call with these arguments asks for. Allocates nothing. */
  fits(first: Buffer | null, second: Buffer | null, options: CallOptions, peer: number): boolean {
    const own = this.#options;
    return (
      first === this.#first &&
      second === this.#second &&
      first?.length === this.#lengths[0] &&
      second?.length === this.#lengths[1] &&
      options.type === own.type &&
      options.op === own.op &&
      options.root === own.root &&
      peer === this.#peer
    );
  }
}
