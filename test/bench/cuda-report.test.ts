/** The arithmetic of the comparison with NCCL on GPUs: plans, data of the checks, ratios, verdicts, tables. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

interface Entry {
  bytes: number;
  calls: number;
  launches: number;
}
interface Sample {
  eventUs: number;
  wallUs: number;
  enqueueUs: number;
}
interface Cell {
  operation: string;
  bytes: number;
  kind: string;
  launch: string;
  calls: number;
  samples: Sample[];
}
interface Report {
  program: string;
  processes: number;
  ranks: number;
  rows: Cell[];
  memoryBytes: Record<string, number[]>;
  wrong: Record<string, number>;
  initMs: number;
  firstCallMs: number;
  [more: string]: unknown;
}
interface Row {
  operation: string;
  bytes: number;
  launch: string;
  best?: string;
  ratio?: number;
  busbw?: number;
  target?: number;
  verdict?: string;
  nccl: { kind: string; us: number; comparedUs: number; roundsUs: number[] }[];
  tutti?: { us: number; enqueueUs: number };
}
interface Judgement {
  what: string;
  target: string;
  reached: string;
  verdict: string;
  misses: string[];
}
type Reports = { nccl: Report[]; tutti: Report[] };
type Place = { rank: number; size: number; elements: number };

const load = (path: string): Promise<unknown> => import(new URL(path, import.meta.url).pathname);
const { OPERATIONS, DEFAULT_SIZES, makePlan, planText, parsePlan } = (await load(
  '../../bench/cuda/plan.js',
)) as {
  OPERATIONS: string[];
  DEFAULT_SIZES: number[];
  makePlan(sizes: number[]): Entry[];
  planText(plan: Entry[]): string;
  parsePlan(text: string): Entry[];
};
const { mergeReports, slowest, busBandwidth } = (await load('../../bench/cuda/merge.js')) as {
  mergeReports(reports: Reports): Row[];
  slowest(parts: Report[]): Report;
  busBandwidth(row: { operation: string; bytes: number }, ranks: number, us: number): number;
};
const { targetOf } = (await load('../../bench/cuda/targets.js')) as {
  targetOf(row: { operation: string; bytes: number; launch: string; processes: number }): number | undefined;
};
const { groups, operationTable, judgements, page } = (await load('../../bench/cuda/report.js')) as {
  groups(rows: Row[]): [string, Row[]][];
  operationTable(rows: Row[]): string[][];
  judgements(rows: Row[], reports: Reports, processes: number): Judgement[];
  page(result: Record<string, unknown>): string;
};
const { sentElement, expectedElement, outputElements } = (await load('../../bench/cuda/data.js')) as {
  sentElement(rank: number, i: number): number;
  expectedElement(operation: string, place: Place, i: number): number;
  outputElements(operation: string, place: Place): number;
};

const K = 1024;
const M = K * K;

/** A cell whose samples take these microseconds; the host takes `enqueueUs` for each call. */
function cell(operation: string, bytes: number, kind: string, times: number[], enqueueUs = 1): Cell {
  const samples = times.map((us) => ({ eventUs: us, wallUs: us, enqueueUs }));
  return { operation, bytes, kind, launch: kind.endsWith('graph') ? 'graph' : 'plain', calls: 1, samples };
}

function report(program: string, processes: number, rows: Cell[], more: Partial<Report> = {}): Report {
  return {
    program,
    processes,
    ranks: 2,
    rows,
    memoryBytes: { afterInit: [3e6, 4e6], afterAllReduce: [30e6, 31e6] },
    wrong: {},
    initMs: 12,
    firstCallMs: 50,
    version: '2.28.9',
    driver: '580.1',
    gpus: ['H200', 'H200'],
    pythonUs: { allReduce: 2 },
    cache: 'cold',
    ...more,
  };
}

describe('plan', () => {
  it('reaches 512 MiB through all sizes that targets name, with fewer calls the larger they are', () => {
    for (const size of [8, 128 * K, 512 * K, 2 * M, 32 * M, 128 * M, 512 * M]) {
      expect(DEFAULT_SIZES).toContain(size);
    }
    const plan = makePlan(DEFAULT_SIZES);
    for (const [i, { calls, launches }] of plan.entries()) {
      expect(Math.min(calls, launches)).toBeGreaterThan(0);
      if (i > 0) expect(calls).toBeLessThanOrEqual(plan[i - 1]!.calls);
    }
    expect(parsePlan(planText(plan))).toEqual(plan);
  });

  it('refuses text that is no plan', () => {
    expect(() => parsePlan('8:1')).toThrow("plan '8:1'");
  });
});

describe('data of the checks', () => {
  it.each(OPERATIONS)('%s expects what a plain exchange gives', (operation) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 40 }), (size, share) => {
        const elements = size * share;
        const sent = Array.from({ length: size }, (_, r) =>
          Array.from({ length: elements }, (_, i) => sentElement(r, i)),
        );
        const sums = sent[0]!.map((_, i) => sent.reduce((sum, values) => sum + values[i]!, 0));
        const block = (r: number, b: number) => sent[r]!.slice(b * share, (b + 1) * share);
        const results: Record<string, (rank: number) => number[]> = {
          allReduce: () => sums,
          reduce: (rank) => (rank === 0 ? sums : []),
          reduceScatter: (rank) => sums.slice(rank * share, (rank + 1) * share),
          allGather: () => sent.flatMap((_, r) => block(r, 0)),
          allToAll: (rank) => sent.flatMap((_, r) => block(r, rank)),
          broadcast: () => sent[0]!,
          sendRecv: (rank) => sent[(rank + size - 1) % size]!,
        };
        for (let rank = 0; rank < size; rank++) {
          const place = { rank, size, elements };
          const length = outputElements(operation, place);
          const expected = Array.from({ length }, (_, i) => expectedElement(operation, place, i));
          expect(expected).toEqual(results[operation]!(rank));
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe('merged rows', () => {
  it("divide the best of NCCL's medians by ours, launches of one kind among themselves", () => {
    const nccl = [
      report('nccl', 2, [
        cell('allReduce', 8, 'plain', [13, 15, 90]),
        cell('allReduce', 8, 'symmetric', [20, 20, 20]),
        cell('allReduce', 8, 'graph', [6, 6, 6]),
        cell('allReduce', 8, 'symmetric-graph', [4, 4, 4]),
      ]),
      report('nccl', 2, [cell('allReduce', 8, 'plain', [14, 14, 16])]),
    ];
    const tutti = [
      report('tutti', 2, [
        cell('allReduce', 8, 'plain', [5, 5, 5]),
        cell('allReduce', 8, 'graph', [2, 2, 3]),
      ]),
    ];
    const rows = mergeReports({ nccl, tutti });
    expect(rows).toHaveLength(2);
    const [plain, graph] = rows as [Row, Row];
    expect(plain).toMatchObject({ best: 'plain', ratio: 14.5 / 5, target: 2, verdict: 'PASS' });
    expect(plain.nccl.find(({ kind }) => kind === 'plain')!.roundsUs).toEqual([15, 14]);
    expect(graph).toMatchObject({ best: 'symmetric-graph', ratio: 2, target: 1.8, verdict: 'PASS' });
  });

  it("take Python's share off loops that the host bounds, but not below NCCL's graphs", () => {
    const tutti = [report('tutti', 1, [cell('allReduce', 8, 'plain', [10])])];
    const compared = (plainUs: number, enqueueUs: number, graphUs: number) => {
      const nccl = [
        report('nccl', 1, [
          cell('allReduce', 8, 'plain', [plainUs], enqueueUs),
          cell('allReduce', 8, 'graph', [graphUs]),
        ]),
      ];
      return mergeReports({ nccl, tutti }).find(({ launch }) => launch === 'plain')!.nccl[0]!.comparedUs;
    };
    expect(compared(20, 20, 5)).toBe(18);
    expect(compared(20, 20, 19)).toBe(19);
    expect(compared(200, 20, 19)).toBe(200);
  });

  it('have no ratio where one of the two is missing', () => {
    const only = [report('tutti', 1, [cell('reduce', 8, 'graph', [2])])];
    const [row] = mergeReports({ nccl: [], tutti: only });
    expect(row).not.toHaveProperty('ratio');
    expect(operationTable([row!])[1]).toContain('2.00');
    const [other] = mergeReports({ nccl: only, tutti: [] });
    expect(other!.tutti).toBeUndefined();
  });

  it('give the bandwidth of the busiest link', () => {
    const bytes = 1e9;
    expect(busBandwidth({ operation: 'allReduce', bytes }, 4, 1e6)).toBeCloseTo(1.5);
    expect(busBandwidth({ operation: 'allGather', bytes }, 4, 1e6)).toBeCloseTo(0.75);
    expect(busBandwidth({ operation: 'sendRecv', bytes }, 4, 1e6)).toBeCloseTo(1);
  });
});

describe('targets', () => {
  const of = (operation: string, launch: string, bytes: number, processes = 2) =>
    targetOf({ operation, bytes, launch, processes });

  it('depend on operation, launch, size and processes', () => {
    expect(
      [8, 128 * K, 512 * K, 2 * M, 8 * M, 32 * M, 512 * M].map((b) => of('allReduce', 'graph', b)),
    ).toEqual([1.8, 1.8, 1.4, 1.4, undefined, 1.08, 1.08]);
    expect([8, 2 * M, 8 * M, 32 * M].map((b) => of('allReduce', 'plain', b))).toEqual([
      2,
      2,
      undefined,
      1.25,
    ]);
    expect([512 * K, 2 * M].map((b) => of('allReduce', 'plain', b, 1))).toEqual([1.5, undefined]);
    expect([8, 512 * K, 2 * M].map((b) => of('allToAll', 'graph', b))).toEqual([1.3, 1.3, 1]);
  });
});

describe('judgements', () => {
  const sizes = [8, 32, 512 * M];
  const rows = (us: number[]) => sizes.map((bytes, i) => cell('allReduce', bytes, 'graph', [us[i]!]));
  const nccl = [report('nccl', 2, rows([4, 4, 1700]))];

  it('name the sizes that miss', () => {
    const tutti = [report('tutti', 2, [...rows([2, 3, 1700]), cell('allReduce', 8, 'plain', [9], 5)])];
    const list = judgements(mergeReports({ nccl, tutti }), { nccl, tutti }, 2);
    expect(list.map(({ verdict }) => verdict)).toEqual(['MISS', 'MISS', 'MISS', 'MISS', 'PASS', 'PASS']);
    expect(list[0]).toMatchObject({ what: 'allReduce, graph, 8 to 32', misses: ['32: 1.33x'] });
    expect(list[2]).toMatchObject({ target: '335 GB/s', reached: '315.8 GB/s' });
    expect(list[3]).toMatchObject({ target: '4 us', reached: '5.00 us (5.00 to 5.00)' });
    expect(list[4]!.what).toContain('cold cache');
    expect(list[5]).toMatchObject({ target: '64 MB', reached: '61.0 MB' });
  });

  it('show as many digits as it takes to see a miss', () => {
    const close = [report('tutti', 2, rows([2, 2, 1575]))];
    const list = judgements(mergeReports({ nccl, tutti: close }), { nccl, tutti: close }, 2);
    expect(list[1]!.misses).toEqual(['512M: 1.079x']);
  });

  it('count the enqueueing per GPU where one process drives both', () => {
    const tutti = [report('tutti', 1, [cell('allReduce', 8, 'plain', [9], 7)])];
    const list = judgements(mergeReports({ nccl: [], tutti }), { nccl: [], tutti }, 1);
    expect(list.find(({ target }) => target === '4 us')).toMatchObject({ verdict: 'PASS' });
  });

  it('stand on the page beside the tables of all operations', () => {
    const tutti = [report('tutti', 2, rows([2, 3, 1500]))];
    const reports = { nccl, tutti };
    const merged = mergeReports(reports);
    const text = page({
      date: '2026-01-02',
      processes: 2,
      ranks: 2,
      machine: { cpu: 'a' },
      connection: 'NV18',
      reports,
      rows: merged,
      judgement: judgements(merged, reports, 2),
    });
    expect(text).toContain('# tutti and NCCL on 2 GPUs, 2 processes, 2026-01-02');
    expect(text).toContain('### allReduce, graph');
    expect(text).toMatch(/\| 512M \| +1700 \| +1500 \| +357.9 \| +1.13 \| +1.08 PASS \|/);
    expect(text).toContain('32: 1.33x');
    expect(groups(merged)[0]![1].map(({ bytes }) => bytes)).toEqual(sizes);
  });
});

describe('reports of several processes', () => {
  it("become one of the slowest rank's times and everybody's memory and errors", () => {
    const part = (us: number, wrong: number, used: number) =>
      report('tutti', 2, [cell('reduce', 8, 'plain', [us, 10 - us])], {
        wrong: { reduce: wrong },
        memoryBytes: { afterInit: [used] },
        initMs: us,
      });
    const whole = slowest([part(1, 2, 7), part(4, 3, 8)]);
    expect(whole.rows[0]!.samples.map(({ eventUs }) => eventUs)).toEqual([4, 9]);
    expect(whole).toMatchObject({ wrong: { reduce: 5 }, memoryBytes: { afterInit: [7, 8] }, initMs: 4 });
  });
});
