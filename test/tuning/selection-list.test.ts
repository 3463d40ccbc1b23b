/** The grammar of NCCL_ALGO and NCCL_PROTO. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TuttiError } from '#src/errors/tutti-error.js';
import {
  FunctionId,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclFunction,
} from '#src/tuning/names.js';
import { Choice, selectionLists } from '#src/tuning/selection-list.js';

/** Algorithms that a text leaves to a function. */
const algorithms = (text: string, fn: NcclFunction): string[] =>
  NCCL_ALGORITHMS.filter(
    (_, i) => selectionLists(text, undefined).algorithms[FunctionId[fn]]![i] !== Choice.OFF,
  );

/** Choices of LL, LL128 and Simple. */
const protocols = (text: string | undefined, fn: NcclFunction): number[] =>
  selectionLists(undefined, text).protocols[FunctionId[fn]]!;

const errorOf = (run: () => unknown): TuttiError => {
  try {
    run();
  } catch (error) {
    return error as TuttiError;
  }
  throw new Error('no error');
};

describe('lists', () => {
  it.each([
    ['ring', 'AllReduce', ['Ring']],
    ['RING,tree', 'AllReduce', ['Tree', 'Ring']],
    ['^ring', 'AllReduce', NCCL_ALGORITHMS.filter((name) => name !== 'Ring')],
    ['^ring,nvls', 'Broadcast', NCCL_ALGORITHMS.filter((name) => name !== 'Ring' && name !== 'NVLS')],
    [
      'ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring',
      'AllReduce',
      ['Tree', 'CollNetDirect'],
    ],
    ['ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring', 'Broadcast', ['Ring']],
    [
      'ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring',
      'AllGather',
      ['Ring', 'CollNetDirect'],
    ],
    ['allreduce:tree', 'AllGather', [...NCCL_ALGORITHMS]],
    ['allreduce:tree;AllReduce:ring', 'AllReduce', ['Ring']],
    ['allreduce:tree:ignored:too', 'AllReduce', ['Tree']],
    ['allreduce::tree', 'AllReduce', ['Tree']],
    ['ring;;allreduce:tree;', 'AllReduce', ['Tree']],
    [';allreduce:tree', 'AllReduce', ['Tree']],
    [',ring,,', 'AllReduce', ['Ring']],
    ['^', 'AllReduce', [...NCCL_ALGORITHMS]],
    ['allgather:^pat', 'AllGather', NCCL_ALGORITHMS.filter((name) => name !== 'PAT')],
    ['', 'AllReduce', [...NCCL_ALGORITHMS]],
    [';', 'AllReduce', [...NCCL_ALGORITHMS]],
  ] as const)('%j leaves %s %j [C05-15, C21-10]', (text, fn, wanted) => {
    expect(algorithms(text, fn)).toEqual(wanted);
  });

  it.each([
    [undefined, [Choice.ON, Choice.AUTO, Choice.ON]],
    ['', [Choice.ON, Choice.AUTO, Choice.ON]],
    ['LL128', [Choice.OFF, Choice.ON, Choice.OFF]],
    ['^LL', [Choice.OFF, Choice.ON, Choice.ON]],
    ['^LL128', [Choice.ON, Choice.OFF, Choice.ON]],
    ['LL,Simple;allreduce:^LL', [Choice.OFF, Choice.ON, Choice.ON]],
    ['^LL128;allreduce:LL128', [Choice.OFF, Choice.ON, Choice.OFF]],
    ['broadcast:LL', [Choice.ON, Choice.AUTO, Choice.ON]],
  ])('NCCL_PROTO=%j of all-reduce: LL, LL128, Simple are %j [C05-18]', (text, wanted) => {
    expect(protocols(text, 'AllReduce')).toEqual(wanted);
  });
});

describe('wrong lists', () => {
  it.each([
    ['rign', 'Unrecognized element token "rign" (did you mean Ring?)'],
    ['nvls_tree', 'Unrecognized element token "nvls_tree" (did you mean NVLSTree?)'],
    ['collnet', 'Unrecognized element token "collnet" (did you mean'],
    ['ring, tree', 'Unrecognized element token " tree" (did you mean Tree?)'],
    ['xyzzy', 'Unrecognized element token "xyzzy"; use Tree, Ring'],
    ['alreduce:ring', 'Unrecognized prefix token "alreduce" (did you mean AllReduce?)'],
    ['sendrecv:ring', 'Unrecognized prefix token "sendrecv"'],
    ['allreduce:ring;tree', 'All entries except the first must have a prefix: "tree"'],
    [';tree', 'All entries except the first must have a prefix: "tree"'],
    [':tree', 'All entries except the first must have a prefix: ":tree"'],
    ['ring;:', '":" has neither a function nor a list'],
    ['allreduce:', 'Unrecognized element token "allreduce"'],
  ])('%j is refused with what is wrong and what would be right [C05-15]', (text, message) => {
    const error = errorOf(() => selectionLists(text, undefined));
    expect(error.code).toBe('invalidUsage');
    expect(error.message).toContain(message);
    expect(error.message).toContain(`NCCL_ALGO="${text}"`);
  });

  it('says where a name of the other list belongs', () => {
    expect(() => selectionLists('LL128', undefined)).toThrow('"LL128" (that is a protocol); use Tree, Ring');
    expect(() => selectionLists(undefined, 'ring')).toThrow('"ring" (that is an algorithm); use LL, LL128');
  });

  it('names the variable', () => {
    expect(errorOf(() => selectionLists('ring', 'LL64')).message).toContain('NCCL_PROTO="LL64"');
  });
});

describe('any list', () => {
  const name = fc
    .constantFrom(...NCCL_ALGORITHMS)
    .chain((known) => fc.constantFrom(known, known.toLowerCase()));
  const list = fc.record({ names: fc.array(name, { minLength: 1 }), inverted: fc.boolean() });
  const entry = fc.record({ fn: fc.constantFrom(...NCCL_FUNCTIONS), list });

  it('is what its last entry for a function says', () => {
    fc.assert(
      fc.property(fc.option(list, { nil: undefined }), fc.array(entry), (first, entries) => {
        const write = (one: { names: string[]; inverted: boolean }) =>
          `${one.inverted ? '^' : ''}${one.names.join(',')}`;
        const texts = entries.map(({ fn, list: one }) => `${fn}:${write(one)}`);
        const text = [...(first === undefined ? [] : [write(first)]), ...texts].join(';');
        for (const fn of NCCL_FUNCTIONS) {
          const last = entries.filter((one) => one.fn === fn).at(-1)?.list ?? first;
          const named = (algorithm: string) =>
            last?.names.some((known) => known.toLowerCase() === algorithm.toLowerCase()) ?? true;
          const wanted = NCCL_ALGORITHMS.filter(
            (algorithm) => named(algorithm) !== (last?.inverted ?? false),
          );
          expect(algorithms(text, fn)).toEqual(wanted);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('of letters and signs is read or refused, never misread', () => {
    const noise = fc.string({ unit: fc.constantFrom(...'ringtreeLL128 :;,^_'), maxLength: 24 });
    fc.assert(
      fc.property(noise, (text) => {
        try {
          for (const row of selectionLists(text, text).protocols)
            expect(row).toHaveLength(NCCL_PROTOCOLS.length);
        } catch (error) {
          expect((error as TuttiError).code).toBe('invalidUsage');
        }
      }),
      { numRuns: 300 },
    );
  });
});
