/**
 * A logarithmic axis: where a value stands, and which values get a mark.
 */

export interface LogAxis {
  readonly low: number;
  readonly high: number;
  /** Pixels of `low` and `high`. */
  readonly from: number;
  readonly to: number;
}

/** Axis over values above 0, widened where there is only one. */
export function logAxis(values: readonly number[], from: number, to: number): LogAxis {
  const above = values.filter((value) => value > 0 && Number.isFinite(value));
  const low = above.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const high = above.reduce((most, value) => Math.max(most, value), 0);
  if (above.length === 0) return { low: 1, high: 10, from, to };
  return low < high ? { low, high, from, to } : { low: low / 2, high: high * 2, from, to };
}

/** Part of its length by which an axis goes on at both ends, for names next to lines. */
const ROOM = 0.06;

/** An axis that goes on beyond its values. */
export function withRoom(axis: LogAxis): LogAxis {
  const more = (axis.high / axis.low) ** ROOM;
  return { ...axis, low: axis.low / more, high: axis.high * more };
}

/** Pixel of a value; values outside stand at the ends. */
export function place({ low, high, from, to }: LogAxis, value: number): number {
  const part = Math.log(Math.min(high, Math.max(low, value)) / low) / Math.log(high / low);
  return from + part * (to - from);
}

/** Powers of a base within the axis, every n-th so that there are `most` at most. */
export function powers({ low, high }: LogAxis, base: number, most: number): number[] {
  const log = (value: number) => Math.log(value) / Math.log(base);
  const [first, last] = [Math.ceil(log(low) - 1e-9), Math.floor(log(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const found: number[] = [];
  for (let power = first; power <= last; power += step) found.push(base ** power);
  return found;
}
