/**
 * Loads a tuner that the user names: an ES module, or a CSV file of rules.
 *
 * A module exports what `TunerPlugin` says, as its own names (`init`, and `name` if it likes) or as its default export.
 */
import { basename, extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { TuttiError } from '../../errors/tutti-error.js';
import { readInput } from '../../topology/detect/input-file.js';
import { parseTunerRules, ruleTuner } from '../../tuning/csv-tuner.js';
import type { Tuner, TunerPlugin } from '../../tuning/tuner.js';

const MODULE_SUFFIXES: readonly string[] = ['.js', '.mjs', '.cjs'];

/** Rules that people write are a few kilobytes. */
const MAX_RULES_BYTES = 16 * 2 ** 20;

/** A module that has not finished by then never will. */
const LOAD_LIMIT_MS = 10_000;

/**
 * Loads a tuner.
 *
 * @param limit milliseconds that a module may take to load
 * @throws TuttiError invalidUsage naming the file and what is wrong with it
 */
export function loadTuner(path: string, limit: number = LOAD_LIMIT_MS): Promise<TunerPlugin> {
  return MODULE_SUFFIXES.includes(extname(path))
    ? moduleTuner(path, limit)
    : Promise.resolve().then(() => csvTuner(path));
}

function csvTuner(path: string): TunerPlugin {
  let text: string;
  try {
    text = readInput(path, MAX_RULES_BYTES).toString('utf8');
  } catch (cause) {
    throw broken(path, `it cannot be read: ${messageOf(cause)}`, cause);
  }
  return ruleTuner(parseTunerRules(text, path), basename(path));
}

async function moduleTuner(path: string, limit: number): Promise<TunerPlugin> {
  let module: Record<string, unknown>;
  try {
    const loading = import(pathToFileURL(resolve(path)).href) as Promise<Record<string, unknown>>;
    module = await withinLimit(loading, limit);
  } catch (cause) {
    throw broken(path, `the module cannot be loaded: ${messageOf(cause)}`, cause);
  }
  const plugin = [module, module.default].find(hasInit);
  if (plugin === undefined) {
    throw broken(path, 'the module exports no function init, nor a default export that has one');
  }
  const name = typeof plugin.name === 'string' && plugin.name !== '' ? plugin.name : basename(path);
  return {
    name,
    init(communicator, constants, log) {
      const tuner: unknown = plugin.init(communicator, constants, log);
      if (!isTuner(tuner)) {
        throw broken(path, 'its init returned no tuner, which is an object with a function getCollInfo');
      }
      return tuner;
    },
  };
}

/** A promise's value, or an error if it takes too long. */
async function withinLimit<T>(promise: Promise<T>, limit: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not finish within ${limit / 1000} s`)), limit);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const hasInit = (value: unknown): value is TunerPlugin =>
  typeof value === 'object' && value !== null && typeof (value as TunerPlugin).init === 'function';

const isTuner = (value: unknown): value is Tuner =>
  typeof value === 'object' && value !== null && typeof (value as Tuner).getCollInfo === 'function';

const broken = (path: string, what: string, cause?: unknown): TuttiError =>
  new TuttiError('invalidUsage', `tuner ${path}: ${what}`, cause === undefined ? {} : { cause });

const messageOf = (error: unknown): string => {
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n')[0]!;
};
