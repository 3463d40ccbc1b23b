/**
 * `tutti doctor`: reads what an operator has at hand of a job with the real NCCL, and says what is wrong with it.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { print } from './print.js';
import { printable, sentence } from './printable.js';

/** Faults were found. */
const EXIT_FINDINGS = 1;
/** Wrong use, or nothing could be read. */
const EXIT_UNREADABLE = 2;

/** Runs `tutti doctor` with the arguments after `doctor`. Resolves with the exit code: 0 healthy, 1 findings, 2 unreadable. */
export async function doctorCommand(argv: readonly string[]): Promise<number> {
  const { parseDoctorOptions, DOCTOR_USAGE } = await import('./doctor/options.js');
  const say = (text: string) => process.stderr.write(`tutti doctor: ${sentence(text)}\n`);
  let options: ReturnType<typeof parseDoctorOptions>;
  try {
    options = parseDoctorOptions(argv);
  } catch (error) {
    if (!TuttiError.is(error) || error.code !== 'invalidArgument') throw error;
    say(error.message);
    return EXIT_UNREADABLE;
  }
  if (options === 'help') return print(DOCTOR_USAGE);
  const { doctorOutput } = await import('./doctor/output.js');
  const { terminalStyle } = await import('./topo/terminal.js');
  try {
    const { lines, verdict } = await doctorOutput(
      options,
      terminalStyle(process.stdout),
      say,
      process.stdout.isTTY !== true,
    );
    const code = await print(lines.map((line) => `${printable(line, true)}\n`).join(''));
    if (code !== 0) return code;
    return verdict === 'healthy' ? 0 : verdict === 'findings' ? EXIT_FINDINGS : EXIT_UNREADABLE;
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    say(error.message);
    return EXIT_UNREADABLE;
  }
}
