/** `tutti tune --host` and what `--fit` measures with. */
import { describe, expect, it } from 'vitest';
import { fitCommand, ranksToMeasure, timeOf } from '#src/cli/tune/host/fit.js';
import type { HostOptions } from '#src/cli/tune/host/options.js';
import { hostOutput } from '#src/cli/tune/host/view.js';
import { parseTuneOptions } from '#src/cli/tune/options.js';
import { plainStyle } from '#src/topology/report/style.js';

function host(args: readonly string[], env: Record<string, string> = {}) {
  const options = parseTuneOptions(['--host', '--cores', '2', ...args]) as HostOptions;
  const warn = (text: string) => {
    throw new Error(text);
  };
  const { lines, isDecided } = hostOutput(
    options,
    { TUTTI_TUNING_FILE: 'none', ...env },
    plainStyle(120),
    warn,
  );
  return { text: lines.join('\n'), isDecided };
}

describe('tutti tune --host', () => {
  it('shows the choice by size for each number of ranks, where it changes, and the next best', () => {
    const { text } = host(['--ranks', '2,4', '-b', '64', '-e', '1M', '-f', '16']);
    expect(text).toContain('2 cores: 2 ranks have a core each; 4 ranks take turns: 2 ranks per core.');
    expect(text).toContain('AllReduce on 2 ranks');
    expect(text).toMatch(/^ +64 B {2}OneShot .*TwoShot \(\d+ % longer\)$/m);
    expect(text).toMatch(/^> .*TwoShot/m);
    expect(text.match(/^.*(64 B|1 KB|16 KB|256 KB) /gm)).toHaveLength(8);
  });

  it('shows all candidates of one size, what each waits and moves, and what is not available with the reason', () => {
    const { text } = host(['--coll', 'reduce_scatter', '--ranks', '4', '--size', '64K'], {
      NCCL_ALGO: '^PAT',
    });
    expect(text).toContain('ReduceScatter of 64 KB on 4 ranks');
    expect(text).toMatch(/^> +TwoShot +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$/m);
    expect(text).toContain('- PAT Simple is not in the list');
    expect(text).toContain('- Tree, Hierarchical, Recursive');
  });

  it('says so where nothing may run a call', () => {
    const { text, isDecided } = host(['--coll', 'all_gather', '--size', '1K'], { NCCL_ALGO: 'Tree' });
    expect(text).toContain('Nothing may run it.');
    expect(isDecided).toBe(false);
  });

  it('knows rings only over sockets', () => {
    const { text } = host(['--sockets', '--ranks', '2', '--size', '1K']);
    expect(text).toContain('through sockets');
    expect(text).toMatch(/^> +Ring Simple/m);
    expect(text).toContain('- OneShot needs ranks that share memory');
  });

  it('gives the same as JSON', () => {
    const { calls, cores } = JSON.parse(host(['--coll', 'each', '--size', '1M', '--json']).text);
    expect(cores).toBe(2);
    expect(calls).toHaveLength(12);
    for (const { choice, candidates } of calls) {
      const times = candidates.map(({ time }: { time: number }) => time);
      const chosen = candidates.find(({ name }: { name: string }) => name === choice);
      expect(chosen.time).toBeLessThanOrEqual(Math.min(...times) / 0.9);
    }
  });

  it.each([
    [['--host', '--nodes', '4'], '--host --nodes: ranks of one host are looked at; leave it out'],
    [['--host', 'topo.xml'], '--host topo.xml'],
    [['--host', '--ranks', '1'], '--ranks 1: give a whole number from 2 to 512'],
    [['--host', '--coll', 'alreduce'], 'did you mean all_reduce?'],
    [['--host', '--size', '1K', '--sweep'], '--size --sweep'],
    [['--fit', '--json'], '--fit --json: this machine is measured; leave it out'],
    [['--cores', '4'], '--cores 4 belongs to --host; leave it out or add that'],
    [['--sockets'], '--sockets belongs to --host'],
    [['--out', 'x'], '--out x belongs to --fit'],
  ])('%j is refused', (args, message) => {
    expect(() => parseTuneOptions(args)).toThrow(message);
  });
});

describe('tutti tune --fit', () => {
  it.each(['/dev/null/tuning.json', '/'])(
    'refuses to measure for a file that cannot be written: %s',
    async (out) => {
      const said: string[] = [];
      const options = { kind: 'fit', ranks: undefined, out } as const;
      await expect(
        fitCommand(
          options,
          {},
          (line) => said.push(line),
          () => {},
        ),
      ).rejects.toThrow(`cannot write the constants of the host to ${out}: `);
      expect(said).toEqual([]);
    },
  );

  it('measures two ranks, one on each core, and more than cores where these are few', () => {
    expect(ranksToMeasure(1)).toEqual([2, 4]);
    expect(ranksToMeasure(2)).toEqual([2, 4, 8]);
    expect(ranksToMeasure(8)).toEqual([2, 8, 16]);
    expect(ranksToMeasure(64)).toEqual([2, 16]);
  });

  it('takes the lower quartile of the rounds', () => {
    const samples = [9, 1, 5, 3, 7];
    const sample = { ranks: 2, collective: 'allReduce', bytes: 8, candidate: 'Ring LL', samples } as const;
    expect(timeOf(sample, 2)).toMatchObject({
      microseconds: 3,
      candidate: { algorithm: 'Ring', protocol: 'LL' },
    });
  });
});
