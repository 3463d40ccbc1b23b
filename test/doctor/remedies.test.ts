/** Messages that tell their own cause are answered with it; others are not. */
import { describe, expect, it } from 'vitest';
import { remedyOf } from '#src/doctor/rules/remedies.js';
import { examine } from './case-files.js';

const first = async (...lines: string[]) => (await examine([['job.log', lines.join('\n')]])).verdicts[0]!;

const WATCHDOG =
  '[rank0]:[E ProcessGroupNCCL.cpp:523] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=1800000) ran for 1800321 milliseconds before timing out.';

describe('a message that tells its cause', () => {
  it('is the repair of the rank that died', async () => {
    const verdict = await first(
      WATCHDOG,
      "[rank3]: RuntimeError: DataLoader worker (pid 8) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
    );
    expect(verdict).toMatchObject({ id: 'rank-died', repair: expect.stringContaining('--shm-size') });
    const other = await first(
      WATCHDOG,
      '[rank3]: RuntimeError: DataLoader worker (pid 8) exited unexpectedly',
    );
    expect(other.repair).not.toContain('--shm-size');
  });

  it('is said where nothing else explains an end', async () => {
    const told = await first(
      'torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.',
    );
    expect(told).toMatchObject({ id: 'process-failed', text: expect.stringMatching(/; not all ranks came/) });
    const dark = await first('ValueError: bad shape');
    expect(dark.text).toMatch(/ValueError: bad shape$/);
    expect(dark.repair).toMatch(/^Cure the exception/);
    const silent = await first('srun: error: n2: task 1: Exited with exit code 3');
    expect(silent.text).toMatch(/nothing in the input tells why$/);
  });

  it('is said of warnings that no rule knows', async () => {
    const told = await first(
      'h:10:60 [0] NCCL WARN NET/OFI Request completed with error. RC: 5. Error: Input/output error.',
    );
    expect(told).toMatchObject({
      id: 'nccl-warning-unknown',
      text: expect.stringMatching(/^NCCL warns: .*; the network plugin reports a request that failed$/),
    });
  });

  it('is told apart by the part of NCCL that failed', async () => {
    const log = (file: string) => [
      "h:10:60 [0] transport/x.cc:339 NCCL WARN Cuda failure 1 'invalid argument'",
      `h:10:60 [0] NCCL INFO transport/${file}:432 -> 1`,
    ];
    expect((await first(...log('nvls.cc'))).repair).toContain('NCCL_NVLS_ENABLE=0');
    expect((await first(...log('p2p.cc'))).repair).toContain('compute-sanitizer');
  });

  it.each([
    'bad shape',
    'DataLoader worker (pid 8) exited unexpectedly',
    'invalid argument',
    'undefined symbol: cublasLtCreate',
    'Call to connect returned Connection refused',
  ])('is not seen in: %s', (text) => expect(remedyOf(text)).toBeUndefined());
});

describe('the last work that a rank enqueued', () => {
  const line = (rank: number, text: string) =>
    `[rank${rank}]:[E1015 12:31:22.201 ProcessGroupNCCL.cpp:1785] [PG ID 1 PG GUID 1(tp) Rank ${rank}] ${text}`;
  it('names the rank that is behind, also in the words of a dump', async () => {
    const ahead =
      'Exception (either an error or timeout) detected by watchdog at work: 48211, last enqueued NCCL work: 48213, last completed NCCL work: 48210.';
    const log = (enqueued: number) => [
      line(0, ahead),
      line(1, ahead),
      line(
        2,
        `Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: ${enqueued}, last completed NCCL work: 48210.`,
      ),
      ...[0, 1].map((rank) =>
        WATCHDOG.replace('[rank0]', `[rank${rank}]`)
          .replace('[Rank 0]', `[Rank ${rank}]`)
          .replace('SeqNum=15', 'SeqNum=48211'),
      ),
    ];
    expect(await first(...log(48210))).toMatchObject({ id: 'rank-behind', culprit: { rank: 2 } });
    expect((await first(...log(48213))).id).not.toBe('rank-behind');
  });
});
