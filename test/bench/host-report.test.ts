/** The arithmetic of the host benchmark: plans, medians, ratios and verdicts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

interface Step {
  size: number;
  warmup: number;
  iterations: number;
}
interface Verdict {
  ratio: number;
  reached?: number;
  verdict: string;
}
interface Row {
  size: number;
  best?: string;
  verdicts: { windows?: Verdict; arrays?: Verdict };
}
type Contestant = { id: string; name: string; peer: boolean };

const load = (path: string): Promise<unknown> => import(new URL(path, import.meta.url).pathname);
const { makePlan, planText, parseSize, sizeName } = (await load('../../bench/host/plan.js')) as {
  makePlan(sizes: number[], options: { oversubscribed: boolean; quick: boolean }): Step[];
  planText(plan: Step[]): string;
  parseSize(text: string): number;
  sizeName(bytes: number): string;
};
const { median, summarise, table, renderTable } = (await load('../../bench/host/report.js')) as {
  median(values: number[]): number;
  summarise(
    contestants: Contestant[],
    times: Map<string, Map<number, number[]>>,
    sizes: number[],
    ranks: number,
  ): Row[];
  table(contestants: Contestant[], rows: Row[]): string[][];
  renderTable(cells: string[][]): string;
};

const CONTESTANTS: Contestant[] = [
  { id: 'openmpi', name: 'Open MPI', peer: true },
  { id: 'gloo-ring', name: 'Gloo ring', peer: true },
  { id: 'windows', name: 'tutti windows', peer: false },
  { id: 'arrays', name: 'tutti arrays', peer: false },
];

/** The row of one size from one time per contestant (in the order of CONTESTANTS; undefined: not measured). */
function rowOf(ranks: number, size: number, times: (number | undefined)[]): Row {
  const measured = CONTESTANTS.flatMap(({ id }, index): [string, Map<number, number[]>][] => {
    const time = times[index];
    return time === undefined ? [] : [[id, new Map([[size, [time]]])]];
  });
  return summarise(CONTESTANTS, new Map(measured), [size], ranks)[0] as Row;
}

const verdicts = ({ verdicts: { windows, arrays } }: Row) => [windows?.verdict, arrays?.verdict];

describe('the plan', () => {
  it('times at least 4 calls of every size, fewer for larger sizes, and fewer where ranks share cores', () => {
    const sizes = [8, 1024, 65536, 1 << 20, 64 << 20];
    const own = makePlan(sizes, { oversubscribed: false, quick: false });
    const crowded = makePlan(sizes, { oversubscribed: true, quick: false });
    expect(own.map(({ size }) => size)).toEqual(sizes);
    expect(own.map(({ iterations }) => iterations)).toEqual([10_000, 10_000, 916, 57, 4]);
    expect(crowded.map(({ iterations }) => iterations)).toEqual([1000, 1000, 92, 6, 4]);
    for (const { warmup } of [...own, ...crowded]) expect(warmup).toBeGreaterThanOrEqual(2);
  });

  it('is given to every program as BYTES:WARMUP:ITERATIONS, once to rehearse and once to measure', () => {
    expect(
      planText([
        { size: 8, warmup: 2, iterations: 4 },
        { size: 64, warmup: 3, iterations: 5 },
      ]),
    ).toBe('8:2:4,64:3:5,8:2:4,64:3:5');
  });

  it('reads back every size that it names', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1 << 28 }),
        (floats) => parseSize(sizeName(floats * 4)) === floats * 4,
      ),
    );
    expect(['8', '64k', '16M'].map(parseSize)).toEqual([8, 65536, 16 << 20]);
    expect([8, 1000, 1024, 1536, 64 << 20].map(sizeName)).toEqual(['8', '1000', '1K', '1536', '64M']);
  });

  it.each(['', '0', '6', '8KB', '-8', '1.5K', 'x'])('refuses the size `%s`', (text) => {
    expect(() => parseSize(text)).toThrow(RangeError);
  });
});

describe('the report', () => {
  it('takes medians that half of the values are not above and half not below', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
        const middle = median(values);
        const half = values.length / 2;
        return (
          values.filter((v) => v <= middle).length >= half && values.filter((v) => v >= middle).length >= half
        );
      }),
    );
  });

  it('compares tutti with the fastest peer', () => {
    const row = rowOf(2, 65536, [30, 20, 5, 10]);
    expect(row.best).toBe('gloo-ring');
    expect(row.verdicts.windows).toMatchObject({ ratio: 4, reached: 4 });
    expect(row.verdicts.arrays).toMatchObject({ ratio: 2, reached: 2 });
  });

  it('passes windows at 3 times the best peer from 64K, 1.5 times from 1K, and within 1.3 of its time below', () => {
    expect(verdicts(rowOf(2, 65536, [30, 99, 10, 1]))[0]).toBe('PASS');
    expect(verdicts(rowOf(2, 65536, [29.9, 99, 10, 1]))[0]).toBe('MISS');
    expect(verdicts(rowOf(2, 1024, [15, 99, 10, 1]))[0]).toBe('PASS');
    expect(verdicts(rowOf(2, 1024, [14.9, 99, 10, 1]))[0]).toBe('MISS');
    expect(verdicts(rowOf(2, 64, [10, 99, 12.9, 1]))[0]).toBe('PASS');
    expect(verdicts(rowOf(2, 64, [10, 99, 13.1, 1]))[0]).toBe('MISS');
  });

  it('passes arrays that are not slower than the best peer from 8K and sets no target below', () => {
    expect(verdicts(rowOf(2, 8192, [10, 99, 1, 10]))[1]).toBe('PASS');
    expect(verdicts(rowOf(2, 8192, [10, 99, 1, 10.1]))[1]).toBe('MISS');
    expect(verdicts(rowOf(2, 4096, [10, 99, 1, 50]))[1]).toBe('-');
  });

  it('compares more than two ranks with Open MPI from 1K, even where Gloo is faster', () => {
    expect(verdicts(rowOf(8, 1024, [10, 5, 10, 10]))).toEqual(['PASS', '-']);
    expect(verdicts(rowOf(8, 1024, [10, 5, 10.1, 10]))).toEqual(['MISS', '-']);
    expect(verdicts(rowOf(8, 64, [10, 5, 50, 50]))).toEqual(['-', '-']);
  });

  it('gives no verdict where tutti or every peer is missing', () => {
    expect(verdicts(rowOf(2, 65536, [10, 10, undefined, undefined]))).toEqual([undefined, undefined]);
    expect(verdicts(rowOf(2, 65536, [undefined, undefined, 1, 1]))).toEqual([undefined, undefined]);
  });

  it('prints aligned rows with median, spread, ratio and verdict', () => {
    const times = new Map([
      ['openmpi', new Map([[65536, [30, 20, 40]]])],
      ['windows', new Map([[65536, [6, 5, 7]]])],
    ]);
    const lines = renderTable(table(CONTESTANTS, summarise(CONTESTANTS, times, [65536], 2))).split('\n');
    expect(new Set(lines.map((line) => line.length)).size).toBe(1);
    expect(lines[2]?.split('|').map((cell) => cell.trim())).toEqual([
      '',
      '64K',
      '30.0 (20.0-40.0)',
      '-',
      '6.00 (5.00-7.00)',
      '-',
      '5.00',
      'PASS (5.00 of 3.00 against openmpi)',
      '-',
      '-',
      '',
    ]);
  });
});
