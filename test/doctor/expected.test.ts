/** Expected numbers: NCCL's own tables read back, and real machines beside them. */

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectations, fitted } from '#src/doctor/expected.js';
import { textReport } from '#src/doctor/report/text.js';
import { plainStyle } from '#src/topology/report/style.js';
import { entryOf } from '#src/tuning/names.js';
import { CASES, examine } from './case-files.js';

const FOLDER = fileURLToPath(new URL('../cases/healthy-logs', import.meta.url));
const LOGS = readdirSync(FOLDER).filter((name) => name.endsWith('.log'));
const read = (name: string): string => readFileSync(`${FOLDER}/${name}`, 'utf8');

describe('a healthy log of a real machine', () => {
  it.each(LOGS)('%s has no finding and is said to be healthy in one line', async (name) => {
    const { job, verdicts } = await examine([[name, read(name)]]);
    expect(verdicts).toEqual([]);
    const lines = textReport(job, verdicts, plainStyle(), () => undefined);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^healthy: no fault found in 1 file: 1 host, logs of \d of \d ranks?, NCCL 2\.2[89]\.\d/,
    );
  });

  it('of rows that lines of the log cut gives every row', async () => {
    const { job } = await examine([['h100-g4_auto.log', read('h100-g4_auto.log')]]);
    expect(
      job.benches.flatMap(({ rows }) =>
        rows.map(({ bytes, outOfPlace, inPlace }) => [bytes, outOfPlace.timeUs, inPlace?.wrong]),
      ),
    ).toEqual([
      [268435456, 1185.5, 0],
      [536870912, 2319.36, 0],
      [1073741824, 4551.86, 0],
      [2147483648, 8971.31, 0],
      [4294967296, 17742.8, 0],
      [8589934592, 35294, 0],
    ]);
  });

  it('has the estimates that NCCL printed, and its times lie near them', async () => {
    const { job } = await examine([['h100-g4_auto.log', read('h100-g4_auto.log')]]);
    const { tuning } = job.processes.find((one) => one.tuning !== undefined)!;
    expect(tuning!.bandwidths[entryOf('AllReduce', 'Ring', 'Simple')]).toBeCloseTo(240, 3);
    const [run] = expectations(job);
    expect(run!.rows).toHaveLength(6);
    for (const { measuredUs, predictedUs, by, chosen } of run!.rows) {
      expect({ by, chosen }).toEqual({ by: 'Ring/Simple', chosen: 'RING/SIMPLE' });
      expect(measuredUs / predictedUs).toBeGreaterThan(0.95);
      expect(measuredUs / predictedUs).toBeLessThan(1.05);
    }
    expect(run!.ceilingBusGBs).toBeCloseTo(360, 0);
  });
});

describe('a topology file', () => {
  it('tells what each size should take, and what would be faster without the variable', async () => {
    const topology = readFileSync(
      new URL('../golden/azure-ndv5-h100x8-8x400g/topo.xml', import.meta.url),
      'latin1',
    );
    const { files } = CASES.find(({ name }) => name === 'protocol-forced-to-ll')!;
    const { job } = await examine([...files, ['topo.xml', topology]]);
    const [run] = expectations(job);
    for (const { by, faster, measuredUs } of run!.rows) {
      expect(by).toBe('Ring/LL');
      expect(faster!.by).toBe('NVLS/Simple');
      expect(measuredUs / faster!.us).toBeGreaterThan(4);
    }
  });
});

describe('the fit of measured times', () => {
  it('gives back fixed cost and bandwidth', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 1, max: 100, noNaN: true }),
        fc.double({ min: 0.5, max: 500, noNaN: true }),
        (fixedUs, GBs) => {
          const rows = Array.from({ length: 12 }, (_, i) => {
            const bytes = 1024 * 4 ** i;
            const side = { timeUs: fixedUs + bytes / (GBs * 1e3), algGBs: 1, busGBs: 1, wrong: 0 };
            return { bytes, outOfPlace: side, inPlace: undefined, at: { file: 'x', line: 1 } };
          });
          const fit = fitted(rows)!;
          expect(fit.fixedUs).toBeCloseTo(fixedUs, 3);
          expect(fit.GBs / GBs).toBeCloseTo(1, 3);
        },
      ),
    );
  });
});
