/**
 * Sizes, times and bandwidths as the reports write them. K, M and G are powers of 1024, as in nccl-tests; GB/s is 10^9
 * bytes per second.
 */
import type { NcclFunction } from '../names.js';

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB'] as const;
const UNIT_STEP = 1024;

/** Significant digits of a rounded number. */
const DIGITS = 4;

/** `8 B`, `64 KB`, `1.5 MB`: four digits, or all that whole bytes have below 1 KB. */
export function bytesText(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= UNIT_STEP && unit < UNITS.length - 1) {
    value /= UNIT_STEP;
    unit += 1;
  }
  return `${numberText(value)} ${UNITS[unit]}`;
}

/** As `bytesText` where that is exact, else in bytes: `64 KB`, `17280 B`. */
export const exactBytesText = (bytes: number): string => {
  const text = bytesText(bytes);
  const [value, unit] = text.split(' ');
  return Number(value) * UNIT_STEP ** UNITS.indexOf(unit as (typeof UNITS)[number]) === bytes
    ? text
    : `${bytes} B`;
};

/** Four digits without trailing zeros: `83.22`, `0.6`, `22070`. */
export const numberText = (value: number): string => String(Number(value.toPrecision(DIGITS)));

/** `83.22 us`, `1.75 ms`, `2.2 s` */
export function timeText(us: number): string {
  if (us < 1e3) return `${numberText(us)} us`;
  return us < 1e6 ? `${numberText(us / 1e3)} ms` : `${numberText(us / 1e6)} s`;
}

/** `65.5 against 108.6 us`: two times in the unit of the longer one. */
export function timesText(one: number, other: number): string {
  const [unit, us] =
    Math.max(one, other) < 1e3
      ? (['us', 1] as const)
      : Math.max(one, other) < 1e6
        ? (['ms', 1e3] as const)
        : (['s', 1e6] as const);
  return `${numberText(one / us)} against ${numberText(other / us)} ${unit}`;
}

/** Microseconds of a column: two digits after the point below 10, one below 10000. */
export const timeCell = (us: number): string => us.toFixed(us < 10 ? 2 : us < 10_000 ? 1 : 0);

/** GB/s in a sentence, without its unit; what is too little to matter is only told so. */
export const bandwidthWord = (value: number): string =>
  value > 0 && value < 0.01 ? 'less than 0.01' : numberText(value);

/** GB/s of a column. */
export const bandwidthCell = (value: number): string => value.toFixed(value < 10 ? 2 : 1);

/** `12 %`; below 1 % one more digit. */
export function percentText(share: number): string {
  const percent = share * 100;
  return `${percent > 0 && percent < 1 ? Number(percent.toPrecision(1)) : Math.round(percent)} %`;
}

/** From here on times are told, not per cent: what would round to 100 %. */
const TWICE = 1.995;

/** By how many per cent, or how many times. */
export function moreText(ratio: number): string {
  if (ratio >= TWICE) return `${numberText(Number(ratio.toPrecision(3)))} times as long`;
  return `${percentText(ratio - 1)} longer`;
}

/** `all-reduce`, as sentences call a function. */
export const FUNCTION_WORDS: Readonly<Record<NcclFunction, string>> = {
  Broadcast: 'broadcast',
  Reduce: 'reduce',
  AllGather: 'all-gather',
  ReduceScatter: 'reduce-scatter',
  AllReduce: 'all-reduce',
};

/**
 * Factor from the bandwidth of a message (bytes by time) to that of the slowest link, which does not depend on the
 * number of ranks where the links are the limit: busbw of nccl-tests.
 */
export function busFactor(fn: NcclFunction, nRanks: number): number {
  switch (fn) {
    case 'AllReduce':
      return (2 * (nRanks - 1)) / nRanks;
    case 'AllGather':
    case 'ReduceScatter':
      return (nRanks - 1) / nRanks;
    default:
      return 1;
  }
}

/** GB/s of bytes in microseconds; 0 for no time, as for a copy that is not modelled. */
export const algorithmBandwidth = (bytes: number, us: number): number => (us > 0 ? bytes / us / 1e3 : 0);
