/**
 * `tutti tune`: shows which algorithm and protocol NCCL chooses for a collective on a cluster, and why.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { print } from './print.js';
import { sentence } from './printable.js';
import type { FitOptions, HostOptions } from './tune/host/options.js';
import type { TuneOptions } from './tune/options.js';

/** Something could not be read, decided or written. */
const EXIT_FAILURE = 1;
/** Wrong use. */
const EXIT_USAGE = 2;

/** `--host` and `--fit`. */
async function hostAnswer(options: HostOptions | FitOptions, say: (text: string) => void): Promise<number> {
  try {
    if (options.kind === 'fit') {
      const { fitCommand } = await import('./tune/host/fit.js');
      const isWatched = process.stderr.isTTY === true;
      const clear = isWatched ? '\r\u001b[K' : '';
      return await fitCommand(
        options,
        process.env,
        (line) => process.stdout.write(`${clear}${line}\n`),
        (text) => isWatched && process.stderr.write(`${clear}measuring ${text}`),
      );
    }
    const { hostOutput } = await import('./tune/host/view.js');
    const { terminalStyle } = await import('./topo/terminal.js');
    const { lines, isDecided } = hostOutput(options, process.env, terminalStyle(process.stdout), say);
    const code = await print(lines.map((line) => `${line}\n`).join(''));
    return code === 0 && !isDecided ? EXIT_FAILURE : code;
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    say(error.message);
    return error.code === 'invalidArgument' ? EXIT_USAGE : EXIT_FAILURE;
  }
}

/** Runs `tutti tune` with the arguments after `tune`. Resolves with the exit code: 2 for wrong use, 1 for failures. */
export async function tuneCommand(argv: readonly string[]): Promise<number> {
  // Ranks that measure, started by ourselves (tune/host/measure.ts).
  if (argv[0] === 'host-rank') return (await import('./tune/host/measure.js')).hostRankCommand(argv[1]!);
  const { parseTuneOptions, TUNE_USAGE } = await import('./tune/options.js');
  const say = (text: string) => process.stderr.write(`tutti tune: ${sentence(text)}\n`);
  let options: ReturnType<typeof parseTuneOptions>;
  try {
    options = parseTuneOptions(argv);
  } catch (error) {
    if (!TuttiError.is(error) || error.code !== 'invalidArgument') throw error;
    say(error.message);
    return EXIT_USAGE;
  }
  if (options === 'help') return print(TUNE_USAGE);
  if ('kind' in options) return hostAnswer(options, say);
  if ('collectives' in options) {
    const { verificationOutput } = await import('./tune/verification.js');
    const { terminalStyle } = await import('./topo/terminal.js');
    const { lines, isProved } = verificationOutput(options, terminalStyle(process.stdout));
    const code = await print(lines.map((line) => `${line}\n`).join(''));
    return code === 0 && !isProved ? EXIT_FAILURE : code;
  }
  return options.tuner === undefined ? answer(options, say) : answerWithTuner(options, say);
}

/** Prints what is asked; resolves with the exit code. */
async function answer(options: TuneOptions, say: (text: string) => void): Promise<number> {
  const { tuningOutput } = await import('./tune/output.js');
  const { WrongUse } = await import('./topo/machine-options.js');
  const { terminalStyle } = await import('./topo/terminal.js');
  try {
    const context = { env: process.env, style: terminalStyle(process.stdout), note: say };
    const { lines, isDecided } = await tuningOutput(options, context);
    const code = await print(lines.map((line) => `${line}\n`).join(''));
    return code === 0 && !isDecided ? EXIT_FAILURE : code;
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    say(error.message);
    return error instanceof WrongUse ? EXIT_USAGE : EXIT_FAILURE;
  }
}

/** The same with foreign code in the process, which neither keeps it alive nor ends it with a stack. */
async function answerWithTuner(options: TuneOptions, say: (text: string) => void): Promise<number> {
  const failures = new Set<string>();
  process.on('unhandledRejection', (reason) => {
    failures.add((reason instanceof Error ? reason.message : String(reason)).split('\n')[0]!);
  });
  const code = await answer(options, say);
  // Node tells of such promises when everything else has had its turn.
  await new Promise(setImmediate);
  for (const text of failures)
    say(`tuner ${options.tuner}: a promise that it has left alone failed: ${text}`);
  // Its timers are nobody's business any more.
  process.exit(code === 0 && failures.size > 0 && !options.ignoreBrokenTuner ? EXIT_FAILURE : code);
}
