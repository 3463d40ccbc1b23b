/**
 * The pairs of algorithm and protocol between which a call on host memory has a choice, and the options that allow one
 * of them alone.
 */
import type { Collective } from '../../../collectives/control-block.js';
import {
  ALGORITHMS,
  type Algorithm,
  isDirect,
  protocolsOf,
  supports,
} from '../../../collectives/registry.js';
import type { RingProtocol } from '../../../collectives/ring.js';
import type { CommunicatorOptions } from '../../../communicator/settings.js';

export interface Candidate {
  readonly algorithm: Algorithm;
  /** Direct programs have one of their own, called Simple. */
  readonly protocol: RingProtocol;
}

/** All pairs, in a fixed order. */
export const CANDIDATES: readonly Candidate[] = ALGORITHMS.flatMap((algorithm) =>
  protocolsOf(algorithm).map((protocol) => ({ algorithm, protocol })),
);

/** Those with a program for the collective. */
export function candidatesFor(collective: Collective): Candidate[] {
  return CANDIDATES.filter(({ algorithm }) => supports(algorithm, collective));
}

/** `Ring LL`, `TwoShot`. */
export function candidateName({ algorithm, protocol }: Candidate): string {
  return isDirect(algorithm) ? algorithm : `${algorithm} ${protocol}`;
}

/** Options of a communicator that has no other choice. */
export function onlyCandidate({ algorithm, protocol }: Candidate): CommunicatorOptions {
  const list = `${algorithm};alltoall:${algorithm}`;
  return isDirect(algorithm)
    ? { algorithm: list }
    : { algorithm: list, protocol: `${protocol};alltoall:${protocol}` };
}
