/**
 * The command line of `tutti topo`.
 */
import { parseArguments } from '../parse-arguments.js';
import {
  ABILITY_USAGE,
  checkNames,
  integer,
  MACHINE_OPTIONS,
  MACHINE_USAGE,
  type MachineOptions,
  machineOptions,
  STANDARD,
  wrong,
} from './machine-options.js';

export const TOPO_USAGE = `Usage: tutti topo [FILE ...] [options]

Shows what NCCL 2.30 decides about a machine or a cluster: the machine as it sees it, the path between every two
devices, the channels it finds, and the rings and trees over all ranks. Without a file: this machine.

What to look at:
${MACHINE_USAGE}
What NCCL may use:
${ABILITY_USAGE}
What to show (default: machine, paths, channels, orders):
  --explain             why: what limits each graph, why paths are refused, what would change it
  --rank N              what one rank has: its neighbours and NICs by channel
  --log [--rank N]      the lines that NCCL logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH, of one rank (0);
                        docs/topology.md compares them with the log of a job, which has the lines of all ranks
  --json                everything as JSON (docs/topology.md)
  --svg FILE            a picture of machine and channels

Files to write (--svg, --dump and --graph-dump write - to the standard output, in place of the text):
  --dump FILE           the topology, as NCCL_TOPO_DUMP_FILE does
  --graph-dump FILE     the graphs, as NCCL_GRAPH_DUMP_FILE does
  --record FILE         this machine, for --from on another one or for a report to us; nothing in it identifies
                        the owner ('tar tzf FILE' lists it, docs/topology.md says what it is)

  -h, --help            this text

Exit status: 0, 1 if something cannot be read, described or written, 2 for wrong use.
`;

export interface TopoOptions extends MachineOptions {
  readonly show: 'text' | 'explain' | 'log' | 'json';
  readonly rank: number | undefined;
  readonly svg: string | undefined;
  readonly dump: string | undefined;
  readonly graphDump: string | undefined;
  readonly record: string | undefined;
}

/**
 * Reads the arguments after `tutti topo`; 'help' when help is asked for.
 *
 * @throws TuttiError invalidArgument naming the option, the value and what would be right.
 */
export function parseTopoOptions(args: readonly string[]): TopoOptions | 'help' {
  const { values, tokens } = parse(args);
  if (values.help) return 'help';
  const shows = (['explain', 'log', 'json'] as const).filter((name) => values[name]);
  if (shows.length > 1) {
    throw wrong(`${shows.map((name) => `--${name}`).join(' ')}: only one of them can be shown at a time`);
  }
  const machines = machineOptions(values, tokens);
  checkNames(values, ['svg', 'dump', 'graph-dump', 'record']);
  checkOutputs(values, shows[0]);
  return {
    ...machines,
    show: shows[0] ?? 'text',
    rank: values.rank === undefined ? undefined : integer('--rank', values.rank, 0, Number.MAX_SAFE_INTEGER),
    svg: values.svg,
    dump: values.dump,
    graphDump: values['graph-dump'],
    record: values.record,
  };
}

type Values = ReturnType<typeof parse>['values'];

/** Refuses what would be ignored, and several outputs to one place. */
function checkOutputs(values: Values, show: 'explain' | 'log' | 'json' | undefined): void {
  if (values.rank !== undefined && (show === 'explain' || show === 'json')) {
    throw wrong(`--rank --${show}: --${show} is about all ranks; give one of them`);
  }
  if (values.record === STANDARD)
    throw wrong('--record -: a recording is written to a file only; give its name');
  const printed = (['svg', 'dump', 'graph-dump'] as const).filter((name) => values[name] === STANDARD);
  if (printed.length === 0) return;
  const [other] = [...printed.slice(1), ...(show === undefined ? [] : [show])];
  const text = other ?? (values.rank === undefined ? undefined : 'rank');
  if (text === undefined) return;
  throw wrong(
    `--${printed[0]} - --${text}: the standard output takes one of them; give the other one a file`,
  );
}

function parse(args: readonly string[]) {
  return parseArguments(
    {
      args: [...args],
      allowPositionals: true,
      tokens: true,
      options: {
        ...MACHINE_OPTIONS,
        explain: { type: 'boolean' },
        rank: { type: 'string' },
        log: { type: 'boolean' },
        json: { type: 'boolean' },
        svg: { type: 'string' },
        dump: { type: 'string' },
        'graph-dump': { type: 'string' },
        record: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    },
    'topo',
  );
}
