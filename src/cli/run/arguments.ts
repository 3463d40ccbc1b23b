/** The command line of `tutti run`: options first, then the script and everything that belongs to it. */
import { TuttiError } from '../../errors/tutti-error.js';

export const RUN_USAGE = `Usage: tutti run -n N [options] [--] script.js [arguments]

Starts N ranks of a script on this machine and ends when all of them have ended.
A file that ends in .js, .mjs, .cjs or .ts (.mts, .cts) runs under this Node; anything else is a program.

Options:
  -n, -np, --ranks N   number of ranks, from 1
  --timeout S          end everything after S seconds (exit code 124)
  --grace S            seconds between SIGTERM and SIGKILL when ranks have to end (default 5)
  --no-prefix          do not put the rank's number before every line of its output
  -h, --help           this text

Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TUTTI_ID and TUTTI_SECRET;
Communicator.fromEnv() needs nothing else. Rank 0 reads the standard input unless that is a terminal.
The exit code is that of the first rank that fails (128 + signal when a signal ended it). SIGINT (Ctrl-C), SIGTERM and
SIGHUP go to every rank; those that have not ended after the grace time are killed; the exit code is 128 + signal.
`;

/** Most ranks of one machine: a typing mistake should not fork until the machine dies. */
const MAX_LOCAL_RANKS = 4096;

export interface RunArguments {
  ranks: number;
  /** Milliseconds, undefined for no limit. */
  timeoutMs: number | undefined;
  graceMs: number;
  /** Lines begin with the rank's number. */
  prefixes: boolean;
  program: string;
  programArguments: readonly string[];
}

function invalid(message: string): TuttiError {
  return new TuttiError('invalidArgument', message);
}

function seconds(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value > 0) || value > 2e6) {
    throw invalid(`${name} ${text}: a positive number of seconds is needed.`);
  }
  return value * 1000;
}

function rankCount(name: string, text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > MAX_LOCAL_RANKS) {
    throw invalid(`${name} ${text}: an integer from 1 to ${MAX_LOCAL_RANKS} is needed.`);
  }
  return value;
}

/**
 * Reads the arguments after `run`; 'help' when help is asked for.
 * @throws TuttiError invalidArgument
 */
export function parseRunArguments(argv: readonly string[]): RunArguments | 'help' {
  let ranks: number | undefined;
  let timeoutMs: number | undefined;
  let graceMs = 5000;
  let prefixes = true;
  let at = 0;
  while (at < argv.length) {
    const argument = argv[at]!;
    if (argument === '--') {
      at++;
      break;
    }
    if (!argument.startsWith('-')) break;
    if (argument === '-h' || argument === '--help') return 'help';
    if (argument === '--no-prefix') {
      prefixes = false;
      at++;
      continue;
    }
    const [name = '', inline] = argument.startsWith('--') ? splitOnce(argument) : [argument];
    const value = inline ?? argv[at + 1];
    if (!['-n', '-np', '--ranks', '--timeout', '--grace'].includes(name)) {
      throw invalid(`Unknown option ${argument}. Options come before the script; see 'tutti run --help'.`);
    }
    if (value === undefined) throw invalid(`${name} needs a value.`);
    if (name === '--timeout') timeoutMs = seconds(name, value);
    else if (name === '--grace') graceMs = seconds(name, value);
    else ranks = rankCount(name, value);
    at += inline === undefined ? 2 : 1;
  }
  const program = argv[at];
  if (ranks === undefined) throw invalid('The number of ranks is missing: tutti run -n N script.js');
  if (program === undefined || program === '')
    throw invalid('The script is missing: tutti run -n N script.js');
  return { ranks, timeoutMs, graceMs, prefixes, program, programArguments: argv.slice(at + 1) };
}

function splitOnce(argument: string): [string, string?] {
  const equals = argument.indexOf('=');
  return equals < 0 ? [argument] : [argument.slice(0, equals), argument.slice(equals + 1)];
}
