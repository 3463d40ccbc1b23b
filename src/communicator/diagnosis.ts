/**
 * Words for what went wrong: who disagreed and in what, who has not come, who died. Reads the posts that the
 * ranks left in their control blocks.
 */

import { BANK_STRIDE, ControlBlock, describeSignature, Post } from '../collectives/control-block.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { Team, Trouble } from './team.js';

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
  const rooted = collective === 'broadcast' || collective === 'reduce';
  const parts = [`${collective} of ${count} ${type}`];
  if (op !== undefined) parts.push(`op ${op}`);
  if (rooted) parts.push(`root ${root}`);
  return parts.join(', ');
}

/** Two ranks called different things; names both calls. */
export function describeMismatch(team: Team): { error: TuttiError; trouble: Trouble } {
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

/** Ranks that have not come to the present meeting, or have not left it. */
function missingRanks(team: Team): number[] {
  const epoch = ownEpoch(team);
  const missing: number[] = [];
  for (let rank = 0; rank < team.size; rank++) {
    if (rank !== team.rank && postOf(team, rank, epoch).get('epoch') !== epoch) missing.push(rank);
  }
  return missing;
}

function listRanks(ranks: readonly number[]): string {
  const shown = ranks.slice(0, 16).join(', ');
  const more = ranks.length > 16 ? ` and ${ranks.length - 16} more` : '';
  return ranks.length === 1 ? `rank ${shown}` : `ranks ${shown}${more}`;
}

/** The time limit passed; names the ranks that did not come where that can be known. */
export function describeTimeout(
  team: Team,
  what: string,
  timeoutMs: number,
  direct: boolean,
): { error: TuttiError; trouble: Trouble } {
  const missing = direct ? missingRanks(team) : [];
  const detail =
    missing.length > 0
      ? `${listRanks(missing)} did not call it`
      : direct
        ? 'all ranks called it, but some did not finish'
        : 'some rank does not take part';
  const culprit = missing[0] ?? team.rank;
  return {
    error: new TuttiError('timeout', `${what}: not done after ${timeoutMs} ms; ${detail}`, { rank: culprit }),
    trouble: { kind: 'timeout', culprit },
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
    case 'mismatch':
      return new TuttiError(
        'invalidUsage',
        `the communicator was given up because the ranks made different calls (${who} among them)${because}`,
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
