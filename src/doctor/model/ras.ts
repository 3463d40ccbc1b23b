/**
 * A status report of NCCL's RAS subsystem.
 */
import type { Place } from './place.js';

export interface RasProcess {
  readonly pid: number;
  readonly host: string;
  readonly gpus: string;
  readonly at: Place;
}

export interface RasRank {
  readonly rank: number;
  readonly gpu: string | undefined;
  readonly pid: number | undefined;
  readonly host: string | undefined;
  readonly at: Place;
}

/** Ranks that launched the same number of operations. */
export interface RasCount {
  readonly ranks: number;
  /** The last operation; 0 when none was launched. */
  readonly operation: number;
  readonly listed: RasRank[];
  readonly at: Place;
}

export interface RasMismatch {
  readonly operation: string;
  readonly counts: RasCount[];
  readonly at: Place;
}

export interface RasCommunicator {
  /** Hexadecimal. */
  readonly hash: string;
  readonly at: Place;
  missing: { readonly ranks: RasRank[]; readonly at: Place } | undefined;
  readonly errors: { readonly text: string; readonly at: Place }[];
  readonly mismatches: RasMismatch[];
}

export interface RasReport {
  readonly at: Place;
  readonly version: string | undefined;
  readonly dead: RasProcess[];
  readonly deadAt: Place[];
  readonly incomplete: RasProcess[];
  readonly communicators: RasCommunicator[];
  timeouts: { readonly count: number; readonly at: Place } | undefined;
}
