/** Names and options that contradict each other, outputs that fail, and texts that would move a terminal's cursor. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { printable, sentence } from '#src/cli/printable.js';
import { parseTopoOptions } from '#src/cli/topo/options.js';

const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));
const GOLDEN = join(import.meta.dirname, '../../golden');
const SPARK = readFileSync(join(GOLDEN, 'dgx-spark-gen1-1x200g/topo.xml'), 'latin1');
const SYSFS = join(GOLDEN, 'real-2xH200/sysfs.tgz');
const onLinux = process.platform === 'linux';

let folder: string;
let spark: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-misuse-'));
  spark = file('spark.xml', SPARK);
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content, typeof content === 'string' ? 'latin1' : undefined);
  return path;
}

/** Runs the command in a shell, for its redirections; without variables of NCCL. */
function topo(args: readonly string[], redirection = '', env: Readonly<Record<string, string>> = {}) {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('NCCL_'));
  return spawnSync('bash', ['-c', `"$0" "$@" ${redirection}`, process.execPath, MAIN, 'topo', ...args], {
    encoding: 'utf8',
    timeout: 30_000,
    env: { ...Object.fromEntries(own), ...env },
  });
}

describe('options', () => {
  test.each([
    [['--rank', '0', '--rank', '3'], '--rank 3: it was --rank 0 before; give it once'],
    [['--svg=a', '--svg=b'], '--svg b: it was --svg a before'],
    [['--nodes', '2', '--nodes', '4'], '--nodes 4: it was --nodes 2 before'],
    [['--rank', '0', '--json'], '--rank --json: --json is about all ranks'],
    [['--rank', '0', '--explain'], '--rank --explain: --explain is about all ranks'],
    [['--clique', '2'], '--clique 2: 1 node cannot be split'],
  ])('%j are refused with the values that contradict each other', (args, message) => {
    expect(() => parseTopoOptions(args)).toThrow(message);
  });

  it('that say the same twice are one', () => {
    expect(parseTopoOptions(['--rank', '1', '--rank=1', '--log', '--log'])).toMatchObject({ rank: 1 });
  });

  it.runIf(onLinux)('that ask for files which need GPUs fail where there are none', () => {
    for (const option of ['--svg', '--graph-dump']) {
      const path = join(folder, 'without-gpus');
      const { status, stderr } = topo(['--from', SYSFS, option, path]);
      expect([status, existsSync(path)]).toEqual([1, false]);
      expect(stderr).toMatch(/has no GPUs .* nothing that NCCL would decide/);
    }
  });
});

describe.runIf(onLinux)('files', () => {
  it('that are read are not written over, by whatever name', () => {
    const path = file('own.xml', SPARK);
    symlinkSync(path, join(folder, 'alias.xml'));
    for (const [input, option, output] of [
      [path, '--dump', path],
      [path, '--svg', join(folder, 'alias.xml')],
      [join(folder, 'alias.xml'), '--graph-dump', `${folder}/./own.xml`],
    ] as const) {
      const { status, stderr } = topo([input, option, output]);
      expect(status).toBe(2);
      expect(stderr).toContain(`${option} ${output}: the topology file is the same file`);
    }
    const graphs = topo([spark, '--svg', path], '', { NCCL_GRAPH_FILE: path });
    expect(graphs.stderr).toContain(`NCCL_GRAPH_FILE is the same file`);
    expect(readFileSync(path, 'latin1')).toBe(SPARK);
  });

  it('are not two outputs at once; devices may be', () => {
    const path = join(folder, 'both');
    const { status, stderr } = topo([spark, '--svg', path, '--dump', `${folder}/./both`]);
    expect([status, existsSync(path)]).toEqual([2, false]);
    expect(stderr).toMatch(/--dump .*both: --svg is the same file, which would be lost; give another name/);
    expect(topo([spark, '--svg', '/dev/null', '--dump', '/dev/null']).status).toBe(0);
  });

  test.each([
    ['UTF-16', Buffer.from(`\ufeff${SPARK}`, 'utf16le'), 'is text in UTF-16, not XML; save it as UTF-8'],
    ['UTF-16 without a mark', Buffer.from(SPARK, 'utf16le'), 'is text in UTF-16'],
    ['big-endian UTF-16', Buffer.from(`\ufeff${SPARK}`, 'utf16le').swap16(), 'is text in UTF-16'],
    ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 60, 0, 0, 0]), 'is text in UTF-32'],
    ['gzip', gzipSync(SPARK), 'is compressed by gzip, not XML'],
    ['zip', Buffer.from('PK\u0003\u0004'), 'is compressed, not XML; decompress it first'],
    ['tar', Buffer.concat([Buffer.alloc(257, 97), Buffer.from('ustar')]), 'is a tar archive'],
  ])('in %s are named for what they are', (name, bytes, message) => {
    const { status, stderr } = topo([file(`${name}.xml`, bytes)]);
    expect(status).toBe(1);
    expect(stderr).toContain(`the file ${message}`);
    expect(stderr).toMatch(/^[^\n]+\n$/);
  });

  test.each([
    ['a topology', ['/dev/zero'], {}, '/dev/zero has more than'],
    ['a recording', ['--from', '/dev/zero'], {}, '/dev/zero has more than'],
    ['graphs', [], { NCCL_GRAPH_FILE: '/dev/zero' }, 'NCCL_GRAPH_FILE: /dev/zero has more than'],
    ['standard input', ['-'], {}, 'standard input has more than'],
    ['a topology of a variable', [], { NCCL_TOPO_FILE: '/dev/zero' }, '/dev/zero has more than'],
  ])('that never end are refused: %s', (_, args, env, message) => {
    const given = 'NCCL_GRAPH_FILE' in env ? [spark] : args;
    const { status, stderr } = topo(given, '< /dev/zero', env);
    expect([status, stderr]).toEqual([1, expect.stringContaining(message)]);
  });
});

describe.runIf(onLinux)('an output', () => {
  test.each([[[]], [['--json']], [['--help']]])(
    'on a full disk is one sentence and status 1 (%j)',
    (more) => {
      const { status, stderr } = topo([spark, ...more], '> /dev/full');
      expect(status).toBe(1);
      expect(stderr).toMatch(/^tutti.*: cannot write to the output: ENOSPC[^\n]+\n$/);
    },
  );

  it('comes although nobody reads the messages', () => {
    const noted = file('noted.xml', `\u00ef\u00bb\u00bf${SPARK}`);
    const { stdout } = topo([noted], '2> >(exec true)');
    expect(stdout).toMatch(/^1 /);
  });

  it('has no control characters of names in the file', () => {
    const name = 'x\u001b]0;title\u0007\u009bm\u0000';
    const path = file('escape.xml', SPARK.replace(/<net name="[^"]*"/, `<net name="${name}"`));
    for (const show of [[], ['--explain'], ['--log'], ['--rank=0'], ['--json'], ['--nodes=2', '--rank=0']]) {
      const { status, stdout, stderr } = topo([path, ...show]);
      expect(status).toBe(0);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(stdout + stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    }
    expect(topo([path]).stdout).toContain('x\\x1b]0;title\\x07\\x9bm\\x00');
    expect(topo([path, '--json']).stdout).toContain('x\\u001b]0;title\\u0007\\u009bm\\u0000');
  });
});

test('control characters are shown; colours stay where they are ours', () => {
  const painted = '\u001b[32mGPU\u001b[39m\u001b[2J\t\u0085';
  expect(printable(painted)).toBe('\\x1b[32mGPU\\x1b[39m\\x1b[2J\\x09\\x85');
  expect(printable(painted, true)).toBe('\u001b[32mGPU\u001b[39m\\x1b[2J\\x09\\x85');
  expect(sentence('one.\n  Two\u0007')).toBe('one. Two\\x07');
});

test('GPUs that a template gets have ranks after those that are there, which may have gaps', () => {
  const bare = '<pci busid="0000:77:00.0" class="0x030200" link_speed="" link_width="16"/>\n';
  const path = file(
    'gaps.xml',
    SPARK.replace(/ rank="0"/, ' rank="1"').replace(/( *<pci busid)/, `${bare}$1`),
  );
  const { status, stdout, stderr } = topo([path, '--sm', '121']);
  expect(stderr).toMatch(/added 1 GPU/);
  expect([status, stdout]).toEqual([0, expect.stringMatching(/2 ranks/)]);
});
