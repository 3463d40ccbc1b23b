/** The command line of `tutti tune`: what it means, and what is refused with which words. */
import { describe, expect, it, test } from 'vitest';
import { parseTuneOptions, type TuneOptions } from '#src/cli/tune/options.js';
import { sweepSizes } from '#src/cli/tune/sweep-sizes.js';
import { environmentWith, parseWhatIf } from '#src/cli/tune/what-if.js';

const parse = (...args: string[]) => parseTuneOptions(args) as TuneOptions;

describe('the options of tutti tune', () => {
  it('ask for a sweep of an all-reduce of floats by default', () => {
    expect(parse()).toMatchObject({
      functions: ['AllReduce'],
      size: undefined,
      sweep: { first: 8, last: 4 * 2 ** 30, factor: 2 },
      type: 'float32',
      op: 'sum',
      registered: false,
      show: 'text',
      whatIf: [],
    });
  });

  test.each([
    ['all_reduce', 'AllReduce'],
    ['AllReduce', 'AllReduce'],
    ['allReduce', 'AllReduce'],
    ['ncclAllReduce', 'AllReduce'],
    ['all_reduce_perf', 'AllReduce'],
    ['reduce-scatter', 'ReduceScatter'],
    ['BROADCAST', 'Broadcast'],
    ['reduce', 'Reduce'],
    ['all_gather', 'AllGather'],
  ])('know the collective %s', (name, fn) => {
    expect(parse('--coll', name).functions).toEqual([fn]);
  });

  it('give all five functions for each', () => {
    expect(parse('--coll=each').functions.toSorted()).toEqual(
      ['AllGather', 'AllReduce', 'Broadcast', 'Reduce', 'ReduceScatter'].toSorted(),
    );
  });

  test.each([
    ['8', 8],
    ['64K', 65536],
    ['1.5M', 1.5 * 2 ** 20],
    ['4g', 4 * 2 ** 30],
    ['1GiB', 2 ** 30],
  ])('know the size %s', (text, bytes) => {
    expect(parse('--size', text).size).toBe(bytes);
  });

  it('know types and operators of nccl-tests and of the library', () => {
    expect(parse('-d', 'half', '-o', 'avg')).toMatchObject({ type: 'float16', op: 'avg' });
    expect(parse('--type=bfloat16', '--op=MAX')).toMatchObject({ type: 'bfloat16', op: 'max' });
  });

  it('ask for help before everything else is looked at', () => {
    expect(parseTuneOptions(['--help', '--size', '0'])).toBe('help');
  });

  test.each([
    [['--coll', 'all_redcue'], /--coll all_redcue is unknown \(did you mean all_reduce\?\)/],
    [['--coll', 'alltoall'], /alltoall: NCCL makes it of sends and receives/],
    [['--coll', ''], /--coll {2}is unknown; use broadcast/],
    [['--size', '0'], /--size 0: a message without bytes is not decided/],
    [['--size', '-5'], /--size/],
    [['--size=-5'], /--size: '-5' is not a size/],
    [['--size', 'NaN'], /'NaN' is not a size; write bytes with an optional K, M or G/],
    [['--size', '1e9'], /'1e9' is not a size/],
    [['--size', '0.4'], /a message without bytes/],
    [['--size', '99999999999G'], /is not a size|16 TB at most/],
    [['--size', '17000G'], /no GPUs hold that much; give 16 TB at most/],
    [['--size', '1M', '--sweep'], /--size --sweep: --size asks for one size/],
    [['--size', '1M', '-b', '8'], /--size --begin/],
    [['-b', '1M', '-e', '1K'], /-b 1 MB -e 1 KB: the first size is larger/],
    [['-f', '1'], /-f 1: a number above 1 is needed/],
    [['-f', 'x'], /-f x: a number above 1/],
    [['-f', '1.00001'], /this makes \d+ sizes, 10000 are the most/],
    [['--type', 'flot'], /--type flot is unknown \(did you mean float/],
    [['--op', 'summ'], /--op summ is unknown \(did you mean sum\?\)/],
    [['--json', '--log'], /only one of them can be shown/],
    [['--log', '--what-if', 'NCCL_ALGO=Tree'], /NCCL logs no comparison/],
    [['--what-if', 'ALGO=Tree'], /--what-if ALGO=Tree: write NAME=VALUE/],
    [['--what-if', 'NCCL_ALGO Tree'], /'Tree' is no assignment/],
    [['--what-if', 'NCCL_ALGO=a NCCL_ALGO=b'], /NCCL_ALGO is given twice/],
    [['--ignore-broken-tuner'], /there is no tuner to ignore/],
    [['--tuner', ''], /--tuner: the name is empty/],
    [['--svg', '-', '--json'], /--svg - --json: the standard output takes one of them/],
    [['--windows', 'left'], /--windows left is unknown; use none, send, receive, both/],
    [['--svg', ''], /--svg: the name is empty/],
    [['--nodes', '0'], /--nodes 0: an integer from 1/],
    [['--no-such'], /see 'tutti tune --help'/],
  ])('%j are refused in one sentence', (args, message) => {
    expect(() => parseTuneOptions(args)).toThrow(message);
    try {
      parseTuneOptions(args);
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalidArgument' });
      expect((error as Error).message).not.toContain('\n');
    }
  });
});

describe('sizes of a sweep', () => {
  it('are those of nccl-tests', () => {
    expect([...sweepSizes({ first: 8, last: 64, factor: 2 })]).toEqual([8, 16, 32, 64]);
    expect([...sweepSizes({ first: 10, last: 40, factor: 1.5 })]).toEqual([10, 15, 22, 33]);
  });
});

describe('what-if', () => {
  it('sets several variables at once, also with blanks in their values, and unsets those without a value', () => {
    const whatIf = parseWhatIf(' NCCL_ALGO=Tree NCCL_THREAD_THRESHOLDS=8 8 64 NCCL_PROTO NCCL_NTHREADS= ');
    expect(whatIf.variables).toEqual({
      NCCL_ALGO: 'Tree',
      NCCL_THREAD_THRESHOLDS: '8 8 64',
      NCCL_PROTO: undefined,
      NCCL_NTHREADS: '',
    });
    expect(environmentWith({ NCCL_PROTO: 'LL', NCCL_ALGO: 'Ring', HOME: '/' }, whatIf)).toEqual({
      HOME: '/',
      NCCL_ALGO: 'Tree',
      NCCL_THREAD_THRESHOLDS: '8 8 64',
      NCCL_NTHREADS: '',
    });
  });

  it('keeps lists with all their signs', () => {
    const text = 'NCCL_ALGO=ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:^ring';
    expect(parseWhatIf(text).variables).toEqual({ NCCL_ALGO: text.slice('NCCL_ALGO='.length) });
  });
});
