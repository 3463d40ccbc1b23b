/**
 * Share of the modelled bandwidth that a tree reaches, by message size: whole for tiny messages, which are all latency,
 * about half while the pipeline is too short to fill, whole again for large ones.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import { log2Floor } from './arithmetic.js';

/** Index k: messages of 64 * 2^k bytes up to twice that. */
const FACTORS: readonly Float32Array[] = [
  // LL
  [1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1],
  // LL128
  [1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1],
  // Simple
  [
    0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8,
    0.9, 0.9, 0.9,
  ],
].map((row) => Float32Array.from(row));

/** Place in a row for a message; -1 below 64 bytes. */
export const sizeClass = (bytes: number): number => log2Floor(Math.floor(bytes / 64));

/** Factor of a protocol (by number) for a message, 1 outside the rows; `classes` of the row are used. */
export function treeEfficiency(protocol: number, bytes: number, classes: number): number {
  const k = sizeClass(bytes);
  return k >= 0 && k < classes ? FACTORS[protocol]![k]! : 1;
}

/** Classes that trees use (the last one of a row never), and that NVLS trees use. */
export const TREE_CLASSES = 23;
export const NVLS_TREE_CLASSES = 24;
