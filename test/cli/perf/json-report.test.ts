import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createReportFile, formatJsonReport, type PerfReport } from '#src/cli/perf/json-report.js';
import { iterationStatistics } from '#src/cli/perf/statistics.js';

const REPORT: PerfReport = {
  startTime: '2026-01-02 03:04:05',
  endTime: '2026-01-02 03:04:06',
  args: ['tutti', 'perf', '-b', '8'],
  env: ['NCCL_DEBUG=INFO'],
  sweep: { minBytes: 8, maxBytes: 64, stepBytes: 1048576, stepFactor: 2 },
  threads: 2,
  gpus: 1,
  graphs: 0,
  warmupIterations: 1,
  iterations: 20,
  aggregated: 1,
  checks: 1,
  blocking: 0,
  perIteration: false,
  perIterationSkip: 0,
  cpuTime: false,
  ranks: [{ rank: 0, group: 0, pid: 12, host: 'node1', device: 0, address: 'host', model: 'Some/CPU' }],
  rows: [
    {
      bytes: 8,
      count: 2,
      type: 'float',
      op: 'sum',
      root: -1,
      outOfPlace: { timeUs: 1.5, algbw: 0.25, busbw: Number.NaN, wrong: 0 },
      inPlace: { timeUs: 2, algbw: 0.5, busbw: 0.75 },
    },
  ],
  summary: { failedChecks: 0, averageBusBandwidth: 0.75, lastError: '' },
};

describe('JSON report', () => {
  it('has the keys of nccl-tests in their order, without blanks', () => {
    expect(formatJsonReport(REPORT)).toBe(
      [
        '{"version":3,"start_time":"2026-01-02 03:04:05","args":["tutti","perf","-b","8"],',
        '"env":["NCCL_DEBUG=INFO"],"nccl_version":23007,',
        '"config":{"nthreads":2,"ngpus":1,"minimum_bytes":8,"maximum_bytes":64,"step_factor":2,',
        '"warmup_iters":1,"iterations":20,"aggregated_iterations":1,"validation":1,"graph":0,',
        '"blocking_collectives":0,"per_iter_timing":"false","per_iter_skip":0,"parallel_init":"false",',
        '"devices":[{"rank":0,"group":0,"pid":12,"hostname":"node1","device":0,"device_hex":"host",',
        '"device_info":"Some\\/CPU"}]},',
        '"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",',
        '"out_of_place":{"time":1.500000,"alg_bw":0.250000,"bus_bw":"nan","nwrong":0.000000},',
        '"in_place":{"time":2.000000,"alg_bw":0.500000,"bus_bw":0.750000,"nwrong":null},',
        '"actual_iterations":20,"experiment_name":""}],',
        '"out_of_bounds":{"count":0,"okay":"true"},',
        '"average_bus_bandwidth":{"bandwidth":0.750000,"okay":"unchecked"},',
        '"errors":[""],"end_time":"2026-01-02 03:04:06"}\n',
      ].join(''),
    );
  });

  it('writes cpu times, byte steps, verdicts and per-iteration figures when there are any', () => {
    const row = REPORT.rows[0]!;
    const json = JSON.parse(
      formatJsonReport({
        ...REPORT,
        cpuTime: true,
        perIteration: true,
        sweep: { ...REPORT.sweep, stepFactor: 1 },
        rows: [
          { ...row, outOfPlace: { ...row.outOfPlace, iterations: iterationStatistics([9, 1, 2, 3], 1) } },
        ],
        summary: { failedChecks: 2, averageBusBandwidth: 1, requiredBusBandwidth: 2, lastError: 'e' },
      }),
    );
    expect(json.config).toMatchObject({ step_bytes: 1048576, per_iter_timing: 'true' });
    expect(json.config).not.toHaveProperty('step_factor');
    expect(json.results[0].out_of_place).toHaveProperty('cpu_time', 1.5);
    expect(json.results[0].out_of_place_per_iter).toMatchObject({
      skipped_iterations: 1,
      min_us: 1,
      max_us: 3,
      avg_us: 2,
      times_us: [9, 1, 2, 3],
    });
    expect(json.results[0]).not.toHaveProperty('in_place_per_iter');
    const { inPlace: _, ...oneSided } = row;
    const { results } = JSON.parse(formatJsonReport({ ...REPORT, rows: [oneSided] }));
    expect(results[0].in_place).toBeNull();
    expect(json.out_of_bounds).toEqual({ count: 2, okay: 'false' });
    expect(json.average_bus_bandwidth).toEqual({ bandwidth: 1, okay: 'false' });
    expect(json.errors).toEqual(['e']);
  });

  it('is valid JSON whatever the strings and numbers hold', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary' })),
        fc.string({ unit: 'grapheme' }),
        fc.double(),
        (args, error, value) => {
          const row = REPORT.rows[0]!;
          const json = JSON.parse(
            formatJsonReport({
              ...REPORT,
              args,
              rows: [{ ...row, inPlace: { timeUs: value, algbw: value, busbw: value, wrong: value } }],
              summary: { ...REPORT.summary, averageBusBandwidth: value, lastError: error },
            }),
          );
          expect(json.args).toEqual(args);
          expect(json.errors).toEqual([error]);
          if (Number.isNaN(value)) expect(json.results[0].in_place.time).toBe('nan');
          else if (Number.isFinite(value)) {
            expect(Math.abs(json.results[0].in_place.time - value)).toBeLessThanOrEqual(
              5e-7 + Math.abs(value) * 1e-15,
            );
          }
        },
      ),
    );
  });
});

describe('report file', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tutti-perf-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('never overwrites: the second goes to .0, the third to .1', () => {
    const path = join(folder, 'out.json');
    writeFileSync(path, 'mine');
    const first = createReportFile(path);
    const second = createReportFile(path);
    expect([first.path, second.path]).toEqual([`${path}.0`, `${path}.1`]);
    first.write('text');
    expect(readFileSync(`${path}.0`, 'utf8')).toBe('text');
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('tells which place cannot be written', () => {
    expect(() => createReportFile(join(folder, 'no', 'out.json'))).toThrow(
      /cannot create the report file .*out\.json/,
    );
  });
});
