/** `npx tutti report`: an archive that unpacks, tells the same story, and names nobody. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

describe('tutti report', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tutti-report-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const report = (...args: string[]) =>
    spawnSync(process.execPath, [join(ROOT, 'dist/cli/main.js'), 'report', ...args], {
      encoding: 'utf8',
      timeout: 30_000,
    });

  it('writes one archive without names and addresses, and lists what it replaced', () => {
    const output = join(folder, 'report.tar');
    const { status, stdout, stderr } = report(
      join(ROOT, 'test/cases/doctor/bootstrap-subnets-differ'),
      '-o',
      output,
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/\n {2}host {2}gpu-r2n03 {2}-> {2}host-\d+x\n/);
    expect(stdout).toMatch(/\n {2}IPv4 address {2}192\.168\.50\.33 {2}-> {2}10\.\d+\.\d+\.\d+\n/);
    execFileSync('tar', ['-xf', output, '-C', folder]);
    const bytes = readFileSync(output, 'utf8');
    for (const name of ['gpu-r2n0', '192.168.50.33', '10.20.0.31']) expect(bytes).not.toContain(name);
    const verdicts = JSON.parse(readFileSync(join(folder, 'tutti-report/verdicts.json'), 'utf8')).verdicts;
    expect(verdicts.map(({ id }: { id: string }) => id)).toEqual(['bootstrap-interface-mismatch']);
    expect(
      JSON.parse(readFileSync(join(folder, 'tutti-report/machine.json'), 'utf8')).facts.cores.all,
    ).toBeGreaterThan(0);
    expect(stdout).toMatch(/ \(host: \d+.*IPv4 address: \d+/);
    expect(stdout).not.toContain('warning');
    const again = report('-o', output);
    expect(again).toMatchObject({ status: 1, stderr: expect.stringMatching(/exists already/) });
  });

  it('prints no secret, and warns of lines that may hold one', () => {
    const log = join(folder, 'job.log');
    writeFileSync(
      log,
      '+ export DB_PASSWORD=tr0ub4dor\nlog in with tr0ub4dor\nthe passphrase of old is hunter\n',
    );
    const { status, stdout } = report(log, '-o', join(folder, 'secret.tar'));
    expect(status).toBe(0);
    expect(stdout).not.toContain('tr0ub4dor');
    expect(stdout).toMatch(/\n {2}secret {2}tr0u\.\.\. {2}-> {2}\[secret-1\]\n/);
    expect(stdout).toMatch(/warning: .*still there: tutti-report\/files\/job\.log:3\n$/);
    const bytes = readFileSync(join(folder, 'secret.tar'), 'utf8');
    expect(bytes).not.toContain('tr0ub4dor');
    expect(bytes).toContain('log in with [secret-1]');
  });
});
