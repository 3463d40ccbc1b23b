/** What --algo and --proto measure, and what the communicators of each table are told. */
import { describe, expect, it } from 'vitest';
import { communicatorOptions, variants } from '#src/cli/perf/algorithms.js';
import { ALGORITHMS, protocolsOf, supports } from '#src/collectives/registry.js';

const names = (list: ReturnType<typeof variants>) =>
  list.map(({ algo = '-', proto = '-' }) => `${algo}/${proto}`);

describe('tables', () => {
  it('are one without each', () => {
    expect(variants('all_reduce', {})).toEqual([{}]);
    expect(variants('all_reduce', { algo: 'Tree' })).toEqual([{ algo: 'Tree' }]);
    expect(variants('reduce', { algo: 'ring;reduce:tree', proto: 'LL' })).toHaveLength(1);
  });

  it('are one for every program that exists with each', () => {
    const all = names(variants('all_reduce', { algo: 'each', proto: 'each' }));
    expect(all).toContain('OneShot/-');
    expect(all).toContain('Tree/LL');
    const due = ALGORITHMS.filter((name) => supports(name, 'allReduce'));
    for (const algorithm of due) {
      const found = all.filter((name) => name.startsWith(`${algorithm}/`));
      const direct = algorithm === 'OneShot' || algorithm === 'TwoShot';
      expect(found).toHaveLength(direct ? 1 : protocolsOf(algorithm).length);
    }
    expect(names(variants('broadcast', { algo: 'EACH', proto: 'each' }))).toEqual([
      'OneShot/-',
      'TwoShot/-',
      'Ring/LL',
      'Ring/Simple',
    ]);
    expect(names(variants('all_reduce', { algo: 'tree', proto: 'each' }))).toEqual([
      'Tree/LL',
      'Tree/Simple',
    ]);
    expect(names(variants('reduce', { algo: 'each', proto: 'LL' }))).toEqual(['Ring/LL']);
  });

  it('of all algorithms and protocols on GPUs are those that have programs there', () => {
    const each = { algo: 'each', proto: 'each' };
    expect(names(variants('all_reduce', each, 'cuda'))).toEqual([
      'OneShot/LL',
      'OneShot/LL128',
      'TwoShot/-',
      'Ring/LL',
      'Ring/LL128',
      'Ring/Simple',
      'Tree/LL',
      'Tree/LL128',
      'Tree/Simple',
    ]);
    expect(names(variants('all_gather', { algo: 'PAT', proto: 'each' }, 'cuda'))).toEqual(['PAT/Simple']);
    expect(() => variants('reduce', { algo: 'PAT', proto: 'each' }, 'cuda')).toThrow('reduce has OneShot');
  });

  it('refuse each protocol of an algorithm that does not do the collective', () => {
    expect(() => variants('reduce', { algo: 'Tree', proto: 'each' })).toThrow(
      'reduce has OneShot, TwoShot, Ring',
    );
  });
});

describe('communicators of a table', () => {
  it('are restricted for the measured collective alone, by options before variables', () => {
    expect(communicatorOptions('all_reduce', {}, {})).toEqual({});
    expect(communicatorOptions('all_reduce', { algo: 'tree', proto: 'll' }, { NCCL_ALGO: 'Ring' })).toEqual({
      algorithm: 'AllReduce:Tree',
      protocol: 'AllReduce:LL',
    });
    expect(communicatorOptions('reduce', {}, { NCCL_ALGO: 'tree;reduce:ring,twoshot' })).toEqual({
      algorithm: 'Reduce:TwoShot,Ring',
    });
  });

  it('refuse names that do not exist', () => {
    expect(() => communicatorOptions('reduce', { algo: 'Trie' }, {})).toThrow('when parsing --algo="Trie"');
    expect(() => communicatorOptions('reduce', {}, { NCCL_PROTO: 'L' })).toThrow('NCCL_PROTO="L"');
  });
});
