/** Words for what went wrong on GPUs: who has not come, who calls something else. */
import { TuttiError } from '../../errors/tutti-error.js';
import { isStopped } from '../../system/process-liveness.js';
import { describeCall, listRanks } from '../diagnosis.js';
import { differentMessages, missingEnd } from '../message-diagnosis.js';
import type { Trouble } from '../team.js';
import type { CallMismatch, CallRecord } from './call-boards.js';
import type { CudaTeam } from './cuda-team.js';
import type { MessageMismatch } from './message-boards.js';
import { crossedOrder, whereElse } from './other-calls.js';

/** Two ranks called different things; names both calls. */
export function describeCudaMismatch(
  rank: number,
  { own, peer, other }: CallMismatch,
): { error: TuttiError; trouble: Trouble } {
  const inWords = (call: CallRecord | undefined) =>
    call === undefined ? 'nothing more' : describeCall(call.signature, call.count);
  const message =
    `the ranks do different things: rank ${rank} calls ${inWords(own)}, rank ${peer} calls ${inWords(other)}; ` +
    'all ranks must make the same calls in the same order';
  return {
    error: new TuttiError('invalidUsage', message, { rank: peer }),
    trouble: { kind: 'mismatch', culprit: peer },
  };
}

/** The two ends of a message have different sizes. */
export function describeMessageMismatch(
  rank: number,
  { own: { kind, peer, bytes }, other }: MessageMismatch,
): { error: TuttiError; trouble: Trouble } {
  const text =
    kind === 'send'
      ? differentMessages({ from: rank, to: peer, sent: bytes, expected: other })
      : differentMessages({ from: peer, to: rank, sent: other, expected: bytes });
  return {
    error: new TuttiError('invalidUsage', text, { rank: peer }),
    trouble: { kind: 'mismatch', culprit: peer },
  };
}

/** Messages whose other ends have not been called, in words, and the first of those ranks. */
function describeUnmatched({
  rank,
  calls,
}: CudaTeam): { readonly peer: number; readonly text: string } | undefined {
  const list = calls.messages.unmatched();
  if (list.length === 0) return undefined;
  const texts = list.map(({ kind, peer }) => missingEnd(rank, kind, peer));
  return { peer: list[0]!.peer, text: texts.join('; ') };
}

/** Ranks whose processes are stopped (SIGSTOP, a debugger). */
function stoppedRanks(processes: CudaTeam['processes']): number[] {
  return [...processes.keys()].filter((peer) => {
    const process = processes[peer];
    return process !== undefined && isStopped(process);
  });
}

function stoppedText(ranks: readonly number[]): string {
  return ranks.length === 1
    ? `the process of ${listRanks(ranks)} is stopped`
    : `the processes of ${listRanks(ranks)} are stopped`;
}

/**
 * The time limit of a call has passed, when the rank had begun so many operations. Names the ranks that did not come
 * where that can be known.
 */
export function describeCudaTimeout(
  team: CudaTeam,
  call: string,
  timeoutMs: number,
  operations: number,
): { error: TuttiError; trouble: Trouble } {
  const { rank, calls, processes } = team;
  const absent = calls.behind(operations);
  const stopped = stoppedRanks(processes);
  const details: string[] = [];
  if (absent.length > 0) details.push(`${listRanks(absent)} did not call it`);
  if (stopped.length > 0) details.push(stoppedText(stopped));
  const unmatched = absent.length > 0 ? undefined : describeUnmatched(team);
  if (unmatched !== undefined) details.push(unmatched.text);
  const suspect = stopped[0] ?? absent[0] ?? unmatched?.peer;
  const elsewhere =
    suspect === undefined
      ? crossedOrder(calls, rank, operations)
      : absent.map((peer) => whereElse(calls, rank, peer)).find((text) => text !== undefined);
  if (elsewhere !== undefined) details.push(elsewhere);
  else if (suspect === undefined) {
    details.push(
      'nobody is known to be missing: a rank may not send or receive its part, or a GPU or a stream may be busy with something else',
    );
  }
  return {
    error: new TuttiError('timeout', `${call}: not done after ${timeoutMs} ms; ${details.join('; ')}`, {
      rank: suspect ?? rank,
    }),
    trouble:
      suspect === undefined ? { kind: 'stalled', culprit: rank } : { kind: 'timeout', culprit: suspect },
  };
}

/** The time limit of a call has passed that waited for peers to open memory of this rank. */
export function describeMappingTimeout(
  { rank, processes, unanswered }: CudaTeam,
  call: string,
  timeoutMs: number,
): { error: TuttiError; trouble: Trouble } {
  const stopped = stoppedRanks(processes);
  const details =
    unanswered.length > 0 ? [`${listRanks(unanswered)} did not open new buffers of rank ${rank}`] : [];
  if (stopped.length > 0) details.push(stoppedText(stopped));
  const culprit = stopped[0] ?? unanswered[0] ?? rank;
  return {
    error: new TuttiError('timeout', `${call}: not begun after ${timeoutMs} ms; ${details.join('; ')}`, {
      rank: culprit,
    }),
    trouble: { kind: 'timeout', culprit },
  };
}
