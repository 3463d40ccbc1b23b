/**
 * Writes the answer of a command.
 */

/** 128 + SIGPIPE: what a program that ignores nothing gets when its reader is gone. */
const EXIT_BROKEN_PIPE = 141;

/** Writes everything, or less when the reader goes away; resolves with the exit code. */
export function print(text: string): Promise<number> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', () => {}); // reported to the callback, too
    process.stdout.write(text, (error) => {
      if (error === null || error === undefined) resolve(0);
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') resolve(EXIT_BROKEN_PIPE);
      else reject(error);
    });
  });
}
