import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  averageBusBandwidth,
  bandwidthVerdict,
  exitStatus,
  formatTimestamp,
  type ResultRow,
  type SideResult,
} from '#src/cli/perf/report.js';
import { iterationStatistics } from '#src/cli/perf/statistics.js';
import {
  formatFooter,
  formatHeader,
  formatMemoryReduction,
  formatPreamble,
  formatRow,
  type Preamble,
  type TableColumns,
} from '#src/cli/perf/table.js';
import { type ParsedSide, parseTable } from '#src/cli/perf/table-parser.js';

const PLAIN: TableColumns = { cpuTime: false, perIteration: false, timestamps: false };

const PREAMBLE: Preamble = {
  version: '0.1.0',
  collective: 'all_reduce',
  sweep: { minBytes: 8, maxBytes: 134217728, stepBytes: 1048576, stepFactor: 2 },
  threads: 2,
  gpus: 1,
  graphs: 0,
  connections: [],
  warmupIterations: 5,
  iterations: 20,
  aggregated: 1,
  checks: 1,
  unalign: 0,
  blocking: 0,
  perIteration: false,
  ranks: [
    {
      rank: 0,
      group: 0,
      pid: 1234,
      host: 'node1.example.org',
      device: 0,
      address: 'host',
      model: 'Some CPU @ 2.00GHz',
    },
    { rank: 1, group: 0, pid: 1234, host: 'node1', device: 1, address: 'host', model: 'Some CPU @ 2.00GHz' },
  ],
};

describe('preamble', () => {
  it('has the lines of nccl-tests', () => {
    expect(formatPreamble(PREAMBLE)).toBe(
      [
        '# tutti perf version 0.1.0',
        '# Collective test starting: all_reduce_perf',
        '# nThread 2 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0',
        '#',
        '# Using devices',
        '#  Rank  0 Group  0 Pid   1234 on      node1 device  0 [host] Some CPU @ 2.00GHz',
        '#  Rank  1 Group  0 Pid   1234 on      node1 device  1 [host] Some CPU @ 2.00GHz',
        '',
      ].join('\n'),
    );
  });

  it('shows an additive step in bytes and says which modes are on', () => {
    const text = formatPreamble({
      ...PREAMBLE,
      sweep: { ...PREAMBLE.sweep, stepFactor: 1 },
      blocking: 1,
      perIteration: true,
    });
    expect(text).toContain(' step: 1048576(bytes) ');
    expect(text).toMatch(/^# Blocking Enabled: /m);
    expect(text).toMatch(/^# Per-Iteration Report: /m);
  });

  it('announces smaller buffers', () => {
    expect(formatMemoryReduction(4096)).toBe('#\n# Reducing maxBytes to 4096 due to memory limitation\n');
  });
});

describe('header', () => {
  it('is that of nccl-tests to the last blank', () => {
    expect(formatHeader(PLAIN)).toBe(
      [
        '#',
        '#                                                              out-of-place                       in-place          ',
        '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
        '#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ',
        '',
      ].join('\n'),
    );
  });

  it('names cpu time, per-iteration columns and time stamps when they are on', () => {
    const lines = formatHeader({ cpuTime: true, perIteration: true, timestamps: true }).split('\n');
    expect(lines[2]).toContain(
      'cputime   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%  cputime',
    );
    expect(lines[2]!.endsWith(`    i_cv% ${'timestamp'.padStart(19)}`)).toBe(true);
    expect(lines[3]!.endsWith('     (us)     (us)     (us)      (%) YYYY-MM-DD HH:MM:SS')).toBe(true);
  });

  it('ends each column where the rows end it', () => {
    for (const perIteration of [false, true]) {
      const columns = { ...PLAIN, perIteration };
      const title = formatHeader(columns).split('\n')[2]!;
      const row = formatRow(exampleRow({ perIteration }), columns).split('\n')[0]!;
      expect(row.length).toBe(title.length - 1);
    }
  });
});

function exampleRow(options: { perIteration?: boolean } = {}): ResultRow {
  const side: SideResult = {
    timeUs: 12345.678,
    algbw: 1234.56,
    busbw: 0.126,
    wrong: 0,
    ...(options.perIteration ? { iterations: iterationStatistics([1, 2, 3]) } : {}),
  };
  return {
    bytes: 1048576,
    count: 262144,
    type: 'float',
    op: 'sum',
    root: -1,
    outOfPlace: side,
    inPlace: { timeUs: side.timeUs, algbw: side.algbw, busbw: side.busbw, ...iterationsOf(side) },
  };
}

function iterationsOf(side: SideResult): Pick<SideResult, 'iterations'> {
  return side.iterations === undefined ? {} : { iterations: side.iterations };
}

describe('row', () => {
  it('says N/A for the side that a collective does not have', () => {
    const { inPlace: _, ...row } = exampleRow();
    expect(formatRow(row, PLAIN).slice(-34)).toBe('      N/A     N/A     N/A     N/A\n'.padStart(34));
  });

  it('has the fields of nccl-tests in their widths', () => {
    expect(formatRow(exampleRow(), PLAIN)).toBe(
      '     1048576        262144     float     sum      -1  12345.7  1234.6    0.13       0  12345.7  1234.6    0.13     N/A\n',
    );
  });

  it('ends with per-iteration figures and the time of day when asked for', () => {
    const columns = { cpuTime: false, perIteration: true, timestamps: true };
    const text = formatRow(
      { ...exampleRow({ perIteration: true }), timestamp: '2026-01-02 03:04:05' },
      columns,
    );
    expect(text).toMatch(/ {5}N\/A {5}1\.00 {5}3\.00 {5}3\.00 {4}40\.82 {2}2026-01-02 03:04:05\n$/);
  });

  it('writes local time', () => {
    expect(formatTimestamp(new Date(2026, 0, 2, 3, 4, 5))).toBe('2026-01-02 03:04:05');
  });
});

describe('footer', () => {
  it('has the lines of nccl-tests', () => {
    expect(
      formatFooter('all_reduce', { failedChecks: 0, averageBusBandwidth: 12.34567, lastError: '' }),
    ).toBe(
      [
        '# Out of bounds values : 0 OK',
        '# Avg bus bandwidth    : 12.3457 ',
        '#',
        '# Collective test concluded: all_reduce_perf',
        '#',
        '',
        '',
      ].join('\n'),
    );
  });

  it('tells failures, the verdict on a required bandwidth and the last error', () => {
    const summary = {
      failedChecks: 3,
      averageBusBandwidth: 8.9,
      requiredBusBandwidth: 10,
      lastError: 'boom',
    };
    const text = formatFooter('broadcast', summary);
    expect(text).toContain('# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 8.9 FAILED\n');
    expect(text.endsWith('#\n# error: boom\n')).toBe(true);
    expect(exitStatus(summary)).toBe(7);
  });

  it('accepts nine tenths of the required bandwidth and requires nothing at -1', () => {
    const summary = { failedChecks: 0, averageBusBandwidth: 9, lastError: '' };
    expect(bandwidthVerdict({ ...summary, requiredBusBandwidth: 10 })).toBe('OK');
    expect(bandwidthVerdict({ ...summary, requiredBusBandwidth: 10.1 })).toBe('FAILED');
    expect(bandwidthVerdict({ ...summary, requiredBusBandwidth: -1 })).toBe('unchecked');
    expect(bandwidthVerdict(summary)).toBe('unchecked');
    expect(exitStatus({ ...summary, requiredBusBandwidth: 10.1 })).toBe(7);
    expect(exitStatus(summary)).toBe(0);
  });

  it('averages both sides of all rows, and nothing of nothing', () => {
    const row = exampleRow();
    const rows = [row, { ...row, inPlace: { ...row.outOfPlace, busbw: 4.126 } }];
    expect(averageBusBandwidth(rows)).toBeCloseTo(1.126);
    const { inPlace: _, ...oneSided } = row;
    expect(averageBusBandwidth([oneSided])).toBe(row.outOfPlace.busbw);
    expect(averageBusBandwidth([])).toBeNaN();
  });
});

const positive = fc.double({ min: 0, max: 1e8, noNaN: true });

const side: fc.Arbitrary<SideResult> = fc
  .record(
    {
      timeUs: positive,
      algbw: positive,
      busbw: positive,
      wrong: fc.nat(),
      samples: fc.array(positive, { minLength: 1, maxLength: 8 }),
    },
    { requiredKeys: ['timeUs', 'algbw', 'busbw', 'samples'] },
  )
  .map(({ samples, ...rest }) => ({ ...rest, iterations: iterationStatistics(samples) }));

const row: fc.Arbitrary<ResultRow> = fc
  .record({
    bytes: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    count: fc.nat(),
    type: fc.constantFrom('float', 'bfloat16', 'int8'),
    op: fc.constantFrom('sum', 'none', ''),
    root: fc.integer({ min: -1, max: 9999 }),
    outOfPlace: side,
    inPlace: fc.option(side, { nil: undefined }),
    timestamp: fc.constantFrom('2026-01-02 03:04:05', '1999-12-31 23:59:59'),
  })
  .map(({ inPlace, ...rest }) => (inPlace === undefined ? rest : { ...rest, inPlace }));

const columnSets: fc.Arbitrary<TableColumns> = fc.record({
  cpuTime: fc.boolean(),
  perIteration: fc.boolean(),
  timestamps: fc.boolean(),
});

/** Within half a unit of the last digit that fits; exponent forms of six characters keep one digit. */
function expectClose(parsed: number, original: number): void {
  expect(Math.abs(parsed - original)).toBeLessThanOrEqual(Math.max(0.005, original * 0.5) * (1 + 1e-9));
  if (original < 1e5) expect(Math.abs(parsed - original)).toBeLessThanOrEqual(0.5 + 1e-9);
  if (original < 99) expect(Math.abs(parsed - original)).toBeLessThanOrEqual(0.005 + 1e-9);
}

function expectSide(parsed: ParsedSide, original: SideResult, columns: TableColumns): void {
  expectClose(parsed.timeUs, original.timeUs);
  expectClose(parsed.algbw, original.algbw);
  expectClose(parsed.busbw, original.busbw);
  expect(parsed.wrong === undefined).toBe(original.wrong === undefined);
  if (original.wrong !== undefined) {
    expect(Math.abs(parsed.wrong! - original.wrong)).toBeLessThanOrEqual(original.wrong * 5e-6);
  }
  expect(parsed.iterations !== undefined).toBe(columns.perIteration);
  if (parsed.iterations === undefined) return;
  for (const key of ['min', 'max', 'p99', 'variationPercent'] as const) {
    expectClose(parsed.iterations[key], original.iterations![key]);
  }
}

describe('parser', () => {
  it('gives back what was formatted, within the rounding of the table', () => {
    fc.assert(
      fc.property(columnSets, fc.array(row, { maxLength: 4 }), fc.nat(9), (columns, rows, failedChecks) => {
        const text =
          formatPreamble(PREAMBLE) +
          formatHeader(columns) +
          rows.map((r) => formatRow(r, columns)).join('') +
          formatFooter('all_reduce', {
            failedChecks,
            averageBusBandwidth: averageBusBandwidth(rows),
            requiredBusBandwidth: 1,
            lastError: 'oops',
          });
        const parsed = parseTable(text);
        expect(parsed).toMatchObject({
          producer: 'tutti perf version 0.1.0',
          program: 'all_reduce_perf',
          isCpuTime: columns.cpuTime,
          failedChecks,
          error: 'oops',
        });
        expect(parsed.devices).toHaveLength(2);
        expect(parsed.rows).toHaveLength(rows.length);
        if (rows.length === 0) expect(parsed.averageBusBandwidth).toBeNaN();
        else {
          const average = averageBusBandwidth(rows);
          expect(Math.abs(parsed.averageBusBandwidth! - average)).toBeLessThanOrEqual(
            average * 5e-6 + 1e-300,
          );
        }
        for (const [i, original] of rows.entries()) {
          const { outOfPlace, inPlace, timestamp, ...left } = parsed.rows[i]!;
          expect(left).toEqual({
            bytes: original.bytes,
            count: original.count,
            type: original.type,
            op: original.op,
            root: original.root,
          });
          expect(timestamp).toBe(columns.timestamps ? original.timestamp : undefined);
          expectSide(outOfPlace, original.outOfPlace, columns);
          if (original.inPlace !== undefined) expectSide(inPlace, original.inPlace, columns);
          else expect(inPlace).toMatchObject({ timeUs: NaN, algbw: NaN, busbw: NaN });
        }
      }),
    );
  });

  it('names the line of a row that does not fit its header', () => {
    expect(() => parseTable(`${formatHeader(PLAIN)}  8 2 float sum\n`)).toThrow(
      'line 5 of the table has 4 fields where its header announces 13',
    );
  });
});
