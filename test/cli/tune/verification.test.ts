/** `tutti tune --verify`: the table, the JSON, the limits of what can be asked. */
import { describe, expect, it } from 'vitest';
import { parseTuneOptions } from '#src/cli/tune/options.js';
import { type VerificationOptions, verificationOutput } from '#src/cli/tune/verification.js';
import { ALGORITHMS, protocolsOf, supports } from '#src/collectives/registry.js';
import { plainStyle } from '#src/topology/report/style.js';

const output = (...args: string[]) =>
  verificationOutput(parseTuneOptions(['--verify', ...args]) as VerificationOptions, plainStyle(200));

describe('tutti tune --verify', () => {
  it('proves every program that there is for a collective, with its bytes and steps', () => {
    const { lines, isProved } = output('--coll', 'all_reduce', '--ranks', '4', '--size', '1K');
    expect(isProved).toBe(true);
    const programs = ALGORITHMS.filter((algorithm) => supports(algorithm, 'allReduce')).flatMap(protocolsOf);
    const rows = lines.filter((line) => line.endsWith('proved'));
    expect(rows).toHaveLength(programs.length);
    const ring = rows.find((row) => /Ring +Simple/.test(row))!.split(/ {2,}/);
    expect(ring).toEqual([
      'allReduce',
      'Ring',
      'Simple',
      '4',
      '1 KB',
      '1.5 KB',
      '1.5 x',
      '4',
      '1.5 KB',
      '6',
      'proved',
    ]);
    expect(lines).toContainEqual(
      expect.stringContaining(`All ${programs.length} programs are proved on 4 ranks`),
    );
  });

  it('has all of it as JSON', () => {
    const { lines } = output('--coll', 'broadcast', '--ranks', '2,3', '--size', '64', '--json');
    const rows = JSON.parse(lines.join('')) as Record<string, unknown>[];
    expect(rows.map(({ algorithm, ranks, proved }) => [algorithm, ranks, proved])).toContainEqual([
      'Ring',
      3,
      true,
    ]);
    const oneShot = rows.find(({ algorithm, ranks }) => algorithm === 'OneShot' && ranks === 3)!;
    expect(oneShot).toMatchObject({ protocol: null, messageBytes: 64, sent: [128, 0, 0], depth: 1 });
  });

  it.each([
    [['--verify', '--ranks', '1'], '--ranks 1: give a whole number from 2 to 64'],
    [['--verify', '--ranks', '2,x'], '--ranks x: give a whole number from 2 to 64'],
    [['--verify', '--size', '1G'], '--size 1 GB: programs are simulated; give 1 MB at most'],
    [['--verify', '--sweep'], '--verify --sweep: programs are proved for ranks on host memory'],
    [['--verify', 'a.xml'], '--verify a.xml: programs are proved'],
    [['--ranks', '4'], '--ranks 4 belongs to --verify'],
    [['--verify', '--ranks-per-node', '0'], '--ranks-per-node 0: give a whole number from 1 to 64'],
  ])('refuses %j', (args, message) => {
    expect(() => parseTuneOptions(args)).toThrow(message);
  });
});
