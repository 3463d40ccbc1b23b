/**
 * Tables of nccl-tests, of any version, also where log lines run through them: a row that a log line cuts goes on
 * behind it.
 */
import type { BenchRow, BenchRun, BenchSide } from '../model/bench.js';
import { type FileContext, here, kind, type LineReader } from './file-context.js';

const DEVICE =
  /^# +Rank +(\d+) (?:Group +\d+ )?Pid +(\d+) on +(\S+) device +(\d+) \[(?:[0-9a-fA-F]+:)?[0-9a-fA-Fx]+(?::[0-9a-fA-F]+)?\] (.+)$/;
const VERSION = /^# nccl-tests version \S+/;
const START = /^# Collective test starting: (\S+)/;
const OPTIONS = /^# nThread \d+ nGpus \d+ minBytes /;
const COLUMNS = /^# +size +count +type/;
const AVERAGE = /^# Avg bus bandwidth +: +([\d.eE+-]+|-?nan)/;
const OUT_OF_BOUNDS = /^# Out of bounds values +: +(\d+) (OK|FAILED)/;
const CONCLUDED = /^# Collective test concluded: (\S+)/;
const ROW_START = /^ *\d+ +\d+ +[a-z][a-z0-9_]+ /;
const NUMBERS = /^ *(?:[\d.]+(?:e[+-]?\d+)?|N\/A|nan)(?: +(?:[\d.]+(?:e[+-]?\d+)?|N\/A|nan))*\s*$/i;

/** time, algbw, busbw, #wrong */
const SIDE = 4;

interface Columns {
  /** Fields before the times: size, count, type, and redop and root where the collective has them. */
  readonly left: number;
  /** Fields of one side: more with per-iteration columns. */
  readonly side: number;
}

const USUAL: Columns = { left: 5, side: SIDE };

export function ncclTestsReader(context: FileContext): LineReader & { fragment(text: string): void } {
  let columns = USUAL;
  let pending: string[] | undefined;
  let pendingAt: BenchRow['at'] | undefined;

  const begin = (): BenchRun => {
    const run: BenchRun = {
      at: here(context),
      program: undefined,
      devices: [],
      rows: [],
      average: undefined,
      outOfBounds: undefined,
      concluded: undefined,
      command: context.command,
    };
    context.job.benches.push(run);
    context.bench = run;
    return run;
  };
  /** The run that a line of a preamble belongs to: a new one, once the last has gone on to devices. */
  const preamble = (): BenchRun => {
    const run = context.bench;
    const isFresh = run !== undefined && run.devices.length === 0 && run.rows.length === 0 && !run.concluded;
    return isFresh ? run : begin();
  };
  const table = (): BenchRun =>
    context.bench === undefined || context.bench.concluded !== undefined ? begin() : context.bench;

  const take = (fields: string[], at: BenchRow['at']): boolean => {
    const row = rowOf(fields, columns, at);
    if (row === undefined) return false;
    table().rows.push(row);
    pending = undefined;
    return true;
  };

  const data = (line: string): boolean => {
    if (ROW_START.test(line)) {
      const fields = line.trim().split(/\s+/);
      if (fields.length >= columns.left + 2 * columns.side) return take(fields, here(context));
      pending = fields;
      pendingAt = here(context);
      return true;
    }
    if (pending === undefined || !NUMBERS.test(line)) return false;
    pending.push(...line.trim().split(/\s+/));
    if (pending.length >= columns.left + 2 * columns.side) return take(pending, pendingAt!);
    return true;
  };

  const read = (line: string): boolean => {
    if (!line.startsWith('#')) {
      const first = line.charCodeAt(0);
      // Rows are indented or begin with a digit.
      if (first !== 32 && !(first >= 48 && first <= 57)) return false;
      return data(line) && kind(context, 'nccl-tests');
    }
    if (VERSION.test(line)) {
      const run = preamble();
      if (run.program !== undefined) begin();
      return kind(context, 'nccl-tests');
    }
    const start = START.exec(line);
    if (start !== null) {
      const run = preamble();
      (run.program === undefined ? run : begin()).program = start[1];
      return kind(context, 'nccl-tests');
    }
    const device = DEVICE.exec(line);
    if (device !== null) {
      // A list of devices below a table is that of the next run.
      const run = context.bench === undefined || context.bench.rows.length > 0 ? begin() : context.bench;
      run.devices.push({
        rank: Number(device[1]),
        pid: Number(device[2]),
        host: device[3]!,
        device: Number(device[4]),
        gpu: device[5]!.trim(),
        at: here(context),
      });
      return true;
    }
    if (COLUMNS.test(line)) {
      columns = columnsOf(line);
      table();
      return kind(context, 'nccl-tests');
    }
    const average = AVERAGE.exec(line);
    if (average !== null) {
      table().average = { busGBs: Number(average[1]), at: here(context) };
      return true;
    }
    const bounds = OUT_OF_BOUNDS.exec(line);
    if (bounds !== null) {
      table().outOfBounds = { count: Number(bounds[1]), at: here(context) };
      return true;
    }
    const concluded = CONCLUDED.exec(line);
    if (concluded !== null) {
      const run = table();
      run.program ??= concluded[1];
      run.concluded = here(context);
      return true;
    }
    return OPTIONS.test(line);
  };
  return Object.assign(read, {
    fragment: (text: string) => {
      data(text);
    },
  });
}

function columnsOf(header: string): Columns {
  const names = header.slice(1).trim().split(/\s+/);
  const first = names.findIndex((name) => name === 'time' || name === 'cputime');
  const second = names.findIndex((name, i) => i > first && (name === 'time' || name === 'cputime'));
  return first < 0 || second < 0 ? USUAL : { left: first, side: second - first };
}

function rowOf(fields: readonly string[], { left, side }: Columns, at: BenchRow['at']): BenchRow | undefined {
  const bytes = Number(fields[0]);
  const outOfPlace = sideOf(fields.slice(left, left + side));
  if (!Number.isFinite(bytes) || outOfPlace === undefined) return undefined;
  return { bytes, outOfPlace, inPlace: sideOf(fields.slice(left + side, left + 2 * side)), at };
}

function sideOf(fields: readonly string[]): BenchSide | undefined {
  const [time, algorithm, bus] = fields.slice(0, 3).map(Number) as [number, number, number];
  if (![time, algorithm, bus].every((value) => Number.isFinite(value))) return undefined;
  const wrong = Number(fields[3]);
  return {
    timeUs: time,
    algGBs: algorithm,
    busGBs: bus,
    wrong: Number.isFinite(wrong) ? wrong : undefined,
  };
}
