/**
 * A tuner that follows rules from a CSV file, one per line, as NCCL's example plugin reads them:
 *
 *     collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]
 *
 * -1 stands for any; '#' begins a comment. The first rule that fits a call makes its candidate free (cost 0) and, unless
 * -1, sets the channels. A candidate that is not available stays so, with a warning. Reading the file
 * (NCCL_TUNER_CONFIG_FILE, or nccl_tuner.conf in the working directory) is for the caller.
 */
import { TuttiError } from '../errors/tutti-error.js';
import type { LogSink } from '../topology/log.js';
import { countText } from '../topology/report/quantities.js';
import { MAX_CHANNELS } from '../topology/settings.js';
import {
  cellOf,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclAlgorithm,
  type NcclFunction,
  type NcclProtocol,
} from './names.js';
import { nearestName } from './nearest-name.js';
import type { CostTable, Tuner, TunerCall, TunerCommunicator, TunerPlugin } from './tuner.js';

/** File that is read if NCCL_TUNER_CONFIG_FILE is not set. */
export const DEFAULT_TUNER_FILE = 'nccl_tuner.conf';

/** One line; `undefined` stands for any. */
export interface TunerRule {
  /** Line of the file, from 1. */
  readonly line: number;
  readonly function: NcclFunction;
  /** Bytes of a message, both ends included. */
  readonly minBytes: number | undefined;
  readonly maxBytes: number | undefined;
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
  /** Channels to use; `undefined` leaves them to the model. */
  readonly channels: number | undefined;
  readonly nNodes: number | undefined;
  readonly nRanks: number | undefined;
  readonly pipelined: number | undefined;
  readonly registered: boolean | undefined;
}

/** Fields of a line: those that must be there, and all. */
const REQUIRED_FIELDS = 8;
const FIELDS = [
  'collective',
  'minBytes',
  'maxBytes',
  'algorithm',
  'protocol',
  'channels',
  'nNodes',
  'nRanks',
  'numPipeOps',
  'regBuff',
] as const;
type Field = (typeof FIELDS)[number];

/**
 * Reads the rules of a file.
 *
 * @param file name for messages
 * @throws TuttiError invalidUsage naming file, line and field
 */
export function parseTunerRules(text: string, file: string): TunerRule[] {
  const rules: TunerRule[] = [];
  for (const [index, whole] of text.split(/\r\n|\n|\r/).entries()) {
    const content = whole.replace(/#.*/, '').trim();
    if (content !== '') rules.push(parseRule(content, index + 1, `${file}:${index + 1}`));
  }
  return rules;
}

function parseRule(content: string, line: number, where: string): TunerRule {
  const fields = content.split(',').map((field) => field.trim());
  if (fields.length < REQUIRED_FIELDS || fields.length > FIELDS.length) {
    throw new TuttiError(
      'invalidUsage',
      `${where}: ${fields.length} fields; a rule is ${FIELDS.slice(0, REQUIRED_FIELDS).join(',')}[,numPipeOps[,regBuff]]`,
    );
  }
  const field = (name: Field): string | undefined => fields[FIELDS.indexOf(name)];
  const name = <T extends string>(of: Field, names: readonly T[]): T =>
    parseName(where, of, field(of)!, names);
  const number = (of: Field): number | undefined => parseNumber(where, of, field(of));
  const channels = number('channels');
  if (channels !== undefined && (channels < 1 || channels > MAX_CHANNELS)) {
    throw new TuttiError('invalidUsage', `${where}: ${channels} channels; use 1 to ${MAX_CHANNELS}, or -1`);
  }
  const registered = number('regBuff');
  if (registered !== undefined && registered > 1) {
    throw new TuttiError('invalidUsage', `${where}: regBuff ${registered}; use 0, 1, or -1 for any`);
  }
  const [minBytes, maxBytes] = [number('minBytes'), number('maxBytes')];
  if (minBytes !== undefined && maxBytes !== undefined && minBytes > maxBytes) {
    throw new TuttiError(
      'invalidUsage',
      `${where}: minBytes ${minBytes} is above maxBytes ${maxBytes}, so no size fits; swap them`,
    );
  }
  return {
    line,
    function: name('collective', NCCL_FUNCTIONS),
    minBytes,
    maxBytes,
    algorithm: name('algorithm', NCCL_ALGORITHMS),
    protocol: name('protocol', NCCL_PROTOCOLS),
    channels,
    nNodes: number('nNodes'),
    nRanks: number('nRanks'),
    pipelined: number('numPipeOps'),
    registered: registered === undefined ? undefined : registered === 1,
  };
}

/** Names in any case, with or without underscores: `collnet_direct`, `CollNetDirect`. */
function parseName<T extends string>(where: string, field: Field, text: string, names: readonly T[]): T {
  const plain = text.toLowerCase().replaceAll('_', '');
  const found = names.find((name) => name.toLowerCase() === plain);
  if (found !== undefined) return found;
  const nearest = nearestName(text, names);
  const meant = nearest === undefined ? '' : ` (did you mean ${nearest.toLowerCase()}?)`;
  throw new TuttiError(
    'invalidUsage',
    `${where}: ${field} '${text}' is unknown${meant}; use one of ${names.join(', ').toLowerCase()}`,
  );
}

function parseNumber(where: string, field: Field, text: string | undefined): number | undefined {
  if (text === undefined || text === '-1') return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new TuttiError(
    'invalidUsage',
    `${where}: ${field} '${text}' is no whole number from 0 on, nor -1 for any`,
  );
}

/** A tuner that follows rules. */
export function ruleTuner(rules: readonly TunerRule[], name = 'rules'): TunerPlugin {
  return { name, init: (communicator, _constants, log) => new RuleTuner(name, rules, communicator, log) };
}

class RuleTuner implements Tuner {
  readonly repeatable = true;
  /** Those for this communicator, in the order of the file. */
  readonly #rules: readonly TunerRule[];
  readonly #log: LogSink;
  /** Rules of which it was said that they cannot be followed. */
  readonly #useless = new Set<TunerRule>();

  constructor(
    name: string,
    rules: readonly TunerRule[],
    { nRanks, nNodes }: TunerCommunicator,
    log: LogSink,
  ) {
    this.#rules = rules.filter((rule) => fits(rule.nRanks, nRanks) && fits(rule.nNodes, nNodes));
    this.#log = log;
    if (this.#rules.length > 0) return;
    const why =
      rules.length === 0
        ? 'has no rules'
        : `has no rule for ${countText(nRanks, 'rank')} on ${countText(nNodes, 'node')}`;
    log('WARN', 'TUNING', `Tuner ${name} ${why}, so it changes nothing`);
  }

  getCollInfo(call: TunerCall, costs: CostTable): number {
    const rule = this.#rules.find((one) => matches(one, call));
    if (rule === undefined) return 0;
    const cell = cellOf(rule.algorithm, rule.protocol);
    if (costs[cell]! < 0) {
      if (!this.#useless.has(rule)) {
        this.#useless.add(rule);
        this.#log(
          'WARN',
          'TUNING',
          `Tuner rule of line ${rule.line} is not used: ${rule.algorithm} with ${rule.protocol} cannot run ` +
            `${call.function} of ${call.bytes} bytes here`,
        );
      }
      return 0;
    }
    costs[cell] = 0;
    return rule.channels ?? 0;
  }
}

const fits = <T>(wanted: T | undefined, actual: T): boolean => wanted === undefined || wanted === actual;

const matches = (rule: TunerRule, { function: fn, bytes, pipelined, registered }: TunerCall): boolean =>
  rule.function === fn &&
  bytes >= (rule.minBytes ?? 0) &&
  bytes <= (rule.maxBytes ?? Number.POSITIVE_INFINITY) &&
  fits(rule.pipelined, pipelined) &&
  fits(rule.registered, registered);
