/** Output of frameworks and launchers without a log of NCCL: the reason that is quoted, the rank that others point at. */
import { describe, expect, it } from 'vitest';
import { examine } from './case-files.js';

const PREFIXES = ['', '3: ', '[1,3]<stderr>:', '[pod/a-1/main] ', '2026-05-02T11:00:03.123456Z '];

const judge = async (lines: readonly string[], prefix = '') =>
  (await examine([['err.txt', `${lines.map((line) => prefix + line).join('\n')}\n`]])).verdicts;

const thrown = (rank: number, result: string, ...last: string[]): string[] => [
  `[rank${rank}]: Traceback (most recent call last):`,
  `[rank${rank}]: torch.distributed.DistBackendError: NCCL error in: /a/ProcessGroupNCCL.cpp:77, some failure (run with NCCL_DEBUG=INFO for details), NCCL version 2.25.1`,
  `[rank${rank}]: ${result}: A call failed.`,
  ...last.map((line) => `[rank${rank}]: ${line}`),
];

describe('the last error that exceptions quote', () => {
  it('is judged as the line of a log, on its own line or the next, with any prefix', async () => {
    const text = 'Error while creating shared memory segment /dev/shm/nccl-Qq1 (size 4194308)';
    for (const prefix of PREFIXES) {
      for (const last of [['Last error:', text], [`Last error: ${text}`]]) {
        const verdicts = await judge(thrown(2, 'ncclSystemError', ...last), prefix);
        expect(verdicts.map(({ id }) => id)).toEqual(['shm-too-small']);
        expect(verdicts[0]).toMatchObject({
          confidence: 'likely',
          culprit: { rank: 2, segmentBytes: 4194308 },
        });
      }
    }
  });

  it('is quoted where no rule knows it, and missing where there is none', async () => {
    const [known] = await judge(thrown(4, 'ncclInternalError', 'Last error:', 'the frob has no zorble 17'));
    expect(known).toMatchObject({ id: 'nccl-warning-unknown', severity: 'error', culprit: { ranks: [4] } });
    expect(known!.text).toContain('the frob has no zorble 17');
    const [bare] = await judge(thrown(4, 'ncclInternalError', 'Last error:', ''));
    expect(bare).toMatchObject({ id: 'nccl-warning-unknown', culprit: { ranks: [4], result: 3 } });
  });

  it('is told once where the log has it as well', async () => {
    const { verdicts, job } = await examine([
      ['n.log', "n1:10:12 [0] a.cc:7 NCCL WARN Cuda failure 719 'unspecified launch failure'\n"],
      [
        'err.txt',
        `${thrown(0, 'ncclUnhandledCudaError', 'Last error:', "Cuda failure 719 'unspecified launch failure'").join('\n')}\n`,
      ],
    ]);
    expect(verdicts.map(({ id }) => id)).toEqual(['cuda-failure']);
    expect(job.processes).toHaveLength(1);
  });
});

describe('errors that point at others', () => {
  const remote = thrown(
    0,
    'ncclRemoteError',
    'Last error:',
    'socketProgress: Connection closed by remote peer q7.site<40001>',
  );

  it('are consequences of the process that was killed', async () => {
    for (const prefix of PREFIXES.filter((one) => one !== '[1,3]<stderr>:')) {
      const [first, ...more] = await judge(
        [
          ...remote,
          'srun: error: q7: task 5: Killed',
          'slurmstepd: error: Detected 2 oom_kill events in StepId=77.0. Some of the step tasks have been OOM Killed.',
        ],
        prefix,
      );
      expect(more).toEqual([]);
      expect(first).toMatchObject({
        id: 'rank-died',
        confidence: 'certain',
        culprit: { rank: 5, host: 'q7', signal: 9 },
        consequences: [{ id: 'peer-connection-closed' }],
      });
    }
  });

  it('alone name the peer, not the rank that reports them', async () => {
    const [first, ...more] = await judge(remote);
    expect(more).toEqual([]);
    expect(first).toMatchObject({ id: 'peer-connection-closed', culprit: { peers: ['q7'] } });
  });
});

describe('ends that launchers and the kernel report', () => {
  it('are a verdict even where nothing tells why', async () => {
    const ends = [
      'srun: error: q7: task 5: Exited with exit code 3',
      'mpirun noticed that process rank 5 with PID 77 on node q7 exited on signal 11 (Segmentation fault).',
      '[rank5]: ValueError: the frob is gone',
    ];
    for (const end of ends) {
      const verdicts = await judge([end, 'q1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda12.8']);
      expect(verdicts, end).toMatchObject([{ severity: 'error', culprit: { rank: 5 } }]);
    }
    const [cancelled] = await judge([
      'slurmstepd: error: *** STEP 9.0 ON q7 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***',
    ]);
    expect(cancelled).toMatchObject({ id: 'process-failed', severity: 'warning' });
    expect(cancelled!.text).toContain('DUE TO TIME LIMIT');
  });

  it('by the out-of-memory killer stand beside other faults of the machine', async () => {
    const verdicts = await judge([
      '[12.118] NVRM: Xid (PCI:0000:4e:00): 79, pid=4410, name=python, GPU has fallen off the bus.',
      '[13.001] Out of memory: Killed process 4415 (python) total-vm:123kB',
    ]);
    expect(verdicts.map(({ id }) => id).sort()).toEqual(['rank-died', 'xid']);
    expect(verdicts.find(({ id }) => id === 'rank-died')).toMatchObject({
      confidence: 'likely',
      culprit: { pid: 4415 },
    });
    const logged = await judge([
      'q1:4415:4415 [0] NCCL INFO ncclCommInitRank comm 0xf rank 6 nranks 8 cudaDev 0 busId 3b000 commId 0x77 - Init START',
      '[13.001] Memory cgroup out of memory: Killed process 4415 (python) total-vm:123kB',
    ]);
    expect(logged[0]).toMatchObject({
      id: 'rank-died',
      confidence: 'certain',
      culprit: { rank: 6, host: 'q1' },
    });
  });
});

const watchdog = (rank: number, sequence: number, operation: string, group = '0(default_pg)'): string[] => [
  `[rank${rank}]:[E101 10:44:10.1 ProcessGroupNCCL.cpp:616] [Rank ${rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=${sequence}, OpType=${operation}, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600089 milliseconds before timing out.`,
  `[rank${rank}]:[E101 10:44:10.2 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID ${group} Rank ${rank}] Exception (either an error or timeout) detected by watchdog at work: ${sequence}, last enqueued NCCL work: ${sequence}, last completed NCCL work: ${sequence - 1}.`,
];

describe('watchdogs', () => {
  it('of one rank past the operation of the others name that rank as out of step', async () => {
    for (const odd of [0, 2, 4]) {
      const lines = [0, 1, 2, 3, 4].flatMap((rank) =>
        rank === odd ? watchdog(rank, 812, '_ALLGATHER_BASE') : watchdog(rank, 811, 'ALLREDUCE'),
      );
      const [first, ...more] = await judge(lines);
      expect(more).toEqual([]);
      expect(first).toMatchObject({
        id: 'collective-order-mismatch',
        confidence: 'likely',
        culprit: { rank: odd, seq: 812 },
      });
    }
  });

  it('of all ranks but one name that one', async () => {
    for (const silent of [0, 1, 3]) {
      const lines = [0, 1, 2, 3, 4].flatMap((rank) =>
        rank === silent ? [] : watchdog(rank, 811, 'ALLREDUCE'),
      );
      const [first] = await judge(lines);
      expect(first).toMatchObject({
        id: 'watchdog-timeout',
        confidence: 'likely',
        culprit: { rank: silent },
      });
      expect(first!.text).toContain(`rank ${silent} reports no time-out`);
    }
  });

  it('of few of the ranks name nobody', async () => {
    const [first] = await judge([...watchdog(1, 811, 'ALLREDUCE'), ...watchdog(6, 811, 'ALLREDUCE')]);
    expect(first).toMatchObject({ id: 'watchdog-timeout', confidence: 'possible' });
    expect(first!.culprit).not.toHaveProperty('missing');
  });
});
