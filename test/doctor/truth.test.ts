/** No false alarm, no false cause, no false "healthy": what real jobs write, and what the doctor must make of it. */
import { describe, expect, it } from 'vitest';
import type { Verdict } from '#src/doctor/diagnose.js';
import { examine } from './case-files.js';

const told = async (files: Readonly<Record<string, readonly string[]>>): Promise<Verdict[]> =>
  (await examine(Object.entries(files).map(([name, lines]) => [name, `${lines.join('\n')}\n`] as const)))
    .verdicts;
const read = (...lines: readonly string[]): Promise<Verdict[]> => told({ 'job.out': lines });
const brief = (verdicts: readonly Verdict[]): string[] =>
  verdicts.map(({ id, severity, confidence }) => `${id} ${severity} ${confidence}`);

const rankOf = (rank: number, end: string | undefined, failures: readonly string[]): string[] => {
  const say = (what: string): string => `gpu${rank}:${900 + rank}:${950 + rank} [0] ${what}`;
  const comm = `comm 0x5${rank} rank ${rank} nranks 2 cudaDev 0 busId 4f000`;
  return [
    say(`NCCL INFO ncclCommInitRank ${comm} commId 0x77 - Init START`),
    say(`NCCL INFO ncclCommInitRank ${comm} commId 0x77 - Init COMPLETE`),
    ...failures.map(say),
    ...(end === undefined ? [] : [say(`NCCL INFO ${comm} - ${end}`)]),
  ];
};
/** A job of two ranks, set up, with failing returns at its end. */
const ending = (end: string | undefined, ...failures: string[]): string[] =>
  [0, 1].flatMap((rank) => rankOf(rank, end, failures));

const SOCKETS = [
  'NCCL INFO misc/socket.cc:52 -> 3',
  'NCCL INFO misc/socket.cc:790 -> 3',
  'NCCL INFO proxy.cc:1533 -> 3',
];
const CLOSED = 'misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu1<40111>';
const OUTSTANDING = 'recv_close:3111 NCCL WARN NET/OFI Attempt to call recv_close with outstanding requests!';

describe('the end of a job that ran', () => {
  for (const end of ['Abort COMPLETE', 'Destroy COMPLETE']) {
    it(`is no fault where helper threads see their sockets close (${end})`, async () => {
      expect(await read(...ending(end, ...SOCKETS))).toEqual([]);
      expect(await read(...ending(end, CLOSED, ...SOCKETS))).toEqual([]);
      expect(await read(...ending(end, OUTSTANDING, 'NCCL INFO transport/net.cc:998 -> 3'))).toEqual([]);
    });
  }

  it('is a fault where the communicator does not end, a warning says more, or somebody failed', async () => {
    expect(brief(await read(...ending(undefined, ...SOCKETS)))).toContain(
      'nccl-warning-unknown error possible',
    );
    const warned = await read(
      ...ending('Abort COMPLETE', 'net.cc:7 NCCL WARN The ring is broken', ...SOCKETS),
    );
    expect(brief(warned)).toEqual(['nccl-warning-unknown error possible']);
    const failed = await read(
      ...ending('Abort COMPLETE', CLOSED),
      'srun: error: gpu1: task 1: Exited with exit code 3',
    );
    expect(failed.map(({ severity }) => severity)).toContain('error');
  });

  it('is a fault where the peer of an aborted communicator did not end itself', async () => {
    const lines = [...rankOf(0, 'Abort COMPLETE', [CLOSED]), ...rankOf(1, undefined, [])];
    expect((await read(...lines)).map(({ id }) => id)).toContain('peer-connection-closed');
  });
});

describe('ends that launchers report', () => {
  const cleanUp = [
    'srun: Terminating StepId=71.3',
    'srun: error: gpu7: tasks 0-2: Killed',
    'srun: error: gpu8: tasks 4-7: Terminated',
  ];

  it('are not the kernel’s where the launcher was ending the job: the first failure is the cause', async () => {
    const [first, ...more] = await read(
      '3: TypeError: no such layer',
      'srun: error: gpu7: task 3: Exited with exit code 1',
      ...cleanUp,
    );
    expect(more).toEqual([]);
    expect(first).toMatchObject({ id: 'process-failed', culprit: { rank: 3, host: 'gpu7' } });
    expect(first!.text).toContain('TypeError: no such layer');
  });

  it('are told of as such where what failed first is not in the input', async () => {
    expect((await read(...cleanUp))[0]!.text).toContain('what failed first is not in the input');
  });

  it('name a kill that came before the clean-up, with all its ranks', async () => {
    const [first] = await read('srun: error: gpu7: tasks 2,5-6: Killed', 'srun: Terminating StepId=71.3');
    expect(first).toMatchObject({ id: 'rank-died', culprit: { ranks: [2, 5, 6], host: 'gpu7', signal: 9 } });
    const shell = await read('srun: error: gpu7: task 2: Exited with exit code 137');
    expect(shell[0]).toMatchObject({ id: 'rank-died', culprit: { rank: 2, signal: 9 } });
  });

  it('name the node that failed, not those that were killed for it', async () => {
    const verdicts = await read(
      'srun: error: Node failure on gpu9',
      'srun: error: *** JOB 8 ON gpu1 CANCELLED AT 2025-01-02T03:04:05 DUE TO NODE FAILURE, SEE LOG ***',
      'srun: error: gpu7: tasks 0-2: Killed',
    );
    expect(verdicts).toMatchObject([{ id: 'rank-died', severity: 'error', culprit: { host: 'gpu9' } }]);
  });

  it('do not name the node that only tells of it', async () => {
    const verdicts = await read(
      'slurmstepd: error: *** STEP 8.0 ON gpu1 CANCELLED AT 2025-01-02T03:04:05 DUE TO NODE FAILURE, SEE LOG ***',
      'gpu1:10:11 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu9<51112>',
    );
    expect(verdicts).toMatchObject([{ id: 'rank-died', culprit: {} }]);
    expect(verdicts[0]!.culprit).not.toHaveProperty('host');
  });

  it('are no fault where the scheduler gives its reason and the program was at work', async () => {
    const steps = Array.from({ length: 4 }, (_, i) => `step ${i * 10} | loss 3.${i}`);
    const reasons = ['TIME LIMIT', 'PREEMPTION', 'JOB REQUEUE'];
    for (const reason of reasons) {
      const ended = [
        'torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15',
        `slurmstepd: error: *** STEP 8.0 ON gpu1 CANCELLED AT 2025-01-02T03:04:05 DUE TO ${reason} ***`,
        'srun: error: gpu7: tasks 0-2: Terminated',
      ];
      expect(brief(await read(...steps, ...ended)), reason).toEqual(['process-failed info likely']);
      // What shows no work may have hung until then.
      expect(brief(await read(...ended)), reason).toEqual(['process-failed warning possible']);
    }
    const [error] = await read(
      ...steps,
      'ValueError: too long',
      'slurmstepd: error: *** STEP 8.0 ON gpu1 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT ***',
    );
    expect(error).toMatchObject({ severity: 'error' });
  });

  it('name the node whose daemon mpirun lost', async () => {
    const verdicts = await read(
      'ORTE has lost communication with a remote daemon.',
      '  HNP daemon   : [[61231,0],0] on node b1',
      '  Remote daemon: [[61231,0],2] on node b3',
    );
    expect(verdicts).toMatchObject([{ id: 'rank-died', severity: 'error', culprit: { host: 'b3' } }]);
  });

  it('are no error of the program where somebody ended the job', async () => {
    const cancelled = [
      'slurmstepd: error: *** STEP 8.0 ON gpu1 CANCELLED AT 2025-01-02T03:04:05 ***',
      'srun: error: gpu7: tasks 0-2: Killed',
    ];
    const preempted = [
      'torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15',
    ];
    for (const lines of [cancelled, preempted, ['KeyboardInterrupt: ']])
      expect(brief(await read(...lines)), lines[0]!).toEqual(['process-failed warning possible']);
    expect(brief(await read('ValueError: too long', ...cancelled))).toEqual([
      'process-failed error possible',
    ]);
  });
});

describe('exceptions', () => {
  const steps = [5, 6, 7].map((step) => `step ${step} loss 2.${step}`);

  it('were handled where the program goes on or comes to its end', async () => {
    expect(
      await read('ConnectionError: no route to the tracker', 'Training completed after 3 epochs'),
    ).toEqual([]);
    expect(await read('[rank1]: KeyError: warmup', ...steps.map((one) => `[rank1]: ${one}`))).toEqual([]);
  });

  it('were not where a process ended, or only others go on', async () => {
    const exit = 'srun: error: gpu7: task 1: Exited with exit code 1';
    for (const lines of [
      ['ConnectionError: no route', 'Training completed after 3 epochs', exit],
      ['ConnectionError: no route', 'Training not completed: run failed'],
      ['[rank1]: KeyError: warmup', ...steps.map((one) => `[rank0]: ${one}`)],
    ])
      expect(
        (await read(...lines)).map(({ id }) => id),
        lines.join('; '),
      ).toEqual(['process-failed']);
  });
});

const timeout = (rank: number, group: string, operation: string, sequence = 44, elements = 64): string =>
  `[rank${rank}]:[E1015 12:31:22.1 ProcessGroupNCCL.cpp:616] [${group}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=${sequence}, OpType=${operation}, NumelIn=${elements}, NumelOut=${elements}, Timeout(ms)=600000) ran for 600034 milliseconds before timing out.`;

describe('time-outs of watchdogs', () => {
  const ids = (verdicts: readonly Verdict[]): string[] => verdicts.map(({ id }) => id);

  it('are compared inside their process group only', async () => {
    const group = (id: number, guid: string, rank: number): string =>
      `PG ID ${id} PG GUID ${guid} Rank ${rank}`;
    const other = await read(
      timeout(0, group(1, '3(tp)', 0), 'ALLREDUCE'),
      timeout(2, group(1, '5(dp)', 1), '_ALLGATHER_BASE'),
    );
    expect(ids(other)).toEqual(['watchdog-timeout']);
    // The number that a process gives a group differs from process to process, the GUID does not.
    const same = await read(
      timeout(4, group(1, '3(tp)', 0), 'ALLREDUCE'),
      timeout(6, group(2, '3(tp)', 1), '_ALLGATHER_BASE'),
    );
    expect(brief(same)).toEqual(['collective-order-mismatch error certain']);
    expect(same[0]!.culprit).toMatchObject({ ranks: [4, 6] });
  });

  it('are at most possibly one operation where no group is named, and none where ranks are of parts', async () => {
    const plain = await read(timeout(0, 'Rank 0', 'ALLREDUCE'), timeout(1, 'Rank 1', 'BROADCAST'));
    expect(brief(plain)).toEqual(['collective-order-mismatch error possible']);
    const part = await read(timeout(0, 'Rank 0', 'ALLREDUCE'), timeout(2, 'Rank 1', 'BROADCAST'));
    expect(ids(part)).toEqual(['watchdog-timeout']);
  });

  it('of sends and receives are no disagreement, and blame no other rank', async () => {
    const verdicts = await read(
      timeout(0, 'Rank 0', 'SEND'),
      timeout(1, 'Rank 1', 'RECV'),
      timeout(3, 'Rank 3', 'COALESCED'),
    );
    expect(brief(verdicts)).toEqual(['watchdog-timeout error possible']);
    expect(verdicts[0]!.text).not.toContain('rank 2');
  });
});

interface Entry {
  readonly name: string;
  readonly state: string;
  readonly seq?: number;
}
const recorder = (
  ranks: Readonly<Record<number, readonly Entry[]>>,
  members: readonly number[],
  reason?: string,
) =>
  Object.fromEntries(
    Object.entries(ranks).map(([rank, entries]) => [
      `trace_rank_${rank}`,
      [
        JSON.stringify({
          ...(reason === undefined ? {} : { reason }),
          pg_config: { 4: { name: '4', desc: 'pp', ranks: JSON.stringify(members) } },
          entries: entries.map(({ name, state, seq = 1 }, at) => ({
            process_group: ['4', 'pp'],
            collective_seq_id: seq,
            p2p_seq_id: at,
            profiling_name: `nccl:${name}`,
            state,
            input_sizes: [[8]],
            input_dtypes: ['Float'],
            is_p2p: /->|<-/.test(name),
          })),
        }),
      ],
    ]),
  );
const done = (name: string): Entry => ({ name, state: 'completed' });
const open = (name: string): Entry => ({ name, state: 'started' });

describe('dumps of operations', () => {
  it('compare sends with receives by pair', async () => {
    const healthy = recorder(
      {
        0: [done('send 0->1'), open('send 0->1')],
        1: [done('recv 1<-0'), open('recv 1<-0')],
        2: [done('recv 2<-1')],
      },
      [0, 1, 2],
      'timeout',
    );
    expect((await told(healthy)).map(({ id }) => id)).not.toContain('message-unmatched');
    expect((await told(healthy)).map(({ id }) => id)).not.toContain('collective-order-mismatch');
  });

  it('name the rank that did not call its end of a message, by its number in the job', async () => {
    const stuck = {
      5: [done('send 0->1')],
      7: [done('recv 1<-0'), done('send 1->2'), open('recv 1<-0')],
      9: [done('recv 2<-1'), open('recv 2<-1')],
    };
    const [first, ...more] = await told(recorder(stuck, [5, 7, 9]));
    expect(more).toEqual([]);
    expect(first).toMatchObject({
      id: 'message-unmatched',
      confidence: 'possible',
      culprit: { rank: 5, operation: 'send 0 -> 1', waiting: [7, 9] },
    });
    expect(brief(await told(recorder(stuck, [5, 7, 9], 'timeout'))).at(0)).toBe(
      'message-unmatched error likely',
    );
  });

  it('that are missing are named, and with too few of them nobody is blamed', async () => {
    const at = (seq: number, state: string): Entry => ({ name: 'all_gather', state, seq });
    const waits = [at(2, 'completed'), at(3, 'started')];
    const [one] = await told(recorder({ 0: waits, 1: waits, 3: waits }, [0, 1, 2, 3]));
    expect(one).toMatchObject({
      id: 'rank-behind',
      severity: 'error',
      confidence: 'likely',
      culprit: { rank: 2 },
    });
    const alone = await told(recorder({ 3: waits }, [0, 1, 2, 3]));
    expect(alone).toMatchObject([{ id: 'rank-behind', severity: 'warning', confidence: 'possible' }]);
    expect(await told(recorder({ 3: waits.slice(0, 1) }, [0, 1, 2, 3]))).toEqual([]);
    const whole = await told(recorder({ 0: waits, 1: waits }, [0, 1]));
    expect(whole.map(({ id }) => id)).toEqual(['device-or-wire-stuck']);
  });
});

describe('adapters', () => {
  const event = (what: string, device = ''): string =>
    `n4:7:8 [1] transport/net_ib.cc:97 NCCL WARN NET/IB : ${device}Got async event : ${what}`;

  it('report what is no fault', async () => {
    for (const what of [
      'GID table change',
      'client reregistration',
      'LID change',
      'P_Key change',
      'port active',
    ])
      for (const device of ['', 'mlx5_6:1 ']) expect(await read(event(what, device)), what).toEqual([]);
  });

  it('report ports that went down and adapters that failed, with and without their name', async () => {
    for (const what of ['port error', 'local catastrophic error', 'device fatal event']) {
      const [old] = await read(event(what));
      expect(old).toMatchObject({ id: 'ib-port-flap', severity: 'error', culprit: { host: 'n4' } });
      const [named] = await read(event(what, 'mlx5_6:1 '));
      expect(named).toMatchObject({ id: 'ib-port-flap', culprit: { host: 'n4', hca: 'mlx5_6', port: 1 } });
      expect(`${old!.text} ${named!.text}`).not.toContain('undefined');
    }
    expect(brief(await read(event('SRQ catastrophe of a new kind'))).at(0)).toMatch(/^nccl-warning-unknown/);
  });

  it('of another kind on a host are a warning, fewer of the same kind an error', async () => {
    const using = (host: string, ...names: string[]): string =>
      `${host}:7:8 [0] NCCL INFO NET/IB : Using ${names.map((name, at) => `[${at}]${name}:1/IB`).join(' ')} [RO]; OOB eth0:10.0.0.1<0>`;
    const severity = async (...names: string[]): Promise<string | undefined> =>
      (await read(using('n4', 'mlx5_0', 'mlx5_1', 'mlx5_2'), using('n5', ...names))).find(
        ({ id }) => id === 'nic-missing-on-node',
      )?.severity;
    expect(await severity('ibp7', 'ibp8')).toBe('warning');
    expect(await severity('mlx5_0', 'mlx5_2')).toBe('error');
  });
});

describe('a variable that forbids adapters', () => {
  const job = (localRanks: number, ...more: string[]): string[] => [
    'n4:7:8 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.',
    'n4:7:8 [0] NCCL INFO Using network Socket',
    `n4:7:8 [0] NCCL INFO comm 0x1 rank 0 nRanks ${2 * localRanks} nNodes 2 localRanks ${localRanks} localRank 0 MNNVL 0`,
    ...more,
  ];

  it('only explains where nothing shows that there are some', async () => {
    expect(brief(await read(...job(1)))).toEqual(['env-ib-disabled info possible']);
    expect(brief(await read(...job(8)))).toEqual(['env-ib-disabled warning possible']);
    const asked = await read(...job(1, 'n4:7:8 [0] NCCL INFO NCCL_IB_TC set by environment to 106.'));
    expect(brief(asked)).toEqual(['env-ib-disabled warning likely']);
  });
});

describe('warnings of values that NCCL replaces', () => {
  const warning = 'n4:7:8 [0] init.cc:9 NCCL WARN NCCL_FROBS of 77 is too large, using 64';
  const done =
    'n4:7:8 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 4000 commId 0x8 - Init COMPLETE';

  it('only explain where the set-up came to its end behind them', async () => {
    expect(brief(await read(warning, done))).toEqual(['nccl-warning-unknown info possible']);
    expect(brief(await read(warning))).toEqual(['nccl-warning-unknown warning possible']);
    expect(brief(await read(done, warning))).toEqual(['nccl-warning-unknown warning possible']);
    expect(brief(await read(warning.replace('using 64', 'sorry'), done))).toEqual([
      'nccl-warning-unknown warning possible',
    ]);
  });
});

describe('Xids', () => {
  it('of worn memory are warnings, of broken ones errors', async () => {
    const seen = async (number: number): Promise<string[]> =>
      brief(await read(`[77.1] NVRM: Xid (PCI:0000:c1:00): ${number}, pid=77, name=python, some text`));
    expect(await seen(63)).toEqual(['xid warning certain']);
    expect(await seen(92)).toEqual(['xid warning certain']);
    expect(await seen(64)).toEqual(['xid error certain']);
  });
});

describe('hosts that talk over TCP', () => {
  const job = (...lines: string[]): string[] => [
    ...lines,
    'n4:7:8 [0] NCCL INFO Using network Socket',
    'n4:7:8 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0',
  ];
  const say = (what: string): string => `n4:7:8 [0] ${what}`;

  it('should not where something shows that they have, or want, a faster network', async () => {
    for (const [sign, severity] of [
      [say('NCCL INFO NCCL_IB_HCA set by environment to =mlx5_4'), 'error'],
      [say('NCCL INFO FI_PROVIDER set by environment to efa'), 'error'],
      [say('NCCL INFO NCCL_IB_TC set by environment to 106.'), 'warning'],
      [say('misc/ibvwrap.cc:99 NCCL WARN Call to ibv_open_device failed'), 'error'],
      [say('transport/net_ib.cc:99 NCCL WARN NET/IB : Unable to open device mlx5_4'), 'error'],
      [say('NCCL INFO NET/OFI aws-ofi-nccl initialization failed'), 'error'],
      ['libibverbs: Warning: no userspace device-specific driver found for /sys/class/x/uverbs2', 'error'],
      ['51:00.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)', 'error'],
    ] as const) {
      const [first, ...more] = await read(...job(sign));
      expect(more, sign).toEqual([]);
      expect(first, sign).toMatchObject({ id: 'net-socket-fallback', severity });
    }
  });

  it('may where nothing does, or where the variable asks for TCP', async () => {
    expect(await read(...job())).toEqual([]);
    expect(await read(...job(say('NCCL INFO FI_PROVIDER set by environment to tcp')))).toEqual([]);
    expect(
      await read(...job('00:05.0 Ethernet controller: Amazon.com, Inc. Elastic Network Adapter')),
    ).toEqual([]);
  });

  it('are several where ranks reach each other over the network only', async () => {
    const edge = say('NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/Socket/0');
    const failed = say('find_ofi_provider:9 NCCL WARN NET/OFI Could not find any optimal provider');
    const lines = [failed, say('NCCL INFO Using network Socket')];
    expect((await read(...lines, edge)).map(({ id }) => id)).toEqual(['net-socket-fallback']);
    const forced = say('NCCL INFO NCCL_SHM_DISABLE set by environment to 1.');
    expect((await read(forced, ...lines, edge)).map(({ id }) => id)).not.toContain('net-socket-fallback');
  });
});

describe('GPUDirect RDMA', () => {
  const job = (localRanks: number, via: string): string[] => [
    "n4:7:8 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_4'",
    `n4:7:8 [0] NCCL INFO comm 0x1 rank 0 nRanks ${2 * localRanks} nNodes 2 localRanks ${localRanks} localRank 0 MNNVL 0`,
    `n4:7:8 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via ${via}`,
  ];

  it('that NCCL itself calls disabled is missed, on small hosts less surely', async () => {
    expect(brief(await read(...job(8, 'NET/IB/0')))).toEqual(['gdr-off error likely']);
    expect(brief(await read(...job(2, 'NET/IB/0')))).toEqual(['gdr-off warning likely']);
    expect(await read(...job(8, 'NET/IB/0/GDRDMA'))).toEqual([]);
  });
});

describe('runs of nccl-tests on pairs of hosts', () => {
  const run = (a: string, b: string, GBs: number, pid: number): string[] => [
    '# Using devices',
    ...[a, b].map(
      (host, rank) =>
        `#  Rank  ${rank} Group  0 Pid   ${pid + rank} on ${host} device  0 [0000:1b:00] NVIDIA H100 80GB HBM3`,
    ),
    '#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong',
    `  4294967296    1073741824     float     sum      -1   1000   ${GBs}   ${GBs}    N/A   1000   ${GBs}   ${GBs}    N/A`,
    `# Avg bus bandwidth    : ${GBs}`,
  ];

  it('name the host that is slow with all others, in one file or in several', async () => {
    const runs = [run('e1', 'e2', 21, 100), run('e1', 'e3', 47, 200), run('e3', 'e2', 22, 300)];
    for (const verdicts of [
      await read(...runs.flat()),
      await told(Object.fromEntries(runs.map((one, i) => [`${i}.txt`, one]))),
    ])
      expect(verdicts).toMatchObject([
        { id: 'slow-node', culprit: { host: 'e2', measuredGBs: 21, othersGBs: 47 } },
      ]);
  });

  it('name nobody where all are alike', async () => {
    const runs = [run('e1', 'e2', 45, 100), run('e1', 'e3', 47, 200), run('e3', 'e2', 46, 300)];
    expect((await read(...runs.flat())).map(({ id }) => id)).not.toContain('slow-node');
  });
});

describe('storage', () => {
  const watchdog =
    '[rank0]:[E ProcessGroupNCCL.cpp:523] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=1800000) ran for 1800321 milliseconds before timing out.';
  const stalled = '[91221.1] nfs: server 10.0.0.9 not responding, still trying';
  const blocked = (name: string) => `[91341.2] INFO: task ${name}:8812 blocked for more than 120 seconds.`;

  it('that does not answer explains that ranks wait, and hides the processes that it blocks', async () => {
    const verdicts = await read(stalled, blocked('python'), watchdog);
    expect(verdicts).toMatchObject([
      { id: 'storage-stalled', severity: 'error', culprit: { server: '10.0.0.9' } },
    ]);
    expect(verdicts[0]!.consequences.map(({ id }) => id)).toEqual(['watchdog-timeout']);
    expect(brief(await read(stalled))).toEqual(['storage-stalled warning possible']);
  });

  it('that answered again, and threads of the kernel, explain nothing', async () => {
    const answers = stalled.replace('not responding, still trying', 'OK');
    for (const lines of [[stalled, answers], [blocked('jbd2/sda1-8')]])
      expect((await read(...lines, watchdog))[0], lines[0]!).toMatchObject({ id: 'watchdog-timeout' });
    expect(await read(stalled, answers)).toEqual([]);
    expect((await read(blocked('python'), watchdog))[0]).toMatchObject({
      id: 'storage-stalled',
      confidence: 'possible',
    });
  });
});

describe('ports and links', () => {
  it('that count errors are told by adapter and by GPU', async () => {
    const counters = await read(
      'n2$ perfquery -C mlx5_2 -P 1',
      'SymbolErrorCounter:..............65535',
      'n2$ ethtool -S eth2',
      '     rx_crc_errors_phy: 88123',
      'n2$ nvidia-smi nvlink -e',
      'GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-22)',
      '\t Link 3: Replay Errors: 4391',
      '\t Link 3: CRC Errors: 99121',
    );
    expect(counters.map(({ culprit }) => culprit)).toEqual([
      { host: 'n2', link: 'mlx5_2' },
      { host: 'n2', link: 'eth2' },
      { host: 'n2', link: 'GPU 2 NVLink 3' },
    ]);
    expect(new Set(brief(counters))).toEqual(new Set(['link-errors warning possible']));
  });

  it('of GPUs that are hot are named with their reasons', async () => {
    const verdicts = await read(
      'GPU 00000000:61:00.0',
      '        HW Slowdown                       : Active',
      '            HW Thermal Slowdown           : Active',
      '            HW Power Brake Slowdown       : Not Active',
    );
    expect(verdicts).toMatchObject([
      {
        id: 'gpu-throttled',
        culprit: { device: '00000000:61:00.0', reasons: ['HW Slowdown', 'HW Thermal Slowdown'] },
      },
    ]);
  });

  const port = (name: string, state: string, physical: string): string[] => [
    `CA '${name}'`,
    '\tPort 1:',
    `\t\tState: ${state}`,
    `\t\tPhysical state: ${physical}`,
    '\t\tLink layer: InfiniBand',
  ];

  it('that look for their partner are a warning, those that are switched off are not', async () => {
    const up = port('mlx5_2', 'Active', 'LinkUp');
    expect(brief(await read(...up, ...port('mlx5_5', 'Down', 'Polling')))).toEqual([
      'ib-port-down warning possible',
    ]);
    expect(brief(await read(...up, ...port('mlx5_5', 'Initializing', 'LinkUp')))).toEqual([
      'ib-port-down warning possible',
    ]);
    expect(await read(...up, ...port('mlx5_5', 'Down', 'Disabled'))).toEqual([]);
  });

  const hosts = (network: string, ...names: string[]): string[] =>
    names.flatMap((name, rank) => [
      `${name}:1:2 [0] NCCL INFO Using network ${network}`,
      `${name}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank ${rank} nranks ${names.length} cudaDev 0 busId 4f000 commId 0x77 - Init START`,
      `${name}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank ${rank} nranks ${names.length} cudaDev 0 busId 4f000 commId 0x77 - Init COMPLETE`,
    ]);

  it('that all wait for a subnet manager are an error of a job on several hosts', async () => {
    const waiting = [0, 1].flatMap((i) => port(`mlx5_${i}`, 'Initializing', 'LinkUp'));
    const files = (log: readonly string[], status: readonly string[]) =>
      told({ 'job.log': log, 'a1.ibstat.txt': status });
    const [error, ...more] = await files(hosts('Socket', 'a1', 'a2'), waiting);
    expect(more).toEqual([]);
    expect(error).toMatchObject({
      id: 'ib-port-down',
      severity: 'error',
      culprit: { hosts: ['a1'], hcas: ['mlx5_0', 'mlx5_1'] },
      repair: expect.stringContaining('opensm'),
    });
    expect(await files(hosts('Socket', 'a1'), waiting)).toMatchObject([{ severity: 'warning' }]);
    const idle = [0, 1].flatMap((i) => port(`mlx5_${i}`, 'Down', 'Disabled'));
    expect(await files(hosts('Socket', 'a1', 'a2'), idle)).toEqual([]);
  });

  it('of an adapter that NCCL does not list are one fault with it', async () => {
    const uses = (host: string, ...names: string[]) =>
      `${host}:1:2 [0] NCCL INFO NET/IB : Using ${names.map((name, i) => `[${i}]${name}:1/IB`).join(' ')} [RO]; OOB e0:10.0.0.1<0>`;
    const log = [
      uses('a1', 'mlx5_0', 'mlx5_1'),
      uses('a2', 'mlx5_0'),
      uses('a3', 'mlx5_0', 'mlx5_1'),
      ...hosts('IB', 'a1', 'a2', 'a3'),
    ];
    const status = [...port('mlx5_0', 'Active', 'LinkUp'), ...port('mlx5_1', 'Down', 'Polling')];
    const verdicts = await told({ 'job.log': log, 'a2.ibstat.txt': status });
    expect(verdicts).toMatchObject([
      {
        id: 'nic-missing-on-node',
        culprit: { host: 'a2', hca: 'mlx5_1' },
        repair: expect.stringContaining('cable'),
      },
    ]);
    expect(verdicts[0]!.text).toContain('DOWN (Polling)');
    // The port of another host is another fault.
    const other = await told({ 'job.log': log, 'a3.ibstat.txt': status });
    expect(other.map(({ id }) => id).sort()).toEqual(['ib-port-down', 'nic-missing-on-node']);
  });

  const matrix = (cell: (a: number, b: number) => string): string[] => {
    const all = [0, 1, 2, 3];
    return [
      `\t${all.map((one) => `GPU${one}`).join('\t')}\tCPU Affinity`,
      ...all.map(
        (a) =>
          `GPU${a}\t${all.map((b) => (a === b ? ' X ' : cell(Math.min(a, b), Math.max(a, b)))).join('\t')}\t0-31`,
      ),
    ];
  };

  it('of pairs of GPUs that have fewer NVLinks than nearly all others are missed', async () => {
    const odd = await read(...matrix((a, b) => (a === 0 && b === 3 ? 'PHB' : 'NV4')));
    expect(odd).toMatchObject([{ id: 'nvlink-down', culprit: { gpus: [0, 3] } }]);
    expect(await read(...matrix(() => 'NV4'))).toEqual([]);
    // Bridges join pairs.
    const bridges = await read(...matrix((a, b) => (a + 1 === b && a % 2 === 0 ? 'NV4' : 'SYS')));
    expect(bridges.map(({ id }) => id)).not.toContain('nvlink-down');
  });

  it('of one GPU that carry less than those of the others, in NCCL’s tree, are missed', async () => {
    const tree = (...GBs: number[]): string[] =>
      ['=== System : maxBw 370.0 totalBw 370.0 ===', 'CPU/0-0 (1/2/-1)']
        .concat(
          GBs.flatMap((one, i) => [
            `+ PCI[24.0] - GPU/0-${i + 1}b000 (${i})`,
            `              + NVL[${one}.0] - NVS/0`,
          ]),
        )
        .map((line) => `n4:7:8 [0] NCCL INFO ${line}`);
    const odd = await read(...tree(370, 340, 370, 370));
    expect(odd).toMatchObject([
      { id: 'nvlink-down', culprit: { host: 'n4', device: '2b000', measuredGBs: 340 } },
    ]);
    // Another communicator prints the same tree again.
    expect(await read(...tree(370, 370, 370, 370), ...tree(370, 370, 370, 370))).toEqual([]);
  });

  it('that the driver refuses are told of as NCCL warns', async () => {
    const warning = (what: string): string =>
      `n4:7:8 [0] graph/paths.cc:99 NCCL WARN P2P is disabled between ${what} GPUs 5 and 3. This should not be the case`;
    expect(await read(warning('NVLINK connected'))).toMatchObject([
      { id: 'nvlink-down', culprit: { host: 'n4', gpus: [5, 3] } },
    ]);
  });

  it('of GPUs that nvidia-smi cannot reach name the GPU', async () => {
    for (const line of [
      'Unable to determine the device handle for GPU0000:8D:00.0: Unknown Error',
      'Unable to determine the device handle for GPU 0000:8D:00.0: GPU is lost.  Reboot the system to recover this GPU',
      'Unable to determine the device handle for GPU3: 0000:8D:00.0: Unknown Error',
    ])
      expect(await read(line), line).toMatchObject([{ id: 'gpu-lost', culprit: { device: '0000:8D:00.0' } }]);
  });
});
