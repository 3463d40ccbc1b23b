/** The pairs of algorithm and protocol between which a call on host memory has a choice. */
import type { Collective } from '../../collectives/control-block.js';
import { ALGORITHMS, type Algorithm, isDirect, protocolsOf, supports } from '../../collectives/registry.js';
import type { RingProtocol } from '../../collectives/ring.js';

/** Collectives with data. */
export type DataCollective = Exclude<Collective, 'barrier'>;

export const DATA_COLLECTIVES: readonly DataCollective[] = [
  'allReduce',
  'reduce',
  'broadcast',
  'allGather',
  'reduceScatter',
  'allToAll',
];

export interface Candidate {
  readonly algorithm: Algorithm;
  /** Direct programs have one of their own, called Simple. */
  readonly protocol: RingProtocol;
}

/** Algorithms over switches: emulated on host memory to be watched, never fast, so nobody gets them who does not ask. */
export const OVER_SWITCHES: readonly Algorithm[] = ['NVLS', 'NVLSTree', 'CollNetDirect', 'CollNetChain'];

/** All pairs that the model knows, in a fixed order, which decides ties. */
export const CANDIDATES: readonly Candidate[] = ALGORITHMS.filter(
  (algorithm) => !OVER_SWITCHES.includes(algorithm),
).flatMap((algorithm) => protocolsOf(algorithm).map((protocol) => ({ algorithm, protocol })));

/** Those with a program for the collective. */
export function candidatesFor(collective: Collective): readonly Candidate[] {
  return CANDIDATES.filter(({ algorithm }) => supports(algorithm, collective));
}

/** `Ring LL`, `TwoShot`. */
export function candidateName({ algorithm, protocol }: Candidate): string {
  return isDirect(algorithm) ? algorithm : `${algorithm} ${protocol}`;
}
