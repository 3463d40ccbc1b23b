/**
 * The numbers of the cost model by version of NCCL, for whoever explains the log of an older one.
 *
 * Versions differ in their measured constants and in little else; what is known of each stands here with where it is
 * known from. A table that NCCL printed proves the constants of its generation of GPUs and its number of nodes, to the
 * digit that it prints; for the others the newest ones are taken.
 */
import { defaultConstants, type Generation, type TuningConstants } from './constants.js';

/** What proves the constants of a version. */
export interface VersionEvidence {
  /** Generations of GPUs, and columns of `ByScale` (0: one node, 1: two, 2: more), that were compared. */
  readonly generations: readonly Generation[];
  readonly scales: readonly (0 | 1 | 2)[];
  readonly source: string;
}

export interface VersionedConstants {
  readonly constants: TuningConstants;
  /** The version that they are from: the asked one, or the one that stands in for it. */
  readonly from: string;
  /** Undefined for versions of which no table is known: then `constants` are a guess. */
  readonly evidence: VersionEvidence | undefined;
  /** NCCL_* variables that give the present rules the version's defaults; those that a user has set go before. */
  readonly defaults: Readonly<Record<string, string>>;
}

/** The version that all rules of this library are from. */
export const MODEL_VERSION = '2.30.7';

/**
 * Where the constants of older versions were seen. None differs from MODEL_VERSION in what was compared; a version that
 * does gets its own numbers here.
 */
const SEEN: Readonly<Record<string, VersionEvidence>> = {
  '2.28.9': {
    generations: ['Hopper'],
    scales: [0, 1],
    source:
      'tables, thresholds and choices that 2.28.9 logged on two H200: by NVLink, through host memory, and as two nodes ' +
      'over sockets',
  },
  '2.29.2': {
    generations: ['Hopper'],
    scales: [0],
    source:
      'tables, thresholds and choices that 2.29.2 logged on 2, 4 and 6 H100 of one host, with and without NVLS',
  },
};

/**
 * Before 2.30 a peer over the network had two channels of send and receive, whatever its NICs: seen in logs of 2.26.2
 * (two nodes of eight H100 with 400 Gbit/s) and 2.28.9 (two H200 over sockets). Since then their bandwidth decides.
 */
const TWO_PER_NET_PEER = { NCCL_NCHANNELS_PER_NET_PEER: '2' };

const isOlder = (version: string, major: number, minor: number): boolean => {
  const [a = 0, b = 0] = version.split('.').map(Number);
  return a < major || (a === major && b < minor);
};

/**
 * The constants of a version, such as `2.29.2`; text behind the number (`+cuda13.1`) is ignored.
 *
 * The copy is the caller's own.
 */
export function constantsOfVersion(version: string): VersionedConstants {
  const number = /^\d+\.\d+\.\d+/.exec(version)?.[0] ?? version;
  const constants = defaultConstants();
  if (number === MODEL_VERSION) {
    const generations: readonly Generation[] = ['Volta', 'Ampere', 'Hopper', 'Blackwell'];
    const source = 'the version whose rules this library follows';
    return { constants, from: number, evidence: { generations, scales: [0, 1, 2], source }, defaults: {} };
  }
  const evidence = SEEN[number];
  const defaults = isOlder(number, 2, 30) ? TWO_PER_NET_PEER : {};
  return { constants, from: evidence === undefined ? MODEL_VERSION : number, evidence, defaults };
}
