/** A send or a receive of which the other end was never called, as dumps of operations tell. */
import type { DumpedOperation, Message, RankDump } from '../../model/dump.js';
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { byCommunicator } from './reported-operations.js';

/** Something beside the dumps says that the job stands still: they may be pictures of a job that runs. */
const isHanging = (job: Job): boolean =>
  job.events.some(({ kind }) => kind === 'watchdog' || kind === 'cancelled') ||
  job.dumps.some(({ reason }) => reason !== undefined);

interface Waiting {
  readonly dump: RankDump;
  readonly operation: DumpedOperation;
  readonly message: Message;
}

/** The first message that a rank waits in. */
function waitingMessage(dump: RankDump): Waiting | undefined {
  const operation = dump.operations.find(({ state }) => state !== 'completed');
  const message = operation?.message;
  return operation === undefined || message === undefined || message === 'unknown'
    ? undefined
    : { dump, operation, message };
}

function unmatchedIn(list: readonly RankDump[], isProven: boolean): Finding[] {
  const waiting = list.flatMap((dump) => waitingMessage(dump) ?? []);
  /** Number of the job of a rank of the group. */
  const numberOf = (rank: number): number => list[0]!.members?.[rank] ?? rank;
  const alone = waiting.flatMap((one) => {
    const { isSend, from, to } = one.message;
    const other = numberOf(isSend ? to : from);
    const peer = list.find(({ rank }) => rank === other);
    const isMet = peer?.operations.some(
      ({ state, message }) =>
        state !== 'completed' &&
        message !== undefined &&
        (message === 'unknown' || (message.isSend !== isSend && message.from === from && message.to === to)),
    );
    return peer === undefined || isMet ? [] : [{ ...one, peer }];
  });
  // Who waits for a rank that itself waits in a message follows from that.
  const roots = alone.filter(({ peer }) => waitingMessage(peer) === undefined);
  const [first] = roots.length > 0 ? roots : alone;
  if (first === undefined) return [];
  // Ranks that wait for the one before them are what a pipeline is while its first stage computes.
  const isAll = waiting.length === list.length - 1 && first.message.isSend === false;
  if (!isProven && !isAll) return [];
  const { peer, operation, dump, message } = first;
  const wanted = message.isSend
    ? `receive ${message.to} <- ${message.from}`
    : `send ${message.from} -> ${message.to}`;
  const last: Place | undefined = peer.operations.at(-1)?.at;
  const others = waiting.filter((one) => one.dump !== dump).map((one) => one.dump.rank);
  return [
    {
      severity: 'error',
      confidence: isProven ? 'likely' : 'possible',
      text: `rank ${peer.rank}${peer.host === undefined ? '' : ` on ${peer.host}`} has not called ${wanted} that rank ${dump.rank} waits for${others.length === 0 ? '' : `; rank ${listed(others)} ${others.length === 1 ? 'waits' : 'wait'} behind it`}`,
      culprit: {
        rank: peer.rank,
        ...(peer.host === undefined ? {} : { host: peer.host }),
        operation: wanted,
        waiting: [dump.rank, ...others].slice(0, 64),
        communicator: dump.communicator,
      },
      evidence: distinctPlaces([operation.at, last, ...some(waiting.map((one) => one.operation.at))]),
      repair: `Look at rank ${peer.rank}: what it does instead (stack, data loader, exception), or whether it sends and receives in another order, or in another number, than rank ${dump.rank} expects.`,
      workaround: null,
    },
  ];
}

export const messageUnmatched: Rule = {
  id: 'message-unmatched',
  causes: ['hangs'],
  looksFor: 'a send or receive that waits because the other rank did not call its end of it',
  example: [
    example(
      'dumps.json',
      '{ "reason": "timeout after 600 s", "ranks": [',
      '  { "rank": 0, "group": "pp", "ops": [ { "seq": 7, "op": "send 0->1", "count": 8, "state": "completed" } ] },',
      '  { "rank": 1, "group": "pp", "ops": [ { "seq": 7, "op": "recv 1<-0", "count": 8, "state": "completed" },',
      '                                       { "seq": 8, "op": "recv 1<-0", "count": 8, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  find: (job) => byCommunicator(job.dumps).flatMap((list) => unmatchedIn(list, isHanging(job))),
};
