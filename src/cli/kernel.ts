/**
 * `tutti kernel`: shows device programs as the intermediate representation or as WebAssembly, with the places
 * in the TypeScript source that made each part.
 */

import { TuttiError } from '../errors/tutti-error.js';

/** Wrong use. */
const EXIT_USAGE = 2;
/** 128 + SIGPIPE: what a program that ignores nothing gets when its reader is gone. */
const EXIT_BROKEN_PIPE = 141;

/** Writes everything, or less when the reader goes away; resolves with the exit code. */
function print(text: string): Promise<number> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', () => {}); // reported to the callback, too
    process.stdout.write(text, (error) => {
      if (error === null || error === undefined) resolve(0);
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') resolve(EXIT_BROKEN_PIPE);
      else reject(error);
    });
  });
}

/** Runs `tutti kernel` with the arguments after `kernel`. Resolves with the exit code: 2 for wrong use. */
export async function kernelCommand(argv: string[]): Promise<number> {
  // Source maps hold for modules that are loaded from here on.
  process.setSourceMapsEnabled(true);
  const { KERNEL_USAGE, listPrograms, parseShow, showProgram } = await import('./kernel/show.js');
  const [command, ...rest] = argv;
  try {
    if (command === '--help' || command === '-h') return await print(KERNEL_USAGE);
    if (command === 'list' && rest.length === 0) return await print(listPrograms());
    if (command === 'show') {
      const options = parseShow(rest);
      return await print(options === 'help' ? KERNEL_USAGE : showProgram(options));
    }
    process.stderr.write(KERNEL_USAGE);
    return EXIT_USAGE;
  } catch (error) {
    if (!TuttiError.is(error) || error.code !== 'invalidArgument') throw error;
    process.stderr.write(`tutti kernel: ${error.message}\n`);
    return EXIT_USAGE;
  }
}
