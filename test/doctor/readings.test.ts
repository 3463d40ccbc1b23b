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

describe('failures of CUDA that come from the driver', () => {
  const log = (failure: string, ...more: string[]) =>
    [
      'k1:7:7 [0] NCCL INFO cudaDriverVersion 11040',
      'k1:7:7 [0] NCCL INFO NCCL version 2.23.4+cuda12.6',
      `k1:7:9 [0] a/b.cc:15 NCCL WARN Cuda failure ${failure}`,
      ...more,
    ].join('\n');

  it('name both versions', async () => {
    for (const failure of [
      "35 'CUDA driver version is insufficient for CUDA runtime version'",
      "222 'the provided PTX was compiled with an unsupported toolchain.'",
      "'CUDA driver version is insufficient for CUDA runtime version'",
      "804 'x'",
    ]) {
      const { verdicts } = await examine([['k.log', `${log(failure)}\n`]]);
      expect(verdicts).toMatchObject([
        { id: 'cuda-driver-too-old', confidence: 'certain', culprit: { driver: '11.4', builtWith: '12.6' } },
      ]);
      expect(verdicts[0]!.evidence.map(({ line }) => line).sort()).toEqual([1, 2, 3]);
    }
  });

  it('of two versions of one driver are told apart, and other failures stay what they are', async () => {
    const split = await examine([
      ['k.log', `${log("803 'system has unsupported display driver / cuda driver combination'")}\n`],
    ]);
    expect(split.verdicts[0]).toMatchObject({ id: 'cuda-driver-too-old', confidence: 'likely' });
    expect(split.verdicts[0]!.text).toContain('two versions');
    const other = await examine([['k.log', `${log("700 'an illegal memory access was encountered'")}\n`]]);
    expect(other.verdicts.map(({ id }) => id)).toEqual(['cuda-failure']);
  });
});

describe('sentences', () => {
  const failed = (...lines: string[]) =>
    examine([
      [
        'a.log',
        `${[...lines, 'k1:7:7 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 5.', 'k1:7:9 [0] a.cc:1 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22'].join('\n')}\n`,
      ],
    ]);

  it('about queue pairs speak of link-local addresses only where one is shown', async () => {
    const { verdicts } = await failed();
    expect(JSON.stringify(verdicts)).not.toMatch(/link-local/);
  });

  it('about what a version does fit the version', async () => {
    const repair = async (...lines: string[]) => (await failed(...lines)).verdicts[0]!.repair;
    expect(await repair()).toMatch(/where NCCL is 2\.21 or newer/);
    expect(await repair('k1:7:7 [0] NCCL INFO NCCL version 2.18.5+cuda12.2')).toMatch(
      /^Set .*2\.18\.5 does not/,
    );
    expect(await repair('k1:7:7 [0] NCCL INFO NCCL version 2.26.2+cuda12.2')).toMatch(/^Unset/);
  });

  it('about NVLink that is there cite where it is seen', async () => {
    const off = 'k1:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.';
    const tree = 'k1:7:7 [0] NCCL INFO === System : maxBw 300.0 totalBw 300.0 ===';
    const seen = (await examine([['a.log', `${off}\n${tree}\n`]])).verdicts[0]!;
    expect(seen).toMatchObject({ id: 'env-p2p-disabled', evidence: [{ line: 1 }, { line: 2 }] });
    const unseen = (await examine([['a.log', `${off}\n`]])).verdicts[0]!;
    expect(unseen.text).not.toContain('NVLink');
  });
});

describe('recordings of machines', () => {
  it('are known even where a program was not there, or only names of interfaces are listed', async () => {
    const missing = await examine([['lspci.txt', './rec.sh: line 5: lspci: command not found\n']]);
    expect([...missing.job.files[0]!.kinds]).toEqual(['shell']);
    const other = await examine([['a.txt', 'model.safetensors: not found\n']]);
    expect([...other.job.files[0]!.kinds]).toEqual([]);
    const list = await examine([
      [
        'net.txt',
        '/sys/class/net:\ntotal 0\nlrwxrwxrwx 1 root root 0 Nov 29 23:32 ens7 -> ../../devices/pci0000:00/0000:00:03.0/virtio2/net/ens7\n',
      ],
    ]);
    expect(list.job.interfaces).toMatchObject([{ name: 'ens7' }]);
    expect(list.verdicts).toEqual([]);
  });
});
