/** `npx tutti doctor` as people start it: exit codes, one line for healthy jobs, JSON in the shape of the cases. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const CASES = join(ROOT, 'test/cases/doctor');

function doctor(args: readonly string[], input = '') {
  const { FORCE_COLOR: _, COLUMNS: __, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(ROOT, 'dist/cli/main.js'), 'doctor', ...args],
    { encoding: 'utf8', input, timeout: 30_000, env },
  );
  return { status, stdout, stderr };
}

describe('tutti doctor', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tutti-doctor-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('prints the verdict first, then evidence with file and line, repair and what it explains', () => {
    const { status, stdout } = doctor([join(CASES, 'shm-full-then-proxy-errors')]);
    expect(status).toBe(1);
    expect(stdout).toMatch(/^1 finding in 3 of 4 files: 1 host/);
    expect(stdout).toMatch(/\nerror \/dev\/shm of trainer-7c9d-0 has no room for a segment of 13\.2 MiB/);
    expect(stdout).toMatch(/\n {2}evidence {4}nccl-rank1\.log:24 {2}/);
    expect(stdout).toMatch(/\n {2}repair {6}Give the container a larger \/dev\/shm/);
    expect(stdout).toMatch(/\n {2}workaround {2}NCCL_SHM_DISABLE=1/);
    expect(stdout).toMatch(/\n {2}explains {4}peer-connection-closed: /);
    expect(stdout).toMatch(/\nnot checked: speed \(no table of nccl-tests\)/);
    expect(stdout).not.toContain('\u001b');
  });

  it('prints verdicts and model as JSON', () => {
    const { status, stdout } = doctor(['--json', join(CASES, 'port-flap-then-retry-exceeded')]);
    const report = JSON.parse(stdout);
    expect(status).toBe(1);
    expect(report.verdicts).toHaveLength(1);
    expect(report.verdicts[0]).toMatchObject({
      id: 'ib-port-flap',
      severity: 'error',
      confidence: 'certain',
      culprit: { host: 'plover-22', hca: 'mlx5_3', port: 1 },
      evidence: [
        { file: 'nccl.plover-22.log', line: 40 },
        { file: 'nccl.plover-22.log', line: 44 },
      ],
    });
    expect(report.verdicts[0].consequences.map(({ id }: { id: string }) => id).sort()).toEqual([
      'ib-retry-exceeded',
      'watchdog-timeout',
    ]);
    expect(report.model.hosts).toEqual(['plover-21', 'plover-22', 'plover-23']);
    expect(report.model.processes[0].environment.NCCL_SOCKET_IFNAME.value).toBe('bond0');
  });

  it('ends with 0 where it has notes only, and prints them', () => {
    const line = 'n1:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0.\n';
    const { status, stdout } = doctor(['-'], line);
    expect(stdout).toMatch(/^healthy: no fault found in 1 file.*; 1 note:\n\ninfo GPUs of n1/);
    expect(status).toBe(0);
    expect(JSON.parse(doctor(['--json', '-'], line).stdout)).toMatchObject({
      healthy: true,
      outcome: 'healthy',
      verdicts: [{ severity: 'info' }],
    });
  });

  it('says in one line that a job is healthy, also from the standard input', () => {
    const { status, stdout } = doctor([join(CASES, 'healthy-bench-protocol-steps/all_reduce_perf.out')]);
    expect({ status, lines: stdout.split('\n').length }).toEqual({ status: 0, lines: 2 });
    expect(stdout).toMatch(/^healthy: no fault found in 1 file: 1 host, 31 measured sizes; not checked: /);
    const piped = doctor(['-'], 'n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.8\n');
    expect({ status: piped.status, stderr: piped.stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('accounts for every input in the exit code: unreadable anywhere, not understood where named', () => {
    const good = join(folder, 'good.log');
    const poem = join(folder, 'poem.txt');
    const inner = join(folder, 'inner');
    writeFileSync(good, 'n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.8\n');
    writeFileSync(poem, 'roses are red\n');
    mkdirSync(inner);
    writeFileSync(join(inner, 'good.log'), 'n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.8\n');
    writeFileSync(join(inner, 'README.md'), 'roses are red\n');
    expect(doctor([good])).toMatchObject({ status: 0 });
    expect(doctor([good, poem])).toMatchObject({
      status: 2,
      stdout: expect.stringContaining('not understood: poem.txt'),
    });
    expect(doctor([inner])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('not understood: README.md'),
    });
    writeFileSync(join(inner, 'x.bin'), Buffer.from([1, 0, 2, 0]));
    expect(doctor([inner])).toMatchObject({ status: 2, stdout: expect.stringContaining('x.bin: binary') });
  });

  it('shows lines of the standard input', () => {
    const { status, stdout } = doctor(['-'], 'b:1:2 [0] x.cc:9 NCCL WARN the frob is gone\n');
    expect(status).toBe(1);
    expect(stdout).toContain('-:1  b:1:2 [0] x.cc:9 NCCL WARN the frob is gone');
  });

  it('refuses what it cannot read with exit code 2 and the reason', () => {
    const missing = doctor([join(folder, 'no-such-file')]);
    expect(missing).toMatchObject({ status: 2, stdout: '' });
    expect(missing.stderr).toMatch(/no-such-file: there is no such file or folder/);
    const pickle = join(folder, 'dump.pkl');
    writeFileSync(pickle, Buffer.from([0x80, 0x04, 0x95, 0, 0, 0, 0x8c, 0x02, 0x6f, 0x73]));
    expect(doctor([pickle])).toMatchObject({ status: 2, stderr: expect.stringMatching(/pickle.*refused/) });
    expect(doctor([])).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/name the files or the folder/),
    });
    expect(doctor(['--jsno', folder])).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/did you mean --json/),
    });
  });

  it('checks this machine on request and changes nothing', () => {
    const { status, stdout, stderr } = doctor(['--live', '--json']);
    const { checks, facts } = JSON.parse(stdout);
    expect(stderr).toBe('');
    expect(status).toBe(checks.some((one: { status: string }) => one.status === 'attention') ? 1 : 0);
    expect(checks.map((one: { what: string }) => one.what)).toEqual(
      expect.arrayContaining(['/dev/shm', 'locked memory', 'open files', 'TCP ports', 'interfaces', 'cores']),
    );
    expect(facts.cores.all).toBeGreaterThan(0);
  });

  it('shows control characters of a log instead of sending them to the terminal', () => {
    const file = join(folder, 'n1.log');
    writeFileSync(
      file,
      'n1:1:2 [0] x.cc:1 NCCL WARN Bootstrap : no socket interface found \u001b]0;title\u0007\u009b2J\n',
    );
    const { status, stdout } = doctor([file]);
    expect(status).toBe(1);
    expect(stdout).toContain('\\x1b]0;title\\x07\\x9b2J');
  });
});
