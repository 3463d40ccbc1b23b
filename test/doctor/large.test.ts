/** Many of one thing, as broken jobs and hostile files have them, take time and space in proportion to their number. */
import { describe, expect, it } from 'vitest';
import { diagnose } from '#src/doctor/diagnose.js';
import { largest, smallest } from '#src/doctor/model/extremes.js';
import { readJob } from '#src/doctor/read/read-job.js';
import { jsonReport } from '#src/doctor/report/json.js';
import { textReport } from '#src/doctor/report/text.js';
import { plainStyle } from '#src/topology/report/style.js';

const INFO = (host: string, pid: number): string => `${host}:${pid}:1 [0] NCCL INFO `;
const start = (host: string, pid: number, rank: number, size: number, id: string, comm = 'a0'): string =>
  `${INFO(host, pid)}ncclCommInitRank comm 0x${comm} rank ${rank} nranks ${size} cudaDev 0 busId 1b000 commId 0x${id} - Init START\n`;

/** How many: pairs of all of them would take several seconds. */
const COUNT = 10_000;

const MANY: Readonly<Record<string, (i: number, all: number) => string>> = {
  'ranks of one communicator': (i, all) => start(`n${i}`, i, i, all, 'a1'),
  'communicators of one process': (i) => start('n1', 1, 0, 2, i.toString(16), i.toString(16)),
  'processes on one GPU, each with its own communicator': (i) => start('n1', i, 0, 2, i.toString(16)),
  'warnings of different kinds': (i) => `n1:1:1 [0] a.cc:1 NCCL WARN frob ${'x'.repeat(i % 70)}${i}\n`,
  'errors of GPUs': (i) => `[1.1] NVRM: Xid (PCI:0000:83:00): ${200 + i}, something\n`,
  'time-outs of watchdogs': (i) =>
    `[rank${i}]:[E1 P.cpp:632] [Rank ${i}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=${i}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n`,
  'switch ports and GPUs': (i) =>
    `${(i >> 5) % 256 < 16 ? '0' : ''}${((i >> 5) % 256).toString(16)}:${(i % 32).toString(16).padStart(2, '0')}.0 PCI bridge: x\n\tBus: primary=00, secondary=01, subordinate=ff, sec-latency=0\n\t\tACSCtl:\tSrcValid+ ReqRedir+\n`,
  'rows of a table': (i) =>
    `${i === 0 ? '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n' : ''}   ${1048576 + 1024 * i}  1024  float  sum  -1  6371.09  21.07  ${99_999 - i}.5  0  6371.09  21.07  39.49  0\n`,
  'rows of a table of hosts': (i) =>
    `${i === 0 ? 'src,dst,busbw\n' : ''}n${i % 500},n${i % 499},${1 + (i % 7)}\n`,
  'addresses of adapters': (i) => `mlx5_${i}  1  0  fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a10  v2  eth2\n`,
  'links of adapters': (i) =>
    `[${i}.1] mlx5_core 0000:5e:00.0 if${i >> 2}: Link ${i % 2 === 0 ? 'down' : 'up'}\n`,
  'samples of memory': (i) => `rank ${i % 900}: allocated 0.0 GB, reserved ${1 + i}.5 GB\n`,
  'requests that failed': (i) =>
    `n${i}:1:1 [0] a.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.${i >> 8}.${i % 256}<5> with status=${(i % 12) + 1} opcode=0 len=0 vendor err 1 (Recv)\n`,
  variables: (i) => `${INFO('n1', 1)}NCCL_X${i} set by environment to ${i}\n`,
};

async function cost(text: string): Promise<number> {
  const before = process.cpuUsage();
  const job = await readJob([{ name: 'many.txt', text: [text] }]);
  const verdicts = diagnose(job);
  const lines = textReport(job, verdicts, plainStyle(100), () => undefined);
  JSON.stringify(jsonReport(job, verdicts));
  const { user, system } = process.cpuUsage(before);
  expect(lines.join('\n').length).toBeLessThan(200_000);
  return (user + system) / 1000;
}

/** 2 s for 10 MB, and what a busy machine and the first run of code take. */
const limitMs = (text: string): number => 1500 + (text.length / 1e7) * 2000;

describe('large numbers of', () => {
  for (const [name, make] of Object.entries(MANY)) {
    it(`${name} are judged in time`, async () => {
      const text = Array.from({ length: COUNT }, (_, i) => make(i, COUNT)).join('');
      await cost(text.slice(0, 20_000));
      expect(await cost(text)).toBeLessThan(limitMs(text));
    });
  }

  it('groups in which ranks wait for each other are judged in time', async () => {
    // Rank i waits in group i for rank i + 1: the last one waits nowhere, or, where it does, all wait in a circle.
    const chain = (isCircle: boolean): string => {
      const count = COUNT / 4;
      const one = (rank: number, group: number, isLate: boolean): string =>
        `{"rank":${rank},"group":"g${group}","ops":[{"seq":${isLate ? 7 : 8},"op":"all_reduce","state":"${isLate ? 'completed' : 'started'}"}]}`;
      const ranks = Array.from({ length: count }, (_, i) => [
        one(i, i, false),
        one((i + 1) % count, i, true),
      ]);
      return `{"reason":"timeout","ranks":[${ranks
        .slice(isCircle ? 0 : 1)
        .flat()
        .join(',\n')}]}`;
    };
    for (const isCircle of [false, true]) {
      const text = chain(isCircle);
      expect(await cost(text)).toBeLessThan(limitMs(text));
      const [first] = diagnose(await readJob([{ name: 'x', text: [text] }]));
      expect(first).toMatchObject({ id: isCircle ? 'communicator-order' : 'rank-behind' });
    }
  });

  it('numbers have extremes, without a stack for all of them', () => {
    const list = Array.from({ length: 300_000 }, (_, i) => i);
    expect([largest(list), smallest(list), largest([], 0)]).toEqual([299_999, 0, 0]);
  });
});

describe('numbers beyond all measure', () => {
  it('are not taken for ranks, sizes or operations', async () => {
    const huge = '99999999999999999999';
    const texts = [
      `${INFO('n1', 1)}ncclCommInitRank comm 0xa0 rank ${huge} nranks ${huge} cudaDev 0 busId 1b000 commId 0x1 - Init START\n`,
      `${INFO('n1', 1)}ncclCommInitRank comm 0xa0 rank -1 nranks -5 cudaDev 0 busId 1b000 commId 0x1 - Init START\n`,
      `{ "ranks": [ { "rank": 0, "group": "g", "ops": [ { "seq": 1e309, "op": "a", "state": "started" } ] } ] }`,
    ];
    for (const text of texts) {
      const job = await readJob([{ name: 'x', text: [text] }]);
      expect(job.processes.flatMap(({ members }) => members)).toEqual([]);
      expect(job.dumps).toEqual([]);
    }
  });

  it('and values that a dump lacks do not stand in sentences', async () => {
    const ops = ['"count": 96,', '', '"count": 96,'].map(
      (count, rank) =>
        `{ "rank": ${rank}, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", ${count} "state": "started" } ] }`,
    );
    const job = await readJob([{ name: 'x', text: [`{ "ranks": [ ${ops.join(', ')} ] }`] }]);
    const verdicts = diagnose(job);
    expect(verdicts.map(({ id }) => id)).not.toContain('collective-size-mismatch');
    expect(JSON.stringify(verdicts)).not.toMatch(/undefined|NaN/);
  });
});

describe('endless values', () => {
  it('do not make endless sentences', async () => {
    const value = 'ab'.repeat(5000);
    const job = await readJob([
      {
        name: 'x.log',
        text: [
          `${INFO('n1', 1)}NCCL_COMM_ID set by environment to ${value}\n`,
          'n1:1:1 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use\n',
        ],
      },
    ]);
    const [verdict] = diagnose(job);
    expect(verdict!.id).toBe('port-conflict');
    expect(verdict!.text.length).toBeLessThan(1300);
    expect(verdict!.text).toMatch(/abab.*\.\.\.$/);
  });
});

describe('endless documents', () => {
  it('of brackets, elements and attributes are refused or read, and never crash', async () => {
    const texts = [
      '['.repeat(300_000),
      '{"a":'.repeat(100_000),
      `<system version="1">${'<pci busid="0000:00:00.0">'.repeat(20_000)}`,
      `<system version="1" ${Array.from({ length: 20_000 }, (_, i) => `a${i}="1"`).join(' ')}/>`,
      `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "x">${Array.from({ length: 20 }, (_, i) => `<!ENTITY a${i} "${`&a${i || ''};`.repeat(10)}">`).join('')}]><system version="1">&a19;</system>`,
    ];
    for (const text of texts) {
      const job = await readJob([{ name: 'x', text: [text] }]);
      expect(job.files[0]!.problems.length).toBeGreaterThan(0);
      expect(await cost(text)).toBeLessThan(limitMs(text));
    }
  });

  it('of one line keep what comes behind it', async () => {
    const line = `${INFO('n1', 1)}${'x'.repeat(1000)}`;
    const pieces = [
      `${line}`,
      ...Array.from({ length: 200 }, () => 'y'.repeat(50_000)),
      `\n${INFO('n1', 1)}NCCL version 2.28.9+cuda12.8\n`,
    ];
    const job = await readJob([{ name: 'x.log', text: pieces }]);
    expect(job.processes[0]!.version).toMatchObject({ value: '2.28.9+cuda12.8', at: { line: 2 } });
  });
});
