/**
 * `tutti run`: starts the ranks of a script on this machine.
 *
 * The root of the ranks' unique id lives in this process, so no rank has to win a race for a port, and the
 * control channel outlives every rank: whoever dies is named to the others. MASTER_ADDR and MASTER_PORT are set
 * for other libraries; the port was free a moment ago and tutti itself does not use it.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { formatRanks } from '../bootstrap/rank-list.js';
import { createUniqueId, formatUniqueId, type UniqueIdRoot } from '../bootstrap/unique-id.js';
import { TuttiError } from '../errors/tutti-error.js';
import { parseRunArguments, RUN_USAGE, type RunArguments } from './run/arguments.js';
import { Output } from './run/output.js';
import { RankGroup } from './run/rank-group.js';

const SCRIPT = /\.(?:[cm]?js|[cm]?ts)$/;
/** Signals that interrupt: the ranks get them too. */
const INTERRUPTS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const LOOPBACK = '127.0.0.1';

/** Wrong use. */
const EXIT_USAGE = 2;
/** As `timeout` of coreutils. */
const EXIT_TIMEOUT = 124;
/** 128 + SIGPIPE: what a program that ignores nothing gets when its reader is gone. */
const EXIT_BROKEN_PIPE = 141;

function report(message: string): void {
  if (!process.stderr.destroyed) process.stderr.write(`tutti run: ${message}\n`);
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, LOOPBACK, () => {
      const bound = server.address();
      server.close(() => resolve(typeof bound === 'object' && bound !== null ? bound.port : 0));
    });
  });
}

async function environments(
  ranks: number,
  root: UniqueIdRoot,
): Promise<Record<string, string | undefined>[]> {
  const shared = {
    ...process.env,
    WORLD_SIZE: `${ranks}`,
    LOCAL_WORLD_SIZE: `${ranks}`,
    MASTER_ADDR: LOOPBACK,
    MASTER_PORT: `${await freePort()}`,
    TUTTI_ID: formatUniqueId(root.id),
    TUTTI_SECRET: randomBytes(32).toString('base64url'),
  };
  return Array.from({ length: ranks }, (_, rank) => ({ ...shared, RANK: `${rank}`, LOCAL_RANK: `${rank}` }));
}

/**
 * Runs `tutti run` with the arguments after `run`. Resolves with the exit code: 0 when every rank ended with 0,
 * else that of the first rank that failed; 2 for wrong use, 124 for the time-out, 128 and the signal's number when
 * interrupted, 141 when nobody reads the output.
 */
export async function runCommand(argv: string[]): Promise<number> {
  let parsed: RunArguments | 'help';
  try {
    parsed = parseRunArguments(argv);
    if (parsed === 'help') {
      process.stdout.write(RUN_USAGE);
      return 0;
    }
    if (SCRIPT.test(parsed.program) && !existsSync(parsed.program)) {
      throw new TuttiError('invalidArgument', `The script '${parsed.program}' does not exist.`);
    }
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    report(error.message);
    return EXIT_USAGE;
  }
  let root: UniqueIdRoot | undefined;
  try {
    root = await createUniqueId({ host: LOOPBACK, reusable: true });
    return await runRanks(parsed, root);
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    report(error.message);
    return 1;
  } finally {
    root?.close();
  }
}

async function runRanks(options: RunArguments, root: UniqueIdRoot): Promise<number> {
  const { program, programArguments, ranks, graceMs, timeoutMs } = options;
  const isScript = SCRIPT.test(program);
  const rankEnvironments = await environments(ranks, root);
  let ownExitCode: number | undefined;
  const stop = (exitCode: number): void => {
    ownExitCode ??= exitCode;
    group.end();
  };
  const stdout = new Output(process.stdout, () => stop(EXIT_BROKEN_PIPE), options.prefixes);
  const stderr = new Output(process.stderr, () => stop(EXIT_BROKEN_PIPE), options.prefixes);
  const group = new RankGroup({
    command: isScript ? process.execPath : program,
    arguments: isScript ? [program, ...programArguments] : programArguments,
    environments: rankEnvironments,
    graceMs,
    stdout,
    stderr,
    report,
  });

  // A second signal of the same kind means that the user lost patience.
  const received = new Set<NodeJS.Signals>();
  const interrupt = (name: NodeJS.Signals): void => {
    if (received.has(name)) group.signal('SIGKILL');
    else if (group.ending) group.signal(name);
    else {
      ownExitCode = 128 + constants.signals[name];
      const { running } = group;
      report(`interrupted by ${name}; ${formatRanks(running)} ${running.length === 1 ? 'is' : 'are'} ended`);
      group.end(name);
    }
    received.add(name);
  };
  for (const name of INTERRUPTS) process.on(name, interrupt);
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          report(`${timeoutMs / 1000} s are over; ${formatRanks(group.running)} still ran and are ended`);
          stop(EXIT_TIMEOUT);
        }, timeoutMs);

  await group.done;

  clearTimeout(timer);
  for (const name of INTERRUPTS) process.off(name, interrupt);
  await Promise.all([stdout.finish(), stderr.finish()]);
  return ownExitCode ?? group.firstFailure?.exitCode ?? 0;
}
