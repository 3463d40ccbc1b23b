/**
 * Bytes of a message per thread below which a call takes fewer channels and threads, by algorithm and protocol.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import { CELLS, cellOf, NCCL_PROTOCOLS, ProtocolId } from './names.js';

/** Bytes that one thread of each protocol should at least have. */
const DEFAULTS: readonly number[] = [8, 8, 64];

/** CollNet: data go through the network in large pieces. */
const COLLNET_THRESHOLD = 512;

/** Cells that NCCL_THREAD_THRESHOLDS sets, in its order. */
const VARIABLE_CELLS = [
  cellOf('Tree', 'LL'),
  cellOf('Tree', 'LL128'),
  cellOf('Tree', 'Simple'),
  cellOf('Ring', 'LL'),
  cellOf('Ring', 'LL128'),
  cellOf('Ring', 'Simple'),
];

/** Numbers that NCCL_THREAD_THRESHOLDS may have. */
export const THRESHOLD_COUNT = VARIABLE_CELLS.length;

/**
 * Table of CELLS, bytes.
 *
 * @param text NCCL_THREAD_THRESHOLDS: up to six integers; reading ends at the first word that is none, and negative
 * ones keep the default
 */
export function threadThresholds(nRanks: number, text: string | undefined): Float64Array {
  const table = Float64Array.from({ length: CELLS }, (_, cell) => DEFAULTS[cell % NCCL_PROTOCOLS.length]!);
  // A ring's LL message is split over all ranks before it is split over threads.
  table[cellOf('Ring', 'LL')] = DEFAULTS[ProtocolId.LL]! * nRanks;
  table[cellOf('CollNetDirect', 'Simple')] = COLLNET_THRESHOLD;
  table[cellOf('CollNetChain', 'Simple')] = COLLNET_THRESHOLD;
  for (const [i, value] of leadingIntegers(text ?? '', VARIABLE_CELLS.length).entries()) {
    if (value >= 0) table[VARIABLE_CELLS[i]!] = value;
  }
  return table;
}

/** Decimal integers from the start of a text, separated by white space, at most `count`. */
function leadingIntegers(text: string, count: number): number[] {
  const form = /\s*([+-]?\d+)/y;
  const values: number[] = [];
  while (values.length < count) {
    const match = form.exec(text);
    if (match === null) break;
    values.push(Number(match[1]));
  }
  return values;
}
