/** `tutti run` as a user meets it: a process with arguments, output, signals and an exit code. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { parseRunArguments } from '#src/cli/run/arguments.js';
import { LinePrefixer, MAX_LINE_BYTES } from '#src/cli/run/line-prefixer.js';
import { Output } from '#src/cli/run/output.js';

const RUN = fileURLToPath(new URL('./programs/tutti-run.mjs', import.meta.url));
const RANK = fileURLToPath(new URL('./programs/rank.mjs', import.meta.url));

interface Run {
  child: ChildProcess;
  output(): string;
  errors(): string;
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stdout: Buffer; stderr: string }>;
}

const started: ChildProcess[] = [];

function start(...args: string[]): Run {
  const child = spawn(process.execPath, [RUN, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  started.push(child);
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  const ended = new Promise<Awaited<Run['ended']>>((resolve) => {
    child.on('close', (code, signal) =>
      resolve({ code, signal, stdout: Buffer.concat(out), stderr: Buffer.concat(err).toString() }),
    );
  });
  return {
    child,
    ended,
    output: () => Buffer.concat(out).toString(),
    errors: () => Buffer.concat(err).toString(),
  };
}

async function run(...args: string[]) {
  const { code, stdout, stderr } = await start(...args).ended;
  return { code, stdout: stdout.toString(), stderr };
}

async function until(condition: () => boolean, timeoutMs = 10_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error('the awaited condition did not come true');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A zombie that nobody has collected yet does not count. */
function alive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGTERM');
});

describe('tutti run', () => {
  test('gives every rank its place and the shared secret, and the script its arguments', async () => {
    const { code, stdout, stderr } = await run('-n', '3', '--', RANK, 'environment', '-n', '--', 'x y');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.trimEnd().split('\n').sort();
    const seen = lines.map((line) => JSON.parse(line.slice(4)));
    expect(lines.map((line) => line.slice(0, 4))).toEqual(['[0] ', '[1] ', '[2] ']);
    for (const [rank, environment] of seen.entries()) {
      expect(environment).toMatchObject({
        RANK: `${rank}`,
        WORLD_SIZE: '3',
        LOCAL_RANK: `${rank}`,
        LOCAL_WORLD_SIZE: '3',
        MASTER_ADDR: '127.0.0.1',
        rest: ['-n', '--', 'x y'],
      });
      expect(environment.TUTTI_SECRET).toMatch(/^[\w-]{43}$/);
    }
    for (const name of ['TUTTI_ID', 'TUTTI_SECRET', 'MASTER_PORT']) {
      expect(new Set(seen.map((environment) => environment[name])).size).toBe(1);
    }
  });

  test('its ranks meet without further settings, more than once', async () => {
    const { code, stdout } = await run('-n', '3', RANK, 'meet');
    expect(code).toBe(0);
    const expected = [0, 1, 2].flatMap((rank) =>
      [0, 1].map((round) => `[${rank}] round ${round}: r0r1r2 rootRank -1 tutti run`),
    );
    expect(stdout.trimEnd().split('\n').sort()).toEqual(expected.sort());
  });

  test('a rank that is killed is named to the other ranks', async () => {
    const { code, stdout, stderr } = await run('-n', '3', RANK, 'notice');
    expect(code).toBe(137);
    expect(stdout).toMatch(/^\[0\] rank 1 \(process \d+ on .*\) was lost/m);
    expect(stdout).toMatch(/^\[2\] rank 1 \(process \d+ on .*\) was lost/m);
    expect(stderr).toMatch(/tutti run: rank 1 \(process \d+\) was ended by SIGKILL/);
  });

  test('a rank that fails is named, the others are ended, its exit code is ours', async () => {
    const { code, stderr } = await run('-n', '3', RANK, 'fail', '7');
    expect(code).toBe(7);
    expect(stderr).toMatch(
      /^tutti run: rank 1 \(process \d+\) exited with code 7; the other ranks are ended\n$/,
    );
  });

  test.each([
    ['SIGKILL', 137],
    ['SIGSEGV', 139],
  ])('a rank that is ended by %s gives exit code %i', async (signal, expected) => {
    const { code, stderr } = await run('-n', '2', RANK, 'die', signal);
    expect(code).toBe(expected);
    expect(stderr).toContain(`was ended by ${signal}`);
  });

  test('a rank that ignores SIGTERM is killed after the grace time', async () => {
    const begin = performance.now();
    const { code, stdout } = await run('-n', '2', '--grace', '0.4', RANK, 'stubborn');
    expect(code).toBe(3);
    expect(stdout).toContain('[0] no');
    expect(performance.now() - begin).toBeGreaterThan(400);
  });

  test('the time-out ends everything and names the ranks that still ran', async () => {
    const { code, stderr } = await run('-n', '2', '--timeout', '0.5', RANK, 'wait');
    expect(code).toBe(124);
    expect(stderr).toBe('tutti run: 0.5 s are over; ranks 0, 1 still ran and are ended\n');
  });

  const interrupts = [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const;

  test.each(interrupts)('%s reaches every rank once', async (signal, expected) => {
    const job = start('-n', '2', RANK, 'handle');
    await until(() => job.output().split('ready').length === 3);
    job.child.kill(signal);
    const { code, stdout } = await job.ended;
    expect(code).toBe(expected);
    expect(
      stdout
        .toString()
        .split('\n')
        .filter((line) => line.includes('got'))
        .sort(),
    ).toEqual([`[0] got ${signal}`, `[1] got ${signal}`]);
  });

  test.each(interrupts)(
    '%s ends the ranks, and one line says so and blames none',
    async (signal, expected) => {
      const job = start('-n', '2', RANK, 'wait');
      await until(() => job.output().split('pid').length === 3);
      const pids = [...job.output().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]));
      job.child.kill(signal);
      const { code, stderr } = await job.ended;
      expect({ code, stderr }).toEqual({
        code: expected,
        stderr: `tutti run: interrupted by ${signal}; ranks 0, 1 are ended\n`,
      });
      expect(pids.some(alive)).toBe(false);
    },
  );

  test('ranks that ignore an interrupt are killed after the grace time, or at the second one', async () => {
    for (const [grace, kills] of [
      ['0.4', 1],
      ['30', 2],
    ] as const) {
      const job = start('-n', '2', '--grace', grace, RANK, 'deaf');
      await until(() => job.output().split('pid').length === 3);
      const pids = [...job.output().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]));
      job.child.kill('SIGINT');
      if (kills === 2) {
        await until(() => job.errors().includes('interrupted'));
        job.child.kill('SIGINT');
      }
      const { code, stderr } = await job.ended;
      expect({ code, stderr }).toEqual({
        code: 130,
        stderr: 'tutti run: interrupted by SIGINT; ranks 0, 1 are ended\n',
      });
      expect(pids.some(alive)).toBe(false);
    }
  });

  test.each(['wait', 'spin'])(
    'when it is killed with SIGKILL itself, no rank survives (%s)',
    async (behaviour) => {
      const job = start('-n', '2', RANK, behaviour);
      await until(() => job.output().split('pid').length === 3);
      const pids = [...job.output().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]));
      expect(pids.every(alive)).toBe(true);
      job.child.kill('SIGKILL');
      await until(() => !pids.some(alive));
    },
  );

  test('200 000 lines of four ranks arrive whole and in order', async () => {
    const perRank = 50_000;
    const { code, stdout } = await run('-n', '4', RANK, 'lines', `${perRank}`);
    expect(code).toBe(0);
    const next = [0, 0, 0, 0];
    const lines = stdout.split('\n');
    expect(lines.pop()).toBe('');
    for (const line of lines) {
      const rank = Number(line[1]);
      if (line !== `[${rank}] line ${next[rank]} of rank ${rank}`) throw new Error(`torn: ${line}`);
      next[rank]!++;
    }
    expect(next).toEqual([perRank, perRank, perRank, perRank]);
  });

  test('output without a final newline gets one', async () => {
    const { stdout, stderr } = await run('-n', '2', RANK, 'partial');
    expect(stdout.split('\n').sort()).toEqual(['', '[0] no end', '[1] no end']);
    expect(stderr.split('\n').sort()).toEqual(['', '[0] nor here', '[1] nor here']);
  });

  test('--no-prefix leaves the lines as they are', async () => {
    const { stdout } = await run('-n', '2', '--no-prefix', RANK, 'partial');
    expect(stdout).toBe('no end\nno end\n');
  });

  test('binary output passes unchanged and endless lines are cut', async () => {
    const { stdout } = await start('-n', '1', RANK, 'binary').ended;
    expect([...stdout.subarray(0, 13)]).toEqual([
      ...Buffer.from('[0] '),
      0,
      255,
      10,
      ...Buffer.from('[0] '),
      254,
      10,
    ]);
    const long = stdout.subarray(13).toString().split('\n');
    expect(long.map((line) => line.length)).toEqual([
      MAX_LINE_BYTES + 4,
      MAX_LINE_BYTES + 4,
      MAX_LINE_BYTES + 4,
      9,
      0,
    ]);
  });

  test('rank 0 reads the standard input', async () => {
    const job = start('-n', '2', RANK, 'stdin');
    job.child.stdin!.end('hello');
    const { stdout } = await job.ended;
    expect(stdout.toString().split('\n').sort()).toEqual(['', "[0] read 'hello' of 2", "[1] read '' of 2"]);
  });

  test('a reader that goes away ends the job', async () => {
    const job = start('-n', '2', RANK, 'lines', '100000000');
    await until(() => job.output().length > 1000);
    job.child.stdout!.destroy();
    expect((await job.ended).code).toBe(141);
  });

  test('a reader that pauses stops neither signals nor the end of the ranks', async () => {
    const job = start('-n', '2', RANK, 'flood');
    await until(() => job.output().split('pid').length >= 3);
    const pids = [...job.output().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]));
    job.child.stdout!.pause();
    // Long enough for every buffer on the way to be full.
    await new Promise((resolve) => setTimeout(resolve, 500));
    job.child.kill('SIGTERM');
    await until(() => !pids.some(alive), 4000);
    job.child.stdout!.resume();
    expect((await job.ended).code).toBe(143);
  });

  test('a reader that is slow gets everything', async () => {
    const job = start('-n', '2', RANK, 'lines', '20000');
    await until(() => job.output().length > 0);
    job.child.stdout!.pause();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    job.child.stdout!.resume();
    const { code, stdout } = await job.ended;
    expect(code).toBe(0);
    expect(stdout.toString().split('\n')).toHaveLength(40_001);
  });

  test('programs other than scripts run as they are; a missing one gives 127', async () => {
    const shell = await run('-n', '2', 'sh', '-c', 'echo $RANK; exit $RANK');
    expect(shell.code).toBe(1);
    expect(shell.stdout).toContain('[0] 0\n');
    const missing = await run('-n', '2', 'no-such-program');
    expect(missing.code).toBe(127);
    expect(missing.stderr).toContain('rank 0 could not be started (no-such-program: ENOENT)');
  });

  test('ranks that cannot be started for want of descriptors are named', () => {
    const program = fileURLToPath(new URL('./programs/no-descriptors.mjs', import.meta.url));
    const command = 'ulimit -n 64; exec "$0" "$1"';
    const { stdout } = spawnSync('/bin/sh', ['-c', command, process.execPath, program]);
    const { said, failure } = JSON.parse(stdout.toString());
    expect(failure).toMatchObject({ rank: 0, exitCode: 126 });
    expect(said.at(-1)).toMatch(/^rank 0 could not be started \(.*: EMFILE\); the other ranks are ended$/);
  });

  test.each([
    [[], 'number of ranks is missing'],
    [['-n', '0', 'x.js'], '-n 0: an integer from 1'],
    [['-n', '2.5', 'x.js'], '-n 2.5'],
    [['-n'], '-n needs a value'],
    [['-n', '2'], 'script is missing'],
    [['-n', '2', '--fast', 'x.js'], 'Unknown option --fast'],
    [['-n', '2', '--timeout', 'soon', 'x.js'], '--timeout soon'],
    [['-n', '2', 'no-such-script.mjs'], "script 'no-such-script.mjs' does not exist"],
  ])('wrong use %j gives exit code 2 and says why', async (args, text) => {
    const { code, stderr } = await run(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(text);
  });
});

test('options may be written with = and end at the script', () => {
  expect(parseRunArguments(['--ranks=4', '--timeout=1.5', 'a.js', '--grace', '1'])).toEqual({
    ranks: 4,
    timeoutMs: 1500,
    graceMs: 5000,
    prefixes: true,
    program: 'a.js',
    programArguments: ['--grace', '1'],
  });
  expect(parseRunArguments(['-n', '1', '--help'])).toBe('help');
});

test('lines are prefixed alike however the stream is cut into chunks', () => {
  const bytes = fc.array(fc.constantFrom(10, 65, 0, 255), { maxLength: 60 });
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(59), { maxLength: 8 }), (content, cuts) => {
      const out: Buffer[] = [];
      const prefixer = new LinePrefixer('> ', (lines) => out.push(Buffer.from(lines)));
      const edges = [0, ...cuts.filter((cut) => cut < content.length), content.length].sort((a, b) => a - b);
      for (let i = 1; i < edges.length; i++)
        prefixer.push(Uint8Array.from(content.slice(edges[i - 1], edges[i])));
      prefixer.flush();
      const text = Buffer.from(content).toString('latin1');
      const lines = text.split('\n');
      if (lines.at(-1) === '') lines.pop();
      expect(Buffer.concat(out).toString('latin1')).toBe(lines.map((line) => `> ${line}\n`).join(''));
      for (const written of out) expect(written.at(-1)).toBe(10);
    }),
  );
});

test('a line of exactly the longest length is not cut', () => {
  const out: Buffer[] = [];
  const prefixer = new LinePrefixer('', (lines) => out.push(Buffer.from(lines)));
  prefixer.push(Buffer.concat([Buffer.alloc(MAX_LINE_BYTES, 97), Buffer.from('\n')]));
  prefixer.push(Buffer.alloc(MAX_LINE_BYTES, 98));
  prefixer.push(Buffer.from('\nend\n'));
  const lines = Buffer.concat(out).toString().split('\n');
  expect(lines.map((line) => line.length)).toEqual([MAX_LINE_BYTES, MAX_LINE_BYTES, 3, 0]);
});

test('prefixes are coloured on a terminal, unless NO_COLOR is set', async () => {
  const written = async (): Promise<string> => {
    const terminal = Object.assign(new PassThrough(), { isTTY: true });
    const source = new PassThrough();
    new Output(terminal, () => {}).attach(source, 1);
    source.end('hello\n');
    await once(source, 'close');
    return terminal.read().toString();
  };
  const before = process.env.NO_COLOR;
  try {
    delete process.env.NO_COLOR;
    expect(await written()).toBe('\u001b[32m[1]\u001b[39m hello\n');
    process.env.NO_COLOR = '1';
    expect(await written()).toBe('[1] hello\n');
  } finally {
    if (before === undefined) delete process.env.NO_COLOR;
    else process.env.NO_COLOR = before;
  }
});
