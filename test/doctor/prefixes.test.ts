/** What launchers and collectors of logs put around lines hides nothing. */
import { describe, expect, it } from 'vitest';
import { readJob } from '#src/doctor/read/read-job.js';
import { CASES, examine } from './case-files.js';

const wrapped = (line: string): string =>
  JSON.stringify({ log: `${line}\n`, stream: 'stdout', time: '2025-05-01T10:00:00.1Z' });

const FORMS: readonly (readonly [string, (line: string, n: number) => string])[] = [
  ["Docker's JSON", wrapped],
  ['a collector with other members first', (line) => JSON.stringify({ time: 1, stream: 'x', log: line })],
  ['journald as JSON', (line) => JSON.stringify({ _PID: '7', MESSAGE: line })],
  ['pdsh', (line) => `worker-1: ${line}`],
  ['CRI', (line, n) => `2025-05-01T10:00:0${n % 10}.123456789Z stdout F ${line}`],
  ['kubectl with times', (line, n) => `2025-05-01T10:00:0${n % 10}.123456789Z ${line}`],
  ['docker compose', (line) => `worker-0-1  | ${line}`],
  ['journald', (line, n) => `May 01 10:00:0${n % 10} box docker[1234]: ${line}`],
  ['Ray', (line) => `\u001b[36m(RayTrainWorker pid=1000, ip=10.0.0.0)\u001b[0m ${line}`],
  ['prterun', (line) => `[prterun-box-4123@1,0]<stdout>: ${line}`],
  ['mpirun with hosts', (line) => `[1,0]<stdout> (box): ${line}`],
  ['a logger', (line) => `INFO 2025-05-01 10:00:00,123 | node0 | ${line}`],
  ['a quotation', (line) => `> ${line}`],
  ['srun -l in a container', (line, n) => `2025-05-01T10:00:0${n % 10}.1Z stderr F 3: ${line}`],
];

/** The log of one rank of a communicator of two, with the version in a line of its own. */
const log = (host: string, rank: number, version: string): string[] => [
  `${host}:100:100 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>`,
  `NCCL version ${version}`,
  `${host}:100:120 [0] NCCL INFO comm 0x71 rank ${rank} nranks 2 cudaDev 0 nvmlDev 0 busId 101c0 commId 0xabc - Init START`,
];

describe.each(FORMS)('behind %s', (_, form) => {
  const file = (name: string, lines: readonly string[]) =>
    [name, lines.map((line, n) => `${form(line, n)}\n`).join('')] as const;

  it('versions in lines of their own belong to their process', async () => {
    const differ = await examine([
      file('a.log', log('w1', 0, '2.18.1+cuda12.1')),
      file('b.log', log('w2', 1, '2.14.3+cuda11.7')),
    ]);
    expect(differ.verdicts[0]).toMatchObject({
      id: 'version-mismatch',
      culprit: { versions: ['2.18.1', '2.14.3'] },
    });
    const same = await examine([
      file('a.log', log('w1', 0, '2.18.1+cuda12.1')),
      file('b.log', log('w2', 1, '2.18.1+cuda12.1')),
    ]);
    expect(same.verdicts.map(({ id }) => id)).not.toContain('version-mismatch');
  });

  it('lines of programs are read, with their numbers', async () => {
    const job = await readJob([
      { name: 'a.log', text: [file('a.log', [...log('w1', 0, '2.18.1'), '', 'ValueError: bad shape'])[1]] },
    ]);
    expect(job.events).toMatchObject([{ kind: 'exception', text: 'bad shape', at: { line: 5 } }]);
  });
});

describe('JSON that holds lines', () => {
  it('changes no verdict of any case', async () => {
    for (const { files } of CASES.filter((_, i) => i % 4 === 0)) {
      const isLog = (text: string): boolean => !/^\s*[[{<]/.test(text);
      const changed = [...files].map(
        ([name, text]) =>
          [name, isLog(text) ? text.replace(/^.*$/gm, (line) => wrapped(line)) : text] as const,
      );
      const brief = async (given: Iterable<readonly [string, string]>) =>
        (await examine(given)).verdicts.map(({ id, evidence }) => ({ id, evidence }));
      expect(await brief(changed)).toEqual(await brief(files));
    }
  });

  it('is read the same way in pieces of any size, and documents stay documents', async () => {
    const text = [...log('w1', 0, '2.18.1'), 'ValueError: bad shape']
      .map((line) => `${wrapped(line)}\n`)
      .join('');
    const whole = await readJob([{ name: 'a', text: [text] }]);
    expect(await readJob([{ name: 'a', text: text.match(/[\s\S]{1,7}/g)! }])).toEqual(whole);
    const dump = JSON.stringify({ rank: 0, entries: [{ seq: 1, op: 'all_reduce', state: 'started' }] });
    expect((await readJob([{ name: 'd', text: [dump] }])).dumps).toHaveLength(1);
    expect((await readJob([{ name: 'd', text: [`${dump}\n`] }])).dumps).toHaveLength(1);
  });
});

describe('versions in lines of their own, of several processes in one file', () => {
  const both = [...log('w1', 0, '2.18.1'), ...log('w2', 1, '2.14.3')];

  it('differ where one communicator never came up, and prove nothing where it did', async () => {
    const [waiting] = (await examine([['all.log', both.join('\n')]])).verdicts;
    expect(waiting).toMatchObject({ id: 'version-mismatch', confidence: 'likely' });
    const done = both.map((line) => line.replace('Init START', 'Init COMPLETE'));
    const ids = (await examine([['all.log', done.join('\n')]])).verdicts.map(({ id }) => id);
    expect(ids).not.toContain('version-mismatch');
  });
});

describe('a line that only looks like one with a prefix', () => {
  it('is no version of a process', async () => {
    const text = [
      ...log('w1', 0, '2.18.1').slice(0, 1),
      'the image has NCCL version 2.14.3',
      'x, NCCL version 2.1.0',
    ];
    const job = await readJob([{ name: 'a.log', text: [text.join('\n')] }]);
    expect(job.bareVersions).toEqual([]);
  });
});
