/** What programs, kernels and networks are set to, as single lines of their output tell. */
import { describe, expect, it } from 'vitest';
import type { Verdict } from '#src/doctor/diagnose.js';
import { outcomeOf } from '#src/doctor/report/outcome.js';
import { examine } from './case-files.js';

const read = async (...lines: readonly string[]): Promise<Verdict[]> =>
  (await examine([['out.txt', `${lines.join('\n')}\n`]])).verdicts;

describe('single lines of programs', () => {
  it('tell that a job on GPUs uses Gloo', async () => {
    for (const line of [
      'distributed_backend=gloo',
      "init_process_group(backend='gloo')",
      'args: --dist-backend gloo --lr 1',
    ])
      expect(await read('GPU available: True (cuda), used: True', line), line).toMatchObject([
        { id: 'backend-gloo', severity: 'warning' },
      ]);
  });

  it('tell that errors are not handled: a note, and more where a rank waits', async () => {
    const off = 'TORCH_NCCL_ASYNC_ERROR_HANDLING=0';
    expect(await read(off)).toMatchObject([{ id: 'error-handling-off', severity: 'info' }]);
    const stuck = await read(
      off,
      'k3:7:8 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
    );
    expect(stuck.map(({ id, severity }) => `${id} ${severity}`)).toEqual([
      'init-waiting error',
      'error-handling-off warning',
    ]);
  });

  it('tell of an allocator that grows, in the forms that programs print, rank by rank [SP-35]', async () => {
    const forms = [
      (a: number, r: number) =>
        `[Rank 3] (after 9 iterations) memory (MB) | allocated: ${a * 1000}.0 | max allocated: 999.0 | reserved: ${r * 1000}.0 | max reserved: 77.0`,
      (a: number, r: number) => `rank 3 reserved=${r} GiB allocated=${a} GiB`,
      (a: number, r: number) => `rank3: Allocated: ${a} GB, Reserved: ${r} GB`,
    ];
    for (const form of forms) {
      const found = await read(form(2, 2), form(0, 3), form(0, 3), form(0, 4), form(0, 4));
      expect(found, form(1, 2)).toMatchObject([{ id: 'allocator-growth', culprit: { rank: 3 } }]);
      expect(await read(form(2, 2), form(2, 3), form(2, 3), form(3, 4)), form(1, 2)).toEqual([]);
    }
  });

  it('tell of GPUs that do not reach each other, as a note where the cards cannot', async () => {
    const line = 'Warning: unable to enable P2P between device 0 and 1';
    expect(await read(line)).toMatchObject([{ id: 'peer-access-missing', severity: 'warning' }]);
    const cards = [0, 1].map((i) => `GPU ${i}: NVIDIA GeForce RTX 4090 (UUID: GPU-${i})`);
    expect(await read(line, ...cards)).toMatchObject([{ id: 'peer-access-missing', severity: 'info' }]);
  });
});

describe('versions of NCCL', () => {
  it('are compared between ranks, and between what a framework brings along and what is loaded [SP-31]', async () => {
    const start = (host: string, rank: number, version: string): string[] => [
      `${host}:7:8 [0] NCCL INFO NCCL version ${version}+cuda12.4`,
      `${host}:7:8 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank ${rank} nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START`,
    ];
    const ranks = await read(...start('k1', 0, '2.26.2'), ...start('k2', 1, '2.25.1'));
    expect(ranks[0]).toMatchObject({
      id: 'version-mismatch',
      culprit: { versions: ['2.26.2', '2.25.1'], hosts: ['k1', 'k2'] },
    });
    for (const bundled of [
      'nvidia-nccl-cu12        2.26.2',
      'nvidia-nccl-cu12==2.26.2',
      'torch.cuda.nccl.version() = (2, 26, 2)',
    ]) {
      expect(await read(bundled, 'NCCL version 2.18.5+cuda12.2'), bundled).toMatchObject([
        { id: 'library-differs', severity: 'warning', culprit: { bundled: '2.26.2', loaded: '2.18.5' } },
      ]);
      expect(await read(bundled, 'NCCL version 2.26.2+cuda12.2'), bundled).toEqual([]);
    }
  });
});

describe('lines about the way of data', () => {
  it('are recognised: adapters, Ethernet, copies between GPUs, reduction in switches [SP-24]', async () => {
    const { job, verdicts } = await examine([
      [
        'a.log',
        [
          'k1:7:8 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/IB/SHARP [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>',
          'k2:7:8 [0] NCCL INFO NET/Socket: using Ethernet interface eth0',
          'unable to enable P2P, falling back to copy',
          '',
        ].join('\n'),
      ],
    ]);
    const [first, second] = job.processes;
    expect(first!.hcas!.value).toEqual([
      { name: 'mlx5_2', port: 1, link: 'IB', hasSharp: true },
      { name: 'mlx5_3', port: 1, link: 'IB' },
    ]);
    expect(second).toMatchObject({ network: { value: 'Socket' }, sockets: { value: [{ name: 'eth0' }] } });
    expect(verdicts.map(({ id }) => id)).toContain('peer-access-missing');
  });
});

describe('the outcome', () => {
  it('is healthy where there are notes only, and not where a log breaks off', async () => {
    const log =
      'k3:7:8 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 1 cudaDev 0 busId 1b000 commId 0x3f - Init';
    const outcome = async (text: string) => {
      const { job, verdicts } = await examine([['out.txt', text]]);
      return [outcomeOf(job, verdicts), ...verdicts.map(({ severity }) => severity)];
    };
    expect(await outcome(`${log} START\n${log} COMPLETE\nTORCH_NCCL_ASYNC_ERROR_HANDLING=0\n`)).toEqual([
      'healthy',
      'info',
    ]);
    expect(await outcome(`${log} START\nk3:7:8 [0] NCCL INFO Sett`)).toEqual(['nothing to judge', 'info']);
    expect(await outcome("n1:1:2 [0] a.cc:1 NCCL WARN Cuda failure 'x'\n")).toEqual(['findings', 'error']);
    expect(await outcome('{"a": [1,')).toEqual(['unreadable']);
  });
});
