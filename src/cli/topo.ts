/**
 * `tutti topo`: shows what NCCL decides about a machine or a cluster, and why.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { print } from './print.js';
import { sentence } from './printable.js';

/** Something could not be read, described or written. */
const EXIT_FAILURE = 1;
/** Wrong use. */
const EXIT_USAGE = 2;
/** Runs `tutti topo` with the arguments after `topo`. Resolves with the exit code: 2 for wrong use, 1 for failures. */
export async function topoCommand(argv: readonly string[]): Promise<number> {
  // Nobody reads the messages: no reason to end without the answer.
  process.stderr.on('error', () => {});
  const say = (text: string) => process.stderr.write(`tutti topo: ${sentence(text)}\n`);
  const { parseTopoOptions, TOPO_USAGE } = await import('./topo/options.js');
  let options: ReturnType<typeof parseTopoOptions>;
  try {
    options = parseTopoOptions(argv);
  } catch (error) {
    if (!TuttiError.is(error) || error.code !== 'invalidArgument') throw error;
    say(error.message);
    return EXIT_USAGE;
  }
  if (options === 'help') return print(TOPO_USAGE);
  const { topologyOutput } = await import('./topo/output.js');
  const { WrongUse } = await import('./topo/machine-options.js');
  const { terminalStyle } = await import('./topo/terminal.js');
  try {
    const style = terminalStyle(process.stdout);
    const lines = topologyOutput(options, { env: process.env, style, note: say });
    return await print(lines.map((line) => `${line}\n`).join(''));
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    say(error.message);
    return error instanceof WrongUse ? EXIT_USAGE : EXIT_FAILURE;
  }
}
