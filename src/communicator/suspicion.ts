/**
 * Who seems to keep this rank waiting, as a word of memory that the network proxy writes and a rank reads whose
 * operation has run out of time.
 */
import type { Suspicion } from '../transport/net/roll-call.js';

const KINDS = [undefined, 'silent', 'absent'] as const;

/** Kind in the low byte, rank above; 0 for none. */
export function encodeSuspicion(suspicion: Suspicion | undefined): number {
  return suspicion === undefined ? 0 : KINDS.indexOf(suspicion.kind) | (suspicion.rank << 8);
}

export function decodeSuspicion(word: number): Suspicion | undefined {
  const kind = KINDS[word & 255];
  return kind === undefined ? undefined : { kind, rank: word >>> 8 };
}
