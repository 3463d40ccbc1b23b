/** A communicator that starts and never completes: some rank has not come, or something blocks all of them. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { breaksOff, failuresAfter, firstOfEach, hosts, listed, some, waitingMembers } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const initWaiting: Rule = {
  id: 'init-waiting',
  causes: ['blocks', 'hangs'],
  looksFor: 'communicators that started and never completed',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x3c - Init START',
    ),
  ],
  references: [],
  explainedBy: { effects: ['blocks', 'kills'] },
  find(job) {
    // Where others of the communicator are done, the log of the rest is cut.
    const done = new Set(
      job.processes.flatMap(({ members }) => members.flatMap((one) => (one.completed ? [one.commId] : []))),
    );
    const waiting = waitingMembers(job).filter(
      ({ member, process }) =>
        (member.commId === undefined || !done.has(member.commId)) &&
        failuresAfter(process, member.started).length === 0,
    );
    const [first] = waiting;
    if (first === undefined) return [];
    // A copy that was cut shows only how far it reaches.
    if (waiting.every(({ process }) => breaksOff(job, process))) return [];
    const culprits = missingRanks(job);
    const size = first.member.size;
    const isEnded = job.events.some(({ kind }) => kind === 'cancelled' || kind === 'watchdog');
    if (isAllThere(job, first.member)) return [inSetUp(waiting, size, isEnded)];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${waiting.length} rank${waiting.length === 1 ? ' is' : 's are'} waiting in the set-up of a communicator of ${size ?? '?'}${culprits.length === 0 ? '' : `; nothing is known of rank ${listed(culprits)}`}`,
        culprit: { waiting: waiting.length, missing: culprits.slice(0, 64) },
        evidence: some(firstOfEach(waiting, ({ process }) => process).map(({ member }) => member.started!)),
        repair:
          'All ranks must reach the creation of the communicator: look at those of which no log says Init START (not started, other rank or size, other unique id, blocked before it).',
        workaround: null,
        why: 'the others wait in Init START',
      },
    ];
  },
};

type Waiting = ReturnType<typeof waitingMembers>[number];

/** Every rank of a communicator has started. */
function isAllThere(job: Job, { commId, size }: Waiting['member']): boolean {
  const ranks = new Set(
    job.processes.flatMap(({ members }) =>
      members.flatMap((one) => (one.commId === commId && one.rank !== undefined ? [one.rank] : [])),
    ),
  );
  return size !== undefined && ranks.size >= size;
}

/** All are there, and the log of none goes on: a hang, or a log that was taken before the end. */
function inSetUp(waiting: readonly Waiting[], size: number | undefined, isEnded: boolean): Finding {
  return {
    // A time limit that was met tells that it stood still.
    severity: isEnded ? 'error' : 'warning',
    confidence: 'possible',
    text: `all ${size} ranks began the set-up of a communicator and none completed it before the log ends`,
    culprit: { waiting: waiting.length, missing: [] },
    evidence: some(
      distinctPlaces(
        firstOfEach(waiting, ({ process }) => process).flatMap(({ member, process }) => [
          member.started,
          process.last,
        ]),
      ),
    ),
    repair:
      'If the job stands still, take the stacks of all ranks, and run it again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL: what each rank logs last tells what it waits for. If it went on, give the whole log.',
    workaround: null,
    why: 'the set-up does not end',
  };
}

/** Ranks of waiting communicators without a line, where few are missing. */
function missingRanks(job: Job): number[] {
  const waiting = waitingMembers(job);
  const size = waiting[0]?.member.size;
  if (size === undefined || hosts(job).length === 0) return [];
  const id = waiting[0]!.member.commId;
  const there = new Set(
    job.processes.flatMap(({ members }) =>
      members.filter((one) => one.commId === id).map(({ rank }) => rank),
    ),
  );
  const missing = Array.from({ length: Math.min(size, 65_536) }, (_, rank) => rank).filter(
    (rank) => !there.has(rank),
  );
  return missing.length < size / 2 ? missing : [];
}
