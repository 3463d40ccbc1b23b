/** What files are packed in, written in, and linked by does not change what is read of them. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { doctorOutput } from '#src/cli/doctor/output.js';
import { filesOf, sourcesOf } from '#src/cli/doctor/sources.js';
import { readJob } from '#src/doctor/read/read-job.js';
import { plainStyle } from '#src/topology/report/style.js';

const CASE = fileURLToPath(new URL('../../cases/doctor/port-flap-then-retry-exceeded', import.meta.url));
const LOG = readFileSync(join(CASE, 'nccl.plover-22.log'));

describe('the inputs of tutti doctor', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tutti-sources-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const path = (name: string): string => join(folder, name);
  function file(name: string, bytes: Uint8Array): string {
    writeFileSync(path(name), bytes);
    return path(name);
  }
  /** Verdicts with their first line of evidence, problems of files, and notes. */
  async function examine(...paths: string[]) {
    const notes: string[] = [];
    const options = { paths, json: true, numbers: false, live: false };
    const { lines, verdict } = await doctorOutput(options, plainStyle(), (text) => notes.push(text));
    const { verdicts, model } = JSON.parse(lines.join('\n'));
    return {
      verdict,
      notes,
      found: verdicts.map(
        ({ id, evidence: [first] }: { id: string; evidence: { file: string; line: number }[] }) =>
          `${id} ${first!.file}:${first!.line}`,
      ),
      problems: model.files.flatMap(({ problems }: { problems: string[] }) => problems),
    };
  }
  const FLAP = (name: string) => ({
    verdict: 'findings',
    notes: [],
    found: [`ib-port-flap ${name}:40`],
    problems: [],
  });

  it('are unpacked when they are gzip, whatever their names say', async () => {
    expect(await examine(file('a.log.gz', gzipSync(LOG)))).toEqual(FLAP('a.log.gz'));
    expect(await examine(file('b.log', gzipSync(LOG)))).toEqual(FLAP('b.log'));
    const halves = [LOG.subarray(0, 3001), LOG.subarray(3001)].map((half) => gzipSync(half));
    expect(await examine(file('two-members.gz', Buffer.concat(halves)))).toEqual(FLAP('two-members.gz'));
  });

  it('are read once where they lie there plain and packed, and twice where they differ', async () => {
    const both = path('both');
    mkdirSync(both);
    writeFileSync(join(both, 'a.log'), LOG);
    writeFileSync(join(both, 'a.log.gz'), gzipSync(LOG));
    const found = await examine(both);
    expect(found).toEqual({ ...FLAP('a.log'), notes: ['a.log.gz holds the same as a.log and is left out'] });
    writeFileSync(join(both, 'a.log'), Buffer.concat([LOG, Buffer.from('one line more\n')]));
    const job = await readJob(sourcesOf(await filesOf([both], () => {})));
    expect(job.files.map(({ name }) => name)).toEqual(['a.log', 'a.log.gz']);
  });

  it('are taken out of tar archives, file by file, packed or not', async () => {
    const inner = path('logs');
    mkdirSync(inner);
    for (const host of ['plover-21', 'plover-22'])
      cpSync(join(CASE, `nccl.${host}.log`), join(inner, `nccl.${host}.log`));
    const long = 'x'.repeat(120);
    writeFileSync(join(inner, `${long}.txt`), 'no log\n');
    for (const [name, options] of [
      ['a.tar', '-cf'],
      ['a.tgz', '-czf'],
    ] as const) {
      execFileSync('tar', [options, path(name), '-C', folder, 'logs']);
      const found = await examine(path(name));
      expect(found).toEqual(FLAP(`${name}/logs/nccl.plover-22.log`));
      const job = await readJob(sourcesOf(await filesOf([path(name)], () => {})));
      expect(job.files.map((one) => one.name).sort()).toEqual(
        [`${long}.txt`, 'nccl.plover-21.log', 'nccl.plover-22.log']
          .map((one) => `${name}/logs/${one}`)
          .sort(),
      );
    }
  });

  it('are read up to where they are cut off or damaged, and the reason is told', async () => {
    const packed = gzipSync(LOG);
    const cut = await examine(file('cut.gz', packed.subarray(0, packed.length - 60)));
    expect(cut.found).toEqual(['ib-port-flap cut.gz:40']);
    expect(cut.problems).toEqual(['the packed data are cut off: what stands before that was read']);
    const wrong = gzipSync(Buffer.concat([LOG, Buffer.alloc(40_000, '\n')]));
    wrong[wrong.length - 6]! ^= 0xff; // the checksum
    const damaged = await examine(file('damaged.gz', wrong));
    expect(damaged.found).toEqual(['ib-port-flap damaged.gz:40']);
    expect(damaged.problems).toEqual([expect.stringMatching(/^the packed data are damaged \(.*\): what/)]);
    execFileSync('tar', ['-cf', path('whole.tar'), '-C', CASE, 'nccl.plover-22.log']);
    const archive = await examine(file('cut.tar', readFileSync(path('whole.tar')).subarray(0, 4900)));
    expect(archive.problems).toEqual(['the archive is cut off here: what stands before that was read']);
    expect(archive.found).toEqual(['ib-port-flap cut.tar/nccl.plover-22.log:40']);
  });

  it('may not grow beyond measure when they are unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(66 << 20), { level: 9 });
    expect(bomb.length).toBeLessThan(100_000);
    const found = await examine(file('bomb.gz', bomb));
    expect(found.problems).toEqual([expect.stringMatching(/^unpacks to more than 250 times its size/)]);
    expect(found.verdict).toBe('unreadable');
  });

  it('are refused with the name of the format and the remedy where Node cannot unpack them', async () => {
    const heads = {
      zip: [0x50, 0x4b, 3, 4, 20, 0],
      xz: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0],
      bzip2: [0x42, 0x5a, 0x68, 0x39, 0x31, 0x41],
      lz4: [0x04, 0x22, 0x4d, 0x18, 0x64, 0x40],
    };
    for (const [name, head] of Object.entries(heads)) {
      const { verdict, problems } = await examine(file(`x.${name}`, Uint8Array.from(head)));
      expect({ verdict, problems }).toEqual({
        verdict: 'unreadable',
        problems: [expect.stringMatching(new RegExp(`${name}.*unpack it`))],
      });
    }
    const { problems } = await examine(file('x.zst', Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0])));
    expect(problems).toEqual([expect.stringMatching(/zstd.*unpack it|packed data are/)]);
  });

  it('may be UTF-16, with a mark or without, and may have holes of zeros', async () => {
    const text = LOG.toString('utf8');
    const little = Buffer.from(text, 'utf16le');
    const big = Buffer.from(little).swap16();
    expect(await examine(file('l.log', Buffer.concat([Buffer.from([0xff, 0xfe]), little])))).toEqual(
      FLAP('l.log'),
    );
    expect(await examine(file('b.log', Buffer.concat([Buffer.from([0xfe, 0xff]), big])))).toEqual(
      FLAP('b.log'),
    );
    expect(await examine(file('plain-l.log', little))).toEqual(FLAP('plain-l.log'));
    expect(await examine(file('plain-b.log', big))).toEqual(FLAP('plain-b.log'));
    const middle = LOG.indexOf('\n', 2000) + 1;
    const holes = [Buffer.alloc(70_000), LOG.subarray(0, middle), Buffer.alloc(40_000), LOG.subarray(middle)];
    expect(await examine(file('holes.log', Buffer.concat(holes)))).toEqual(FLAP('holes.log'));
    expect(await examine(file('zeros', Buffer.alloc(100_000)))).toMatchObject({
      verdict: 'unreadable',
      found: [],
    });
  });

  it('are found through links, once, also where links lead in circles or nowhere', async () => {
    const root = path('links');
    mkdirSync(join(root, 'logs'), { recursive: true });
    writeFileSync(path('elsewhere.log'), LOG);
    symlinkSync(path('elsewhere.log'), join(root, 'n22.log'));
    symlinkSync('..', join(root, 'logs', 'up'));
    symlinkSync('self', join(root, 'self'));
    symlinkSync('/nowhere/at/all', join(root, 'dead'));
    execFileSync('mkfifo', [join(root, 'pipe')]);
    expect(await examine(root)).toEqual(FLAP('n22.log'));
    await expect(examine(join(root, 'self'))).rejects.toThrow(/links lead in a circle/);
  });

  it('keep their line numbers where bars of progress return to the beginning of a line', async () => {
    const bars = `${Array.from({ length: 50 }, (_, i) => `step ${i}`).join('\r')}\n`;
    const options = { paths: [path('bars.log')], json: false, numbers: false, live: false };
    file('bars.log', Buffer.concat([Buffer.from(bars), LOG]));
    const { lines } = await doctorOutput(options, plainStyle(), () => {});
    expect(lines.join('\n')).toMatch(/bars\.log:41 {2}.*async event: port error/);
  });
});
