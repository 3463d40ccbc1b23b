/**
 * Standard constants of the host's cost model, written here by scripts/standard-constants.js. Source:
 * a fit to the times of bench/choice.js on
 * - an Intel(R) Xeon(R) Processor with 16 cores and 2, 4, 8, 12 ranks
 * - an Intel(R) Xeon(R) Processor with 2 cores and 2, 4, 8 ranks.
 */
// biome-ignore-all lint/suspicious/noApproximativeNumericConstant: they are measured, whatever they resemble
import type { CandidateConstants, HostTable } from './cost.js';

/** Microseconds of start and step alone, of start and step crowded, and GB/s at each of KNOTS. */
const row = (
  start: number,
  step: number,
  crowdedStart: number,
  crowdedStep: number,
  near: number,
  shared: number,
  far: number,
): CandidateConstants => ({
  alone: { start, step },
  crowded: { start: crowdedStart, step: crowdedStep },
  bandwidth: [near, shared, far],
});

export const STANDARD_WINDOW: HostTable = {
  allReduce: {
    OneShot: row(0.425, 0.112, 1.34, 0.373, 9.63, 10, 12.9),
    TwoShot: row(0.444, 0.168, 0.001, 1.7, 39, 21.5, 10.6),
    'Ring LL': row(0.969, 0.31, 0.001, 2.43, 2.2, 2, 1.77),
    'Ring Simple': row(0.329, 0.685, 0.001, 2.09, 13.1, 16.7, 9.9),
    'Tree LL': row(0.001, 1.1, 0.00132, 2.68, 1.51, 1.4, 1.74),
    'Tree Simple': row(0.001, 0.851, 0.001, 1.83, 8.31, 9.7, 10.4),
    'Hierarchical LL': row(0.0148, 0.81, 0.001, 3.51, 2.92, 2.73, 2.55),
    'Hierarchical Simple': row(0.001, 0.855, 0.001, 3.23, 20.8, 17.9, 12.3),
    'Recursive LL': row(0.453, 0.743, 0.001, 3.19, 2.21, 2.16, 2.15),
    'Recursive Simple': row(0.584, 0.657, 0.001, 2.58, 18.7, 15.3, 11.4),
  },
  reduce: {
    OneShot: row(0.291, 0.166, 0.001, 0.733, 12.9, 13.1, 11.8),
    TwoShot: row(0.588, 0.0995, 1.77, 0.637, 42.8, 33.3, 12.9),
    'Ring LL': row(0.507, 0.139, 0.001, 0.635, 2, 2.03, 1.99),
    'Ring Simple': row(0.763, 0.0568, 0.001, 0.37, 21.6, 12.9, 9.45),
  },
  broadcast: {
    OneShot: row(0.46, 0.0693, 1.22, 0.201, 10, 8.95, 7.87),
    TwoShot: row(0.561, 0.0824, 2.28, 0.492, 60.1, 31.9, 15.2),
    'Ring LL': row(0.64, 0.0849, 0.00929, 0.466, 1.97, 1.96, 2.04),
    'Ring Simple': row(0.956, 0.08, 1.44, 0.0428, 16, 11.1, 8.67),
  },
  allGather: {
    OneShot: row(0.446, 0.0468, 1.84, 0.0705, 11.7, 14.9, 12.3),
    TwoShot: row(0.533, 0.0941, 2.6, 0.481, 60.6, 37.5, 16),
    'Ring LL': row(0.746, 0.326, 0.001, 1.93, 2.28, 2.56, 2.27),
    'Ring Simple': row(0.61, 0.696, 0.001, 2.1, 10.6, 19.7, 11.4),
    'PAT Simple': row(0.693, 0.589, 0.001, 2.33, 17.2, 16.7, 11.6),
  },
  reduceScatter: {
    OneShot: row(0.508, 0.0795, 1.63, 0.299, 14.3, 13.1, 12),
    TwoShot: row(0.525, 0.106, 3.28, 0.402, 41.8, 35.2, 12.6),
    'Ring LL': row(0.569, 0.36, 0.0146, 1.99, 2.39, 2.46, 2.3),
    'Ring Simple': row(0.399, 0.692, 0.00101, 2.45, 17.5, 19.3, 11.9),
    'PAT Simple': row(0.337, 0.722, 0.00119, 2.5, 19.9, 16.1, 11.7),
  },
  allToAll: {
    OneShot: row(0.515, 0.0827, 1.13, 0.289, 15.3, 13.7, 11.1),
    TwoShot: row(0.554, 0.0833, 2.54, 0.385, 54.2, 32.5, 12),
    'Ring LL': row(0.001, 1.12, 0.001, 4.15, 2.59, 2.76, 2.5),
    'Ring Simple': row(0.001, 1.44, 0.001, 3.55, 18.8, 16.4, 11.1),
  },
};

export const STANDARD_SOCKET: HostTable = {
  allReduce: {
    'Ring Simple': row(0.238, 0.238, 28.7, 373, 0.201, 400, 7),
  },
  reduce: {
    'Ring Simple': row(0.458, 0.458, 52, 22.4, 400, 6.97, 7.76),
  },
  broadcast: {
    'Ring Simple': row(0.508, 0.508, 22.5, 19.2, 1.2, 5.28, 7.91),
  },
  allGather: {
    'Ring Simple': row(0.231, 0.231, 114, 228, 0.046, 134, 6.06),
  },
  reduceScatter: {
    'Ring Simple': row(0.26, 0.26, 169, 147, 400, 9.9, 8.81),
  },
  allToAll: {
    'Ring Simple': row(0.308, 0.308, 137, 139, 0.21, 5.27, 10.8),
  },
};
