/** Several runs in one collection of files are judged one by one. */
import { describe, expect, it } from 'vitest';
import { jsonReport } from '#src/doctor/report/json.js';
import { runsOf } from '#src/doctor/runs.js';
import { CASES, examine } from './case-files.js';

interface RankLog {
  readonly host?: string;
  readonly pid: number;
  readonly rank: number;
  readonly size: number;
  readonly id: string;
  /** Number of the GPU. */
  readonly gpu: number;
  /** Messages between start and end of the set-up. */
  readonly more?: readonly string[];
  readonly isDone?: boolean;
}

function log({ host = 'n1', pid, rank, size, id, gpu, more = [], isDone = true }: RankLog): string {
  const head = `${host}:${pid}:${pid + 1} [${gpu}] NCCL INFO `;
  const init = `ncclCommInitRank comm 0xa${pid} rank ${rank} nranks ${size} cudaDev ${gpu} busId ${gpu + 1}b000 commId 0x${id} - Init `;
  const lines = [`${init}START`, ...more, ...(isDone ? [`${init}COMPLETE`] : [])];
  return lines.map((line) => `${head}${line}\n`).join('');
}

/** A run of two ranks on two GPUs of a host. */
const pair = (pid: number, id: string, more: readonly string[] = [], host = 'n1', gpu = 0): string =>
  [0, 1].map((rank) => log({ host, pid: pid + rank, rank, size: 2, id, gpu: gpu + rank, more })).join('');

const WARNED =
  'n1:40:41 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, error: No space left on device (28)\n';

describe('runs', () => {
  it('are told apart by GPUs that two processes use, and a verdict names its run', async () => {
    const files = [
      ['monday.log', pair(10, 'a1', ['NCCL_ALGO set by environment to Ring'])],
      ['tuesday.log', pair(40, 'b2', ['NCCL_ALGO set by environment to Tree']) + WARNED],
    ] as const;
    const { job, verdicts } = await examine(files);
    expect(verdicts.map(({ id, run }) => ({ id, run }))).toEqual([
      { id: 'shm-too-small', run: 'tuesday.log' },
    ]);
    expect(jsonReport(job, verdicts).runs).toEqual([
      { name: 'monday.log', summary: '1 file: 1 host, logs of 2 of 2 ranks' },
      { name: 'tuesday.log', summary: '1 file: 1 host, logs of 2 of 2 ranks' },
    ]);
    // As one run, its variables would differ.
    const { verdicts: one } = await examine([
      ['x.log', files.map(([, text]) => text.replaceAll(/0x(a1|b2)/g, '0xc3')).join('')],
    ]);
    expect(one.map(({ id }) => id)).toContain('env-differs');
  });

  it('one after the other in a file are told by lines, with what frameworks print between them', async () => {
    const death =
      '[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 1 has a total capacity of 79.11 GiB.\n';
    const { verdicts } = await examine([
      ['job.out', pair(10, 'a1') + pair(20, 'b2') + death + pair(30, 'c3')],
    ]);
    expect(verdicts.map(({ id, run }) => ({ id, run }))).toEqual([
      { id: 'rank-died', run: 'job.out from line 5 on' },
    ]);
  });

  it('in containers may have equal process numbers', async () => {
    const { job, verdicts } = await examine([
      ['one/rank.log', pair(10, 'a1')],
      [
        'two/rank.log',
        pair(10, 'b2', [
          'NCCL_SHM_DISABLE set by environment to 1.',
          'Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0',
        ]),
      ],
    ]);
    expect(job.processes).toHaveLength(4);
    expect(runsOf(job).map(({ name }) => name)).toEqual(['one', 'two']);
    expect(verdicts.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'env-shm-disabled', run: 'two' }]);
  });

  it('whose files tell of the same process in two places are one', async () => {
    const text = pair(10, 'a1');
    const { job } = await examine([
      ['rank.log', text],
      ['launcher.out', text.replaceAll(/^/gm, '[1,0]<stdout>:').replace(/\[1,0\]<stdout>:$/, '')],
      ['early.log', 'n1:10:11 [0] NCCL INFO NCCL version 2.28.9+cuda12.8\n'],
    ]);
    expect(job.processes.map(({ pid, version, members }) => [pid, version?.value, members.length])).toEqual([
      [10, '2.28.9+cuda12.8', 1],
      [11, undefined, 1],
    ]);
  });

  it('are one where no GPU is used twice, but what shares no communicator in the end is not compared', async () => {
    const judged = async (change: (text: string) => string) => {
      const { verdicts } = await examine([
        ['n1.log', change(pair(10, 'a1', ['NCCL_ALGO set by environment to Ring'], 'n1'))],
        ['n2.log', change(pair(10, 'b2', ['NCCL_ALGO set by environment to Tree'], 'n2'))],
      ]);
      return verdicts.map(({ id, run }) => ({ id, run }));
    };
    expect(await judged((text) => text)).toEqual([]);
    const isWaiting = await judged((text) => text.replaceAll(/^.*Init COMPLETE\n/gm, ''));
    expect(isWaiting).toContainEqual({ id: 'env-differs', run: undefined });
  });

  it('are one while ranks wait with different unique ids', async () => {
    const start = (host: string, rank: number, id: string) =>
      log({ host, pid: 10, rank, size: 2, id, gpu: 0, isDone: false });
    const { verdicts } = await examine([['all.log', start('n1', 0, 'a1') + start('n2', 1, 'b2')]]);
    expect(verdicts.map(({ id }) => id)).toEqual(['unique-id-mismatch']);
  });

  it('share what machines show: it is said once, and about all of them', async () => {
    const { verdicts } = await examine([
      ['one.log', pair(10, 'a1')],
      ['two.log', pair(40, 'b2')],
      ['dmesg.txt', '[12345.678901] NVRM: Xid (PCI:0000:83:00): 79, GPU has fallen off the bus.\n'],
    ]);
    expect(verdicts.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'xid', run: undefined }]);
  });

  it('are judged together where an event belongs to none of them', async () => {
    const event = 'srun: error: n1: task 1: Exited with exit code 1\n';
    const files = [
      ['one.log', pair(10, 'a1')],
      ['two.log', pair(40, 'b2')],
      ['slurm.out', event],
    ] as const;
    const { job, verdicts } = await examine(files);
    expect(runsOf(job)).toHaveLength(1);
    expect(verdicts.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'process-failed', run: undefined }]);
    const apart = await examine(
      files.map(([name, text]) => [`${name === 'one.log' ? 'a' : 'b'}/${name}`, text] as const),
    );
    expect(apart.verdicts.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'process-failed', run: 'b' }]);
  });

  it('keep their verdicts beside another attempt of the same job', async () => {
    const wrong: string[] = [];
    let judged = 0;
    for (const { name, files, expected } of CASES) {
      const logs = [...files].filter(([, text]) => /commId 0x/.test(text) && /busId/.test(text));
      if (logs.length === 0) continue;
      const again = (text: string): string =>
        text
          .replaceAll(
            /^((?:\[[\d: -]+\] )?[\w.-]+):(\d+):(\d+) /gm,
            (_, host, pid) => `${host}:${Number(pid) + 70_000}:1 `,
          )
          .replaceAll('commId 0x', 'commId 0xe');
      const both = [...files].flatMap(([file, text]) => [
        [`one/${file}`, text] as const,
        ...(logs.some(([log]) => log === file) ? [[`two/${file}`, again(text)] as const] : []),
      ]);
      const { job, verdicts } = await examine(both);
      if (runsOf(job).length < 2) continue;
      judged++;
      const ids = new Set(verdicts.filter(({ run }) => run !== 'two').map(({ id }) => id));
      for (const { id, alsoAccept = [] } of expected.verdicts)
        if (![id, ...alsoAccept].some((one) => ids.has(one))) wrong.push(`${name}: ${id} is missing`);
      for (const id of ids)
        if (!expected.verdicts.some((one) => one.id === id || one.alsoAccept?.includes(id)))
          wrong.push(`${name}: ${id} is no fault here`);
    }
    expect(wrong).toEqual([]);
    expect(judged).toBeGreaterThan(5);
  });
});
