/** Ranks that launched fewer operations than others, as RAS counts them. */
import { largest } from '../../model/extremes.js';
import { distinctPlaces } from '../../model/place.js';
import type { RasCount } from '../../model/ras.js';
import { listed } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Ranks of a mismatch by whether they are behind the highest count. */
function behind(counts: readonly RasCount[]) {
  const top = largest(counts.map(({ operation }) => operation));
  const ahead = counts.filter(({ operation }) => operation === top);
  const late = counts.filter(({ operation }) => operation < top);
  const ranksOf = (list: readonly RasCount[]): number[] | undefined =>
    list.every(({ ranks, listed: names }) => names.length === ranks)
      ? list.flatMap(({ listed: names }) => names.map(({ rank }) => rank))
      : undefined;
  return { top, ahead, late, lateRanks: ranksOf(late), aheadRanks: ranksOf(ahead) };
}

const sum = (counts: readonly RasCount[]): number => counts.reduce((total, { ranks }) => total + ranks, 0);

export const ranksBehind: Rule = {
  id: 'ranks-behind',
  causes: ['blocks', 'hangs'],
  looksFor: 'ranks that launched fewer operations than others of their communicator, as RAS counts them',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.27.5 compiled with CUDA 12.9',
      '#0-0 (7d20c4be5f91a386) MISMATCH',
      '  Communicator ranks have different AllReduce operation counts',
      '  7 ranks have launched up to operation 41',
      '  1 ranks have launched up to operation 40',
      '  Rank 3 -- GPU 3 managed by process 771 on node 10.0.0.14',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  explainedBy: ['rank-died'],
  find: (job) =>
    job.ras.flatMap(({ communicators }) =>
      communicators.flatMap(({ hash, mismatches }) =>
        mismatches.flatMap(({ operation, counts, at }): Finding[] => {
          if (counts.length < 2) return [];
          const { top, ahead, late, lateRanks, aheadRanks } = behind(counts);
          if (late.length === 0) return [];
          const who =
            lateRanks !== undefined
              ? lateRanks
              : aheadRanks !== undefined
                ? `all but ${aheadRanks.length < 2 ? aheadRanks.join('') : `${aheadRanks.slice(0, -1).join(', ')} and ${aheadRanks.at(-1)}`}`
                : `${sum(late)} ranks`;
          const whoText = Array.isArray(who) ? `rank ${listed(who)}` : who;
          const only = lateRanks?.length === 1 ? late.flatMap((one) => one.listed)[0] : undefined;
          const where =
            only?.host === undefined
              ? ''
              : ` (process ${only.pid} on ${only.host}${only.gpu === undefined ? '' : `, GPU ${only.gpu}`})`;
          const called = `${operation === 'collective' ? 'operation' : operation} ${top}`;
          return [
            {
              severity: 'error',
              confidence: 'likely',
              text: `${sum(late) === 1 && Array.isArray(who) ? `${whoText}${where}` : `${sum(late)} rank${sum(late) === 1 ? '' : 's'} (${whoText})`} ${sum(late) === 1 ? 'has' : 'have'} not called ${called}, in which ${sum(ahead)} ${sum(ahead) === 1 ? 'waits' : 'wait'}`,
              culprit: {
                comm: hash,
                operation,
                missing: top,
                ranksBehind: who,
                ...(only?.host === undefined ? {} : { host: only.host, pid: only.pid }),
                ...(only?.gpu === undefined ? {} : { gpu: Number.parseInt(only.gpu, 10) }),
              },
              evidence: distinctPlaces([
                at,
                ...[...late, ...ahead].flatMap((count) => [count.at, ...count.listed.map((one) => one.at)]),
              ]).slice(0, 24),
              repair: `Look at what ${whoText} ${sum(late) === 1 ? 'does' : 'do'} before ${called} (data loading, another communicator, an exception)${aheadRanks === undefined ? '' : `; ask again with VERBOSE STATUS and take their stacks, not those of rank ${listed(aheadRanks)}`}.`,
              workaround: null,
            },
          ];
        }),
      ),
    ),
};
