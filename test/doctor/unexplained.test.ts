/** What NCCL reports is never passed over, and causes explain only what they can cause. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { diagnose } from '#src/doctor/diagnose.js';
import { RULES } from '#src/doctor/rules/registry.js';
import { CASES, examine } from './case-files.js';

const PREFIXES = [
  '',
  '[1,3]<stdout>:',
  '12: ',
  '[rank3]: ',
  '2026-05-02T11:00:03.123456Z ',
  '[pod/a-1/main] ',
];

const START = (rank: number, size: number): string =>
  `ho${rank}:4${rank}:5${rank} [0] NCCL INFO ncclCommInitRank comm 0xf${rank} rank ${rank} nranks ${size} cudaDev 0 busId 3b000 commId 0x77 - Init START`;

/** Faults of results or of the input, which do nothing to a job. */
const HARMLESS = ['error-handling-off', 'data-wrong', 'log-breaks-off'];

const judge = async (...lines: string[]) => (await examine([['job.out', `${lines.join('\n')}\n`]])).verdicts;

describe('warnings that no rule knows', () => {
  it('are quoted in a verdict, whatever they say and whatever stands before them', async () => {
    const words = fc
      .array(fc.constantFrom('zorble', 'failed', 'frob', 'peer', '8/8', 'mode', 'x<3>', 'quux'), {
        minLength: 1,
        maxLength: 6,
      })
      .map((list) => list.join(' '));
    await fc.assert(
      fc.asyncProperty(words, fc.constantFrom(...PREFIXES), fc.boolean(), async (text, prefix, hasReturn) => {
        const verdicts = await judge(
          `${prefix}b-2:71:72 [1] x/y.cc:12 NCCL WARN ${text}`,
          ...(hasReturn ? [`${prefix}b-2:71:72 [1] NCCL INFO x/y.cc:19 -> 5`] : []),
        );
        expect(verdicts.map(({ id }) => id)).toEqual(['nccl-warning-unknown']);
        expect(verdicts[0]!.text).toContain(text);
        expect(verdicts[0]!.severity).toBe(hasReturn ? 'error' : 'warning');
      }),
      { numRuns: 60 },
    );
  });

  it('are a verdict beside others that do not cite them', async () => {
    const verdicts = await judge(
      'b-2:71:72 [1] NCCL INFO NCCL_NSOCKS_PERTHREAD set by environment to 16.',
      'b-2:71:72 [1] NCCL INFO NCCL_SOCKET_NTHREADS set by environment to 16.',
      'b-2:71:72 [1] x/y.cc:12 NCCL WARN the frob is gone',
    );
    expect(verdicts.map(({ id }) => id).sort()).toEqual(['nccl-warning-unknown', 'socket-threads-limit']);
  });

  it('make failing returns with no warning a verdict, but not those that say that it goes on', async () => {
    const [failed] = await judge('b-2:71:72 [1] NCCL INFO group.cc:310 -> 2 [Async thread]');
    expect(failed).toMatchObject({ id: 'nccl-warning-unknown', severity: 'error', culprit: { result: 2 } });
    expect(await judge('b-2:71:72 [1] NCCL INFO init.cc:310 -> 7')).toEqual([]);
    expect(await judge('b-2:71:72 [1] NCCL INFO init.cc:310 -> 0')).toEqual([]);
  });

  it('are none where an old version finds no adapters and one host does without', async () => {
    const one = (host: string, rank: number): string[] => [
      `${host}:9${rank}:9${rank} [${rank}] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]`,
      `${host}:9${rank}:9${rank} [${rank}] NCCL INFO Using network Socket`,
      `${host}:9${rank}:99 [${rank}] NCCL INFO comm 0x7f${rank} rank ${rank} nranks 2 cudaDev ${rank} busId ${rank + 1}000 - Init COMPLETE`,
    ];
    expect(await judge(...one('v1', 0), ...one('v1', 1))).toEqual([]);
    expect(await judge(...one('v1', 0).slice(0, 2))).not.toEqual([]);
    expect(await judge(...one('v1', 0), ...one('v2', 1))).not.toEqual([]);
  });

  it('are not repeated for lines that a rule explains', async () => {
    for (const { files } of CASES) {
      const { verdicts } = await examine(files);
      expect(verdicts.map(({ id }) => id)).not.toContain('nccl-warning-unknown');
    }
  });
});

describe('causes', () => {
  it('of less speed do not explain that ranks wait', async () => {
    for (const setting of [
      'NCCL_P2P_DISABLE set by environment to 1.',
      'NCCL_P2P_LEVEL set by environment to LOC',
    ]) {
      const verdicts = await judge(
        `ho0:40:50 [0] NCCL INFO ${setting}`,
        START(0, 3),
        `ho0:41:50 [1] NCCL INFO ${setting}`,
        START(0, 3).replace('ho0:40', 'ho0:41').replace('rank 0', 'rank 1'),
      );
      expect(verdicts.map(({ id }) => id)).toEqual(['init-waiting', 'env-p2p-disabled']);
      expect(verdicts[0]!.culprit).toMatchObject({ missing: [2] });
    }
  });

  it('are never of less severity than what they explain', async () => {
    const weight = { error: 0, warning: 1, info: 2 };
    for (const { files } of CASES) {
      const { job } = await examine(files);
      for (const { severity, consequences } of diagnose(job)) {
        for (const { id } of consequences) {
          const found = RULES.find((rule) => rule.id === id)!.find(job);
          expect(Math.min(...found.map((one) => weight[one.severity]))).toBeGreaterThanOrEqual(
            weight[severity],
          );
        }
      }
    }
  });

  it('say what they can do, or are shown beside everything', () => {
    for (const { id, causes = [], explainedBy } of RULES) {
      if (explainedBy === undefined && !HARMLESS.includes(id)) expect(causes.length, id).toBeGreaterThan(0);
    }
  });

  it('that failed are not among those that wait', async () => {
    const verdicts = await judge(
      START(0, 2),
      START(1, 2),
      'ho1:41:51 [0] somewhere.cc:1 NCCL WARN the frob is gone',
      'ho1:41:51 [0] NCCL INFO init.cc:310 -> 3',
    );
    expect(verdicts.map(({ id }) => id)).toEqual(['nccl-warning-unknown']);
    expect(verdicts[0]!.consequences).toMatchObject([{ id: 'init-waiting', evidence: [{ line: 1 }] }]);
  });
});
