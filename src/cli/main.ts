#!/usr/bin/env node
/**
 * The command `tutti`: picks the subcommand and loads only that one, since start-up time is part of every
 * measurement that a user takes with a stopwatch.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { packageVersion } from './version.js';

const USAGE = `Usage: tutti COMMAND [arguments]

Commands:
  perf [COLLECTIVE] [options]   measure and verify collectives, as nccl-tests does
  run -n N SCRIPT [arguments]   start N ranks of a script
  topo [FILE ...] [options]     show what NCCL decides about a machine or cluster: paths, channels, rings, trees
  tune [FILE ...] [options]     show which algorithm and protocol NCCL chooses for a collective, by size, and why
  doctor FILE ... | FOLDER      say what is wrong with a job of NCCL, from logs and outputs of tools, and what repairs it
  report [FILE ...] [-o FILE]   put files about a job and facts of this machine into an anonymised archive
  kernel show PROGRAM           show a device program as IR or WebAssembly
  version                       print the version

'tutti COMMAND --help' tells more about a command.
`;

/** Wrong use. */
const EXIT_USAGE = 2;

async function main(argv: readonly string[]): Promise<number> {
  const [command, ...args] = argv;
  switch (command) {
    case 'perf':
      return (await import('./perf.js')).perfCommand(args);
    case 'run':
      return (await import('./run.js')).runCommand(args);
    case 'kernel':
      return (await import('./kernel.js')).kernelCommand(args);
    case 'topo':
      return (await import('./topo.js')).topoCommand(args);
    case 'tune':
      return (await import('./tune.js')).tuneCommand(args);
    case 'doctor':
      return (await import('./doctor.js')).doctorCommand(args);
    case 'report':
      return (await import('./report.js')).reportCommand(args);
    case 'version':
    case '--version':
    case '-v':
      process.stdout.write(`tutti ${packageVersion()}\n`);
      return 0;
    case 'help':
    case '--help':
    case '-h':
      process.stdout.write(USAGE);
      return 0;
    default:
      process.stderr.write(command === undefined ? USAGE : `tutti: unknown command '${command}'\n\n${USAGE}`);
      return EXIT_USAGE;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  // A mistake of ours keeps its stack; an error for the user is one sentence.
  process.stderr.write(
    `tutti: ${TuttiError.is(error) ? error.message : ((error as Error).stack ?? String(error))}\n`,
  );
  process.exitCode = 1;
}
