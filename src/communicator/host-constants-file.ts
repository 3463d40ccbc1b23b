/**
 * The file of constants of the host's cost model that `tutti tune --fit` writes, as communicators read it when they are
 * made. Rank 0 reads it for all (process-team.ts), so that all ranks choose alike.
 */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { TuttiError } from '../errors/tutti-error.js';
import { coreCount } from '../system/core-count.js';
import { type HostConstants, parseConstants, STANDARD_CONSTANTS } from '../tuning/host/constants.js';
import type { HostModel } from '../tuning/host/host-model.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Value of TUTTI_TUNING_FILE with which no file is read. */
const NO_FILE = 'none';

/** Far more than a file of constants has, bytes. */
const MOST_BYTES = 1 << 20;

export interface ConstantsPath {
  /** Undefined: no file is to be read. */
  readonly path: string | undefined;
  /** The user has named it: it must be there and right. */
  readonly isNamed: boolean;
}

/** TUTTI_TUNING_FILE, or `tutti/host-tuning.json` in the folder of the user's settings. */
export function constantsPath(env: Environment): ConstantsPath {
  const named = env.TUTTI_TUNING_FILE;
  if (named === NO_FILE) return { path: undefined, isNamed: true };
  if (named !== undefined && named !== '') return { path: named, isNamed: true };
  const { XDG_CONFIG_HOME } = env;
  const folder =
    XDG_CONFIG_HOME === undefined || XDG_CONFIG_HOME === '' ? join(homedir(), '.config') : XDG_CONFIG_HOME;
  return { path: join(folder, 'tutti', 'host-tuning.json'), isNamed: false };
}

/**
 * The model of this process: constants of the file, or the standard ones, and the cores of this host. A file that nobody
 * has named and that cannot be read is left out, and `warn` is told.
 *
 * @throws TuttiError invalidUsage where the file of TUTTI_TUNING_FILE is missing or wrong
 */
export function readHostModel(
  env: Environment,
  warn: (text: string) => void = (text) => process.emitWarning(text),
): HostModel {
  const cores = coreCount();
  const { path, isNamed } = constantsPath(env);
  if (path !== undefined) {
    try {
      const constants = readConstants(path, isNamed);
      if (constants !== undefined) return { constants, cores, source: path };
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      const text = `constants of the host's cost model: ${path}: ${error.message}; run 'tutti tune --fit' to write it anew`;
      if (isNamed) {
        throw new TuttiError('invalidUsage', `${text}, or unset TUTTI_TUNING_FILE`, { cause: error });
      }
      warn(`${text}, or remove it. The standard ones are used`);
    }
  }
  return { constants: STANDARD_CONSTANTS, cores, source: undefined };
}

/** Undefined where nobody has asked for the file and it is not there. */
function readConstants(path: string, isNamed: boolean): HostConstants | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (!isNamed && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    throw new TuttiError('invalidUsage', code === 'ENOENT' ? 'there is no such file' : message, { cause });
  }
  if (bytes.length > MOST_BYTES) {
    throw new TuttiError('invalidUsage', `it has ${bytes.length} bytes; ${MOST_BYTES} are the most`);
  }
  return parseConstants(bytes.toString('utf8'));
}
