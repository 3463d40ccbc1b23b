/** The view of a machine's files: links stay inside, directories and archives answer alike. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { archiveTree } from '#src/topology/detect/archive-tree.js';
import { directoryTree } from '#src/topology/detect/directory-tree.js';
import { MachineFiles } from '#src/topology/detect/machine-files.js';
import { type ArchiveEntry, readArchive, writeArchive } from '#src/topology/detect/tar.js';
import { SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

const viewOf = (machine: SyntheticMachine) => new MachineFiles(archiveTree(machine.entries));

describe('paths', () => {
  const view = viewOf(
    new SyntheticMachine()
      .file('/sys/devices/pci0000:00/0000:00:06.0/class', '0x030200')
      .link('/sys/class/pci_bus/0000:00', '../../devices/pci0000:00/pci_bus/0000:00')
      .directory('/sys/devices/pci0000:00/pci_bus/0000:00')
      .link('/absolute', '/sys/devices')
      .link('/sys/class/absolute', '/sys/devices')
      .link('/outside', '../../../../sys/devices')
      .link('/loop', 'loop')
      .link('/ping', 'pong')
      .link('/pong', 'ping')
      .link('/dangling', 'nowhere')
      .link('/empty', ''),
  );

  test('go through a link before they go up, as in the kernel', () => {
    expect(view.realPath('/sys/class/pci_bus/0000:00/../../0000:00:06.0')).toBe(
      '/sys/devices/pci0000:00/0000:00:06.0',
    );
    expect(view.text('/sys/class/pci_bus/0000:00/../../0000:00:06.0/class')).toBe('0x030200\n');
  });

  test('never leave the root: too many ups and absolute links stay inside', () => {
    expect(view.realPath('/absolute/pci0000:00')).toBe('/sys/devices/pci0000:00');
    expect(view.realPath('/sys/class/absolute/pci0000:00')).toBe('/sys/devices/pci0000:00');
    expect(view.realPath('/outside/pci0000:00')).toBe('/sys/devices/pci0000:00');
    expect(view.realPath('/../../..')).toBe('/');
  });

  test('that lead round, nowhere or through a file are nothing', () => {
    for (const path of ['/loop', '/ping', '/ping/x', '/dangling', '/empty', '/absent']) {
      expect(view.realPath(path)).toBeUndefined();
      expect(view.text(path)).toBeUndefined();
      expect(view.names(path)).toEqual([]);
    }
    expect(view.realPath('/sys/devices/pci0000:00/0000:00:06.0/class/..')).toBeUndefined();
    expect(view.realPath(`/${'a/'.repeat(3000)}`)).toBeUndefined();
  });

  test('of directories have no text, those of files no names', () => {
    expect(view.text('/sys')).toBeUndefined();
    expect(view.names('/sys/devices/pci0000:00/0000:00:06.0/class')).toEqual([]);
    expect(view.names('/sys/devices/pci0000:00')).toEqual(['0000:00:06.0', 'pci_bus']);
  });

  test('of links can be read without being followed', () => {
    expect(view.linkTarget('/dangling')).toBe('nowhere');
    expect(view.linkTarget('/sys/class/pci_bus/0000:00')).toBe('../../devices/pci0000:00/pci_bus/0000:00');
    for (const path of ['/sys', '/absent', '/dangling/x', '/sys/..', '/', 'relative']) {
      expect(view.linkTarget(path)).toBeUndefined();
    }
  });
});

describe('a directory', () => {
  test('gives nothing from outside of it', () => {
    const root = join(folder, 'jail');
    mkdirSync(join(root, 'sys'), { recursive: true });
    writeFileSync(join(folder, 'secret'), 'secret');
    symlinkSync('../../secret', join(root, 'sys', 'up'));
    symlinkSync(join(folder, 'secret'), join(root, 'sys', 'absolute'));
    symlinkSync('..', join(root, 'sys', 'parent'));
    const view = new MachineFiles(directoryTree(root));
    for (const path of [
      '/sys/up',
      '/sys/absolute',
      '/sys/parent/secret',
      '/../secret',
      '/sys/../../secret',
    ]) {
      expect(view.text(path)).toBeUndefined();
    }
    expect(view.realPath('/sys/parent')).toBe('/');
  });

  test('with a pipe in it makes nobody wait', () => {
    const root = join(folder, 'pipes');
    mkdirSync(root);
    execFileSync('mkfifo', [join(root, 'pipe')]);
    const view = new MachineFiles(directoryTree(root));
    expect(view.text('/pipe')).toBeUndefined();
    expect(view.names('/')).toEqual(['pipe']);
  });
});

/** Short names and short targets, so that links meet each other and the files. */
const name = fc.constantFrom('a', 'b', 'c');
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => `/${parts.join('/')}`);
const target = fc
  .array(fc.constantFrom('a', 'b', 'c', '..', '.'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('/'));
const trees = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('file' as const), path, text: fc.constantFrom('x', 'y') }),
    fc.record({ kind: fc.constant('link' as const), path, target }),
    fc.record({ kind: fc.constant('directory' as const), path }),
  ),
  { maxLength: 12 },
);

/** Makes the tree; entries below a file or a link are left out, as they could not be in a real one. */
function treeOf(specification: typeof trees extends fc.Arbitrary<infer T> ? T : never): SyntheticMachine {
  const machine = new SyntheticMachine();
  const kinds = new Map<string, string>();
  for (const one of specification) {
    const parts = one.path.split('/').slice(1);
    const above = parts.slice(0, -1).map((_, index) => `/${parts.slice(0, index + 1).join('/')}`);
    if (kinds.has(one.path) || above.some((at) => (kinds.get(at) ?? 'directory') !== 'directory')) continue;
    for (const at of above) kinds.set(at, 'directory');
    kinds.set(one.path, one.kind);
    if (one.kind === 'file') machine.raw(one.path, one.text);
    else if (one.kind === 'link') machine.link(one.path, one.target);
    else machine.directory(one.path);
  }
  return machine;
}

test('a directory and an archive of it answer alike, and as the kernel does where it stays inside', () => {
  let run = 0;
  fc.assert(
    fc.property(trees, fc.array(path, { minLength: 5, maxLength: 10 }), (specification, asked) => {
      const machine = treeOf(specification);
      const root = join(folder, `tree-${run++}`);
      mkdirSync(root);
      machine.unpack(root);
      const fromDirectory = new MachineFiles(directoryTree(root));
      const fromArchive = new MachineFiles(archiveTree(readArchive(writeArchive(machine.entries), 'x.tgz')));
      for (const one of asked) {
        const real = fromArchive.realPath(one);
        expect(fromDirectory.realPath(one)).toBe(real);
        expect(fromDirectory.text(one)).toBe(fromArchive.text(one));
        expect(fromDirectory.names(one)).toEqual(fromArchive.names(one));
        expect(fromDirectory.linkTarget(one)).toBe(fromArchive.linkTarget(one));
        let kernel: string | undefined;
        try {
          kernel = realpathSync.native(root + one);
        } catch {}
        if (kernel?.startsWith(`${root}/`)) expect(root + real).toBe(kernel);
        if (kernel === undefined && !one.includes('..')) {
          // The kernel may have left the root and found nothing; the view finds what is at the root then.
          const climbs = machine.entries.some(
            (entry) => entry.kind === 'link' && entry.target.includes('..'),
          );
          if (!climbs) expect(real).toBeUndefined();
        }
      }
      rmSync(root, { recursive: true });
    }),
    { numRuns: 60 },
  );
});

describe('archives', () => {
  const entries: ArchiveEntry[] = [
    { kind: 'directory', path: 'sys/class' },
    { kind: 'file', path: 'sys/class/file', bytes: Buffer.from([0, 1, 0x80, 0x9f, 0xff]) },
    { kind: 'link', path: 'sys/class/link', target: '../devices/x' },
    { kind: 'file', path: `sys/${'long/'.repeat(40)}file`, bytes: Buffer.from('long') },
    { kind: 'link', path: `sys/${'long/'.repeat(40)}link`, target: 'far/'.repeat(40) },
    { kind: 'file', path: 'sys/empty', bytes: new Uint8Array() },
    { kind: 'file', path: 'sys/large', bytes: Buffer.alloc(5000, 'z') },
  ];
  const archive = writeArchive(entries);

  /** Paths, kinds, contents as text. */
  const plain = (list: readonly ArchiveEntry[]) =>
    list.map((one) => ({ ...one, ...(one.kind === 'file' ? { bytes: [...one.bytes] } : {}) }));

  test('come back as they were written, long names and all bytes included', () => {
    expect(plain(readArchive(archive, 'a.tgz'))).toEqual(plain(entries));
  });

  test('are read by the tar of the system', () => {
    const file = join(folder, 'ours.tgz');
    writeFileSync(file, archive);
    const unpacked = join(folder, 'ours');
    mkdirSync(unpacked);
    execFileSync('tar', ['xzf', file, '-C', unpacked]);
    const view = new MachineFiles(directoryTree(unpacked));
    for (const entry of entries) {
      if (entry.kind === 'file') {
        expect(view.text(`/${entry.path}`)).toBe(Buffer.from(entry.bytes).toString('latin1'));
      }
      if (entry.kind === 'link') expect(view.linkTarget(`/${entry.path}`)).toBe(entry.target);
    }
  });

  test.each(['gnu', 'oldgnu', 'pax', 'posix', 'ustar', 'v7'])(
    'of the system in the form %s are read',
    (form) => {
      const source = join(folder, `source-${form}`);
      const machine = new SyntheticMachine().file('/sys/class/file', 'text').link('/sys/class/link', 'file');
      const long = `/sys/${'directory/'.repeat(form === 'v7' ? 5 : 14)}file`;
      machine.file(long, 'deep');
      machine.unpack(source);
      const file = join(folder, `${form}.tar`);
      execFileSync('tar', ['cf', file, `--format=${form}`, '-C', source, '.']);
      const view = new MachineFiles(archiveTree(readArchive(execFileSync('cat', [file]), file)));
      expect(view.text('/sys/class/link')).toBe('text\n');
      expect(view.text(long)).toBe('deep\n');
    },
  );

  test('that end early are refused, wherever they end', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: archive.length - 1 }), (length) => {
        expect(() => readArchive(archive.subarray(0, length), 'cut.tgz')).toThrow(
          expect.objectContaining({ code: 'invalidArgument', message: expect.stringContaining('cut.tgz') }),
        );
      }),
      { numRuns: 50 },
    );
    const unpacked = execFileSync('gzip', ['-dc'], { input: archive });
    for (const length of [0, 511, 512, 700, 1024, unpacked.length - 1024]) {
      expect(() => readArchive(unpacked.subarray(0, length), 'cut.tar')).toThrow(
        expect.objectContaining({ code: 'invalidArgument' }),
      );
    }
  });

  test('with a path that leads out of them are refused; a leading slash is dropped', () => {
    for (const bad of ['../x', 'sys/../../x', 'sys/..']) {
      expect(() =>
        readArchive(writeArchive([{ kind: 'file', path: bad, bytes: Buffer.from('x') }]), 'bad.tgz'),
      ).toThrow(expect.objectContaining({ code: 'invalidArgument', message: expect.stringContaining(bad) }));
    }
    expect(readArchive(writeArchive([{ kind: 'directory', path: '/./sys//x' }]), 'a')).toEqual([
      { kind: 'directory', path: 'sys/x' },
    ]);
  });

  test('of damaged bytes give entries or a TuttiError, nothing else', () => {
    const unpacked = execFileSync('gzip', ['-dc'], { input: archive });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(unpacked.length - 1), fc.integer({ min: 0, max: 255 })), { maxLength: 20 }),
        (changes) => {
          const bytes = Buffer.from(unpacked);
          for (const [at, value] of changes) bytes[at] = value;
          try {
            expect(readArchive(bytes, 'damaged.tar')).toBeInstanceOf(Array);
          } catch (error) {
            expect(error).toMatchObject({ name: 'TuttiError', code: 'invalidArgument' });
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});
