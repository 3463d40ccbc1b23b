/**
 * Standard constants of the host's cost model, as `tutti tune --fit` found them and scripts/standard-constants.js wrote
 * them here: Intel Xeon (virtual), 2 cores, with 2, 4, 8 ranks.
 */
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
    OneShot: row(0.427, 0.001, 0.001, 1.59, 18.4, 7.04, 2.2),
    TwoShot: row(0.257, 0.257, 0.001, 3.18, 71.7, 40.7, 9.96),
    'Ring LL': row(0.247, 0.194, 0.001, 3.44, 3.55, 2.65, 1.22),
    'Ring Simple': row(0.349, 0.399, 0.001, 3.64, 21.4, 17.2, 10.4),
    'Tree LL': row(0.281, 0.261, 0.001, 5.19, 2.97, 2.41, 1.44),
    'Tree Simple': row(0.319, 0.338, 0.001, 3.22, 10.3, 10.9, 7.5),
    'Hierarchical LL': row(0.256, 0.212, 0.001, 7.37, 4.46, 3.45, 1.48),
    'Hierarchical Simple': row(0.326, 0.351, 0.001, 6.73, 27.9, 16.8, 5.45),
    'Recursive LL': row(0.213, 0.213, 0.001, 6.34, 3.48, 2.4, 1.25),
    'Recursive Simple': row(0.279, 0.279, 0.001, 3.96, 19.7, 11.4, 3.46),
  },
  reduce: {
    OneShot: row(0.204, 0.118, 3.64, 3.32, 24, 19.3, 17.5),
    TwoShot: row(0.236, 0.236, 0.001, 6.6, 92.1, 66.7, 14.6),
    'Ring LL': row(0.137, 0.137, 2.29, 0.979, 5.17, 4.25, 2.49),
    'Ring Simple': row(0.139, 0.139, 0.001, 0.585, 30.3, 24.6, 13.6),
  },
  broadcast: {
    OneShot: row(0.001, 0.299, 1.69, 3.26, 13.6, 24.5, 5.14),
    TwoShot: row(0.223, 0.223, 0.001, 8.66, 106, 52.7, 14.7),
    'Ring LL': row(0.146, 0.146, 0.656, 0.715, 4.32, 3.5, 2.41),
    'Ring Simple': row(0.195, 0.195, 2.39, 0.144, 24.1, 35.4, 9.93),
  },
  allGather: {
    OneShot: row(0.001, 0.364, 0.001, 2.21, 23.5, 23.4, 8.63),
    TwoShot: row(0.216, 0.216, 0.001, 3.94, 93.8, 45.4, 13.9),
    'Ring LL': row(0.244, 0.244, 0.001, 5.15, 3.96, 3.42, 1.65),
    'Ring Simple': row(0.395, 0.395, 0.001, 5.14, 24, 23.2, 12.4),
    'PAT Simple': row(0.328, 0.328, 0.001, 6.01, 27, 19.2, 9.87),
  },
  reduceScatter: {
    OneShot: row(0.418, 0.001, 0.001, 3.64, 19.2, 16.7, 13.6),
    TwoShot: row(0.243, 0.243, 0.001, 7.55, 75.5, 62.6, 14.1),
    'Ring LL': row(0.246, 0.246, 0.001, 5.62, 4.21, 4.67, 2.73),
    'Ring Simple': row(0.319, 0.319, 0.001, 10.6, 24.9, 22.7, 14.9),
    'PAT Simple': row(0.291, 0.291, 0.001, 7.81, 28.9, 20.6, 11.4),
  },
  allToAll: {
    OneShot: row(0.001, 0.4, 0.607, 1.94, 28.4, 27.9, 11.9),
    TwoShot: row(0.238, 0.238, 0.001, 4.07, 114, 46.8, 11.7),
    'Ring LL': row(0.266, 0.266, 0.001, 11.1, 6.03, 4.79, 2.28),
    'Ring Simple': row(0.322, 0.322, 0.001, 10.7, 35, 25.1, 10.6),
  },
};

export const STANDARD_SOCKET: HostTable = {
  allReduce: {
    'Ring Simple': row(0.3, 0.3, 13.3, 34.4, 12.3, 4.1, 4.22),
  },
  reduce: {
    'Ring Simple': row(0.3, 0.3, 20.2, 14.3, 400, 8.35, 12.9),
  },
  broadcast: {
    'Ring Simple': row(0.3, 0.3, 20.2, 11.4, 7.07, 10.1, 12.8),
  },
  allGather: {
    'Ring Simple': row(0.3, 0.3, 26.5, 39, 9.65, 3.48, 5.88),
  },
  reduceScatter: {
    'Ring Simple': row(0.3, 0.3, 26.9, 42.4, 9.86, 4.07, 5.14),
  },
  allToAll: {
    'Ring Simple': row(0.3, 0.3, 22.7, 30.9, 9.13, 4.31, 4.48),
  },
};
