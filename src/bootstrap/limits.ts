/** Bounds of the control network that several files share. */

/** Longest contribution of one rank to a control operation, bytes: control data, never user data. */
export const MAX_CONTRIBUTION_BYTES = 16 * 1024 * 1024;
/** Largest outcome of a control operation, all contributions together, bytes. */
const MAX_GATHERED_BYTES = 1024 * 1024 * 1024;

/** Longest contribution in a control operation of `participants` ranks, bytes. */
export function maxContributionBytes(participants: number): number {
  return Math.min(MAX_CONTRIBUTION_BYTES, Math.floor(MAX_GATHERED_BYTES / participants));
}

/** Longest message from the root to a rank of a communicator of `size`: an outcome, or the table of members. */
export function maxFromRootBytes(size: number): number {
  return size * (maxContributionBytes(size) + 1024) + 64 * 1024;
}

/** Most ranks of a communicator; a rank is sent as 32 bits, this bound keeps rank lists and tables small. */
export const MAX_RANKS = 65536;
/** Longest name of a peer connection's purpose, characters. */
export const MAX_PURPOSE_CHARACTERS = 200;
/** Time a rank waits for the others unless told otherwise, ms. NCCL waits for ever; people do not. */
export const DEFAULT_TIMEOUT_MS = 120_000;
