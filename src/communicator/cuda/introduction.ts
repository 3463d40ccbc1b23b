/** What ranks on GPUs that are processes tell each other when they meet, and what they have to agree on. */
import type { Bootstrap } from '../../bootstrap/bootstrap.js';
import { type ErrorCode, TuttiError } from '../../errors/tutti-error.js';
import type { ProcessIdentity } from '../../system/process-liveness.js';
import type { RankGpu } from './gpu-team.js';

/** What kept a rank from its step, if anything did. */
export interface Report {
  readonly problem?: string;
  /** Its code, where it is no error of the driver. */
  readonly code?: ErrorCode;
}

/** What a rank tells the others about itself. Plain JSON: it is sent once. */
export interface Introduction extends Report, RankGpu {
  /** Tells this rank's process from others. */
  readonly identity: string;
  readonly process: ProcessIdentity;
  /** GPUs may use each other's memory. */
  readonly peerToPeer: boolean;
  /** GPUs that this rank's GPU is known not to reach. */
  readonly unreachable: readonly string[];
  /** GPUs in whose memory lines of 128 bytes arrive whole that this rank's GPU stores. */
  readonly wholeLinesTo: readonly string[];
  /** Announcement of the segment that holds the board, or why others cannot map it. */
  readonly segment?: string;
  readonly noSegment?: string;
  /** Offset of the board in the segment. */
  readonly board: number;
  /** Where file descriptors for this rank go (handle-post.ts); absent where it can receive none. */
  readonly descriptors?: string;
  /** See GpuPrograms. */
  readonly agreement: string;
  /** Calls are compared before they begin. */
  readonly check: boolean;
}

/** Throws what ranks have reported; every rank throws the same. */
export function checkReports(reports: readonly Report[]): void {
  const culprit = reports.findIndex(({ problem }) => problem !== undefined);
  if (culprit < 0) return;
  const { problem, code = 'unhandledCudaError' } = reports[culprit]!;
  throw new TuttiError(code, `rank ${culprit}: ${problem}`, { rank: culprit });
}

/** Throws `invalidUsage` when the ranks' processes cannot reach each other's GPUs. */
export function checkOneHost(bootstrap: Bootstrap): void {
  const [first] = bootstrap.members;
  const other = bootstrap.members.find(({ hostHash }) => hostHash !== first!.hostHash);
  if (other === undefined) return;
  throw new TuttiError(
    'invalidUsage',
    `rank 0 is on ${first!.hostName}, rank ${other.rank} on ${other.hostName}; ranks on GPUs must be on one host`,
    { rank: other.rank },
  );
}

/** Throws `invalidUsage` when ranks would choose different programs; every rank throws the same. */
export function checkAgreement(introductions: readonly Introduction[]): void {
  const [first] = introductions;
  const other = introductions.findIndex(({ agreement }) => agreement !== first!.agreement);
  if (other < 0) return;
  const [ours, theirs] = [first!, introductions[other]!].map(({ agreement }) => agreement || 'any');
  throw new TuttiError(
    'invalidUsage',
    `rank 0 and rank ${other} allow different algorithms: ${ours} and ${theirs}; set NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE and NCCL_MIN_NCHANNELS (or the options) alike on all ranks`,
    { rank: other },
  );
}

/** Throws `invalidUsage` when some ranks compare calls and others do not: they would wait for each other. */
export function checkComparison(introductions: readonly Introduction[]): void {
  const other = introductions.findIndex(({ check }) => check !== introductions[0]!.check);
  if (other < 0) return;
  const [yes, no] = introductions[0]!.check ? [0, other] : [other, 0];
  throw new TuttiError(
    'invalidUsage',
    `rank ${yes} compares calls (check: true or TUTTI_CHECK=1), rank ${no} does not; set it alike on all ranks`,
    { rank: other },
  );
}

/** Whether areas have to lie in memory of the host: the same answer at all ranks. */
export function areApart(introductions: readonly Introduction[]): boolean {
  return introductions.some(
    ({ peerToPeer, unreachable }) =>
      !peerToPeer || introductions.some(({ uuid }) => unreachable.includes(uuid)),
  );
}

/** Whether lines arrive whole wherever any rank stores them. */
export function storeWholeLines(introductions: readonly Introduction[]): boolean {
  return introductions.every(({ wholeLinesTo }) =>
    introductions.every(({ uuid }) => wholeLinesTo.includes(uuid)),
  );
}
