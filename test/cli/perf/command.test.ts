/** `tutti perf` as a user meets it: real ranks, its table read back, its exit status. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type ParsedRow, type ParsedTable, parseTable } from '#src/cli/perf/table-parser.js';
import { ALGORITHMS, supports } from '#src/collectives/registry.js';

const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function perf(args: string, env: NodeJS.ProcessEnv = {}): Promise<Outcome> {
  const child = spawn(process.execPath, [MAIN, 'perf', ...args.split(' ')], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  return new Promise((resolve) => {
    child.on('close', (code) =>
      resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }),
    );
  });
}

/** Runs to a good end: exit status 0, nothing wrong in any row, sensible numbers everywhere. */
async function measured(args: string, env: NodeJS.ProcessEnv = {}): Promise<ParsedTable> {
  const { code, stdout, stderr } = await perf(args, env);
  expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: '' });
  const table = parseTable(stdout);
  expect(table.failedChecks).toBe(0);
  for (const row of table.rows) {
    // What cannot be done in place says N/A there.
    const sides = ['alltoall_perf', 'sendrecv_perf'].includes(table.program ?? '')
      ? [row.outOfPlace]
      : [row.outOfPlace, row.inPlace];
    if (sides.length === 1) expect(row.inPlace).toEqual({ timeUs: NaN, algbw: NaN, busbw: NaN });
    for (const side of sides) {
      expect(side.wrong).toBe(0);
      expect(side.timeUs).toBeGreaterThan(0);
      expect(side.algbw).toBeGreaterThanOrEqual(0);
    }
  }
  return table;
}

const sizes = ({ rows }: ParsedTable) => rows.map(({ bytes }) => bytes);
const column = <K extends keyof ParsedRow>({ rows }: ParsedTable, key: K) => rows.map((row) => row[key]);

describe('tutti perf', () => {
  it.each([
    ['all_reduce', 'sum', -1],
    ['all_gather', 'none', -1],
    ['reduce_scatter', 'sum', -1],
    ['broadcast', 'none', 0],
    ['reduce', 'sum', 0],
    ['alltoall', 'none', -1],
  ] as const)(
    '%s verifies every size between processes and between threads [C21-19]',
    async (name, op, root) => {
      for (const where of ['-n 2', '-t 3']) {
        const ranks = Number(where.slice(3));
        const table = await measured(`${name} ${where} -b 96 -e 96K -f 16 --iters 3`);
        expect(table.program).toBe(`${name}_perf`);
        expect(table.devices).toHaveLength(ranks);
        const blocks = ['all_gather', 'reduce_scatter', 'alltoall'].includes(name) ? ranks : 1;
        expect(sizes(table)).toEqual([96, 1536, 24576]);
        expect(column(table, 'count')).toEqual(sizes(table).map((bytes) => bytes / 4 / blocks));
        expect(column(table, 'type')).toEqual(Array(3).fill('float'));
        expect(column(table, 'op')).toEqual(Array(3).fill(op));
        expect(column(table, 'root')).toEqual(Array(3).fill(root));
      }
    },
  );

  it.each([
    ['gather', '-n 2', 'none', 0],
    ['scatter', '-t 3', 'none', 0],
    ['sendrecv', '-n 2', 'none', -1],
    ['hypercube', '-t 4', '', -1],
  ] as const)('%s verifies every size (%s)', async (name, where, op, root) => {
    const ranks = Number(where.slice(3));
    const table = await measured(`${name} ${where} -b 192 -e 12K -f 8 --iters 3`);
    expect(table.program).toBe(`${name}_perf`);
    expect(sizes(table)).toEqual([192, 1536, 12288]);
    const blocks = name === 'sendrecv' ? 1 : ranks;
    expect(column(table, 'count')).toEqual(sizes(table).map((bytes) => bytes / 4 / blocks));
    expect(column(table, 'op')).toEqual(Array(3).fill(op));
    expect(column(table, 'root')).toEqual(Array(3).fill(root));
  });

  it('goes through all types and operators', async () => {
    const types = await measured('all_reduce -n 2 -b 8 -e 4K -f 512 -d all --iters 2');
    expect(new Set(column(types, 'type')).size).toBe(12);
    expect(types.rows).toHaveLength(24);
    const ops = await measured('reduce_scatter -t 2 -b 1K -e 1K -o all -d half --iters 2');
    expect(column(ops, 'op').sort()).toEqual(['avg', 'max', 'min', 'prod', 'sum']);
  });

  it('goes through all roots', async () => {
    for (const root of ['all', '-1']) {
      const table = await measured(`broadcast -n 3 -b 1K -e 1K -r ${root} --iters 2`);
      expect(column(table, 'root')).toEqual([0, 1, 2]);
    }
    expect(column(await measured('reduce -t 3 -b 1K -e 1K -r 2 --iters 2'), 'root')).toEqual([2]);
  });

  it('repeats checks, waits after every operation, times single iterations, sweeps by steps', async () => {
    const table = await measured('all_reduce -n 2 -b 1K -e 3K -i 1K -c 2 -z 1 -I 1 -w 0 -m 2 --iters 4');
    expect(sizes(table)).toEqual([1024, 2048, 3072]);
    for (const { outOfPlace } of table.rows) {
      const { min, max, p99 } = outOfPlace.iterations!;
      expect(min).toBeGreaterThan(0);
      expect(max).toBeGreaterThanOrEqual(p99);
      expect(p99).toBeGreaterThanOrEqual(min);
    }
  });

  it('works on ordinary arrays, unaligned buffers, and shows processor time and time stamps', async () => {
    await measured('all_gather -n 2 -b 100 -e 300K -f 50 --memory array --iters 2');
    await measured('all_reduce -n 2 -b 1K -e 16K -f 16 -u 3 --iters 2');
    const table = await measured('all_reduce -t 2 -b 1K -e 1K -C 1 -S 1 --iters 2');
    expect(table.isCpuTime).toBe(true);
    expect(table.rows[0]!.timestamp).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  });

  it('measures the rings when they are asked for, over memory and over sockets', async () => {
    await measured('all_reduce -n 3 -b 1K -e 64K -f 64 --iters 2', { NCCL_ALGO: 'Ring', NCCL_PROTO: 'LL' });
    await measured('reduce -n 2 -b 1K -e 64K -f 64 --iters 2', {
      NCCL_P2P_DISABLE: '1',
      NCCL_SHM_DISABLE: '1',
    });
  });

  it('measures every algorithm and protocol there is, one table each', async () => {
    for (const [ranks, collective, due] of [
      ['-t 3', 'all_reduce', ALGORITHMS.filter((name) => supports(name, 'allReduce'))],
      ['-n 2', 'all_gather', ALGORITHMS.filter((name) => supports(name, 'allGather'))],
    ] as const) {
      const args = `${collective} ${ranks} -b 1K -e 1K --iters 2 --algo each --proto each`;
      const { code, stdout, stderr } = await perf(args);
      expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: '' });
      const named = [...stdout.matchAll(/^# algorithm (\w+)/gm)].map(([, name]) => name);
      expect(new Set(named)).toEqual(new Set(due));
      expect(stdout.match(/# Out of bounds values : 0 OK/g)).toHaveLength(named.length);
    }
  });

  it('times slow sizes less often where the time is short, says so, and runs and checks all of them', async () => {
    const { code, stdout, stderr } = await perf('all_reduce -t 3 -b 2M -e 4M -f 2 --algo Tree --budget 1');
    expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: '' });
    const table = parseTable(stdout);
    expect(sizes(table)).toEqual([2097152, 4194304]);
    for (const { outOfPlace, inPlace } of table.rows) {
      expect([outOfPlace.wrong, inPlace.wrong]).toEqual([0, 0]);
      expect(inPlace.timeUs).toBeGreaterThan(0);
    }
    expect(stdout).toMatch(
      /^# Timed iterations, fewer to end within 1 s \(--budget\): .*4194304 B \d+ of 20/m,
    );
  });

  it('takes --algo before NCCL_ALGO, and refuses what the collective has not', async () => {
    await measured('all_reduce -n 2 -b 1K -e 1K --iters 2 --algo Tree --proto LL', { NCCL_ALGO: 'PAT' });
    const { code, stderr } = await perf('broadcast -t 2 -b 1K -e 1K --iters 2 --algo Tree');
    expect(code).toBe(3);
    expect(stderr).toContain('No algorithm/protocol available for function Broadcast');
  });

  it('does not check when told not to', async () => {
    const { code, stdout } = await perf('all_reduce -n 2 -b 1K -e 1K -c 0 --iters 2');
    expect(code).toBe(0);
    expect(parseTable(stdout).rows[0]!.outOfPlace.wrong).toBeUndefined();
  });

  it('writes JSON instead of the table, or beside it', async () => {
    const { code, stdout, stderr } = await perf('all_reduce -n 2 -b 1K -e 4K -f 4 --iters 2 --json');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const report = JSON.parse(stdout);
    expect(report.results.map((row: { size: number }) => row.size)).toEqual([1024, 4096]);
    for (const row of report.results) expect(row.out_of_place.nwrong).toBe(0);
    expect(report.out_of_bounds).toEqual({ count: 0, okay: 'true' });
    const folder = mkdtempSync(join(tmpdir(), 'tutti-perf-'));
    try {
      const file = join(folder, 'report.json');
      const table = await measured(`all_reduce -n 2 -b 1K -e 4K -f 4 --iters 2 --json ${file}`);
      expect(table.rows).toHaveLength(2);
      expect(JSON.parse(readFileSync(file, 'utf8')).results).toHaveLength(2);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the exit status of tutti perf', () => {
  it.each([
    ['all_reduce -Q 1', /-Q/],
    ['all_reduce -d quad', /unknown type 'quad'/],
    ['all_reduce -o mean', /unknown operator 'mean'/],
    ['all_reduce -n 0', /-n/],
    ['all_reduce -n two', /two/],
    ['all_reduce -b 1X', /1X/],
    ['all_reduce -n 2 -t 2', /processes \(-n\) or threads/],
    ['broadcast -n 2 -r 2', /root 2 is not a rank/],
    ['all_reduse', /all_reduse/],
    ['hypercube -n 3', /not 3/],
    ['scatter --device cuda -n 2 --algo Ring', /--algo: scatter has one algorithm only/],
    ['all_reduce -K 3', /-K/],
    ['all_reduce --memory gpu', /gpu/],
  ])('is 255 for %s', async (args, words) => {
    const { code, stdout, stderr } = await perf(args);
    expect({ code, stdout }).toEqual({ code: 255, stdout: '' });
    expect(stderr).toMatch(words);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('is 7 when the bandwidth is less than required, 0 when it is enough', async () => {
    const args = 'all_reduce -n 2 -b 1K -e 1K --iters 2';
    const slow = await perf(args, { NCCL_TESTS_MIN_BW: '100000' });
    expect(slow.code).toBe(7);
    expect(parseTable(slow.stdout)).toMatchObject({ bandwidthVerdict: 'FAILED', failedChecks: 0 });
    const fine = await perf(args, { NCCL_TESTS_MIN_BW: '0.000001' });
    expect(fine.code).toBe(0);
    expect(parseTable(fine.stdout).bandwidthVerdict).toBe('OK');
  });

  it('is 7 when a single element of one rank is wrong, and the table says how many are', async () => {
    const hook = new URL('../programs/wrong-result.mjs', import.meta.url).href;
    // With a budget a run of a large size may be timed and checked at once.
    for (const args of ['-b 1K -e 4K -f 4 --iters 2', '-b 1M -e 4M -f 4 --budget 1']) {
      const { code, stdout } = await perf(`all_reduce -n 2 ${args}`, { NODE_OPTIONS: `--import=${hook}` });
      expect(code).toBe(7);
      const table = parseTable(stdout);
      expect(table.failedChecks).toBeGreaterThan(0);
      for (const row of table.rows) {
        expect(row.outOfPlace.wrong).toBe(1);
        expect(row.inPlace.wrong).toBe(1);
      }
    }
  });
});
