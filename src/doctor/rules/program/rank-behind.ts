/** A rank that did not call what the others wait in, as dumps, watchdogs or logs of calls tell. */

import type { RankDump } from '../../model/dump.js';
import { smallest } from '../../model/extremes.js';
import { grouped } from '../../model/grouped.js';
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { sizeOfGroup, waitingIn } from './group-progress.js';
import { type Standstill, standstills, waitsAcross } from './waits-across-groups.js';

/** Ranks that called an operation and have not started it, while others are in it: something before it holds their stream. */
function blockedRanks(list: readonly RankDump[], sequence: number): Finding[] {
  const there = list.flatMap((dump) => {
    const operation = dump.operations.find((one) => one.sequence === sequence);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const blocked = there.filter(({ operation }) => operation.state === 'queued');
  const started = there.filter(({ operation }) => operation.state === 'started');
  const [first] = blocked;
  if (first === undefined || started.length === 0 || blocked.length >= started.length) return [];
  const ranks = blocked.map(({ dump }) => dump.rank);
  const { dump, operation } = first;
  return [
    {
      severity: 'error',
      confidence: 'likely',
      text: `rank ${listed(ranks)}${dump.host === undefined ? '' : ` on ${dump.host}`} called ${operation.name} ${sequence} and has not started it; ${started.length} others are in it`,
      culprit: {
        ...(blocked.length === 1 ? { rank: dump.rank } : { ranks }),
        ...(dump.host === undefined ? {} : { host: dump.host }),
        missingSeq: sequence,
        communicator: dump.communicator,
      },
      evidence: distinctPlaces([
        ...some(blocked.map((one) => one.operation.at)),
        ...some(started.map((one) => one.operation.at)),
      ]),
      repair: `See what runs on the stream of rank ${listed(ranks)} before it: a kernel that does not end, a wait for an event, or another communicator’s operation in another order.`,
      workaround: null,
    },
  ];
}

/** Collectives that a rank can leave before all have come: roots and ends of chains do. */
const LEFT_EARLY = /^(?:\w+:)?_?(?:broadcast|reduce|scatter|gather)\b(?!_scatter)/i;

/** Few ranks that are still in an operation which most have left, and who wait in a later one for them. */
function laggards(list: readonly RankDump[]): Finding[] {
  const waiting = list.flatMap((dump) => {
    const operation = waitingIn(dump);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const first = smallest(waiting.map(({ operation }) => operation.sequence));
  const late = waiting.filter(({ operation }) => operation.sequence === first);
  const ahead = waiting.filter(({ operation }) => operation.sequence > first);
  const [one] = late;
  const [other] = ahead;
  if (one === undefined || other === undefined || late.length >= ahead.length) return [];
  if (!late.every(({ operation }) => LEFT_EARLY.test(operation.name))) return [];
  const ranks = late.map(({ dump }) => dump.rank);
  return [
    {
      severity: 'error',
      confidence: list.some(({ isGroupUnknown }) => isGroupUnknown) ? 'possible' : 'likely',
      text: `rank ${listed(ranks)}${one.dump.host === undefined ? '' : ` on ${one.dump.host}`} ${ranks.length === 1 ? 'is' : 'are'} still in ${one.operation.name} ${first}, which the others have left: they wait in ${other.operation.name} ${other.operation.sequence}`,
      culprit: {
        ...(late.length === 1 ? { rank: one.dump.rank } : { ranks }),
        ...(one.dump.host === undefined ? {} : { host: one.dump.host }),
        missingSeq: first,
        communicator: one.dump.communicator,
      },
      evidence: distinctPlaces([
        ...some(late.map(({ operation }) => operation.at)),
        ...some(ahead.map(({ operation }) => operation.at)),
      ]),
      repair: `Look at rank ${listed(ranks)}: its GPU and adapter (dmesg, Xid, port events), what runs on its stream before ${one.operation.name} ${first}, and whether it passes another size or root than the others.`,
      workaround: null,
    },
  ];
}

/** Ranks of a group of which there is no dump, where all others wait in one operation that they started. */
function withoutDump(list: readonly RankDump[]): Finding[] {
  const { members, communicator } = list[0]!;
  const there = new Set(list.map(({ rank }) => rank));
  const missing = members?.filter((rank) => !there.has(rank)) ?? [];
  const open = list.map(waitingIn);
  const [first] = open;
  const isOne = open.every((one) => one?.sequence === first?.sequence && one?.state === 'started');
  if (missing.length === 0 || first === undefined || !isOne) return [];
  const size = members!.length;
  const waits = `${list.length} of ${size} ranks ${list.length === 1 ? 'waits' : 'wait'}`;
  const isFew = missing.length <= list.length / 2;
  return [
    {
      severity: isFew ? 'error' : 'warning',
      confidence: isFew ? 'likely' : 'possible',
      text: isFew
        ? `rank ${listed(missing)} left no dump, and ${waits} for ${missing.length === 1 ? 'it' : 'them'} in ${first.name} ${first.sequence}`
        : `${waits} in ${first.name} ${first.sequence}; there is no dump of the other ${missing.length}, so nothing tells for whom`,
      culprit: {
        ...(missing.length === 1 ? { rank: missing[0] } : { ranks: missing.slice(0, 64) }),
        missingSeq: first.sequence,
        communicator,
      },
      evidence: some(open.map((one) => one!.at)),
      repair: isFew
        ? `See whether the process of rank ${listed(missing)} ended or froze before it could write its dump: its output, its stack (py-spy dump), dmesg of its host.`
        : 'Give the dumps of all ranks, of the same moment.',
      workaround: null,
    },
  ];
}

export const rankBehind: Rule = {
  id: 'rank-behind',
  causes: ['blocks', 'hangs'],
  looksFor: 'a rank that completed everything it called and has not called what the others wait in',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" },',
      '                                      { "seq": 8, "op": "all_reduce", "count": 8, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  find(job) {
    const all = standstills(job);
    const { roots } = waitsAcross(all);
    const others = all
      .filter(({ late }) => late.length === 0)
      .flatMap(({ list, missing }) => {
        const blocked = [...blockedRanks(list, missing), ...laggards(list)];
        return blocked.length > 0 ? blocked : withoutDump(list);
      });
    // One rank may be missed in several groups.
    const byRanks = grouped(roots, ({ late }) => late.map(({ rank }) => rank).join());
    return [...[...byRanks.values()].map(behindIn), ...others];
  },
};

/** Ranks that are missing, in all groups that miss them. */
function behindIn(groups: readonly Standstill[]): Finding {
  // First the group that waits for the longest time, as far as numbers of ranks tell.
  const [group, ...more] = [...groups].sort((a, b) => b.waiting.length - a.waiting.length) as [
    Standstill,
    ...Standstill[],
  ];
  const { list, late, missing, name } = group;
  const waiting = groups.flatMap((one) => one.waiting);
  const one = late[0]!;
  const last = one.operations.at(-1)!;
  const ranks = late.map(({ rank }) => rank);
  const also =
    more.length === 0
      ? ''
      : more.length === 1
        ? `, nor ${more[0]!.name} ${more[0]!.missing} of group ${more[0]!.list[0]!.communicator}`
        : `, nor what ${more.length} other groups wait in`;
  return {
    severity: 'error',
    confidence: list.length >= sizeOfGroup(list) ? 'certain' : 'likely',
    text: `rank ${listed(ranks)}${one.host === undefined ? '' : ` on ${one.host}`} never called ${name} ${missing}${also}, in which ${waiting.length} rank${waiting.length === 1 ? ' waits' : 's wait'}`,
    culprit: {
      ...(late.length === 1 ? { rank: one.rank } : { ranks }),
      ...(one.host === undefined ? {} : { host: one.host }),
      lastSeq: last.sequence,
      missingSeq: missing,
      communicator: one.communicator,
    },
    evidence: distinctPlaces([
      ...some(late.map(({ operations }) => operations.at(-1)!.at)),
      ...some(
        group.waiting
          .filter(({ operation }) => operation.sequence === missing)
          .map(({ operation }) => operation.at),
      ),
      ...some(
        more.flatMap((other) => other.waiting.slice(0, 1).map(({ operation }) => operation.at)),
        4,
      ),
    ]),
    repair: `Look at rank ${listed(ranks)} after operation ${last.sequence} (host stack, data loader, exception); it never called ${name} ${missing}.`,
    workaround: null,
  };
}
