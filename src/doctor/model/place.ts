/**
 * Where a fact stands: every statement of the doctor can be looked up in the files that were given.
 */

export interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** What stands there in words, where the line itself is of no use to readers, as in JSON without line ends. */
  readonly text?: string;
}

/** A value and the line that states it. */
export interface Stated<T> {
  readonly value: T;
  readonly at: Place;
}

/** Places in the order of files and lines, each once. */
export function distinctPlaces(places: Iterable<Place | undefined>): Place[] {
  const seen = new Map<string, Place>();
  for (const place of places) {
    if (place !== undefined) seen.set(`${place.file}\0${place.line}\0${place.text ?? ''}`, place);
  }
  return [...seen.values()];
}
