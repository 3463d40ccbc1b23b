/** Time-outs of watchdogs, and who reported none. */
import { largest } from '../../model/extremes.js';
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isMessage, watchdogs } from './watchdogs.js';

export const watchdogTimeout: Rule = {
  id: 'watchdog-timeout',
  causes: ['hangs'],
  looksFor: 'collectives that did not finish in time, with no fault that explains it',
  example: [
    example(
      'node-a.out',
      '[rank2]:[E1021 14:32:09.114402911 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50313, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.',
    ),
  ],
  references: ['PyTorch: TORCH_NCCL_ASYNC_ERROR_HANDLING, flight recorder'],
  explainedBy: { effects: ['blocks', 'kills', 'hangs'] },
  find(job) {
    const lines: Place[] = [
      ...watchdogs(job).map(({ at }) => at),
      ...job.dumps.flatMap(({ reason }) =>
        reason !== undefined && /time-?out/i.test(reason.text) ? [reason.at] : [],
      ),
    ];
    if (lines.length === 0) return [];
    const told = watchdogs(job);
    const ranks = [...new Set(told.flatMap(({ rank }) => rank ?? []))].sort((a, b) => a - b);
    const sequences = [...new Set(told.flatMap(({ sequence }) => sequence ?? []))];
    const calls = [
      ...new Set(
        told.map(({ operation, sequence }) => [operation ?? 'operation', sequence ?? ''].join(' ').trim()),
      ),
    ];
    const silent = silentRanks(job, ranks);
    return [
      {
        severity: 'error',
        confidence: silent.length > 0 ? 'likely' : 'possible',
        text: `${ranks.length === 0 ? 'ranks' : `rank ${listed(ranks)}`} waited in vain${calls.length === 0 ? '' : ` in ${listed(calls, 3)}`}${silent.length === 0 ? '' : `; rank ${listed(silent)} reports no time-out and is likely the one they wait for`}`,
        culprit: {
          ...(silent.length === 1 ? { rank: silent[0] } : silent.length > 1 ? { missing: silent } : {}),
          ranks: ranks.slice(0, 64),
          sequences: sequences.slice(0, 16),
        },
        evidence: some(lines, 24),
        repair:
          silent.length > 0
            ? `Look at rank ${listed(silent)}: its log and stack (py-spy dump) at that time, exceptions, the data loader; the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1) tells what it called last.`
            : 'See who is missing: logs of the ranks that report no time-out, the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), or ncclras -v while it hangs.',
        workaround: 'A longer time-out only delays the end.',
        why: 'the other ranks waited until the limit',
      },
    ];
  },
};

/** Ranks of which nothing reports a time-out, where most others do. */
function silentRanks(job: Job, waiting: readonly number[]): number[] {
  const told = watchdogs(job);
  // Who does not even see the time-out, because its own watchdog stands still.
  const stuck = job.events.flatMap(({ kind, rank }) =>
    kind === 'heartbeat' && rank !== undefined && !waiting.includes(rank) ? [rank] : [],
  );
  if (waiting.length > 0 && stuck.length > 0) return [...new Set(stuck)].sort((a, b) => a - b);
  // Groups of a part of the ranks, and messages, do not concern the others.
  const isOfPart =
    new Set(told.flatMap(({ group }) => group ?? [])).size > 1 ||
    told.some(({ rank, groupRank }) => groupRank !== undefined && groupRank !== rank) ||
    told.some(({ operation }) => isMessage(operation));
  if (isOfPart) return [];
  const known = [
    ...job.events.flatMap(({ rank }) => rank ?? []),
    ...job.processes.flatMap(({ members }) => members.flatMap(({ size }) => (size ?? 1) - 1)),
  ];
  const size = 1 + largest(known, -1);
  // Groups of some of the ranks, or a log of one rank, leave gaps that mean nothing.
  if (size > 65_536 || waiting.length <= size / 2) return [];
  return Array.from({ length: size }, (_, rank) => rank).filter((rank) => !waiting.includes(rank));
}
