/** Anonymised files tell the same story without a name or an address of the original. */
import { describe, expect, it } from 'vitest';
import { Anonymiser } from '#src/doctor/anonymise.js';
import { allHosts, knownHosts } from '#src/doctor/read/hosts.js';
import { readJob } from '#src/doctor/read/read-job.js';
import { CASES, examine } from './case-files.js';

describe('an anonymised case', () => {
  it.each(CASES.map((one) => [one.name, one] as const))(
    '%s gets the same verdicts on the same lines',
    async (_, { files }) => {
      const job = await readJob([...files].map(([name, text]) => ({ name, text: [text] })));
      const anonymiser = new Anonymiser(allHosts(job));
      const changed = [...files].map(
        ([name, text]) => [anonymiser.apply(name), anonymiser.apply(text)] as const,
      );
      const brief = (verdicts: Awaited<ReturnType<typeof examine>>['verdicts']) =>
        verdicts.map(({ id, severity, confidence, evidence, consequences }) => ({
          id,
          severity,
          confidence,
          lines: evidence.map(({ file, line }) => `${anonymiser.apply(file)}:${line}`).sort(),
          // A host that a table abbreviates (`a,b` for a-host and b-host) keeps its abbreviation, which tells nothing.
          consequences: consequences
            .map((one) => one.id)
            .filter((one) => one !== 'slow-node')
            .sort(),
        }));
      expect(brief((await examine(changed)).verdicts)).toEqual(brief((await examine(files)).verdicts));
      const all = changed.flat().join('\n');
      for (const host of knownHosts(job)) expect(all).not.toContain(host);
      for (const { kind, original } of anonymiser.replacements) {
        if (kind === 'IPv4 address' && !/^10\.\d\./.test(original)) expect(all).not.toContain(original);
      }
    },
  );
});

describe('addresses', () => {
  it('of one network stay in one network, and keep their kind', () => {
    const { apply } = bound(new Anonymiser([]));
    const [a, b, c] = ['192.168.7.1', '192.168.7.2', '172.16.7.1'].map(apply) as [string, string, string];
    expect(a.split('.').slice(0, 3)).toEqual(b.split('.').slice(0, 3));
    expect(a.split('.').slice(0, 2)).not.toEqual(c.split('.').slice(0, 2));
    expect(new Set([a, b, c]).size).toBe(3);
    expect(apply('192.168.7.1')).toBe(a);
    expect(apply('fe80::5aa2:e1ff:fe0c:81d5')).toMatch(/^fe80::\w+$/);
    expect(apply('127.0.0.1 ::1 0.0.0.0 255.255.0.0')).toBe('127.0.0.1 ::1 0.0.0.0 255.255.0.0');
    expect(apply('::ffff:192.168.7.1')).toBe(`::ffff:${a}`);
  });

  it('are not seen in times, bus ids and versions', () => {
    const { apply } = bound(new Anonymiser([]));
    const text =
      '[2026-11-03 02:17:12] 0000:1b:00.0 NCCL version 2.28.9+cuda12.8 misc/socket.cc:577 mlx5_3:1';
    expect(apply(text)).toBe(text);
  });
});

const bound = (anonymiser: Anonymiser) => ({ apply: (text: string) => anonymiser.apply(text) });
