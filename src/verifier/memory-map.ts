/**
 * What the bytes of a simulated machine are for, so that accesses can be told apart: data that one rank gives to
 * another, or the words by which they wait for each other.
 */

/** A stretch of a region that holds data in flight. */
interface Stretch {
  readonly from: number;
  readonly to: number;
  /** Bytes of payload for each byte that is moved: half with LL, whose lines are half flags. */
  readonly payload: number;
}

export class MemoryMap {
  readonly #stretches = new Map<number, Stretch[]>();

  /** Says that bytes hold data for, or of, others. */
  add(region: number, from: number, bytes: number, payload = 1): void {
    const own = this.#stretches.get(region);
    const stretch = { from, to: from + bytes, payload };
    if (own === undefined) this.#stretches.set(region, [stretch]);
    else own.push(stretch);
  }

  /** Bytes of payload of an access; undefined for words of control. */
  payloadOf(region: number, at: number, bytes: number): number | undefined {
    const stretch = this.#stretches.get(region)?.find(({ from, to }) => at >= from && at < to);
    return stretch === undefined ? undefined : bytes * stretch.payload;
  }
}
