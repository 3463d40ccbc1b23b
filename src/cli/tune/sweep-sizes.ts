/** The sizes that a sweep shows. */

/** Sizes of a sweep, bytes. */
export interface SweepOptions {
  readonly first: number;
  readonly last: number;
  readonly factor: number;
}

/** Sizes of a sweep: from the first, each times the factor. */
export function* sweepSizes({ first, last, factor }: SweepOptions): Generator<number> {
  let bytes = first;
  while (bytes <= last) {
    yield Math.trunc(bytes);
    bytes *= factor;
  }
}
