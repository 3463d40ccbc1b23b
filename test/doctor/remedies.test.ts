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

  it.each([
    [
      'DistNetworkError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).',
      'MASTER_PORT',
    ],
    [
      'DistNetworkError: The client socket has timed out after 60s while trying to connect to (a, 29500).',
      'MASTER_ADDR resolves',
    ],
    ['gaierror: [Errno -2] Name or service not known', 'getent hosts'],
    ['ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!', 'nvidia-smi'],
    ["RuntimeError: Distributed package doesn't have NCCL built in", 'is_nccl_available'],
    ['RuntimeError: CUDA error: invalid device ordinal', 'local rank'],
    ['RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable', 'E. Process'],
    ['RuntimeError: CUDA error: system not yet initialized', 'fabric manager'],
    ['RuntimeError: CUDA error: no kernel image is available for execution on the device', 'get_arch_list'],
    ['RuntimeError: CUDA error: device-side assert triggered', 'Assertion'],
    ["OSError: [Errno 28] No space left on device: '/ckpt/a.pt'", 'df -h'],
    ['MemoryError: std::bad_alloc', 'more memory'],
  ])('%s', async (line, repair) => {
    expect(await first(line)).toMatchObject({
      id: 'process-failed',
      repair: expect.stringContaining(repair),
    });
    // Of a rank for which others wait, the message stands in the verdict.
    const died = await first(WATCHDOG, `[rank3]: ${line}`);
    if (!/^Dist/.test(line)) {
      expect(died).toMatchObject({ id: 'rank-died', repair: expect.stringContaining(repair) });
      expect(died.text).toContain(line.slice(0, 60));
    }
  });

  it('is what was said before, where the exception follows from it', async () => {
    const name =
      '[W socket.cpp:697] [c10d] The IPv4 network addresses of (m-0, 23456) cannot be retrieved (gai error: -2 - Name or service not known).';
    const met =
      'torch.distributed.DistNetworkError: The client socket has timed out after 300s while trying to connect to (m-0, 23456).';
    expect((await first(name, met)).repair).toContain('getent hosts');
    expect((await first(name.replace('IPv4', 'IPv6'), met)).repair).toContain('MASTER_ADDR resolves');
    expect((await first(name, 'ValueError: bad shape')).repair).toMatch(/^Cure/);
    const old =
      'UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update';
    expect(
      (await first(old, 'ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!')).repair,
    ).toContain('Update the driver');
  });

  it('is read from the programs of nccl-tests', async () => {
    const cuda = await first("node9: Test CUDA failure common.cu:958 'invalid device ordinal'");
    expect(cuda).toMatchObject({ id: 'process-failed', repair: expect.stringContaining('nvidia-smi -L') });
    const nccl = await first(
      "node9: Test NCCL failure common.cu:1279 'unhandled system error (run with NCCL_DEBUG=INFO for details)'",
    );
    expect(nccl).toMatchObject({ id: 'nccl-warning-unknown', severity: 'error' });
  });

  it('hides what could not be made for a failure of CUDA that is named', async () => {
    const failed = "d1:9:13 [4] include/alloc.h:204 NCCL WARN Cuda failure 2 'out of memory'";
    const made = 'd1:9:13 [4] include/alloc.h:221 NCCL WARN Failed to CUDA calloc async 608 bytes';
    const judge = async (...lines: string[]) =>
      (await examine([['job.log', lines.join('\n')]])).verdicts.map(({ id }) => id);
    expect(await judge(failed, made)).toEqual(['cuda-failure']);
    expect(await judge(made)).toEqual(['nccl-warning-unknown']);
    expect((await judge(failed, made.replace('d1:9', 'd1:8'))).sort()).toEqual([
      'cuda-failure',
      'nccl-warning-unknown',
    ]);
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
