/**
 * `tutti perf`: measures and verifies collectives, with the flags, the table and the exit status of nccl-tests.
 *
 * With `-n N` (or nothing) this process starts N ranks as processes, each of which runs this command again as a
 * rank; rank 0 prints. With `-t N` the ranks are threads of this process. Under a launcher (tutti run, mpirun,
 * torchrun, srun) the process is a rank by itself.
 */

import { styleText } from 'node:util';
import { readLaunchEnvironment } from '../bootstrap/launch-environment.js';
import { Communicator, createLocalCommunicators } from '../communicator/communicator.js';
import type { CommunicatorOptions } from '../communicator/settings.js';
import { TuttiError } from '../errors/tutti-error.js';
import { coreCount } from '../system/core-count.js';
import { libc } from '../system/libc.js';
import { communicatorOptions, type Variant, variants } from './perf/algorithms.js';
import { combinations } from './perf/combinations.js';
import { reportedEnvironment, requiredBusBandwidth } from './perf/environment.js';
import { HostRanks } from './perf/host-ranks.js';
import { createReportFile, formatJsonReport, type ReportFile } from './perf/json-report.js';
import { Measurement } from './perf/measure.js';
import { type PerfOptions, parsePerfOptions, perfHelp } from './perf/options.js';
import { averageBusBandwidth, exitStatus, formatTimestamp, type ResultRow } from './perf/report.js';
import { checkRankCount, MEASURED } from './perf/sizes.js';
import {
  formatFooter,
  formatHeader,
  formatMemoryReduction,
  formatPreamble,
  formatRow,
} from './perf/table.js';
import { runCommand } from './run.js';
import { packageVersion } from './version.js';

/** Exit status of bad options, as nccl-tests has it. */
const EXIT_USAGE = 255;

/** Where the ranks of this process come from. */
type Role = { kind: 'parent'; processes: number } | { kind: 'rank' } | { kind: 'threads'; threads: number };

function isLaunched(env: Readonly<Record<string, string | undefined>>): boolean {
  try {
    readLaunchEnvironment(env, process.ppid);
    return true;
  } catch {
    return false;
  }
}

/** Ranks when nobody says how many: one per core, at least two and at most eight. */
function defaultRanks(): number {
  return Math.min(8, Math.max(2, coreCount()));
}

function roleOf(options: PerfOptions): Role {
  const { processes, threads } = options;
  if (processes !== undefined && threads !== undefined && processes > 1 && threads > 1) {
    throw new TuttiError(
      'invalidArgument',
      `-n ${processes} -t ${threads}: ranks are either processes (-n) or threads of one process (-t)`,
    );
  }
  if (threads !== undefined && (processes ?? 1) === 1) return { kind: 'threads', threads };
  if (processes !== undefined) return { kind: 'parent', processes };
  if (isLaunched(process.env)) return { kind: 'rank' };
  return libc() === null
    ? { kind: 'threads', threads: defaultRanks() }
    : { kind: 'parent', processes: defaultRanks() };
}

/** A line on the terminal that says what is being measured; nothing where no person looks. */
class Progress {
  readonly #shown = process.stderr.isTTY === true && process.stdout.isTTY === true;
  readonly #since = performance.now();
  #visible = false;

  show(text: string): void {
    // Short runs need no comfort.
    if (!this.#shown || performance.now() - this.#since < 1000) return;
    this.#visible = true;
    process.stderr.write(`\r\x1b[K${styleText('dim', `measuring ${text}`)}`);
  }

  clear(): void {
    if (this.#visible) process.stderr.write('\r\x1b[K');
    this.#visible = false;
  }
}

async function measureHere(
  options: PerfOptions,
  args: readonly string[],
  comms: readonly Communicator[],
): Promise<number> {
  const leader = comms[0]!;
  const prints = leader.rank === 0;
  const startTime = formatTimestamp(new Date());
  const size = leader.size;
  checkRankCount(options.collective, size);
  const cases = combinations(options, size);
  const required = requiredBusBandwidth(process.env);
  const file: ReportFile | undefined =
    prints && options.jsonFile !== undefined ? createReportFile(options.jsonFile) : undefined;
  const write = (text: string) => {
    if (prints && !options.jsonToStdout) process.stdout.write(text);
  };

  const ranks = await HostRanks.open(options, comms);
  const { places } = ranks;
  const maxBytes = Math.min(options.sweep.maxBytes, ranks.room);
  if (options.sweep.minBytes > maxBytes) {
    throw new TuttiError(
      'invalidArgument',
      `-b ${options.sweep.minBytes}: the heap has room for buffers of ${maxBytes} bytes; choose a smaller size, fewer ranks, or --memory array`,
      { rank: leader.rank },
    );
  }
  const columns = {
    cpuTime: options.reportCpuTime,
    perIteration: options.perIteration,
    timestamps: options.reportTimestamps,
  };
  write(
    formatPreamble({
      version: packageVersion(),
      collective: options.collective,
      sweep: options.sweep,
      threads: comms.length,
      warmupIterations: options.warmupIterations,
      iterations: options.iterations,
      aggregated: options.aggregated,
      checks: options.checks,
      unalign: options.unalign,
      blocking: options.blocking,
      perIteration: options.perIteration,
      ranks: places,
    }),
  );
  if (maxBytes < options.sweep.maxBytes) write(formatMemoryReduction(maxBytes));
  write(formatHeader(columns));

  const rows: ResultRow[] = [];
  const progress = new Progress();
  const measurement = new Measurement(options, ranks, maxBytes);
  try {
    await measurement.acquaint(cases[0]!);
    for (const combination of cases) {
      await measurement.measure(combination, {
        row: (row) => {
          rows.push(row);
          progress.clear();
          write(formatRow(row, columns));
        },
        progress: (text) => {
          if (prints) progress.show(text);
        },
      });
    }
  } finally {
    progress.clear();
    ranks.close();
  }
  const summary = {
    failedChecks: measurement.failedChecks,
    averageBusBandwidth: averageBusBandwidth(rows),
    ...(required === undefined ? {} : { requiredBusBandwidth: required }),
    lastError: '',
  };
  write(formatFooter(options.collective, summary));
  if (prints && (options.jsonToStdout || file !== undefined)) {
    const text = formatJsonReport({
      startTime,
      endTime: formatTimestamp(new Date()),
      args: ['tutti', 'perf', ...originalArguments(args)],
      env: reportedEnvironment(process.env),
      sweep: options.sweep,
      threads: comms.length,
      warmupIterations: options.warmupIterations,
      iterations: options.iterations,
      aggregated: options.aggregated,
      checks: options.checks,
      blocking: options.blocking,
      perIteration: options.perIteration,
      perIterationSkip: options.perIterationSkip,
      cpuTime: options.reportCpuTime,
      ranks: places,
      rows,
      summary,
    });
    if (options.jsonToStdout) process.stdout.write(text);
    if (file !== undefined) {
      file.write(text);
      write(`# Writing JSON output to ${file.path}\n`);
    }
  }
  return exitStatus(summary);
}

/** Runs `tutti perf` with the arguments after `perf`. Resolves with the exit status. */
export async function perfCommand(args: readonly string[]): Promise<number> {
  let options: PerfOptions;
  let role: Role;
  let tables: readonly Variant[];
  try {
    options = parsePerfOptions(args);
    if (options.help) {
      process.stdout.write(perfHelp());
      return 0;
    }
    if (!MEASURED.includes(options.collective)) {
      throw new TuttiError(
        'invalidUsage',
        `${options.collective} cannot be measured yet; there are ${MEASURED.join(', ')}`,
      );
    }
    role = roleOf(options);
    tables = variants(options.collective, options);
    // Unknown names are told before anything starts.
    for (const table of tables) communicatorOptions(options.collective, table, process.env);
    if (role.kind === 'parent') combinations(options, role.processes);
    if (role.kind === 'threads') combinations(options, role.threads);
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    process.stderr.write(`tutti perf: ${error.message}\n`);
    return EXIT_USAGE;
  }
  let worst = 0;
  for (const table of tables) {
    if (tables.length > 1) announce(options, table);
    const status =
      role.kind === 'parent'
        ? await runRanks(role.processes, args, table)
        : await measureTable(options, args, role, table);
    worst = Math.max(worst, status);
  }
  return worst;
}

/** Says which of several tables follows. */
function announce(options: PerfOptions, { algo, proto }: Variant): void {
  if (options.jsonToStdout) return;
  const protocol = proto === undefined ? '' : `, protocol ${proto}`;
  process.stdout.write(`# algorithm ${algo}${protocol}\n`);
}

/** Runs this command again as so many processes. */
async function runRanks(processes: number, args: readonly string[], table: Variant): Promise<number> {
  // The ranks take their number from the environment, so -n must not reach them.
  const rankArgs = withoutOptions(args, ['n', 't'], ['processes', 'nthreads', 'algo', 'proto']);
  process.env.TUTTI_PERF_ARGS = JSON.stringify(args);
  const { algo, proto } = table;
  return runCommand([
    ...['-n', String(processes), '--no-prefix', '--'],
    ...[process.argv[1]!, 'perf', ...rankArgs],
    ...(algo === undefined ? [] : [`--algo=${algo}`]),
    ...(proto === undefined ? [] : [`--proto=${proto}`]),
  ]);
}

/** Measures one table on the ranks of this process. */
async function measureTable(
  options: PerfOptions,
  args: readonly string[],
  role: Exclude<Role, { kind: 'parent' }>,
  table: Variant,
): Promise<number> {
  const limits: CommunicatorOptions = {
    ...(options.timeoutSeconds > 0 && { timeoutMs: options.timeoutSeconds * 1000 }),
    ...communicatorOptions(options.collective, table, process.env),
  };
  let comms: Communicator[] = [];
  try {
    comms =
      role.kind === 'threads'
        ? await createLocalCommunicators(role.threads, limits)
        : [await Communicator.fromEnv(limits)];
    const status = await measureHere(options, args, comms);
    await Promise.all(comms.map((comm) => comm.close()));
    return status;
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    const rank = comms[0]?.rank;
    process.stderr.write(`tutti perf: ${rank === undefined ? '' : `rank ${rank}: `}${error.message}\n`);
    await Promise.all(comms.map((comm) => comm.close().catch(() => {})));
    return error.code === 'timeout' ? 4 : 3;
  }
}

/** What the user typed: the ranks that this command starts get fewer arguments. */
function originalArguments(args: readonly string[]): readonly string[] {
  const typed = process.env.TUTTI_PERF_ARGS;
  return typed === undefined ? args : (JSON.parse(typed) as string[]);
}

/** The arguments without these options and their values. */
function withoutOptions(
  args: readonly string[],
  short: readonly string[],
  long: readonly string[],
): string[] {
  const letters = short.join('');
  const names = long.join('|');
  const alone = new RegExp(`^(-[${letters}]|--(${names}))$`);
  const attached = new RegExp(`^(-[${letters}]\\d+|--(${names})=.*)$`);
  const kept: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const argument = args[i]!;
    if (alone.test(argument)) i += 1;
    else if (!attached.test(argument)) kept.push(argument);
  }
  return kept;
}
