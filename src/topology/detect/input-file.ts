/**
 * Reads files that a user names, of which nothing is known: a device that never ends, a pipe that nobody writes to and
 * a file that is too large are errors, so that no name can take the process's memory away or make it wait for nothing.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';

/** Bytes that are asked for at a time. */
const READ_BYTES = 64 * 1024;

/** Pause before a pipe is asked again, ms. */
const PAUSE = 10;

/** How long a pipe may be without a writer, ms: enough for the other side of `mkfifo` to start. */
const WRITER_TIMEOUT = 3000;

/**
 * All bytes of a file or of an open one, or of a pipe until its writers have closed it. `name` is for messages.
 *
 * @throws TuttiError invalidArgument for more than `limit` bytes and for a pipe without a writer; the system's error
 *   where the file cannot be opened or read.
 */
export function readInput(path: string | number, limit: number, name = `${path}`): Buffer {
  if (typeof path === 'number') return readAll(path, limit, name, false);
  // Without O_NONBLOCK opening a pipe waits for its writer.
  const fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    return readAll(fd, limit, name, fstatSync(fd).isFIFO());
  } finally {
    closeSync(fd);
  }
}

/** @param mayLackWriter a pipe that was opened without waiting for its writer */
function readAll(fd: number, limit: number, name: string, mayLackWriter: boolean): Buffer {
  const stat = fstatSync(fd);
  if (stat.isFile() && stat.size > limit) throw tooLarge(name, limit);
  const part = Buffer.alloc(READ_BYTES);
  const parts: Buffer[] = [];
  let total = 0;
  let waited = 0;
  for (;;) {
    const count = readSome(fd, part);
    if (count === undefined) {
      // A writer is there and has nothing to say yet.
      pause();
    } else if (count > 0) {
      total += count;
      if (total > limit) throw tooLarge(name, limit);
      parts.push(Buffer.from(part.subarray(0, count)));
    } else if (total === 0 && mayLackWriter && waited < WRITER_TIMEOUT) {
      pause();
      waited += PAUSE;
    } else if (total === 0 && mayLackWriter) {
      throw new TuttiError(
        'invalidArgument',
        `${name} is a pipe that nobody has written to for ${WRITER_TIMEOUT / 1000} s; start its writer, or give a file`,
      );
    } else {
      return Buffer.concat(parts);
    }
  }
}

/** Bytes that were read, 0 at the end; undefined where there are none yet. */
function readSome(fd: number, into: Buffer): number | undefined {
  try {
    return readSync(fd, into, 0, into.length, null);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return undefined;
    throw error;
  }
}

const cell = new Int32Array(new SharedArrayBuffer(4));
const pause = () => Atomics.wait(cell, 0, 0, PAUSE);

const tooLarge = (name: string, limit: number): TuttiError =>
  new TuttiError(
    'invalidArgument',
    `${name} has more than the ${limit} bytes that any such file needs; give the right file`,
  );
