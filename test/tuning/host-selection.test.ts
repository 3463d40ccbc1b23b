/** What runs on host memory: by size and reach, and after NCCL_ALGO and NCCL_PROTO. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Collective } from '#src/collectives/control-block.js';
import { ALGORITHMS, isDirect, protocolsOf, supports } from '#src/collectives/registry.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { DATA_COLLECTIVES } from '#src/tuning/host/candidates.js';
import { standardModel } from '#src/tuning/host/host-model.js';
import { hostChoices } from '#src/tuning/host-choices.js';
import {
  candidatesOnHost,
  DIRECT_MARGIN,
  type HostSelectionInput,
  selectOnHost,
} from '#src/tuning/host-selection.js';

const COLLECTIVES: readonly Collective[] = ['broadcast', 'reduce', 'allGather', 'reduceScatter', 'allReduce'];

/** Two cores: four ranks take turns. */
const MODEL = standardModel(2);

function select(algorithm?: string, protocol?: string, input: Partial<HostSelectionInput> = {}) {
  const choices = hostChoices({ algorithm, protocol });
  const base = {
    ...({ collective: 'allReduce', op: 'sum', bytes: 1 << 20, ranks: 4, shared: true } as const),
    model: MODEL,
  };
  const { algorithm: name, protocol: how } = selectOnHost({ ...base, ...input, choices });
  return isDirect(name) ? name : `${name} ${how}`;
}

describe('without lists', () => {
  it('one-shot for few bytes and two-shot for many, later where ranks take turns on cores', () => {
    expect(select(undefined, undefined, { bytes: 64 })).toBe('OneShot');
    expect(select(undefined, undefined, { bytes: 1 << 20 })).toBe('TwoShot');
    for (const cores of [2, 16]) {
      for (const ranks of [2, 4, 8]) {
        const model = standardModel(cores);
        expect(select(undefined, undefined, { ranks, bytes: 64, model })).toBe('OneShot');
        expect(select(undefined, undefined, { ranks, bytes: 1 << 14, model })).toBe('TwoShot');
      }
    }
    expect(select(undefined, undefined, { ranks: 4, bytes: 2048 })).toBe('OneShot');
    expect(select(undefined, undefined, { ranks: 4, bytes: 2048, model: standardModel(4) })).toBe('TwoShot');
  });

  it('what needs no meeting of all for small reductions to a root, and nothing direct for many ranks', () => {
    const reduce = { collective: 'reduce', bytes: 1024 } as const;
    expect(select(undefined, undefined, reduce)).toBe('Ring Simple');
    expect(select(undefined, undefined, { ...reduce, bytes: 1 << 24 })).toBe('TwoShot');
    for (const bytes of [64, 1 << 24]) {
      expect(select(undefined, undefined, { ranks: 65, bytes })).not.toMatch(/Shot/);
    }
  });

  it('rings with Simple where memory is not shared, whatever protocol is asked for', () => {
    expect(select(undefined, undefined, { shared: false })).toBe('Ring Simple');
    expect(select(undefined, 'LL', { shared: false })).toBe('Ring Simple');
  });

  it('the fastest by its prediction, what is not direct only by a margin, with the times as the reason', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...DATA_COLLECTIVES),
        fc.nat(1 << 26),
        fc.integer({ min: 2, max: 64 }),
        fc.integer({ min: 1, max: 64 }),
        (collective, bytes, ranks, cores) => {
          const choices = hostChoices({ algorithm: undefined, protocol: undefined });
          const model = standardModel(cores);
          const input = { collective, op: 'sum', bytes, ranks, shared: true, choices, model } as const;
          const { algorithm, protocol, reason } = selectOnHost(input);
          const candidates = candidatesOnHost(input, collective);
          const chosen = candidates.find((one) => one.algorithm === algorithm && one.protocol === protocol)!;
          for (const one of candidates) {
            const margin = isDirect(algorithm) && !isDirect(one.algorithm) ? DIRECT_MARGIN : 1;
            expect(one.prediction!.time).toBeGreaterThanOrEqual(chosen.prediction!.time * margin);
          }
          expect(reason).toMatch(/^[\d.]+ (us|ms|s) predicted, [\d.]+ (us|ms|s) with \w+/);
        },
      ),
    );
  });
});

describe('lists', () => {
  it.each([
    ['Tree', undefined, 'Tree Simple'],
    ['tree', 'll', 'Tree LL'],
    ['Ring', 'Simple', 'Ring Simple'],
    ['Ring,Tree', undefined, 'Ring Simple'],
    ['^TwoShot', undefined, 'Ring Simple'],
    ['^OneShot,TwoShot', undefined, 'Ring Simple'],
    ['^OneShot,TwoShot,Ring,Hierarchical,Recursive', 'LL', 'Tree LL'],
    ['OneShot', 'LL', 'OneShot'],
    ['ring;allreduce:tree', undefined, 'Tree Simple'],
    ['allgather:ring', undefined, 'TwoShot'],
    [undefined, '^LL128', 'TwoShot'],
    [undefined, 'allgather:LL', 'TwoShot'],
    ['', '', 'TwoShot'],
    ['Hierarchical', 'LL', 'Hierarchical LL'],
    ['NVLS', 'LL', 'NVLS Simple'],
    // Whoever names one over switches wants it; one that is only not left out comes last.
    ['Ring,CollNetChain,Tree', undefined, 'CollNetChain Simple'],
    ['TwoShot,NVLSTree', undefined, 'NVLSTree Simple'],
    ['^Tree', undefined, 'TwoShot'],
  ])('NCCL_ALGO=%s NCCL_PROTO=%s takes %s', (algorithm, protocol, expected) => {
    expect(select(algorithm, protocol)).toBe(expected);
  });

  it('of protocols alone are for connections: nothing direct is left', () => {
    expect(select(undefined, 'LL')).toMatch(/ LL$/);
    expect(select(undefined, 'Simple')).toMatch(/ Simple$/);
  });

  it.each([
    ['Tree', undefined, { collective: 'allGather' }, 'NCCL_ALGO was set to Tree. Tree does not do AllGather'],
    ['Tree', undefined, { shared: false }, 'Tree needs ranks that share memory'],
    [
      'Hierarchical',
      undefined,
      { ranksPerNode: 3 },
      'Hierarchical needs nodes of one size, and 4 ranks make none of 3',
    ],
    ['OneShot', undefined, { ranks: 65 }, 'OneShot needs at most 64 ranks'],
    ['Ring', 'LL128', {}, 'NCCL_PROTO was set to LL128. Ring has LL and Simple only'],
    [
      undefined,
      'LL128',
      {},
      'Ring has LL and Simple only, Tree has LL and Simple only, Hierarchical has LL and Simple only',
    ],
    [',', undefined, {}, 'no name of the list has a program on host memory'],
  ] as const)(
    'NCCL_ALGO=%s NCCL_PROTO=%s leaves nothing for %j and says why',
    (algorithm, protocol, input, why) => {
      let error: unknown;
      try {
        select(algorithm, protocol, input);
      } catch (caught) {
        error = caught;
      }
      expect(TuttiError.is(error) && error.code).toBe('invalidUsage');
      expect((error as TuttiError).message).toContain('No algorithm/protocol available for function');
      expect((error as TuttiError).message).toContain(why);
    },
  );

  it('give what else they name where one cannot be set up, and say why', () => {
    const input = { collective: 'allReduce', op: 'sum', bytes: 1 << 20, ranks: 4, shared: true } as const;
    const setUp = (name: string) => (name === 'NVLS' ? 'has no room' : undefined);
    const taken = (algorithm: string) =>
      selectOnHost({
        ...input,
        model: MODEL,
        setUp,
        choices: hostChoices({ algorithm, protocol: undefined }),
      });
    expect(taken('NVLS,Ring')).toMatchObject({
      algorithm: 'Ring',
      reason: 'Ring was asked for; NVLS has no room',
    });
    expect(taken('NVLS,NVLSTree,TwoShot')).toMatchObject({ algorithm: 'NVLSTree' });
    expect(() => taken('NVLS')).toThrow('NCCL_ALGO was set to NVLS. NVLS has no room');
  });

  it('refuse unknown names and suggest the right one', () => {
    expect(() => select('Trie')).toThrow('Unrecognized element token "Trie" (did you mean Tree?)');
    expect(() => select('alreduce:Tree')).toThrow(
      'Unrecognized prefix token "alreduce" (did you mean AllReduce?)',
    );
  });

  it('never give what a list leaves out, nor what does not exist, and a barrier always works', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...COLLECTIVES, 'barrier' as const),
        fc.subarray([...ALGORITHMS], { minLength: 1 }),
        fc.constantFrom(undefined, 'LL', 'Simple', 'LL,Simple'),
        fc.nat(1 << 22),
        fc.integer({ min: 2, max: 100 }),
        fc.boolean(),
        (collective, names, protocol, bytes, ranks, shared) => {
          const choices = hostChoices({ algorithm: names.join(','), protocol });
          let chosen: ReturnType<typeof selectOnHost>;
          try {
            chosen = selectOnHost({ collective, op: 'sum', bytes, ranks, shared, choices, model: MODEL });
          } catch (error) {
            expect(TuttiError.is(error) && error.code).toBe('invalidUsage');
            expect(collective).not.toBe('barrier');
            // Rightly so: nothing of the list is possible.
            for (const name of names) {
              const possible = supports(name, collective) && (shared || name === 'Ring');
              expect(possible && !(isDirect(name) && ranks > 64)).toBe(false);
            }
            return;
          }
          expect(supports(chosen.algorithm, collective)).toBe(true);
          if (collective === 'barrier') return;
          expect(names).toContain(chosen.algorithm);
          expect(protocolsOf(chosen.algorithm)).toContain(chosen.protocol);
          if (!shared) expect(chosen).toMatchObject({ algorithm: 'Ring', protocol: 'Simple' });
          else if (protocol === 'LL' || protocol === 'Simple') {
            if (protocolsOf(chosen.algorithm).length > 1) expect(chosen.protocol).toBe(protocol);
          }
        },
      ),
    );
  });
});
