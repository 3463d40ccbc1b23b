/**
 * The command line of `tutti perf`: the flags of nccl-tests 2.19.6 that have a meaning here.
 *
 * Different on purpose from nccl-tests:
 * - `-n` is the number of ranks that are processes and `-t` the number of ranks that are threads of one
 *   process; the timed iterations are `--iters`.
 * - Without `--iters`, small sizes are timed more often than 20 times: they take microseconds, and 20 of them
 *   would measure how the ranks happened to leave the barrier. JSON reports tell the actual number.
 * - Without any of -b, -e, -i and -f the sweep is 8 B to 32 MiB by a factor of 4, not one row of 32 MiB.
 * - An unknown option, type or operator and text that is not a number are errors, not defaults; so are
 *   options that contradict each other (`-K` without `-I`), a step of 0, and values out of range.
 * - `-b 0` ends: a sweep by a factor goes on from 0 with one element.
 * - `-r all` means what `-r -1` means: every root in turn.
 * - `-J` writes to any file name, not only to those that end in .json.
 * - `-o all` has no mulsum, which needs operators made by the user.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { type ElementType, REDUCE_OP_NAMES, type ReduceOp } from '../../kernel/element-types.js';
import { parseInteger, parseSize } from './quantities.js';
import { COLLECTIVE_NAMES, type CollectiveName, type Sweep } from './sizes.js';
import type { Averaging } from './statistics.js';
import { EACH_SECONDS } from './time-budget.js';
import { ALL_OPS, ALL_TYPES, elementTypeNamed, TEST_TYPE_NAMES } from './type-names.js';

/** What a perf run shall do. */
export interface PerfOptions {
  readonly collective: CollectiveName;
  readonly sweep: Sweep;
  /** Ranks as processes; absent: not asked for. With `threads` too, each process has that many ranks. */
  readonly processes?: number;
  /** Ranks as threads of one process; absent: not asked for. Neither: the caller chooses. */
  readonly threads?: number;
  /** Where the data lie; absent: on GPUs where there are any. */
  readonly device?: 'host' | 'cuda';
  /** Ranks with a GPU each in one process; absent: not asked for. */
  readonly gpus?: number;
  /** On GPUs: launches of a graph that holds all timed operations; 0 launches them one by one. */
  readonly graphs: number;
  /** Timed iterations, each of `aggregated` operations. */
  readonly iterations: number;
  /** False when nobody asked for a number: small sizes are then repeated more often, see `iterationsFor`. */
  readonly isIterationsGiven: boolean;
  /** Operations that are grouped in one iteration. */
  readonly aggregated: number;
  /** Seconds for all tables, kept by timing slow sizes less often; absent: as long as it takes. */
  readonly budgetSeconds?: number;
  /** Warm-up operations per warm-up size. */
  readonly warmupIterations: number;
  /** False when nobody asked for a number: large sizes are then not warmed up where time is short. */
  readonly isWarmupGiven: boolean;
  /** Full sweeps; 0 repeats until stopped. */
  readonly cycles: number;
  /** Check runs per row; 0 does not check. */
  readonly checks: number;
  readonly types: readonly ElementType[];
  readonly ops: readonly ReduceOp[];
  /** A root, or every root in turn. */
  readonly root: number | 'all';
  /** 1: wait and barrier after each operation; 2: wait after each operation. */
  readonly blocking: 0 | 1 | 2;
  /** Seconds that one wait may take; 0 is no limit. */
  readonly timeoutSeconds: number;
  readonly averaging: Averaging;
  readonly reportCpuTime: boolean;
  readonly reportTimestamps: boolean;
  /** Elements by which both buffers start off their alignment. */
  readonly unalign: number;
  readonly perIteration: boolean;
  /** Leading samples that the per-iteration summary leaves out. */
  readonly perIterationSkip: number;
  /** Buffers in the shared heap that peers can reach, or ordinary typed arrays. */
  readonly memory: 'window' | 'array';
  /** NCCL's lists of algorithms and protocols, or `each` for a table of every one there is. */
  readonly algo?: string;
  readonly proto?: string;
  /** The JSON document goes to standard output in place of the table. */
  readonly jsonToStdout: boolean;
  /** The JSON document is written to this file beside the table. */
  readonly jsonFile?: string;
  /** Only the help was asked for. */
  readonly help: boolean;
}

type Draft = { -readonly [K in keyof Omit<PerfOptions, 'sweep'>]: PerfOptions[K] } & {
  sweep: { -readonly [K in keyof Sweep]: Sweep[K] };
};

interface OptionSpec {
  readonly short?: string;
  readonly long: string;
  /** Placeholder of the value; absent for a switch. */
  readonly value?: string;
  /** The value may be left out. */
  readonly isOptional?: boolean;
  readonly help: string;
  /** `what` is the option as it is called in errors. */
  apply(options: Draft, value: string, what: string): void;
}

/** Sizes of nccl-tests: one row of 32 MiB; with another last size, steps of 1 MiB. */
const TEST_SWEEP: Sweep = {
  minBytes: 33554432,
  maxBytes: 33554432,
  stepBytes: 1048576,
  stepFactor: 1,
};

/** Without any option about sizes: from latency to bandwidth in twelve rows. */
const DEFAULT_SWEEP: Sweep = { ...TEST_SWEEP, minBytes: 8, stepFactor: 4 };

const AVERAGING: readonly Averaging[] = ['rank0', 'mean', 'min', 'max'];

const SPECS: readonly OptionSpec[] = [
  {
    short: 'n',
    long: 'processes',
    value: 'N',
    help: 'ranks as processes',
    apply: (o, v, what) => (o.processes = parseInteger(v, what, 1)),
  },
  {
    short: 't',
    long: 'nthreads',
    value: 'N',
    help: 'ranks as threads of one process, instead of -n',
    apply: (o, v, what) => (o.threads = parseInteger(v, what, 1)),
  },
  {
    long: 'device',
    value: 'KIND',
    help: 'where the data lie: host or cuda (cuda where there are GPUs)',
    apply: (o, v, what) => (o.device = parseDevice(v, what)),
  },
  {
    short: 'g',
    long: 'ngpus',
    value: 'N',
    help: 'ranks with a GPU each in one process, instead of -n (all GPUs, at least 2 ranks)',
    apply: (o, v, what) => (o.gpus = parseInteger(v, what, 1)),
  },
  {
    short: 'G',
    long: 'cudagraph',
    value: 'N',
    help: 'on GPUs: launches of a CUDA graph of all timed operations, 0 makes none (0)',
    apply: (o, v, what) => (o.graphs = parseInteger(v, what, 0)),
  },
  {
    short: 'b',
    long: 'minbytes',
    value: 'SIZE',
    help: 'first size (32M)',
    apply: (o, v, what) => (o.sweep.minBytes = parseSize(v, what)),
  },
  {
    short: 'e',
    long: 'maxbytes',
    value: 'SIZE',
    help: 'last size (32M)',
    apply: (o, v, what) => (o.sweep.maxBytes = parseSize(v, what)),
  },
  {
    short: 'i',
    long: 'stepbytes',
    value: 'SIZE',
    help: 'from one size to the next, added (1M)',
    apply: (o, v, what) => (o.sweep.stepBytes = parseSize(v, what)),
  },
  {
    short: 'f',
    long: 'stepfactor',
    value: 'N',
    help: 'from one size to the next, multiplied when above 1 (1)',
    apply: (o, v, what) => (o.sweep.stepFactor = parseInteger(v, what, 0)),
  },
  {
    long: 'iters',
    value: 'N',
    help: 'timed iterations (20; sizes below 1M more when not given)',
    apply: (o, v, what) => (o.iterations = parseInteger(v, what, 1)),
  },
  {
    short: 'm',
    long: 'agg_iters',
    value: 'N',
    help: 'operations grouped in one iteration (1)',
    apply: (o, v, what) => (o.aggregated = parseInteger(v, what, 1)),
  },
  {
    short: 'w',
    long: 'warmup_iters',
    value: 'N',
    help: 'warm-up operations per size (1)',
    apply: (o, v, what) => (o.warmupIterations = parseInteger(v, what, 0)),
  },
  {
    short: 'N',
    long: 'run_cycles',
    value: 'N',
    help: 'full sweeps, 0 repeats for ever (1)',
    apply: (o, v, what) => (o.cycles = parseInteger(v, what, 0)),
  },
  {
    short: 'c',
    long: 'check',
    value: 'N',
    help: 'check runs per row, 0 does not check (1)',
    apply: (o, v, what) => (o.checks = parseInteger(v, what, 0)),
  },
  {
    short: 'd',
    long: 'datatype',
    value: 'TYPE',
    help: `${Object.values(TEST_TYPE_NAMES).join(' ')}, or all (float)`,
    apply: (o, v, what) => (o.types = parseTypes(v, what)),
  },
  {
    short: 'o',
    long: 'op',
    value: 'OP',
    help: `${REDUCE_OP_NAMES.join(' ')}, or all (sum)`,
    apply: (o, v, what) => (o.ops = parseOps(v, what)),
  },
  {
    short: 'r',
    long: 'root',
    value: 'RANK',
    help: 'root of the operation; all or -1: every root in turn (0)',
    apply: (o, v, what) => (o.root = parseRoot(v, what)),
  },
  {
    short: 'z',
    long: 'blocking',
    value: '0..2',
    help: '1: wait and barrier after each operation, 2: wait after each (0)',
    apply: (o, v, what) => (o.blocking = parseInteger(v, what, 0, 2) as 0 | 1 | 2),
  },
  {
    short: 'T',
    long: 'timeout',
    value: 'SECONDS',
    help: 'longest wait before the run is given up, 0 is no limit (0)',
    apply: (o, v, what) => (o.timeoutSeconds = parseInteger(v, what, 0)),
  },
  {
    short: 'a',
    long: 'average',
    value: '0..3',
    help: "time shown: 0 rank 0's, 1 mean, 2 min, 3 max over ranks (1)",
    apply: (o, v, what) => (o.averaging = AVERAGING[parseInteger(v, what, 0, 3)]!),
  },
  {
    short: 'C',
    long: 'report_cputime',
    value: '0/1',
    help: 'show the time until enqueued instead of completed (0)',
    apply: (o, v, what) => (o.reportCpuTime = parseInteger(v, what, 0, 1) === 1),
  },
  {
    short: 'S',
    long: 'report_timestamps',
    value: '0/1',
    help: 'end each row with the time of day (0)',
    apply: (o, v, what) => (o.reportTimestamps = parseInteger(v, what, 0, 1) === 1),
  },
  {
    short: 'u',
    long: 'unalign',
    value: 'N',
    help: 'elements by which the buffers start off their alignment (0)',
    apply: (o, v, what) => (o.unalign = parseInteger(v, what, 0)),
  },
  {
    short: 'I',
    long: 'per_iter_timing',
    value: '0/1',
    help: 'show min, max, p99 and variation of single iterations (0)',
    apply: (o, v, what) => (o.perIteration = parseInteger(v, what, 0, 1) === 1),
  },
  {
    short: 'K',
    long: 'per_iter_skip',
    value: 'N',
    help: 'leading iterations that -I leaves out (0)',
    apply: (o, v, what) => (o.perIterationSkip = parseInteger(v, what, 0)),
  },
  {
    long: 'memory',
    value: 'KIND',
    help: 'window: buffers that peers reach directly; array: ordinary typed arrays (window)',
    apply: (o, v, what) => (o.memory = parseMemory(v, what)),
  },
  {
    long: 'algo',
    value: 'LIST',
    help: 'algorithms as in NCCL_ALGO, or each: a table of every one there is',
    apply: (o, v) => (o.algo = v),
  },
  {
    long: 'proto',
    value: 'LIST',
    help: 'protocols as in NCCL_PROTO, or each',
    apply: (o, v) => (o.proto = v),
  },
  {
    long: 'budget',
    value: 'SECONDS',
    help: 'time for all tables: slow sizes are timed less often, 0 is no limit (90 with each, else 0)',
    apply: (o, v, what) => (o.budgetSeconds = parseInteger(v, what, 0)),
  },
  {
    long: 'json',
    value: 'FILE',
    isOptional: true,
    help: 'JSON document to standard output instead of the table, or to FILE beside it',
    apply: (o, v) => {
      if (v === '') o.jsonToStdout = true;
      else o.jsonFile = v;
    },
  },
  {
    short: 'J',
    long: 'output_file',
    value: 'FILE',
    help: 'the same as --json FILE',
    apply: (o, v) => (o.jsonFile = v),
  },
  { short: 'h', long: 'help', help: 'this text', apply: (o) => (o.help = true) },
];

/** Value of --algo and --proto: every one there is, with a table each. */
export const EACH = 'each';

/** Options of nccl-tests that stand for something that host memory does not have, and why. */
const FOREIGN: Readonly<Record<string, string>> = {
  p: 'parallel initialisation; ranks always start side by side',
  parallel_init: 'parallel initialisation; ranks always start side by side',
  y: 'null streams, which only GPUs have',
  stream_null: 'null streams, which only GPUs have',
  R: 'registration; use --memory to choose the kind of buffer',
  local_register: 'registration; use --memory to choose the kind of buffer',
  x: 'CTA policies, which only GPUs have',
  cta_policy: 'CTA policies, which only GPUs have',
  D: 'GPU kernels of the device interface',
  device_implementation: 'GPU kernels of the device interface',
  V: 'GPU kernels of the device interface',
  device_cta_count: 'GPU kernels of the device interface',
  M: 'GPU memory',
  memory_report: 'GPU memory',
};

/**
 * Parses the arguments after `tutti perf`: an optional collective (default all_reduce; also as
 * `all_reduce_perf` or `allReduce`) and options, as `-b 8`, `-b8`, `--minbytes 8` or `--minbytes=8`.
 *
 * @throws TuttiError `invalidArgument` that names the option, the value and what would be right.
 */
export function parsePerfOptions(args: readonly string[]): PerfOptions {
  const options: Draft = {
    collective: 'all_reduce',
    sweep: { ...TEST_SWEEP },
    iterations: 20,
    isIterationsGiven: false,
    aggregated: 1,
    warmupIterations: 1,
    isWarmupGiven: false,
    cycles: 1,
    checks: 1,
    types: ['float32'],
    ops: ['sum'],
    root: 0,
    graphs: 0,
    blocking: 0,
    timeoutSeconds: 0,
    averaging: 'mean',
    reportCpuTime: false,
    reportTimestamps: false,
    unalign: 0,
    perIteration: false,
    perIterationSkip: 0,
    memory: 'window',
    jsonToStdout: false,
    help: false,
  };
  const given = new Set<string>();
  let collective: string | undefined;
  for (let index = 0; index < args.length; index++) {
    const argument = args[index]!;
    if (!/^-./.test(argument)) {
      if (collective !== undefined) {
        throw new TuttiError(
          'invalidArgument',
          `'${argument}': only one collective can be measured, and '${collective}' is given already`,
        );
      }
      collective = argument;
      options.collective = parseCollective(argument);
      continue;
    }
    const { spec, what, attached } = findOption(argument);
    let value = attached;
    if (spec.value === undefined) {
      if (value !== undefined)
        throw new TuttiError('invalidArgument', `${what} takes no value, not '${value}'`);
    } else if (value === undefined) {
      const next = args[index + 1];
      // A value may be negative (-r -1) but never looks like another option.
      const isValue = next !== undefined && (!next.startsWith('-') || /^-\d/.test(next));
      if (isValue) {
        value = next;
        index++;
      } else if (!spec.isOptional) {
        throw new TuttiError('invalidArgument', `${what} needs a value: ${what} ${spec.value}`);
      }
    }
    given.add(spec.long);
    spec.apply(options, value ?? '', what);
  }
  options.isIterationsGiven = given.has('iters');
  options.isWarmupGiven = given.has('warmup_iters');
  const isSizeGiven = ['minbytes', 'maxbytes', 'stepbytes', 'stepfactor'].some((name) => given.has(name));
  if (!isSizeGiven) options.sweep = { ...DEFAULT_SWEEP };
  if (!options.help) checkTogether(options);
  const budgetSeconds = budgetOf(options);
  delete options.budgetSeconds;
  if (budgetSeconds !== undefined) options.budgetSeconds = budgetSeconds;
  return options;
}

/** Seconds for all tables: as asked, else those of `each`; none where iterations are asked for, or cycles without end. */
function budgetOf(options: Draft): number | undefined {
  const { budgetSeconds, isIterationsGiven, cycles, algo, proto, iterations } = options;
  if (isIterationsGiven && (budgetSeconds ?? 0) > 0) {
    throw new TuttiError(
      'invalidArgument',
      `--budget ${budgetSeconds} --iters ${iterations}: iterations that are asked for are made, whatever they take; leave one of them out`,
    );
  }
  const isEach = [algo, proto].some((list) => list?.toLowerCase() === EACH);
  const seconds = budgetSeconds ?? (isEach ? EACH_SECONDS : 0);
  return seconds === 0 || isIterationsGiven || cycles === 0 ? undefined : seconds;
}

/** The option that an argument names, how it was called, and a value in the same argument. */
function findOption(argument: string): { spec: OptionSpec; what: string; attached: string | undefined } {
  if (argument.startsWith('--')) {
    const equals = argument.indexOf('=');
    const name = equals < 0 ? argument.slice(2) : argument.slice(2, equals);
    const spec = SPECS.find((candidate) => candidate.long === name);
    if (spec === undefined) throw unknownOption(`--${name}`, name);
    return { spec, what: `--${name}`, attached: equals < 0 ? undefined : argument.slice(equals + 1) };
  }
  const letter = argument[1]!;
  const spec = SPECS.find((candidate) => candidate.short === letter);
  if (spec === undefined) throw unknownOption(`-${letter}`, letter);
  return { spec, what: `-${letter}`, attached: argument.length > 2 ? argument.slice(2) : undefined };
}

function unknownOption(what: string, name: string): TuttiError {
  const foreign = Object.hasOwn(FOREIGN, name) ? FOREIGN[name] : undefined;
  return new TuttiError(
    'invalidArgument',
    foreign === undefined
      ? `unknown option '${what}'; see tutti perf --help`
      : `option '${what}' of nccl-tests is about ${foreign}; leave it out`,
  );
}

function checkTogether(options: Draft): void {
  const { minBytes, maxBytes, stepFactor, stepBytes } = options.sweep;
  if (minBytes > maxBytes) {
    throw new TuttiError(
      'invalidArgument',
      `invalid sizes for 'minbytes' and 'maxbytes': ${minBytes} > ${maxBytes};` +
        ' give both -b and -e (each is 32M when left out)',
    );
  }
  if (stepFactor <= 1 && stepBytes === 0 && minBytes < maxBytes) {
    throw new TuttiError(
      'invalidArgument',
      '-i 0: the sweep would never move on; give -i above 0 or -f above 1',
    );
  }
  checkDevice(options);
  if (options.perIterationSkip > 0 && !options.perIteration) {
    throw new TuttiError('invalidArgument', '-K leaves out samples of -I 1, which is not given');
  }
  if (options.perIterationSkip >= options.iterations) {
    throw new TuttiError(
      'invalidArgument',
      `-K ${options.perIterationSkip}: nothing would be left of ${options.iterations} iterations; give a smaller one`,
    );
  }
}

/** Options that belong to one kind of device. */
function checkDevice(options: Draft): void {
  const { gpus, graphs, device, threads, processes, memory } = options;
  const refuse = (message: string): never => {
    throw new TuttiError('invalidArgument', message);
  };
  if (device === 'host') {
    if (gpus !== undefined)
      refuse(`-g ${gpus}: GPUs are asked for, but --device is host; leave one of them out`);
    if (graphs > 0)
      refuse(`-G ${graphs}: only GPUs have graphs, but --device is host; leave one of them out`);
  }
  if ((gpus ?? 1) > 1 && (threads ?? processes ?? 1) > 1) {
    refuse(
      `-g ${gpus}: ranks are GPUs of one process (-g), processes with a GPU each (-n), or threads (-t); give one of them`,
    );
  }
  if (device === 'cuda' || gpus !== undefined || graphs > 0) {
    if (threads !== undefined) {
      refuse(
        `-t ${threads}: ranks on GPUs need no threads; use -g for ranks of one process, or --device host`,
      );
    }
    if (memory === 'array') refuse('--memory array: ordinary arrays are no memory of GPUs; leave it out');
  }
  if (graphs > 0 && options.perIteration) {
    refuse('-I 1: operations of a graph cannot be timed one by one; leave -I or -G out');
  }
  if (graphs > 0 && options.blocking > 0) {
    refuse(`-z ${options.blocking}: nothing waits within a graph; leave -z or -G out`);
  }
}

function parseDevice(text: string, what: string): 'host' | 'cuda' {
  if (text === 'host' || text === 'cuda') return text;
  throw new TuttiError('invalidArgument', `${what}: unknown device '${text}'; it must be host or cuda`);
}

function parseCollective(text: string): CollectiveName {
  const plain = (name: string): string => name.toLowerCase().replaceAll(/_perf$|[_-]/g, '');
  const found = COLLECTIVE_NAMES.find((name) => plain(name) === plain(text));
  if (found !== undefined) return found;
  throw new TuttiError(
    'invalidArgument',
    `unknown collective '${text}'; it must be one of ${COLLECTIVE_NAMES.join(', ')}`,
  );
}

function parseTypes(text: string, what: string): readonly ElementType[] {
  if (text === 'all') return ALL_TYPES;
  const type = elementTypeNamed(text);
  if (type !== undefined) return [type];
  throw new TuttiError(
    'invalidArgument',
    `${what}: unknown type '${text}'; it must be one of ${Object.values(TEST_TYPE_NAMES).join(', ')}, all`,
  );
}

function parseOps(text: string, what: string): readonly ReduceOp[] {
  if (text === 'all') return ALL_OPS;
  const op = REDUCE_OP_NAMES.find((name) => name === text);
  if (op !== undefined) return [op];
  if (text === 'mulsum') {
    throw new TuttiError(
      'invalidArgument',
      `${what}: mulsum needs operators made by the user, which tutti perf does not make; choose sum`,
    );
  }
  throw new TuttiError(
    'invalidArgument',
    `${what}: unknown operator '${text}'; it must be one of ${REDUCE_OP_NAMES.join(', ')}, all`,
  );
}

function parseRoot(text: string, what: string): number | 'all' {
  if (text === 'all') return 'all';
  const root = parseInteger(text, what, -1);
  return root === -1 ? 'all' : root;
}

function parseMemory(text: string, what: string): 'window' | 'array' {
  if (text === 'window' || text === 'array') return text;
  throw new TuttiError('invalidArgument', `${what}: unknown memory '${text}'; it must be window or array`);
}

/** The help text, with a line end. */
export function perfHelp(): string {
  const lines = [
    'Usage: tutti perf [COLLECTIVE] [OPTIONS]',
    '',
    'Measures a collective and checks every element of its results. Output is that of nccl-tests, and so are the',
    'options, except: -n is the number of ranks as processes (not the iterations, which are --iters), -t the number',
    'of ranks as threads; without sizes a sweep is measured; mistakes are errors.',
    'On GPUs, -g ranks live in one process, or -n processes have a GPU each; ranks beyond the GPUs share them.',
    'Without -g, -n and -t: all GPUs in one process, at least 2 ranks; on host memory one rank per core as a',
    'process, at least 2 and at most 8. Under a launcher (tutti run, mpirun, torchrun, srun) each process is one rank.',
    '',
    `Collectives: ${COLLECTIVE_NAMES.join(' ')} (default all_reduce)`,
    '',
    'Sizes are in bytes, with an optional K, M or G (powers of 1024). Without -b, -e, -i and -f the sizes',
    'are 8 bytes to 32 MiB by a factor of 4.',
    '',
  ];
  for (const spec of SPECS) {
    const value = spec.value === undefined ? '' : spec.isOptional ? ` [${spec.value}]` : ` ${spec.value}`;
    const short = spec.short === undefined ? '    ' : `-${spec.short}, `;
    lines.push(`  ${short}${`--${spec.long}${value}`.padEnd(27)} ${spec.help}`);
  }
  return `${lines.join('\n')}\n`;
}
