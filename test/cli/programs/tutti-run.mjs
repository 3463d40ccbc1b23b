/** `tutti run` without the dispatcher, as a process that tests can kill. */
import { runCommand } from '../../../dist/cli/run.js';

process.exitCode = await runCommand(process.argv.slice(2));
