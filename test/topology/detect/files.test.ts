/** Files of users: whatever a name stands for, reading ends soon, and writing leaves a whole file. */
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { archiveTree } from '#src/topology/detect/archive-tree.js';
import { detectTopology } from '#src/topology/detect/detect.js';
import { readInput } from '#src/topology/detect/input-file.js';
import { deviceAt } from '#src/topology/detect/nvml-facts.js';
import { writeWhole } from '#src/topology/detect/output-file.js';
import { gpuFacts, SyntheticMachine } from './synthetic-machine.js';

const onLinux = process.platform === 'linux';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-files-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('reading', () => {
  it('gives all bytes up to the limit, and refuses one more', () => {
    const path = file('five', 'a\0\u00e9b');
    expect(readInput(path, 5)).toEqual(readFileSync(path));
    expect(() => readInput(path, 4)).toThrow(/five has more than the 4 bytes .* give the right file/);
    expect(readInput(file('none', ''), 0)).toHaveLength(0);
    expect(() => readInput(join(folder, 'absent'), 1)).toThrow(/ENOENT/);
    expect(() => readInput(folder, 1)).toThrow(/EISDIR/);
  });

  it.runIf(onLinux)('of a device that never ends stops at the limit', () => {
    expect(() => readInput('/dev/zero', 1 << 20)).toThrow(/\/dev\/zero has more than the 1048576 bytes/);
  });

  it.runIf(onLinux)('waits for the writer of a pipe, and for all that it writes', async () => {
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    const writer = spawn('sh', ['-c', `sleep 0.2; (printf one; sleep 0.2; printf two) > "${path}"`]);
    const ended = new Promise((resolve) => writer.once('close', resolve));
    expect(readInput(path, 100).toString()).toBe('onetwo');
    await ended;
  });

  it.runIf(onLinux)('gives up on a pipe that nobody writes to', () => {
    const path = join(folder, 'silent');
    execFileSync('mkfifo', [path]);
    expect(() => readInput(path, 100)).toThrow(
      /silent is a pipe that nobody has written to for 3 s; start its/,
    );
  });
});

describe('writing', () => {
  const names = () => readdirSync(folder).filter((name) => name.includes('.tmp'));

  it('makes a file, or takes the place of one whose permissions it keeps', () => {
    const path = join(folder, 'new');
    writeWhole(path, '\u00e9', 'latin1');
    expect([...readFileSync(path)]).toEqual([0xe9]);
    chmodSync(path, 0o640);
    writeWhole(path, new Uint8Array([1, 2]));
    expect([...readFileSync(path)]).toEqual([1, 2]);
    if (onLinux) expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(names()).toEqual([]);
  });

  it.runIf(onLinux)('that fails halfway leaves the old file, and no other', () => {
    const path = file('old', 'old');
    // A file may only have one block here, as on a full disk.
    const script = `
      process.on('SIGXFSZ', () => {});
      import('${new URL('../../../dist/topology/detect/output-file.js', import.meta.url).href}').then(
        ({ writeWhole }) => writeWhole(process.argv[1], 'x'.repeat(100_000)),
      ).catch((error) => { console.log(error.code); });`;
    const run = () =>
      execFileSync('bash', ['-c', 'ulimit -f 1; exec "$0" -e "$1" "$2"', process.execPath, script, path]);
    expect(run().toString().trim()).toBe('EFBIG');
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(names()).toEqual([]);
  });

  it.runIf(onLinux)(
    'that is interrupted leaves no part behind, and the interruption takes effect',
    async () => {
      const path = join(folder, 'interrupted');
      const script = `
      import('${new URL('../../../dist/topology/detect/output-file.js', import.meta.url).href}').then(({ writeWhole }) => {
        const data = Buffer.alloc(32 << 20, 'x');
        for (const end = Date.now() + 300; Date.now() < end; ) writeWhole(process.argv[1], data);
      });`;
      for (const signal of ['SIGINT', 'SIGTERM'] as const) {
        const child = spawn(process.execPath, ['-e', script, path], { stdio: 'ignore' });
        const ended = new Promise((resolve) => child.once('exit', (_, by) => resolve(by)));
        while (names().length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        child.kill(signal);
        expect(await ended).toBe(signal);
        expect(names()).toEqual([]);
        expect(statSync(path).size).toBe(32 << 20);
      }
    },
  );

  it.runIf(onLinux)('keeps what links and shared names lead to', () => {
    const path = file('target', 'old');
    symlinkSync(path, join(folder, 'symbolic'));
    writeWhole(join(folder, 'symbolic'), 'by link');
    expect(readFileSync(path, 'utf8')).toBe('by link');
    linkSync(path, join(folder, 'second'));
    writeWhole(path, 'for both');
    expect(readFileSync(join(folder, 'second'), 'utf8')).toBe('for both');
    symlinkSync(join(folder, 'later'), join(folder, 'dangling'));
    writeWhole(join(folder, 'dangling'), 'made');
    expect(readFileSync(join(folder, 'later'), 'utf8')).toBe('made');
    expect(() => writeWhole('/dev/full', 'x')).toThrow(/ENOSPC/);
    expect(() => writeWhole(folder, 'x')).toThrow(/EISDIR/);
    expect(() => writeWhole(join(folder, 'no/where'), 'x')).toThrow(/ENOENT.*where'/);
  });
});

describe('machines that nobody has', () => {
  it('in a small archive of long paths are refused before they fill the memory', () => {
    const long = 'a/'.repeat(1990);
    const entries = Array.from({ length: 300 }, (_, at) => ({
      kind: 'directory' as const,
      path: `sys/${at}/${long}`,
    }));
    expect(() => archiveTree(entries, 'bomb.tgz')).toThrow(
      /bomb\.tgz holds more than 500000 files and folders.*leave out/,
    );
    expect(archiveTree(entries.slice(0, 2), 'x').names('/sys')).toEqual(['0', '1']);
  });

  it('with more NUMA nodes than Linux knows are refused', () => {
    const machine = new SyntheticMachine();
    for (let node = 0; node <= 1024; node++) machine.file(`/sys/devices/system/node/node${node}/cpumap`, '1');
    expect(() => detectTopology({ machine: machine.machine(), env: {} })).toThrow(
      /1025 NUMA nodes, but Linux knows at most 1024/,
    );
  });

  it('of a thousand GPUs find any of them soon', () => {
    const ids = Array.from({ length: 1000 }, (_, at) => `${at.toString(16).padStart(4, '0')}:01:00.0`);
    const facts = gpuFacts([...ids, ids[7]!]);
    const start = performance.now();
    let sum = 0;
    for (let at = 0; at < 100_000; at++) sum += deviceAt(facts, ids[at % 1000]!)!.index;
    expect(sum).toBe(100 * ((1000 * 999) / 2));
    // A search through all of them takes half a minute.
    expect(performance.now() - start).toBeLessThan(5000);
    expect(deviceAt(facts, 'ffff:01:00.0')).toBeUndefined();
  });
});
