/**
 * The command line of `tutti tune`.
 */
import {
  ELEMENT_TYPE_NAMES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '../../kernel/element-types.js';
import type { NcclFunction } from '../../tuning/names.js';
import { nearestName } from '../../tuning/nearest-name.js';
import { LARGEST_BYTES } from '../../tuning/report/boundaries.js';
import { bytesText } from '../../tuning/report/quantities.js';
import type { Registration } from '../../tuning/symmetric/kernels.js';
import { parseArguments } from '../parse-arguments.js';
import { parseSize } from '../perf/quantities.js';
import { elementTypeNamed, TEST_TYPE_NAMES } from '../perf/type-names.js';
import {
  ABILITY_USAGE,
  checkNames,
  MACHINE_OPTIONS,
  MACHINE_USAGE,
  type MachineOptions,
  machineOptions,
  STANDARD,
  wrong,
} from '../topo/machine-options.js';
import { functionsNamed } from './collective-names.js';
import { type FitOptions, fitOptions, type HostOptions, hostOptions } from './host/options.js';
import type { SweepOptions } from './sweep-sizes.js';
import { type VerificationOptions, verificationOptions } from './verification.js';
import { parseWhatIf, type WhatIf } from './what-if.js';

export const TUNE_USAGE = `Usage: tutti tune [FILE ...] [--coll NAME] [--size BYTES | --sweep] [options]

Shows which algorithm and protocol NCCL 2.30 chooses for a collective on a machine or a cluster, what it predicts for
every other one, which are not available and why, and on which channels the call runs. Without a file: this machine.

What to decide:
  --coll NAME           all_reduce (default), all_gather, reduce_scatter, broadcast, reduce, NCCL's names, or each
  --size BYTES          one size, such as 8, 64K, 1.5M, 4G: of the whole message (all ranks' parts of all_gather and
                        reduce_scatter, as nccl-tests counts them)
  --sweep               many sizes (default without --size): the decision by size, and why it changes
  -b, -e, -f            first size (8), last size (4G) and factor (2) of the sweep
  -d, --type TYPE       type of the elements (float)
  -o, --op OP           sum (default), prod, max, min, avg
  --registered          both buffers are registered with the communicator
  --windows SIDE        buffers in symmetric windows: none, send, receive or both; shows what else may run the call

What to look at:
${MACHINE_USAGE}
What NCCL may use:
${ABILITY_USAGE}  --tuner FILE          a tuner: an ES module, or CSV rules as NCCL's example plugin reads them
  --ignore-broken-tuner go on without a tuner that fails

What to show:
  --what-if NAME=VALUE  compare with what NCCL would decide with this variable (NAME alone: without it); several in one
                        text, separated by blanks, count together; repeated, each text is compared
  --log                 the lines that NCCL logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING
  --json                everything as JSON (docs/tuning.md)
  --svg FILE            a picture of the sweep: predicted times of all candidates by size (- prints it)

Instead of all this:
  --verify              prove the programs of tutti's own algorithms on host memory: each contribution once, no wait for
                        ever, bytes per link; for --coll, a message of --size (4K), --ranks N,N,... (2,3,4,8) ranks,
                        --ranks-per-node N (1); as a table or with --json

Algorithms of tutti on host memory, which has a cost model of its own:
  --host                what a communicator on this host chooses by size, and why, with all candidates for a --size;
                        for --coll (alltoall too), --ranks N,N,... (2,4), --cores N, --sockets; --json
  --fit                 measure this machine (a minute) and write the model's constants where communicators find them;
                        --out FILE: elsewhere, --ranks N,N,...: with these numbers of ranks

  -h, --help            this text

Exit status: 0, 1 if something cannot be described or decided, 2 for wrong use.
`;

export interface TuneOptions extends MachineOptions {
  readonly functions: readonly NcclFunction[];
  /** One size in bytes; undefined: a sweep. */
  readonly size: number | undefined;
  /** Also given with a size: what a picture shows. */
  readonly sweep: SweepOptions;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly registered: boolean;
  /** Buffers in symmetric windows; undefined: not asked about. */
  readonly windows: Registration | undefined;
  readonly tuner: string | undefined;
  readonly ignoreBrokenTuner: boolean;
  readonly whatIf: readonly WhatIf[];
  readonly show: 'text' | 'log' | 'json';
  readonly svg: string | undefined;
}

/** Sizes of a sweep at most: far more than can be read. */
const MOST_SIZES = 10_000;

/**
 * Reads the arguments after `tutti tune`; 'help' when help is asked for.
 *
 * @throws TuttiError invalidArgument naming the option, the value and what would be right
 */
export function parseTuneOptions(
  args: readonly string[],
): TuneOptions | VerificationOptions | HostOptions | FitOptions | 'help' {
  const { values, positionals, tokens } = parse(args);
  if (values.help) return 'help';
  if (values.verify) {
    const known: readonly string[] = ['verify', 'coll', 'size', 'ranks', 'ranks-per-node', 'json'];
    onlyWith(
      '--verify',
      'programs are proved for ranks on host memory, whatever the machine',
      known,
      values,
      positionals,
    );
    const bytes = values.size === undefined ? undefined : size('--size', values.size);
    return verificationOptions(functionsNamed(values.coll ?? 'each'), bytes, values);
  }
  if (values.fit) {
    onlyWith('--fit', 'this machine is measured', ['fit', 'ranks', 'out'], values, positionals);
    return fitOptions(values);
  }
  if (values.host) {
    const known = [
      'host',
      'coll',
      'size',
      'sweep',
      'begin',
      'end',
      'factor',
      'ranks',
      'cores',
      'sockets',
      'json',
    ];
    onlyWith('--host', 'ranks of one host are looked at', known, values, positionals);
    refuseBoth(values);
    const bytes = values.size === undefined ? undefined : size('--size', values.size);
    return hostOptions(values, bytes, sweepOptions({ begin: '64', end: '64M', ...values }, '4'));
  }
  for (const [name, owners] of Object.entries(BELONGS)) {
    const value = values[name as keyof typeof BELONGS];
    if (value === undefined) continue;
    throw wrong(
      `--${name} ${value === true ? '' : `${value} `}belongs to ${owners}; leave it out or add that`,
    );
  }
  const machines = machineOptions(values, tokens);
  checkNames(values, ['svg', 'tuner']);
  if (values.json && values.log) throw wrong('--json --log: only one of them can be shown at a time');
  const shown = values.json ? 'json' : values.log ? 'log' : undefined;
  if (values.svg === STANDARD && shown !== undefined) {
    throw wrong(`--svg - --${shown}: the standard output takes one of them; give the picture a file`);
  }
  refuseBoth(values);
  if (values['ignore-broken-tuner'] && values.tuner === undefined) {
    throw wrong('--ignore-broken-tuner: there is no tuner to ignore; give one with --tuner FILE');
  }
  const whatIf = (values['what-if'] ?? []).map(parseWhatIf);
  if (values.log && whatIf.length > 0)
    throw wrong('--log --what-if: NCCL logs no comparison; give one of them');
  return {
    ...machines,
    functions: functionsNamed(values.coll ?? 'all_reduce'),
    size: values.size === undefined ? undefined : size('--size', values.size),
    sweep: sweepOptions(values),
    type: typeNamed(values.type ?? 'float'),
    op: opNamed(values.op ?? 'sum'),
    registered: values.registered ?? false,
    windows: values.windows === undefined ? undefined : windowsNamed(values.windows),
    tuner: values.tuner,
    ignoreBrokenTuner: values['ignore-broken-tuner'] ?? false,
    whatIf,
    show: shown ?? 'text',
    svg: values.svg,
  };
}

/** Options that only go with another one. */
const BELONGS = {
  ranks: '--verify, --host or --fit',
  'ranks-per-node': '--verify',
  cores: '--host',
  sockets: '--host',
  out: '--fit',
} as const;

/** Refuses everything but the known options with one that needs no machine. */
function onlyWith(
  option: string,
  why: string,
  known: readonly string[],
  values: Readonly<Record<string, unknown>>,
  positionals: readonly string[],
): void {
  const other = Object.keys(values).find((name) => !known.includes(name));
  if (other === undefined && positionals.length === 0) return;
  throw wrong(`${option} ${other === undefined ? positionals[0] : `--${other}`}: ${why}; leave it out`);
}

/** One size or many, not both. */
function refuseBoth(values: Readonly<Record<string, unknown>>): void {
  const sweeps = (['sweep', 'begin', 'end', 'factor'] as const).filter((name) => values[name] !== undefined);
  if (values.size === undefined || sweeps.length === 0) return;
  throw wrong(`--size --${sweeps[0]}: --size asks for one size, --${sweeps[0]} for many; give one of them`);
}

function sweepOptions(
  values: { begin?: string; end?: string; factor?: string },
  usualFactor = '2',
): SweepOptions {
  const first = size('-b', values.begin ?? '8');
  const last = size('-e', values.end ?? '4G');
  const text = values.factor ?? usualFactor;
  const factor = /^\d+\.?\d*$|^\.\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(factor > 1)) throw wrong(`-f ${text}: a number above 1 is needed, such as 2`);
  if (last < first) {
    throw wrong(
      `-b ${bytesText(first)} -e ${bytesText(last)}: the first size is larger than the last one; change one of them`,
    );
  }
  const count = Math.floor(Math.log(last / first) / Math.log(factor)) + 1;
  if (count > MOST_SIZES) {
    throw wrong(`-f ${text}: this makes ${count} sizes, ${MOST_SIZES} are the most; give a larger factor`);
  }
  return { first, last, factor };
}

function size(what: string, text: string): number {
  const bytes = parseSize(text, what);
  if (bytes < 1) throw wrong(`${what} ${text}: a message without bytes is not decided; give 1 or more`);
  if (bytes > LARGEST_BYTES) {
    throw wrong(`${what} ${text}: no GPUs hold that much; give ${bytesText(LARGEST_BYTES)} at most`);
  }
  return bytes;
}

function typeNamed(name: string): ElementType {
  const found = elementTypeNamed(name);
  if (found !== undefined) return found;
  const names = [...new Set([...ELEMENT_TYPE_NAMES, ...Object.values(TEST_TYPE_NAMES)])];
  const near = nearestName(name, names);
  throw wrong(
    `--type ${name} is unknown${near === undefined ? '' : ` (did you mean ${near}?)`}; use ${ELEMENT_TYPE_NAMES.join(', ')}`,
  );
}

function opNamed(name: string): ReduceOp {
  const found = REDUCE_OP_NAMES.find((op) => op === name.toLowerCase());
  if (found !== undefined) return found;
  const near = nearestName(name, REDUCE_OP_NAMES);
  throw wrong(
    `--op ${name} is unknown${near === undefined ? '' : ` (did you mean ${near}?)`}; use ${REDUCE_OP_NAMES.join(', ')}`,
  );
}

const SIDES: readonly Registration[] = ['none', 'send', 'receive', 'both'];

function windowsNamed(name: string): Registration {
  const found = SIDES.find((side) => side === name.toLowerCase());
  if (found !== undefined) return found;
  throw wrong(`--windows ${name} is unknown; use ${SIDES.join(', ')}`);
}

function parse(args: readonly string[]) {
  return parseArguments(
    {
      args: [...args],
      allowPositionals: true,
      tokens: true,
      options: {
        ...MACHINE_OPTIONS,
        coll: { type: 'string' },
        size: { type: 'string' },
        sweep: { type: 'boolean' },
        begin: { type: 'string', short: 'b' },
        end: { type: 'string', short: 'e' },
        factor: { type: 'string', short: 'f' },
        type: { type: 'string', short: 'd' },
        op: { type: 'string', short: 'o' },
        registered: { type: 'boolean' },
        windows: { type: 'string' },
        tuner: { type: 'string' },
        'ignore-broken-tuner': { type: 'boolean' },
        'what-if': { type: 'string', multiple: true },
        log: { type: 'boolean' },
        json: { type: 'boolean' },
        svg: { type: 'string' },
        verify: { type: 'boolean' },
        ranks: { type: 'string' },
        'ranks-per-node': { type: 'string' },
        host: { type: 'boolean' },
        fit: { type: 'boolean' },
        cores: { type: 'string' },
        sockets: { type: 'boolean' },
        out: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    },
    'tune',
  );
}
