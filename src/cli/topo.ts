/**
 * `tutti topo`: shows what NCCL decides about a machine or a cluster, and why.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { print } from './print.js';

/** Something could not be read, described or written. */
const EXIT_FAILURE = 1;
/** Wrong use. */
const EXIT_USAGE = 2;
/** Runs `tutti topo` with the arguments after `topo`. Resolves with the exit code: 2 for wrong use, 1 for failures. */
export async function topoCommand(argv: readonly string[]): Promise<number> {
  const { parseTopoOptions, TOPO_USAGE } = await import('./topo/options.js');
  let options: ReturnType<typeof parseTopoOptions>;
  try {
    options = parseTopoOptions(argv);
  } catch (error) {
    if (!TuttiError.is(error) || error.code !== 'invalidArgument') throw error;
    process.stderr.write(`tutti topo: ${error.message}\n`);
    return EXIT_USAGE;
  }
  if (options === 'help') return print(TOPO_USAGE);
  const { topologyOutput } = await import('./topo/output.js');
  const { WrongUse } = await import('./topo/machine-options.js');
  const { terminalStyle } = await import('./topo/terminal.js');
  try {
    const note = (text: string) => process.stderr.write(`tutti topo: ${text}\n`);
    const lines = topologyOutput(options, { env: process.env, style: terminalStyle(process.stdout), note });
    return await print(lines.map((line) => `${line}\n`).join(''));
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    process.stderr.write(`tutti topo: ${error.message}\n`);
    return error instanceof WrongUse ? EXIT_USAGE : EXIT_FAILURE;
  }
}
