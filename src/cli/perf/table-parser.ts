/**
 * Reads the text tables of `tutti perf` and of nccl-tests back into numbers.
 *
 * Numbers come back as they were printed, that is rounded to the two to six digits of the table.
 */
import { TuttiError } from '../../errors/tutti-error.js';

export interface ParsedSide {
  /** NaN for N/A: the side was not measured. */
  readonly timeUs: number;
  readonly algbw: number;
  readonly busbw: number;
  /** Absent for N/A. */
  readonly wrong?: number;
  /** With per-iteration columns. */
  readonly iterations?: { min: number; max: number; p99: number; variationPercent: number };
}

export interface ParsedRow {
  readonly bytes: number;
  readonly count: number;
  readonly type: string;
  readonly op: string;
  readonly root: number;
  readonly outOfPlace: ParsedSide;
  readonly inPlace: ParsedSide;
  readonly timestamp?: string;
}

export interface ParsedTable {
  /** First line without `# `, as `nccl-tests version 2.19.6 ...`. */
  readonly producer?: string;
  /** Program, as `all_reduce_perf`. */
  readonly program?: string;
  /** One entry per device line. */
  readonly devices: readonly string[];
  /** The time columns are `cputime`. */
  readonly isCpuTime: boolean;
  readonly rows: readonly ParsedRow[];
  readonly failedChecks?: number;
  readonly averageBusBandwidth?: number;
  /** OK or FAILED, when a bandwidth was required. */
  readonly bandwidthVerdict?: string;
  readonly error?: string;
}

/** size, count, type, operator, root */
const LEFT_FIELDS = 5;
/** time, algbw, busbw, #wrong */
const SIDE_FIELDS = 4;
/** i_min, i_max, i_p99, i_cv% */
const ITERATION_FIELDS = 4;
/** A time stamp is a date and a time. */
const TIMESTAMP_FIELDS = 2;

/** Parses a whole output. Throws `invalidArgument` with the line number for a row it cannot read. */
export function parseTable(text: string): ParsedTable {
  const table: { -readonly [K in keyof ParsedTable]: ParsedTable[K] } & {
    devices: string[];
    rows: ParsedRow[];
  } = { devices: [], rows: [], isCpuTime: false };
  let hasIterations = false;
  let hasTimestamps = false;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.startsWith('#')) {
      const content = line.slice(1).trim();
      const value = (label: string): string | undefined =>
        content.startsWith(label) ? content.slice(label.length).trim() : undefined;
      const failed = value('Out of bounds values :');
      const average = value('Avg bus bandwidth    :');
      if (/^size\s+count/.test(content)) {
        table.isCpuTime = content.includes('cputime');
        hasIterations = content.includes('i_min');
        hasTimestamps = content.includes('timestamp');
      } else if (content.startsWith('Rank ')) table.devices.push(content);
      else if (/^(nccl-tests|tutti perf) version/.test(content)) table.producer = content;
      else if (content.startsWith('Collective test starting:')) {
        table.program = content.slice(content.indexOf(':') + 1).trim();
      } else if (failed !== undefined) table.failedChecks = Number.parseInt(failed, 10);
      else if (average !== undefined) {
        const [number, verdict] = average.split(/\s+/);
        table.averageBusBandwidth = parseNumber(number!);
        if (verdict) table.bandwidthVerdict = verdict;
      } else if (content.startsWith('error:')) table.error = content.slice('error:'.length).trim();
    } else if (/^\s*\d/.test(line)) {
      table.rows.push(parseRow(line, index + 1, hasIterations, hasTimestamps));
    }
  }
  return table;
}

function parseRow(line: string, number: number, hasIterations: boolean, hasTimestamps: boolean): ParsedRow {
  const fields = line.trim().split(/\s+/);
  const perSide = SIDE_FIELDS + (hasIterations ? ITERATION_FIELDS : 0);
  const expected = LEFT_FIELDS + 2 * perSide + (hasTimestamps ? TIMESTAMP_FIELDS : 0);
  // Hypercube prints no operator name at all.
  if (fields.length === expected - 1) fields.splice(3, 0, '');
  if (fields.length !== expected) {
    throw new TuttiError(
      'invalidArgument',
      `line ${number} of the table has ${fields.length} fields where its header announces ${expected}`,
    );
  }
  const sides = fields.slice(LEFT_FIELDS, LEFT_FIELDS + 2 * perSide);
  const row = {
    bytes: Number(fields[0]),
    count: Number(fields[1]),
    type: fields[2]!,
    op: fields[3]!,
    root: Number(fields[4]),
    outOfPlace: parseSide(sides.slice(0, perSide), hasIterations),
    inPlace: parseSide(sides.slice(perSide), hasIterations),
  };
  return hasTimestamps ? { ...row, timestamp: fields.slice(-TIMESTAMP_FIELDS).join(' ') } : row;
}

function parseSide(fields: readonly string[], hasIterations: boolean): ParsedSide {
  const at = (index: number): number => parseNumber(fields[index]!);
  const side = {
    timeUs: at(0),
    algbw: at(1),
    busbw: at(2),
    ...(fields[3] === 'N/A' ? {} : { wrong: at(3) }),
  };
  if (!hasIterations) return side;
  return { ...side, iterations: { min: at(4), max: at(5), p99: at(6), variationPercent: at(7) } };
}

/** A number as C prints it, including nan and inf. */
function parseNumber(text: string): number {
  if (/^-?nan$/i.test(text)) return Number.NaN;
  if (/^-?inf$/i.test(text))
    return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(text);
}
