/** Words for messages that do not come or are not what was expected, from what the ranks have left in memory. */

import { MESSAGE_PURPOSES } from '../collectives/message-memory.js';
import { STATUS_WRONG_MESSAGE } from '../collectives/messages.js';
import { TuttiError } from '../errors/tutti-error.js';
import { isStopped } from '../system/process-liveness.js';
import type { MessagePool } from './message-pool.js';
import type { Team, Trouble } from './team.js';
import type { Finding, Witness } from './witness.js';

/** Peers that one error tells of. */
const MOST_DETAILS = 8;

/** Messages of one peer and direction, as the witness of a batch needs them. */
export interface Correspondence {
  readonly kind: 'send' | 'receive' | 'copy';
  readonly peer: number;
}

const part = (purpose: number): string => {
  const name = Object.entries(MESSAGE_PURPOSES).find(([, code]) => code === purpose)?.[0];
  return name === undefined || name === 'send' ? '' : ` as part of a ${name}`;
};

/** A message whose ends have different sizes, in bytes, or belong to different calls. */
export function differentMessages({
  from,
  to,
  sent,
  expected,
  sentAs = '',
  expectedAs = '',
}: {
  readonly from: number;
  readonly to: number;
  readonly sent: number;
  readonly expected: number;
  readonly sentAs?: string;
  readonly expectedAs?: string;
}): string {
  return (
    `rank ${from} sends ${sent} bytes to rank ${to}${sentAs}, ` +
    `rank ${to} expects ${expected} bytes from rank ${from}${expectedAs}; ` +
    'both must agree, and messages of a pair of ranks are matched in the order of the calls'
  );
}

/** The other end of a rank's message has not been called. */
export function missingEnd(rank: number, kind: 'send' | 'recv', peer: number): string {
  const missing = kind === 'send' ? `recv of rank ${rank}'s message` : `send to rank ${rank}`;
  return `rank ${peer} has not called the ${missing}`;
}

/** What tells of a batch of messages of this rank. */
export function messageWitness(
  team: Team,
  pool: MessagePool,
  name: string,
  streams: readonly Correspondence[],
): Witness {
  return {
    difference: (status) =>
      status === STATUS_WRONG_MESSAGE ? findDifference(team, pool, streams) : undefined,
    timeout: (timeoutMs) => describeWait(team, pool, name, streams, timeoutMs),
    heard: (trouble) => {
      if (trouble.kind === 'mismatch') return findDifference(team, pool, streams)?.error;
      // The rank that is blamed for a wait may wait as well, and knows best for what.
      if (trouble.kind !== 'timeout' || trouble.culprit !== team.rank) return undefined;
      return describeGivenUp(team, pool, name, streams);
    },
  };
}

/** Which of the messages was another one at its other end; the error is about the peer. */
function findDifference(
  team: Team,
  pool: MessagePool,
  streams: readonly Correspondence[],
): Finding | undefined {
  for (const { kind, peer } of streams) {
    if (kind === 'copy') continue;
    const [from, to] = kind === 'send' ? [team.rank, peer] : [peer, team.rank];
    const wanted = pool.wrongMessage(from, to);
    const came = pool.arrival(from, to);
    if (wanted === undefined || came === undefined) continue;
    const text = differentMessages({
      from,
      to,
      sent: came.total,
      expected: wanted.bytes,
      sentAs: part(came.purpose),
      expectedAs: part(wanted.purpose),
    });
    const trouble: Trouble = { kind: 'mismatch', culprit: peer };
    return { error: new TuttiError('invalidUsage', text, { rank: peer }), trouble };
  }
  return undefined;
}

/** What is known of a message that this rank waits for; undefined when it does not. */
function describeOne(
  team: Team,
  pool: MessagePool,
  { kind, peer }: Correspondence,
): { readonly text: string; readonly isAbsent: boolean } | undefined {
  const { rank } = team;
  if (kind === 'copy' || !pool.isBusy(kind, peer)) return undefined;
  if (!team.shared) {
    const text =
      kind === 'send'
        ? `rank ${peer} has not received what rank ${rank} sends`
        : `nothing has come from rank ${peer}`;
    return { text, isAbsent: true };
  }
  const [from, to] = kind === 'send' ? [rank, peer] : [peer, rank];
  const { sends = 0, receives = 0 } = pool.begun(from, to);
  const behind = kind === 'send' ? (receives - sends) | 0 : (sends - receives) | 0;
  if (behind < 0) {
    const opposite = pool.arrival(peer, rank);
    const isCrossed = kind === 'send' && opposite?.keepsSender === true;
    const crossed = isCrossed
      ? ` and itself waits for rank ${rank} to receive: put sends and receives that depend on each other into one group`
      : '';
    const missing = missingEnd(rank, kind === 'send' ? 'send' : 'recv', peer);
    return { text: `${missing}${crossed}`, isAbsent: true };
  }
  return { text: `rank ${peer} has called it and is not done`, isAbsent: false };
}

/** The messages that this rank waits for, in words, and the rank that is to blame first. */
function findWaits(
  team: Team,
  pool: MessagePool,
  streams: readonly Correspondence[],
): { readonly texts: readonly string[]; readonly peer: number | undefined } {
  const found = streams
    .filter(({ kind }) => kind !== 'copy')
    .map((stream) => ({ peer: stream.peer, ...describeOne(team, pool, stream) }))
    .filter(({ text }) => text !== undefined);
  // Those that have not called say more than those that are on their way.
  const absent = found.filter(({ isAbsent }) => isAbsent);
  const shown = absent.length > 0 ? absent : found;
  return { texts: [...new Set(shown.map(({ text }) => text!))], peer: shown[0]?.peer };
}

function describeGivenUp(
  team: Team,
  pool: MessagePool,
  name: string,
  streams: readonly Correspondence[],
): TuttiError | undefined {
  const { texts, peer } = findWaits(team, pool, streams);
  if (peer === undefined) return undefined;
  return new TuttiError(
    'remoteError',
    `${name}: the communicator was given up because a time limit passed; ${texts.slice(0, MOST_DETAILS).join('; ')}`,
    { rank: peer },
  );
}

function describeWait(
  team: Team,
  pool: MessagePool,
  name: string,
  streams: readonly Correspondence[],
  timeoutMs: number,
): Finding {
  const stopped = team.peers.filter(({ process }) => isStopped(process)).map(({ rank }) => rank);
  const { texts, peer: awaited } = findWaits(team, pool, streams);
  const partners = stopped.filter((rank) => streams.some(({ peer }) => peer === rank));
  const suspicion = team.suspect?.();
  const details = [...partners.map((rank) => `the process of rank ${rank} is stopped`), ...texts];
  if (details.length === 0 && suspicion !== undefined) details.push(`rank ${suspicion.rank} does not answer`);
  const suspect = partners[0] ?? awaited ?? suspicion?.rank;
  if (suspect === undefined) details.push('some rank does not take part or is too slow');
  const more = details.length > MOST_DETAILS ? `; and ${details.length - MOST_DETAILS} more` : '';
  return {
    error: new TuttiError(
      'timeout',
      `${name}: not done after ${timeoutMs} ms; ${details.slice(0, MOST_DETAILS).join('; ')}${more}`,
      { rank: suspect ?? team.rank },
    ),
    trouble:
      suspect === undefined ? { kind: 'stalled', culprit: team.rank } : { kind: 'timeout', culprit: suspect },
  };
}
