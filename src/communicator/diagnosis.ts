/**
 * Words for what went wrong: who disagreed and in what, who has not come, who died. Reads the posts that the
 * ranks left in their control blocks.
 */

import { BANK_STRIDE, ControlBlock, describeSignature, Post } from '../collectives/control-block.js';
import { STATUS_MISMATCH } from '../collectives/direct.js';
import { TuttiError } from '../errors/tutti-error.js';
import { isStopped } from '../system/process-liveness.js';
import type { Team, Trouble } from './team.js';
import type { Witness } from './witness.js';

/** The post of a rank in the round of an epoch. */
function postOf(team: Team, rank: number, epoch: number) {
  const bank = team.areas[rank]! + ControlBlock.fields.bank0.offset + (epoch & 1) * BANK_STRIDE;
  return Post.at(team.device.dataView, bank);
}

function ownEpoch(team: Team): number {
  return ControlBlock.at(team.device.dataView, team.area).get('epoch');
}

/** A call in words, from its signature and count. */
export function describeCall(signature: number, count: number): string {
  const { collective, type, op, root } = describeSignature(signature);
  const rooted = ['broadcast', 'reduce', 'gather', 'scatter'].includes(collective);
  const parts = [`${collective} of ${count} ${type}`];
  if (op !== undefined) parts.push(`op ${op}`);
  if (rooted) parts.push(`root ${root}`);
  return parts.join(', ');
}

/** What tells of an operation of all ranks; `meets` says that its posts do. */
export function operationWitness(team: Team, call: string, meets: boolean): Witness {
  return {
    difference: (status) => (status === STATUS_MISMATCH ? describeMismatch(team) : undefined),
    timeout: (timeoutMs) => describeTimeout(team, call, timeoutMs, meets),
  };
}

/** Two ranks called different things; names both calls. */
function describeMismatch(team: Team): { error: TuttiError; trouble: Trouble } {
  const { rank } = team;
  const culprit = ControlBlock.at(team.device.dataView, team.area).get('faultRank');
  const epoch = ownEpoch(team);
  const own = postOf(team, rank, epoch);
  const other = postOf(team, culprit, epoch);
  const message =
    `the ranks do different things: rank ${rank} calls ${describeCall(own.get('signature'), own.get('count'))}, ` +
    `rank ${culprit} calls ${describeCall(other.get('signature'), other.get('count'))}; ` +
    'all ranks must make the same calls in the same order';
  return {
    error: new TuttiError('invalidUsage', message, { rank: culprit }),
    trouble: { kind: 'mismatch', culprit },
  };
}

/** Other ranks for which the test holds, when all ranks' memory can be seen. */
function othersWhere(team: Team, test: (rank: number) => boolean): number[] {
  if (!team.shared) return [];
  return Array.from(team.areas.keys()).filter((rank) => rank !== team.rank && test(rank));
}

/** Who keeps the others waiting, as far as memory and processes tell. */
function findMissing(team: Team, meets: boolean): { ranks: number[]; what: string } {
  const control = (rank: number) => ControlBlock.at(team.device.dataView, team.areas[rank]!);
  /** True when a 32-bit counter of a rank is behind this rank's. */
  const lags = (counter: 'ringCalls' | 'done', rank: number) =>
    ((control(rank).get(counter) - control(team.rank).get(counter)) | 0) < 0;
  if (meets) {
    const epoch = ownEpoch(team);
    const absent = othersWhere(team, (rank) => postOf(team, rank, epoch).get('epoch') !== epoch);
    if (absent.length > 0) return { ranks: absent, what: 'did not call it' };
    const unfinished = othersWhere(team, (rank) => lags('done', rank));
    if (unfinished.length > 0) return { ranks: unfinished, what: 'did not finish it' };
  } else {
    const absent = othersWhere(team, (rank) => lags('ringCalls', rank));
    if (absent.length > 0) return { ranks: absent, what: 'did not call it' };
  }
  return { ranks: [], what: '' };
}

/** `rank 3`, or `ranks 1, 2, 5`. */
export function listRanks(ranks: readonly number[]): string {
  const shown = ranks.slice(0, 16).join(', ');
  const more = ranks.length > 16 ? ` and ${ranks.length - 16} more` : '';
  return ranks.length === 1 ? `rank ${shown}` : `ranks ${shown}${more}`;
}

/** Rings do not compare what the ranks call. */
const ADVICE = ', or the ranks call different things: with check: true (TUTTI_CHECK=1) they would tell';

/** The time limit passed; names the ranks that did not come where that can be known. */
function describeTimeout(
  team: Team,
  what: string,
  timeoutMs: number,
  meets: boolean,
): { error: TuttiError; trouble: Trouble } {
  const { ranks, what: omission } = findMissing(team, meets);
  const stopped = team.peers.filter(({ process }) => isStopped(process)).map(({ rank }) => rank);
  const details: string[] = [];
  if (ranks.length > 0) details.push(`${listRanks(ranks)} ${omission}`);
  if (stopped.length > 0) {
    const processes = stopped.length === 1 ? 'the process of' : 'the processes of';
    details.push(`${processes} ${listRanks(stopped)} ${stopped.length === 1 ? 'is' : 'are'} stopped`);
  }
  const suspicion = team.suspect?.();
  if (suspicion !== undefined && !stopped.includes(suspicion.rank)) {
    const what = suspicion.kind === 'silent' ? 'does not answer' : 'did not call it';
    details.push(`rank ${suspicion.rank} ${what}`);
  }
  const suspect = stopped[0] ?? ranks[0] ?? suspicion?.rank;
  if (suspect === undefined)
    details.push(`some rank does not take part or is too slow${meets ? '' : ADVICE}`);
  return {
    error: new TuttiError('timeout', `${what}: not done after ${timeoutMs} ms; ${details.join('; ')}`, {
      rank: suspect ?? team.rank,
    }),
    trouble:
      suspect === undefined ? { kind: 'stalled', culprit: team.rank } : { kind: 'timeout', culprit: suspect },
  };
}

/** What another rank or the bootstrap reported. */
export function describeTrouble({ kind, culprit }: Trouble, own: number, detail?: string): TuttiError {
  const who = `rank ${culprit}`;
  const because = detail === undefined ? '' : ` (${detail})`;
  switch (kind) {
    case 'peerDied':
      return new TuttiError('remoteError', `${who} has died${because}; the communicator cannot go on`, {
        rank: culprit,
      });
    case 'timeout':
      return new TuttiError(
        'remoteError',
        `the communicator was given up because ${culprit === own ? 'this rank' : who} did not come in time${because}`,
        { rank: culprit },
      );
    case 'stalled':
      return new TuttiError(
        'remoteError',
        `the communicator was given up because the time limit of ${who} passed and nobody is known to be missing${because}`,
        { rank: culprit },
      );
    case 'mismatch':
      return new TuttiError(
        'invalidUsage',
        `the communicator was given up because the ranks made different calls (${who} among them)${because}`,
        { rank: culprit },
      );
    case 'left':
      return new TuttiError(
        'remoteError',
        `${who} has closed the communicator, but other ranks still call it${because}; all ranks must make the same calls`,
        { rank: culprit },
      );
    case 'outOfMemory':
      return new TuttiError(
        'remoteError',
        `${who} has no memory left, or no descriptors or threads, for a call that all ranks make${because}; the communicator cannot go on`,
        { rank: culprit },
      );
    case 'corrupt':
      return new TuttiError('remoteError', `${who} sent data that make no sense${because}`, {
        rank: culprit,
      });
    case 'aborted':
      return new TuttiError('remoteError', `${who} has aborted the communicator${because}`, {
        rank: culprit,
      });
  }
}
