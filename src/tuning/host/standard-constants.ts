/**
 * Standard constants of the host's cost model, as `tutti tune --fit` found them and scripts/standard-constants.js wrote
 * them here: Intel(R) Xeon(R) Processor, 2 cores, with 2, 4, 8 ranks.
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
    OneShot: row(0.001, 0.736, 2.47, 0.488, 13.9, 13.9, 13.2),
    TwoShot: row(0.372, 0.352, 0.001, 1.72, 43.9, 24.1, 9.37),
    'Ring LL': row(0.77, 0.523, 0.001, 3.07, 2.19, 2.18, 1.98),
    'Ring Simple': row(0.879, 0.563, 0.001, 3.57, 17.1, 17.8, 9.42),
    'Tree LL': row(0.848, 0.582, 0.001, 4.1, 1.74, 1.76, 1.58),
    'Tree Simple': row(0.848, 0.522, 0.001, 3.79, 9.5, 10.6, 9.09),
    'Hierarchical LL': row(0.783, 0.525, 0.001, 6.05, 2.92, 2.81, 2.51),
    'Hierarchical Simple': row(0.868, 0.499, 0.001, 4.85, 26.4, 16.9, 10.6),
    'Recursive LL': row(0.776, 0.676, 0.001, 5.43, 2.34, 2.36, 2.19),
    'Recursive Simple': row(0.956, 0.556, 0.001, 3.88, 22.4, 12.7, 11.5),
  },
  reduce: {
    OneShot: row(0.107, 0.472, 0.001, 1.25, 23, 16.8, 23.5),
    TwoShot: row(0.386, 0.227, 0.001, 1.63, 53, 36.9, 13),
    'Ring LL': row(0.416, 0.276, 0.001, 1.59, 3.05, 3.58, 2.87),
    'Ring Simple': row(0.661, 0.33, 0.00101, 0.812, 34.8, 11.3, 10.5),
  },
  broadcast: {
    OneShot: row(0.001, 0.582, 0.122, 0.599, 12.6, 12.9, 10.8),
    TwoShot: row(0.347, 0.208, 0.001, 1.27, 47.2, 43.9, 14.2),
    'Ring LL': row(0.382, 0.278, 0.001, 0.473, 1.98, 2.18, 2.24),
    'Ring Simple': row(0.589, 0.338, 0.001, 0.493, 22, 9.33, 9.38),
  },
  allGather: {
    OneShot: row(0.001, 0.443, 0.001, 0.559, 15.4, 19.4, 14.3),
    TwoShot: row(0.393, 0.203, 0.001, 1.16, 69.4, 55.1, 15.6),
    'Ring LL': row(0.625, 0.402, 0.001, 1.54, 2.71, 2.89, 2.49),
    'Ring Simple': row(0.824, 0.444, 0.001, 2.48, 17.8, 24, 12.5),
    'PAT Simple': row(0.83, 0.431, 0.001, 1.85, 24.1, 19.5, 12.4),
  },
  reduceScatter: {
    OneShot: row(0.216, 0.36, 0.604, 0.663, 19.8, 18, 19),
    TwoShot: row(0.346, 0.213, 2.15, 0.792, 64, 46.2, 14.7),
    'Ring LL': row(0.492, 0.365, 0.001, 2.43, 2.91, 2.83, 2.49),
    'Ring Simple': row(0.667, 0.347, 0.001, 2.54, 24.9, 22, 13.9),
    'PAT Simple': row(0.647, 0.333, 0.001, 2.81, 27.5, 20.7, 13.6),
  },
  allToAll: {
    OneShot: row(0.001, 0.612, 0.001, 0.691, 22.7, 21.5, 15.1),
    TwoShot: row(0.36, 0.225, 0.001, 1.18, 76.6, 44.7, 12.9),
    'Ring LL': row(0.536, 0.426, 0.001, 4.44, 3.18, 3.08, 2.58),
    'Ring Simple': row(0.681, 0.399, 0.001, 4.26, 25.9, 21.1, 11),
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
