/** Causes hide what they caused: one fault is one verdict, with its consequences below it. */
import { describe, expect, it } from 'vitest';
import type { Verdict } from '#src/doctor/diagnose.js';
import { examine } from './case-files.js';

const read = async (...lines: readonly string[]): Promise<Verdict[]> =>
  (await examine([['all.txt', `${lines.join('\n')}\n`]])).verdicts;
/** Verdicts, each with what it explains. */
const tree = (verdicts: readonly Verdict[]): string[] =>
  verdicts.map(({ id, consequences }) => [id, ...consequences.map((one) => one.id).sort()].join(' > '));

const log = (host: string, message: string): string => `${host}:77:78 [0] ${message}`;
const start = (host: string, rank: number): string =>
  log(
    host,
    `NCCL INFO ncclCommInitRank comm 0xe${rank} rank ${rank} nranks 2 cudaDev 0 busId 2b000 commId 0x99 - Init START`,
  );

describe('set-ups', () => {
  it('that a blocked port ends are one finding, the waiting of the other ranks below it', async () => {
    const verdicts = await read(
      log('v7', 'NCCL INFO Bootstrap : Using ens3:10.7.0.7<0>'),
      log('v8', 'NCCL INFO Bootstrap : Using ens3:10.7.0.8<0>'),
      start('v7', 0),
      start('v8', 1),
      log(
        'v8',
        'misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.7.0.7<40219> failed : No route to host',
      ),
    );
    expect(tree(verdicts)).toEqual(['firewall > connect-timeout > init-waiting']);
  });

  it('of ranks with different versions are one finding, whatever the root makes of their messages', async () => {
    const verdicts = await read(
      log('v7', 'NCCL INFO NCCL version 2.24.3+cuda12.6'),
      start('v7', 0),
      log('v7', 'bootstrap.cc:122 NCCL WARN Bootstrap Root : mismatch in rank count from procs 2 : 0'),
      log('v8', 'NCCL INFO NCCL version 2.16.2+cuda11.8'),
      start('v8', 1),
      log('v8', 'bootstrap.cc:77 NCCL WARN Message truncated : received 1004 bytes instead of 256'),
    );
    expect(tree(verdicts)).toEqual(['version-mismatch > nranks-mismatch-at-root > peer-of-another-kind']);
  });

  it('over different networks are one finding that names the host without adapters', async () => {
    const verdicts = await read(
      log('v7', 'NCCL INFO NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB ens3:10.7.0.7<0>'),
      log('v7', 'NCCL INFO Using network IB'),
      log('v8', 'NCCL INFO NET/IB : No device found.'),
      log('v8', 'NCCL INFO Using network Socket'),
      start('v7', 0),
      start('v8', 1),
      log('v8', 'misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3'),
    );
    expect(tree(verdicts)).toEqual([
      'net-differs > init-waiting > net-socket-fallback > peer-of-another-kind',
    ]);
    expect(verdicts[0]).toMatchObject({
      confidence: 'certain',
      culprit: { hosts: ['v8'], network: 'Socket' },
    });
  });
});

describe('failures of others', () => {
  it('that a rank reports after an exception elsewhere stand below the exception', async () => {
    const verdicts = await read(
      "[rank6]: KeyError: 'targets'",
      '[rank2]: torch.distributed.DistBackendError: NCCL error in: /a/NCCLUtils.hpp:77, remote process exited or there was a network error, NCCL version 2.25.1',
      '[rank2]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.',
      '[rank2]: Last error:',
      '[rank2]: socketPollConnect: connect returned Connection refused, exceeded error retry count (35)',
    );
    expect(tree(verdicts)).toEqual(['rank-died > connect-timeout']);
    expect(verdicts[0]).toMatchObject({ culprit: { rank: 6 } });
  });

  it('of requests of an adapter stand below the failure of the adapter, and are told alone by their number', async () => {
    const completion = (status: number): string =>
      log(
        'v7',
        `transport/net_ib.cc:1500 NCCL WARN NET/IB: Got completion from peer 10.7.0.8<50000> with status=${status} opcode=0 len=0 vendor err 244 (Recv) hca mlx5_2`,
      );
    const fatal = log(
      'v7',
      'transport/net_ib.cc:135 NCCL WARN NET/IB : mlx5_2:1 Got async event : local catastrophic error',
    );
    expect(tree(await read(fatal, completion(5)))).toEqual(['ib-port-flap > ib-completion-failed']);
    expect(tree(await read(completion(12), completion(5)))).toEqual([
      'ib-retry-exceeded > ib-completion-failed',
    ]);
    const [alone] = await read(completion(13), completion(5));
    expect(alone).toMatchObject({ id: 'ib-completion-failed', culprit: { status: 13, hca: 'mlx5_2' } });
  });

  it('of the helper thread of a process stand below the peer that closed its connections', async () => {
    const verdicts = await read(
      log(
        'v7',
        'misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer v8.site<46202>',
      ),
      log(
        'v7',
        'proxy.cc:1150 NCCL WARN [Service thread] Could not receive type from localRank 2, res=3, closed=0',
      ),
    );
    expect(tree(verdicts)).toEqual(['peer-connection-closed']);
  });

  it('that RAS counts stand below the process that is gone', async () => {
    const verdicts = await read(
      'NCCL version 2.28.9 compiled with CUDA 13.0',
      '#0-0 (5a2f) INCOMPLETE',
      '  Missing communicator data from 1 rank',
      '  Rank 5 -- GPU 5 managed by process 771 on node 10.7.0.8',
      '#1-0 (6b3c) MISMATCH',
      '  Communicator ranks have different AllReduce operation counts',
      '  3 ranks have launched up to operation 90',
      '  1 rank has launched up to operation 89',
      '  Rank 1 -- GPU 5 managed by process 771 on node 10.7.0.8',
    );
    expect(tree(verdicts)).toEqual(['rank-died > ranks-behind']);
  });
});

type Operation = readonly [name: string, sequence: number, state: string];
const dumps = async (list: readonly (readonly [rank: number, group: string, ...ops: Operation[]])[]) =>
  (
    await examine([
      [
        'dumps.json',
        JSON.stringify({
          ranks: list.map(([rank, group, ...ops]) => ({
            rank,
            group,
            ops: ops.map(([op, seq, state]) => ({ seq, op, count: 64, state })),
          })),
        }),
      ],
    ])
  ).verdicts;

describe('ranks that wait in several groups', () => {
  it('lead to the one that waits nowhere', async () => {
    // Rank 3 is missing in both of its groups; ranks 1 and 2 are missing only because they wait for it.
    const verdicts = await dumps([
      [2, 'tp1', ['all_reduce', 41, 'started']],
      [3, 'tp1', ['all_reduce', 40, 'completed']],
      [0, 'tp0', ['all_reduce', 41, 'completed'], ['all_reduce', 42, 'started']],
      [1, 'tp0', ['all_reduce', 41, 'completed']],
      [0, 'dp0', ['reduce_scatter', 6, 'completed']],
      [2, 'dp0', ['reduce_scatter', 6, 'completed']],
      [1, 'dp1', ['reduce_scatter', 6, 'started']],
      [3, 'dp1', ['reduce_scatter', 5, 'completed']],
    ]);
    expect(tree(verdicts)).toEqual(['rank-behind > rank-held-up']);
    expect(verdicts[0]).toMatchObject({ culprit: { rank: 3, missingSeq: 41 } });
    expect(verdicts[0]!.text).toContain('reduce_scatter 6');
  });

  it('are missed where they are still in an operation that the others have left', async () => {
    const waiting = (rank: number, name: string, sequence: number): string =>
      `[rank${rank}]:[E ProcessGroupNCCL.cpp:563] [Rank ${rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=${sequence}, OpType=${name}, NumelIn=12, NumelOut=12, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.`;
    const behind = await read(
      waiting(0, 'ALLREDUCE', 77),
      waiting(1, 'ALLREDUCE', 77),
      waiting(2, 'BROADCAST', 74),
    );
    expect(tree(behind)).toEqual(['rank-behind > watchdog-timeout']);
    expect(behind[0]).toMatchObject({ confidence: 'possible', culprit: { rank: 2, missingSeq: 74 } });
  });

  it('in a circle use their groups in different orders', async () => {
    const verdicts = await dumps([
      [0, 'x', ['all_reduce', 9, 'started']],
      [1, 'x', ['all_reduce', 8, 'completed']],
      [0, 'y', ['all_gather', 3, 'completed']],
      [1, 'y', ['all_gather', 4, 'started']],
    ]);
    expect(tree(verdicts)).toEqual(['communicator-order']);
    expect(verdicts[0]).toMatchObject({ culprit: { ranks: [0, 1], communicators: ['x', 'y'] } });
  });

  it('behind a group whose members disagree are consequences of that', async () => {
    const verdicts = await dumps([
      [0, 'x', ['all_reduce', 9, 'started']],
      [1, 'x', ['broadcast', 9, 'started']],
      [1, 'y', ['all_gather', 3, 'completed']],
      [2, 'y', ['all_gather', 4, 'started']],
    ]);
    expect(tree(verdicts)).toEqual(['collective-order-mismatch > device-or-wire-stuck > rank-held-up']);
  });
});
