/**
 * `tutti perf`: measures and verifies collectives, with the flags, the table and the exit status of nccl-tests.
 *
 * With `-n N` (or nothing) this process starts N ranks as processes, each of which runs this command again as a
 * rank; rank 0 prints. With `-t N` the ranks are threads of this process. Under a launcher (tutti run, mpirun,
 * torchrun, srun) the process is a rank by itself.
 */

import { styleText } from 'node:util';
import { readLaunchEnvironment } from '../bootstrap/launch-environment.js';
import { TuttiError } from '../errors/tutti-error.js';
import { communicatorOptions, requireChoices, type Variant, variants } from './perf/algorithms.js';
import { type Combination, combinations } from './perf/combinations.js';
import { reportedEnvironment, requiredBusBandwidth } from './perf/environment.js';
import { createReportFile, formatJsonReport, type ReportFile } from './perf/json-report.js';
import { Measurement } from './perf/measure.js';
import { type OpenRanks, openRanks } from './perf/open-ranks.js';
import { type PerfOptions, parsePerfOptions, perfHelp } from './perf/options.js';
import { averageBusBandwidth, exitStatus, formatTimestamp, type ResultRow } from './perf/report.js';
import { deviceOf, type PerfDevice, type Role, roleOf } from './perf/role.js';
import { checkRankCount, hasInPlace, sweepSizes } from './perf/sizes.js';
import {
  formatCuts,
  formatFooter,
  formatHeader,
  formatMemoryReduction,
  formatPreamble,
  formatRow,
} from './perf/table.js';
import { TimeBudget } from './perf/time-budget.js';
import { elementBytes } from './perf/type-names.js';
import { runCommand } from './run.js';
import { packageVersion } from './version.js';

/** Exit status of bad options, as nccl-tests has it. */
const EXIT_USAGE = 255;

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
  { ranks, threads, gpus }: OpenRanks,
  seconds: number | undefined,
): Promise<number> {
  const [rank] = ranks.ranks;
  const prints = rank === 0;
  const startTime = formatTimestamp(new Date());
  const { size, places } = ranks;
  checkRankCount(options.collective, size);
  const cases = combinations(options, size);
  const required = requiredBusBandwidth(process.env);
  const file: ReportFile | undefined =
    prints && options.jsonFile !== undefined ? createReportFile(options.jsonFile) : undefined;
  const write = (text: string) => {
    if (prints && !options.jsonToStdout) process.stdout.write(text);
  };

  const maxBytes = Math.min(options.sweep.maxBytes, ranks.room);
  if (options.sweep.minBytes > maxBytes) {
    throw new TuttiError(
      'invalidArgument',
      `-b ${options.sweep.minBytes}: there is room for buffers of ${maxBytes} bytes; choose a smaller size, fewer ranks, or --memory array`,
      { rank: rank! },
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
      threads,
      gpus,
      graphs: options.graphs,
      warmupIterations: options.warmupIterations,
      iterations: options.iterations,
      aggregated: options.aggregated,
      checks: options.checks,
      unalign: options.unalign,
      blocking: options.blocking,
      perIteration: options.perIteration,
      ranks: places,
      connections: ranks.connections,
    }),
  );
  if (maxBytes < options.sweep.maxBytes) write(formatMemoryReduction(maxBytes));
  write(formatHeader(columns));

  const rows: ResultRow[] = [];
  const progress = new Progress();
  const budget =
    seconds === undefined
      ? undefined
      : new TimeBudget(seconds, sideCount(options, cases, maxBytes), performance.now());
  const measurement = new Measurement(options, ranks, maxBytes, budget);
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
  }
  const summary = {
    failedChecks: measurement.failedChecks,
    averageBusBandwidth: averageBusBandwidth(rows),
    ...(required === undefined ? {} : { requiredBusBandwidth: required }),
    lastError: '',
  };
  if (budget !== undefined) write(formatCuts(budget.cuts, options.budgetSeconds!));
  write(formatFooter(options.collective, summary));
  if (prints && (options.jsonToStdout || file !== undefined)) {
    const text = formatJsonReport({
      startTime,
      endTime: formatTimestamp(new Date()),
      args: ['tutti', 'perf', ...originalArguments(args)],
      env: reportedEnvironment(process.env),
      sweep: options.sweep,
      threads,
      gpus,
      graphs: options.graphs,
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

/** Sides of all rows of a table. */
function sideCount(options: PerfOptions, cases: readonly Combination[], maxBytes: number): number {
  const { sweep, collective, cycles } = options;
  const capped = { ...sweep, maxBytes: Math.min(sweep.maxBytes, maxBytes) };
  const rows = cases.reduce((sum, { type }) => sum + [...sweepSizes(capped, elementBytes(type))].length, 0);
  return rows * cycles * (hasInPlace(collective) ? 2 : 1);
}

/** Runs `tutti perf` with the arguments after `perf`. Resolves with the exit status. */
export async function perfCommand(args: readonly string[]): Promise<number> {
  let options: PerfOptions;
  let device: PerfDevice;
  let role: Role;
  let tables: readonly Variant[];
  try {
    options = parsePerfOptions(args);
    if (options.help) {
      process.stdout.write(perfHelp());
      return 0;
    }
    device = deviceOf(options);
    role = roleOf(options, device);
    requireChoices(options.collective, options);
    tables = variants(options.collective, options, device);
    // Unknown names are told before anything starts.
    for (const table of tables) communicatorOptions(options.collective, table, process.env);
    const ranks = role.kind === 'parent' ? role.processes : role.kind === 'all' ? role.ranks : undefined;
    if (ranks !== undefined) {
      combinations(options, ranks);
      checkRankCount(options.collective, ranks);
    }
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    process.stderr.write(`tutti perf: ${error.message}\n`);
    return EXIT_USAGE;
  }
  if (role.kind === 'parent') return runRanks(role.processes, args, device);
  const { budgetSeconds } = options;
  const endsAt = performance.now() + (budgetSeconds ?? 0) * 1e3;
  let worst = 0;
  for (const [at, table] of tables.entries()) {
    if (tables.length > 1 && isFirst(role)) announce(options, table);
    // What a table leaves of its time is for those after it.
    const share = Math.max(0, endsAt - performance.now()) / 1e3 / (tables.length - at);
    const { status, isStuck } = await measureTable(
      options,
      args,
      role,
      table,
      device,
      budgetSeconds && share,
    );
    worst = Math.max(worst, status);
    if (isStuck) break;
  }
  return worst;
}

/** Whether this process has rank 0. */
const isFirst = ({ kind }: Role): boolean =>
  kind === 'all' || readLaunchEnvironment(process.env, process.ppid).rank === 0;

/** Says which of several tables follows. */
function announce(options: PerfOptions, { algo, proto }: Variant): void {
  if (options.jsonToStdout) return;
  const protocol = proto === undefined ? '' : `, protocol ${proto}`;
  process.stdout.write(`# algorithm ${algo}${protocol}\n`);
}

/** Runs this command again as so many processes, which measure all tables. */
async function runRanks(processes: number, args: readonly string[], device: PerfDevice): Promise<number> {
  // The ranks take their number from the environment, so -n must not reach them.
  const gone = ['processes', 'nthreads', 'ngpus', 'device'];
  const rankArgs = withoutOptions(args, ['n', 't', 'g'], gone);
  process.env.TUTTI_PERF_ARGS = JSON.stringify(args);
  return runCommand([
    ...['-n', String(processes), '--no-prefix', '--'],
    ...[process.argv[1]!, 'perf', ...rankArgs, `--device=${device}`],
  ]);
}

interface TableOutcome {
  readonly status: number;
  /** Ranks failed in the middle, so that they may be at different places: no further table can be measured. */
  readonly isStuck: boolean;
}

/** What all ranks refuse alike. */
const REFUSALS: readonly string[] = ['invalidUsage', 'invalidArgument'];

/** Measures one table on the ranks of this process; `seconds` is what it may take. */
async function measureTable(
  options: PerfOptions,
  args: readonly string[],
  role: Exclude<Role, { kind: 'parent' }>,
  table: Variant,
  device: PerfDevice,
  seconds: number | undefined,
): Promise<TableOutcome> {
  const limits = options.timeoutSeconds > 0 ? { timeoutMs: options.timeoutSeconds * 1000 } : {};
  const choices = communicatorOptions(options.collective, table, process.env);
  let opened: OpenRanks | undefined;
  try {
    opened = await openRanks(device, role, options, { ...limits, ...choices });
    const status = await measureHere(options, args, opened, seconds);
    await opened.close();
    return { status, isStuck: false };
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    const rank = opened?.ranks.ranks[0];
    process.stderr.write(`tutti perf: ${rank === undefined ? '' : `rank ${rank}: `}${error.message}\n`);
    await opened?.close().catch(() => {});
    return { status: error.code === 'timeout' ? 4 : 3, isStuck: !REFUSALS.includes(error.code) };
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
