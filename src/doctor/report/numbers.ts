/**
 * Measured rows beside what NCCL expected of them, for people.
 */

import { padEnd, padStart, type Style } from '../../topology/report/style.js';
import { type ExpectedRow, type ExpectedRun, expectations } from '../expected.js';
import { largest, smallest } from '../model/extremes.js';
import type { Job } from '../model/job.js';

const round = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

/** `512 KiB`. */
function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${Number(bytes.toFixed(1))} ${units[unit]}`;
}

/** Percent of the expected speed that was reached. */
const share = ({ measuredUs, predictedUs }: ExpectedRow): number =>
  Math.round((100 * predictedUs) / measuredUs);

/** Tables of all runs with expectations; what is missing where there are none. */
export function numberLines(job: Job, style: Style): string[] {
  const runs = expectations(job);
  if (runs.length === 0) {
    return [
      '',
      'no expected numbers: they need a table of nccl-tests together with the log of its rank 0 (NCCL_DEBUG_SUBSYS=TUNING) or a topology file of the machine',
    ];
  }
  return runs.flatMap((run) => ['', ...runLines(run, style)]);
}

function runLines(run: ExpectedRun, style: Style): string[] {
  const { program, table, rows, fit, ceilingBusGBs } = run;
  const header = ['size', 'measured us', 'expected us', 'speed', 'expected with', 'note'];
  const cells = rows.map((row) => [
    sizeText(row.bytes),
    round(row.measuredUs),
    round(row.predictedUs),
    `${share(row)} %`,
    row.by,
    row.faster === undefined
      ? (row.chosen ?? '').replace('_', '').toLowerCase() === row.by.toLowerCase() || row.chosen === undefined
        ? ''
        : `ran with ${row.chosen}`
      : `${row.faster.by} would take ${round(row.faster.us)} us`,
  ]);
  const widths = header.map((title, i) => Math.max(title.length, ...cells.map((line) => line[i]!.length)));
  const line = (parts: readonly string[]): string =>
    `  ${parts.map((part, i) => (i < 4 ? padStart(part, widths[i]!) : padEnd(part, widths[i]!))).join('  ')}`.trimEnd();
  return [
    style.strong(`${program}: measured and expected (estimates of ${table.file}:${table.line})`),
    style.dim(line(header)),
    ...cells.map(line),
    ...(fit === undefined
      ? []
      : [`  measured: ${round(fit.fixedUs)} us, and bytes at ${round(fit.GBs)} GB/s`]),
    ...(ceilingBusGBs > 0 ? [`  expected at most: ${round(ceilingBusGBs)} GB/s of bus bandwidth`] : []),
  ];
}

/** `all_reduce_perf at 92 to 101 % of what NCCL expects`, for the line of a healthy job. */
export function speedSummary(job: Job): string | undefined {
  const [run] = expectations(job);
  if (run === undefined || run.rows.length === 0) return undefined;
  const shares = run.rows.map(share);
  return `${run.program} at ${smallest(shares)} to ${largest(shares)} % of the speed that NCCL expects`;
}
