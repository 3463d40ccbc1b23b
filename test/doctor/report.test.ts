/** The report tells of every input, and of what was not looked at. */
import { describe, expect, it } from 'vitest';
import { textReport } from '#src/doctor/report/text.js';
import { plainStyle } from '#src/topology/report/style.js';
import { examine } from './case-files.js';

const report = async (files: readonly (readonly [string, string])[], width = 100, isWhole = false) => {
  const { job, verdicts } = await examine(files);
  const textOf = ({ file, line }: { file: string; line: number }) =>
    files.find(([name]) => name === file)?.[1].split('\n')[line - 1];
  return textReport(job, verdicts, plainStyle(width), textOf, isWhole).join('\n');
};

const INFO = 'n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.8\n';

describe('the report', () => {
  it('names files that are empty, unknown or unreadable beside good ones', async () => {
    const text = await report([
      ['ok.log', INFO],
      ['void', ''],
      ['poem.txt', 'roses are red\n'],
      ['bad.json', '{"a": [1, 2'],
    ]);
    expect(text).toMatch(/^not all could be read: no fault found in 1 of 4 files/);
    expect(text).toContain('not understood: void (empty) and poem.txt');
    expect(text).toMatch(/unreadable: bad\.json: line 1/);
  });

  it('calls healthy only what says something about a job', async () => {
    expect(await report([['ok.log', INFO]])).toMatch(/^healthy: /);
    expect(await report([['gpus.txt', 'GPU 0: NVIDIA L4 (UUID: GPU-7)\n']])).toMatch(
      /^nothing says how a job went .*so no verdict on one/,
    );
  });

  it('tells what stands in a dump, with the line of the program that called, where the line is all of it', async () => {
    const frames = [
      { name: 'all_reduce', filename: '/x/site-packages/torch/distributed/c10d.py', line: 2501 },
      { name: 'step', filename: '/home/a/train.py', line: 211 },
    ];
    const dump = (rank: number, last: string): readonly [string, string] => [
      `trace_${rank}`,
      JSON.stringify({
        entries: [1, 2].map((seq) => ({
          ...(rank === 2 ? {} : { frames }),
          collective_seq_id: seq,
          process_group: ['0', 'dp'],
          profiling_name: 'nccl:all_reduce',
          state: seq === 1 ? 'completed' : last,
        })),
      }),
    ];
    const text = await report([dump(0, 'started'), dump(1, 'started'), dump(2, 'scheduled')], 200);
    expect(text).toContain(
      'trace_0:1  rank 0, group 0 dp, all_reduce 2: started, called from train.py:211 (step)\n',
    );
    expect(text).not.toContain('site-packages');
    expect(text).not.toContain('{"');
  });

  it('keeps the message of a long line on a terminal, and all of it elsewhere', async () => {
    const line = `[1,3]<stdout>:2026-01-01T00:00:00Z a-very-long-host-name-of-a-cluster-042:123456:123499 [3] transport/some/deep/file.cc:1234 NCCL WARN the frob of zorble is gone`;
    const cut = await report([['a.log', `${line}\n`]], 90);
    const shown = cut.split('\n').find((one) => one.includes('evidence'))!;
    expect(shown.length).toBeLessThanOrEqual(90);
    expect(shown).toContain('NCCL WARN the frob of zorble is gone');
    expect(await report([['a.log', `${line}\n`]], 90, true)).toContain(line);
  });

  it('says why something was not checked', async () => {
    const warning = "n1:1:2 [0] a.cc:1 NCCL WARN Cuda failure 'x'\n";
    expect(await report([['a.log', warning]], 200)).toContain('warnings only: NCCL_DEBUG=INFO was not on');
    const start = (id: string, rank: number, pid: number): string =>
      ['START', 'COMPLETE']
        .map(
          (what) =>
            `n1:${pid}:${pid} [0] NCCL INFO ncclCommInitRank comm 0xa${pid} rank ${rank} nranks 3 cudaDev 0 busId 1b000 commId 0x${id} - Init ${what}\n`,
        )
        .join('');
    const missing = await report([['a.log', start('1', 0, 10) + start('1', 2, 11)]]);
    expect(missing).toContain('1 rank');
    const runs = await report(
      [
        ['a.log', start('1', 0, 10)],
        ['b.log', start('2', 0, 20).replaceAll('n1:', 'n2:')],
      ],
      400,
    );
    expect(runs).toContain('each run by itself');
    const pairs = await report([['pairs.csv', 'src,dst,busbw_GBs\nn1,n2,180.2\nn1,n3,361.9\nn2,n3,181.1\n']]);
    expect(pairs).not.toContain('not checked: speed');
  });
});
