/** What kernels, drivers and tools report of GPUs, switches and adapters. */
import { describe, expect, it } from 'vitest';
import type { Verdict } from '#src/doctor/diagnose.js';
import { examine } from './case-files.js';

const read = async (...lines: readonly string[]): Promise<Verdict[]> =>
  (await examine([['out.txt', `${lines.join('\n')}\n`]])).verdicts;
const brief = (verdicts: readonly Verdict[]): string[] =>
  verdicts.map(({ id, severity }) => `${id} ${severity}`);

describe('errors of GPUs in the kernel’s log', () => {
  const ASK =
    '[77.2] NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)';

  it('carry what the driver asks for, as part of the error and alone', async () => {
    const verdicts = await read(
      "[77.1] NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
      ASK,
    );
    expect(verdicts).toMatchObject([
      { id: 'xid', culprit: { xid: 79 }, evidence: [{ line: 1 }, { line: 2 }] },
    ]);
    expect(verdicts[0]!.repair).toContain('Node Reboot Required');
    expect(verdicts[0]!.text).not.toContain('unknown');
    expect(await read(ASK)).toMatchObject([{ id: 'xid', culprit: { xid: 154, device: '0000:3d:00' } }]);
    expect(
      await read(
        '[77.3] NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)',
      ),
    ).toEqual([]);
  });

  it('name the rank that uses the GPU', async () => {
    const [found] = await read(
      'q4$ cat nccl.log',
      'q4:7:8 [3] NCCL INFO ncclCommInitRank comm 0x5 rank 11 nranks 16 cudaDev 3 busId 3d000 commId 0x77 - Init START',
      'q4:7:8 [3] NCCL INFO ncclCommInitRank comm 0x5 rank 11 nranks 16 cudaDev 3 busId 3d000 commId 0x77 - Init COMPLETE',
      'q4$ dmesg',
      '[77.1] NVRM: Xid (PCI:0000:3d:00): 94, pid=8, name=python, Contained: SM (0x1)',
    );
    expect(found).toMatchObject({ id: 'xid', culprit: { host: 'q4', rank: 11, xid: 94 } });
  });

  it('of programs are errors where something of the job failed, and of the past elsewhere', async () => {
    const line = '[9.1] NVRM: Xid (PCI:0000:4e:00): 31, pid=1234, name=python, Ch 00000008, MMU Fault';
    expect(await read(line)).toMatchObject([{ id: 'xid', severity: 'warning' }]);
    const failed = await read(
      line,
      "n1:10:11 [0] a.cc:12 NCCL WARN Cuda failure 'an illegal memory access was encountered'",
    );
    expect(failed).toMatchObject([{ id: 'xid', severity: 'error', consequences: [{ id: 'cuda-failure' }] }]);
  });

  it('of NVSwitches count where they are fatal', async () => {
    const line = (what: string): string =>
      `[9.1] nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, ${what}, Link 30 LTSSM Fault Up`;
    expect(await read(line('Fatal'))).toMatchObject([
      { id: 'xid', culprit: { sxid: 20034, device: '0000:c4:00.0' } },
    ]);
    expect(await read(line('Non-fatal'))).toEqual([]);
  });
});

describe('the table of nvidia-smi', () => {
  const HEAD = '| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8     |';
  const gpu = (index: number, bus: string, ecc: string): string =>
    `|   ${index}  NVIDIA H200                    On  |   00000000:${bus}:00.0 Off | ${ecc.padStart(20)} |`;
  const state = (text: string): string =>
    `| ${text.padEnd(37)} |    4MiB / 143771MiB |      0%      Default |`;

  it('tells of errors of memory, and of GPUs that do not answer', async () => {
    const verdicts = await read(
      HEAD,
      gpu(0, '1B', '0'),
      state('N/A   31C    P0'),
      gpu(1, '43', '5'),
      state('ERR!'),
    );
    expect(brief(verdicts)).toEqual(['gpu-lost error', 'gpu-memory-errors warning']);
    expect(verdicts[0]).toMatchObject({ culprit: { device: '00000000:43:00.0' } });
    expect(verdicts[1]).toMatchObject({ culprit: { gpu: 1, count: 5 } });
    expect(await read(HEAD, gpu(0, '1B', '0'), state('N/A   31C    P0'))).toEqual([]);
  });
});

describe('adapters', () => {
  it('that are slower than the others of the job, or than the same port elsewhere, are told', async () => {
    const port = (name: string, rate: number): string[] => [
      `Infiniband device '${name}' port 1 status:`,
      '\tstate:\t\t 4: ACTIVE',
      `\trate:\t\t ${rate} Gb/sec (4X NDR)`,
    ];
    const [slow, ...more] = await read(
      'n9:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_4:1/IB [1]mlx5_5:1/IB [2]mlx5_6:1/IB [RO]; OOB eth0:10.0.0.1<0>',
      ...port('mlx5_4', 400),
      ...port('mlx5_5', 200),
      ...port('mlx5_6', 400),
    );
    expect(more).toEqual([]);
    expect(slow).toMatchObject({
      id: 'ib-port-slow',
      culprit: { host: 'n9', hca: 'mlx5_5', rateGbps: 200, expectedGbps: 400 },
    });
  });

  it('at a fourth of the speed of their slots are told, those in slower slots and in equal numbers not', async () => {
    const adapter = (bus: string, speed: number): string[] => [
      `${bus}:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]`,
      '\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported',
      `\t\tLnkSta:\tSpeed ${speed}GT/s (downgraded), Width x16`,
    ];
    expect(await read(...adapter('3b', 32), ...adapter('4c', 8))).toMatchObject([
      { id: 'pcie-link-degraded', culprit: { device: '4c:00.0', speed: 8, expected: 32 } },
    ]);
    expect(await read(...adapter('3b', 16), ...adapter('4c', 16))).toEqual([]);
    expect(await read(...adapter('3b', 8), ...adapter('4c', 8))).toEqual([]);
    expect(await read(...adapter('3b', 16))).toEqual([]);
  });

  it('with faulty cables, or links that come and go, are told by the kernel’s log', async () => {
    const verdicts = await read(
      '[1.1] mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded',
      '[2.1] mlx5_core 0000:6e:00.0 rdma4: Link down',
      '[3.1] mlx5_core 0000:6e:00.0 rdma4: Link up',
      '[4.1] mlx5_core 0000:6e:00.0 rdma4: Link down',
    );
    expect(brief(verdicts)).toEqual(['adapter-link-down warning', 'adapter-link-down warning']);
    expect(verdicts[1]!.text).toContain('is down');
  });
});

describe('NVLinks of a GPU', () => {
  it('that are inactive are told once, though pairs lack them too', async () => {
    const gpu = (index: number, down: readonly number[]): string[] => [
      `GPU ${index}: NVIDIA A100-SXM4-80GB (UUID: GPU-${index})`,
      ...Array.from({ length: 12 }, (_, i) => `\t Link ${i}: ${down.includes(i) ? '<inactive>' : '25 GB/s'}`),
    ];
    const cell = (a: number, b: number): string =>
      a === b ? ' X ' : a + b === 3 && a * b === 2 ? 'SYS' : 'NV4';
    const matrix = [
      '\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity',
      ...[0, 1, 2, 3].map((a) => `GPU${a}\t${[0, 1, 2, 3].map((b) => cell(a, b)).join('\t')}\t0-31`),
    ];
    const links = [gpu(0, []), gpu(1, [4, 5]), gpu(2, []), gpu(3, [])].flat();
    expect(await read(...matrix)).toMatchObject([{ id: 'nvlink-down', culprit: { gpus: [1, 2] } }]);
    expect(await read(...links, ...matrix)).toMatchObject([
      { id: 'nvlink-down', culprit: { gpu: 1, links: [4, 5] } },
    ]);
  });
});

describe('the table of GIDs beside a log', () => {
  it('tells which entry is chosen, and which is right', async () => {
    const host = (name: string): string[] => [
      `${name}:5:6 [0] NCCL INFO NCCL version 2.20.5+cuda12.4`,
      `${name}:5:6 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.`,
      `${name}:5:6 [0] NCCL INFO NET/IB : Using [0]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`,
      `${name}:5:6 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out`,
    ];
    const [found] = await read(
      ...host('r1'),
      ...host('r2'),
      'r1$ show_gids',
      'mlx5_3  1       0       fe80:0000:0000:0000:a288:c2ff:fe31:1ab0                 v2      rdma0',
      'mlx5_3  1       5       0000:0000:0000:0000:0000:ffff:0a08:0115 10.8.1.21       v2      rdma0',
    );
    expect(found).toMatchObject({
      id: 'env-gid-index',
      confidence: 'certain',
      culprit: { hosts: ['r1', 'r2'], right: 5 },
    });
    expect(found!.repair).toContain('NCCL_IB_GID_INDEX=5');
  });
});

describe('the end of a process', () => {
  it('is told with rank and host from the table of torchrun', async () => {
    const [found] = await read(
      'E0612 03:14:09.8 55 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 4242) of binary: /usr/bin/python3',
      'Root Cause (first observed failure):',
      '[0]:',
      '  host      : w3.site',
      '  rank      : 18 (local_rank: 2)',
      '  exitcode  : -9 (pid: 4242)',
    );
    expect(found).toMatchObject({
      id: 'rank-died',
      culprit: { rank: 18, host: 'w3.site', pid: 4242, signal: 9 },
    });
  });

  it('for the memory of its container is told by kubectl, with the pod', async () => {
    expect(await read('trainer-worker-3   0/1   OOMKilled   2 (5m ago)   10m')).toMatchObject([
      { id: 'rank-died', culprit: { host: 'trainer-worker-3' } },
    ]);
    const [described] = await read(
      'Name:             trainer-worker-5',
      '    Last State:     Terminated',
      '      Reason:       OOMKilled',
      '      Exit Code:    137',
      'command terminated with exit code 137',
    );
    expect(described).toMatchObject({
      id: 'rank-died',
      confidence: 'certain',
      culprit: { host: 'trainer-worker-5', signal: 9 },
    });
    expect(described!.repair).toContain('limit of the container');
  });

  it('by the heartbeat monitor names the rank, and stands below what it follows from', async () => {
    const stuck =
      "[rank5]:[F1015 12:41:22.101 ProcessGroupNCCL.cpp:1224] [PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.";
    const timeout =
      '[rank4]:[E1 ProcessGroupNCCL.cpp:616] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600034 milliseconds before timing out.';
    const [alone] = await read(stuck);
    expect(alone).toMatchObject({ id: 'watchdog-stuck', culprit: { rank: 5 } });
    expect(alone!.text).toContain('480 s');
    expect(await read(stuck, timeout)).toMatchObject([
      { id: 'watchdog-timeout', culprit: { rank: 5 }, consequences: [{ id: 'watchdog-stuck' }] },
    ]);
  });
});
