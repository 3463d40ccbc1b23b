/**
 * `tutti report`: puts files about a job, and facts of this machine, into one archive, and replaces the names, addresses and
 * secrets that it recognises.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { print } from './print.js';
import { printable, sentence } from './printable.js';

/** Something could not be read or written. */
const EXIT_FAILURE = 1;
/** Wrong use. */
const EXIT_USAGE = 2;

/** Runs `tutti report` with the arguments after `report`. Resolves with the exit code: 2 for wrong use, 1 for failures. */
export async function reportCommand(argv: readonly string[]): Promise<number> {
  const { parseReportOptions, REPORT_USAGE } = await import('./report/options.js');
  const say = (text: string) => process.stderr.write(`tutti report: ${sentence(text)}\n`);
  try {
    const options = parseReportOptions(argv);
    if (options === 'help') return print(REPORT_USAGE);
    const { writeReport } = await import('./report/write.js');
    const lines = await writeReport(options, process.env);
    return await print(lines.map((line) => `${printable(line)}\n`).join(''));
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    say(error.message);
    return error.code === 'invalidArgument' ? EXIT_USAGE : EXIT_FAILURE;
  }
}
