/** NCCL_PROTO leaves only protocols for small messages, and large ones are sent. */
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { firstOfEach, listed, settings, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** From here on Simple is faster everywhere. */
const LARGE = 4 * 1024 * 1024;

const PROTOCOLS = ['LL', 'LL128', 'SIMPLE'];

/** The protocols that a value of NCCL_PROTO allows for all functions: a list, or `^` and what is left out. */
function allowed(value: string): string[] {
  const general = value.split(';').find((part) => !part.includes(':')) ?? '';
  const isInverse = general.startsWith('^');
  const names = general
    .replace(/^\^/, '')
    .toUpperCase()
    .split(',')
    .map((name) => name.trim());
  return PROTOCOLS.filter((name) => names.includes(name) !== isInverse);
}

/** Large calls that ran with LL, or large rows of a table that says nothing of protocols. */
function largeCalls(job: Job): Place[] {
  const chosen = job.processes.flatMap(({ choices }) =>
    choices.filter(({ bytes, protocol }) => bytes >= LARGE && protocol === 'LL').map(({ at }) => at),
  );
  if (chosen.length > 0) return chosen;
  return job.benches.flatMap(({ rows }) => rows.filter(({ bytes }) => bytes >= LARGE).map(({ at }) => at));
}

export const envForcesProtocol: Rule = {
  id: 'env-forces-protocol',
  causes: ['slows'],
  looksFor: 'NCCL_PROTO=LL with large messages: LL spends half of every 8 bytes on flags',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_PROTO set by environment to LL',
      'n1:10:10 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}',
    ),
  ],
  references: ['NCCL user guide: NCCL_PROTO'],
  find(job) {
    const found = settings(job, 'NCCL_PROTO').filter(({ value }) => {
      const left = allowed(value);
      return left.length > 0 && left.every((name) => name === 'LL');
    });
    const calls = largeCalls(job);
    const [first] = found;
    if (first === undefined || calls.length === 0) return [];
    const hosts = [...new Set(found.map(({ process }) => process.host))];
    const averages = job.benches.flatMap(({ average }) => average?.at ?? []);
    return [
      {
        severity: 'warning',
        confidence: 'certain',
        text: `NCCL_PROTO=${first.value} on ${listed(hosts)} sends large messages by a protocol for small ones`,
        culprit: { variable: 'NCCL_PROTO', value: first.value, host: first.process.host },
        evidence: [
          ...firstOfEach(found, ({ at }) => at.file).map(({ at }) => at),
          ...some(calls),
          ...averages,
        ],
        repair:
          'Unset NCCL_PROTO; the library then takes Simple for these sizes, which moves two to five times as much.',
        workaround: null,
      },
    ];
  },
};
