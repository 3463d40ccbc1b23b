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
import { refusePromise, type Tuner, type TunerPlugin } from '../../tuning/tuner.js';
import { callWithin, importWithin } from './time-limit.js';

const MODULE_SUFFIXES: readonly string[] = ['.js', '.mjs', '.cjs'];

/** Rules that people write are a few kilobytes. */
const MAX_RULES_BYTES = 16 * 2 ** 20;

/** A module that has not loaded, or answered a call, by then never will. */
const LIMIT_MS = 10_000;

/**
 * Loads a tuner.
 *
 * @param limit milliseconds that a module may take to load, and each of its calls
 * @throws TuttiError invalidUsage naming the file and what is wrong with it
 */
export function loadTuner(path: string, limit: number = LIMIT_MS): Promise<TunerPlugin> {
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
  let plugin: TunerPlugin | undefined;
  let ownName: unknown;
  try {
    const module = await importWithin(pathToFileURL(resolve(path)), limit);
    plugin = [module, module.default].find(hasInit);
    ownName = plugin?.name;
  } catch (cause) {
    throw broken(path, `the module cannot be loaded: ${messageOf(cause)}`, cause);
  }
  if (plugin === undefined) {
    throw broken(path, 'the module exports no function init, nor a default export that has one');
  }
  const { init } = plugin;
  const name = typeof ownName === 'string' && ownName !== '' ? ownName : basename(path);
  return {
    name,
    init(communicator, constants, log) {
      const tuner: unknown = callWithin(() => init.call(plugin, communicator, constants, log), limit);
      refusePromise(name, 'init', tuner);
      if (!isTuner(tuner)) {
        throw broken(path, 'its init returned no tuner, which is an object with a function getCollInfo');
      }
      return limited(tuner, limit);
    },
  };
}

/** A tuner whose methods end. */
function limited(tuner: Tuner, limit: number): Tuner {
  return {
    repeatable: tuner.repeatable === true,
    getCollInfo: (call, costs) => callWithin(() => tuner.getCollInfo(call, costs), limit),
    ...(tuner.getChunkSize === undefined
      ? {}
      : { getChunkSize: (call) => callWithin(() => tuner.getChunkSize!(call), limit) }),
    finalize: () => callWithin(() => tuner.finalize?.(), limit),
  };
}

const hasInit = (value: unknown): value is TunerPlugin =>
  (typeof value === 'function' || (typeof value === 'object' && value !== null)) &&
  typeof (value as TunerPlugin).init === 'function';

const isTuner = (value: unknown): value is Tuner =>
  typeof value === 'object' && value !== null && typeof (value as Tuner).getCollInfo === 'function';

const broken = (path: string, what: string, cause?: unknown): TuttiError =>
  new TuttiError('invalidUsage', `tuner ${path}: ${what}`, cause === undefined ? {} : { cause });

const messageOf = (error: unknown): string => {
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n')[0]!;
};
