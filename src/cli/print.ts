/**
 * Writes the answer of a command.
 */

import { TuttiError } from '../errors/tutti-error.js';

/** 128 + SIGPIPE: what a program that ignores nothing gets when its reader is gone. */
const EXIT_BROKEN_PIPE = 141;

/**
 * Writes everything, or less when the reader goes away; resolves with the exit code.
 *
 * @throws TuttiError systemError where the output cannot be written, as on a full disk
 */
export function print(text: string): Promise<number> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', () => {}); // reported to the callback, too
    process.stdout.write(text, (error) => {
      if (error === null || error === undefined) resolve(0);
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') resolve(EXIT_BROKEN_PIPE);
      else
        reject(
          new TuttiError('systemError', `cannot write to the output: ${error.message}`, { cause: error }),
        );
    });
  });
}
