/**
 * The constants of the host's cost model for every collective, algorithm and protocol, and how a file of them is read and
 * written (docs/tuning.md).
 *
 * Standard constants are those that `tutti tune --fit` found on the machine named in standard-constants.ts. They are
 * rough elsewhere: what matters is which candidate is faster, and that follows from the same causes everywhere.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { nearestName } from '../nearest-name.js';
import { candidateName, candidatesFor, DATA_COLLECTIVES, type DataCollective } from './candidates.js';
import type { CandidateConstants, HostPath, HostTable, Latency } from './cost.js';
import { STANDARD_SOCKET, STANDARD_WINDOW } from './standard-constants.js';

export type HostConstants = Readonly<Record<HostPath, HostTable>>;

export const STANDARD_CONSTANTS: HostConstants = { window: STANDARD_WINDOW, socket: STANDARD_SOCKET };

const FORMAT = 'tutti host constants';
const VERSION = 1;

/** Facts about a fit, for whoever reads the file; nothing else reads them. */
export type FitFacts = Readonly<Record<string, string | number>>;

export function constantsText(constants: HostConstants, facts: FitFacts): string {
  const text = JSON.stringify({ format: FORMAT, version: VERSION, ...facts, ...constants }, null, 1);
  // A line for each candidate: the numbers of one belong together.
  return `${text.replaceAll(/\{\s+"alone"[^\]]*\]\s+\}/g, (one) => one.replaceAll(/\s+/g, ' '))}\n`;
}

/**
 * Constants of a file's text. What the file leaves out stays as it is by standard.
 *
 * @throws TuttiError invalidUsage naming the place, what is there and what would be right
 */
export function parseConstants(text: string): HostConstants {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw wrong(`it is no JSON (${(cause as Error).message})`, cause);
  }
  const { format, version, window, socket } = objectAt('the file', document);
  if (format !== FORMAT) throw wrong(`"format" is ${shown(format)}, not "${FORMAT}"`);
  if (version !== VERSION) throw wrong(`"version" is ${shown(version)}; this tutti reads ${VERSION}`);
  return {
    window: tableAt('window', window, STANDARD_WINDOW),
    socket: tableAt('socket', socket, STANDARD_SOCKET),
  };
}

function tableAt(place: string, value: unknown, standard: HostTable): HostTable {
  if (value === undefined) return standard;
  const table: Record<DataCollective, Readonly<Record<string, CandidateConstants>>> = { ...standard };
  for (const [name, own] of Object.entries(objectAt(place, value))) {
    const collective = known(`${place}.${name}`, name, DATA_COLLECTIVES);
    const names = candidatesFor(collective).map(candidateName);
    const rows = Object.entries(objectAt(`${place}.${name}`, own)).map(([row, constants]) => {
      const at = `${place}.${name}.${row}`;
      return [known(at, row, names), constantsAt(at, constants)] as const;
    });
    table[collective] = { ...table[collective], ...Object.fromEntries(rows) };
  }
  return table;
}

function constantsAt(place: string, value: unknown): CandidateConstants {
  const { alone, crowded, bandwidth } = objectAt(place, value);
  if (!Array.isArray(bandwidth) || bandwidth.length !== 3) {
    throw wrong(`${place}.bandwidth is ${shown(bandwidth)}; it must be three numbers`);
  }
  const [near, shared, far] = bandwidth.map((one, i) => numberAt(`${place}.bandwidth[${i}]`, one));
  return {
    alone: latencyAt(`${place}.alone`, alone),
    crowded: latencyAt(`${place}.crowded`, crowded),
    bandwidth: [near!, shared!, far!],
  };
}

function latencyAt(place: string, value: unknown): Latency {
  const { start, step } = objectAt(place, value);
  return { start: numberAt(`${place}.start`, start), step: numberAt(`${place}.step`, step) };
}

/** Far above and below everything that can be measured, and far from where sums lose their digits. */
const LEAST = 1e-6;
const MOST = 1e9;

function numberAt(place: string, value: unknown): number {
  if (typeof value === 'number' && value >= LEAST && value <= MOST) return value;
  throw wrong(`${place} is ${shown(value)}; it must be a number from ${LEAST} to ${MOST}`);
}

function objectAt(place: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw wrong(`${place} is ${shown(value)}; it must be an object`);
}

function known<T extends string>(place: string, name: string, names: readonly T[]): T {
  const found = names.find((one) => one === name);
  if (found !== undefined) return found;
  const near = nearestName(name, names);
  const hint = near === undefined ? '' : ` (did you mean ${near}?)`;
  throw wrong(`${place} is unknown${hint}; there are ${names.join(', ')}`);
}

/** A value in a message, short. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 40 ? `${text.slice(0, 37)}...` : text;
}

const wrong = (what: string, cause?: unknown): TuttiError =>
  new TuttiError('invalidUsage', what, cause === undefined ? {} : { cause });
