/**
 * Writes files whole or not at all: a full disk or an interrupted command leaves what was there before, not a part.
 *
 * The new content is written beside the old one and takes its name. Where that is not possible (devices, pipes, names
 * that several files share, folders in which only this file may be written) it is written in place.
 */
import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';

/** Writes a file. @throws the system's error, after which a file that was there is as it was. */
export function writeWhole(path: string, data: string | Uint8Array, encoding?: 'latin1' | 'utf8'): void {
  const place = replaceable(path);
  if (place === undefined) {
    writeFileSync(path, data, encoding);
    return;
  }
  const beside = `${place.real}.${process.pid}.tmp`;
  // Before the first byte is there: a signal that comes meanwhile must not leave the file behind.
  const release = deferSignals();
  try {
    if (!creates(beside)) writeFileSync(path, data, encoding);
    else replace(place, beside, data, encoding);
  } finally {
    release();
  }
}

function replace(
  { real, old }: Replaceable,
  beside: string,
  data: string | Uint8Array,
  encoding: 'latin1' | 'utf8' | undefined,
): void {
  try {
    writeFileSync(beside, data, encoding);
    if (old !== undefined) chmodSync(beside, old.mode & PERMISSIONS);
    renameSync(beside, real);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}

/** Signals that end a process unless it listens. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Lets signals that would end this process, and leave a half-written file behind, wait until the event loop runs again.
 * Returns what gives them their usual effect back.
 */
function deferSignals(): () => void {
  const listeners = ENDING.filter((signal) => process.listenerCount(signal) === 0).map((signal) => {
    const end = (): void => {
      process.off(signal, end);
      process.kill(process.pid, signal);
    };
    process.on(signal, end);
    return { signal, end };
  });
  const give = (): void => {
    for (const { signal, end } of listeners) process.off(signal, end);
  };
  // Signals are delivered where the loop waits for events: between two immediates it has done so.
  return () => setImmediate(() => setImmediate(give));
}

/** Bits of a file's mode that say who may do what. */
const PERMISSIONS = 0o777;

/** Where a file goes, and what is there now. */
interface Replaceable {
  readonly real: string;
  readonly old?: Stats;
}

/** Where a file can be put in the place of another, or of none; undefined where it must be written in place. */
function replaceable(path: string): Replaceable | undefined {
  try {
    const old = statSync(path);
    if (!old.isFile() || old.nlink > 1 || old.uid !== (process.getuid?.() ?? old.uid)) return undefined;
    accessSync(path, constants.W_OK);
    return { real: realpathSync(path), old };
  } catch {
    // A link that leads nowhere yet is followed by writing.
    return lstatOrNone(path) === undefined ? { real: path } : undefined;
  }
}

function lstatOrNone(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

function creates(path: string): boolean {
  try {
    writeFileSync(path, '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}
