/** What is read, and what is not taken for something else. */
import { describe, expect, it } from 'vitest';
import { examine } from './case-files.js';

const START = (rank: number, size: number): string =>
  `g${rank}:7${rank}:8${rank} [0] NCCL INFO ncclCommInitRank comm 0xf${rank} rank ${rank} nranks ${size} cudaDev 0 busId 3b000 commId 0x77 - Init START`;

describe('XML', () => {
  it('is a topology file only by its root', async () => {
    const heads = [
      '',
      '<?xml version="1.0" ?>\n',
      '<?xml version="1.0"?>\n<!DOCTYPE x SYSTEM "x.dtd">\n<!-- <system> -->\n',
    ];
    for (const head of heads) {
      const smi = await examine([['a.xml', `${head}<nvidia_smi_log>\n<gpu id="0"/>\n</nvidia_smi_log>\n`]]);
      expect(smi.verdicts).toEqual([]);
      if (head !== '') expect([...smi.job.files[0]!.kinds]).toEqual(['nvidia-smi -q -x']);
      const other = await examine([['a.xml', `${head || '<!-- a -->'}<domain>\n<system/>\n</domain>\n`]]);
      expect(other.verdicts).toEqual([]);
      expect(other.job.files[0]!.problems.join()).toContain('<domain>');
      const topology = await examine([['a.xml', `${head}<system version="9">\n</system>\n`]]);
      expect(topology.verdicts.map(({ id }) => id)).toEqual(['topo-file-refused']);
    }
  });
});

describe('logs that break off', () => {
  const whole = [START(0, 2), START(1, 2), 'g0:70:80 [0] NCCL INFO Setting affinity for GPU 0 to ff'].join(
    '\n',
  );

  it('in the middle of a line are no evidence that ranks wait', async () => {
    for (const cut of [whole.length - 4, whole.length - 21]) {
      const { verdicts } = await examine([['n.log', whole.slice(0, cut)]]);
      expect(verdicts).toMatchObject([
        { id: 'log-breaks-off', severity: 'info', culprit: { line: 3 }, evidence: [{ line: 3 }] },
      ]);
    }
  });

  it('at the end of a line, with all ranks there, leave open whether it hangs', async () => {
    const { verdicts } = await examine([['n.log', `${whole}\n`]]);
    expect(verdicts).toMatchObject([{ id: 'init-waiting', severity: 'warning', confidence: 'possible' }]);
    expect(verdicts[0]!.text).toContain('all 2 ranks');
  });

  it('are an error where ranks are missing and the log is whole', async () => {
    const { verdicts } = await examine([['n.log', `${START(0, 3)}\n${START(2, 3)}\n`]]);
    expect(verdicts).toMatchObject([{ id: 'init-waiting', severity: 'error', culprit: { missing: [1] } }]);
  });
});

describe('versions without a head', () => {
  it('belong to the process whose lines have the same prefix', async () => {
    for (const prefix of [
      (i: number) => `[1,${i}]<stdout>:`,
      (i: number) => `${i}: `,
      (i: number) => `[pod/w-${i}/m] `,
    ]) {
      const lines = [
        `${prefix(0)}NCCL version 2.19.3+cuda12.3`,
        `${prefix(0)}${START(0, 2)}`,
        `${prefix(1)}${START(1, 2)}`,
        `${prefix(1)}NCCL version 2.21.5+cuda12.4`,
      ];
      const { verdicts, job } = await examine([['out', `${lines.join('\n')}\n`]]);
      expect(job.processes.map(({ version }) => version?.value)).toEqual([
        '2.19.3+cuda12.3',
        '2.21.5+cuda12.4',
      ]);
      expect(verdicts[0]).toMatchObject({ id: 'version-mismatch', culprit: { hosts: ['g0', 'g1'] } });
    }
  });
});
