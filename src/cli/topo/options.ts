/**
 * The command line of `tutti topo`.
 */
import { parseArgs } from 'node:util';
import { TuttiError } from '../../errors/tutti-error.js';

export const TOPO_USAGE = `Usage: tutti topo [FILE ...] [options]

Shows what NCCL 2.30 decides about a machine or a cluster: the machine as it sees it, the path between every two
devices, the channels it finds, and the rings and trees over all ranks. Without a file: this machine.

What to look at:
  FILE, --file FILE     a topology file, as NCCL_TOPO_DUMP_FILE writes it; one per node, in order of the ranks
  --from RECORD         a machine that --record has recorded, or an archive or folder with its /sys; one per node
  --nodes N             N nodes like the one given
  --clique N            every N nodes are one NVLink domain (MNNVL, as in an NVL72 rack)

What NCCL may use:
  --nvls, --no-nvls     NVLink SHARP (default: with NVSwitch and compute capability 9.0)
  --collnet             a CollNet plugin (SHARP) on all NICs
  NCCL_... variables    of the environment count as they do for NCCL

What to show (default: machine, paths, channels, orders):
  --explain             why: what limits each graph, why paths are refused, what would change it
  --rank N              what one rank has: neighbours and NICs by channel; with --log: whose lines
  --log                 the lines that NCCL logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH
  --json                everything as JSON (docs/topology.md)
  --svg FILE            a picture of machine and channels

Files to write:
  --dump FILE           the topology, as NCCL_TOPO_DUMP_FILE does
  --graph-dump FILE     the graphs, as NCCL_GRAPH_DUMP_FILE does
  --record FILE         this machine, for --from on another one or for a report to us; nothing in it identifies
                        the owner, and 'tar tzf FILE' lists it

  -h, --help            this text

Exit status: 0, 1 if the topology cannot be described, 2 for wrong use.
`;

/** Where a node comes from. */
export interface MachineSource {
  readonly kind: 'file' | 'record';
  readonly name: string;
}

export interface TopoOptions {
  readonly sources: readonly MachineSource[];
  readonly nodes: number | undefined;
  readonly clique: number;
  readonly nvls: boolean | undefined;
  readonly collnet: boolean;
  readonly show: 'text' | 'explain' | 'log' | 'json';
  readonly rank: number | undefined;
  readonly svg: string | undefined;
  readonly dump: string | undefined;
  readonly graphDump: string | undefined;
  readonly record: string | undefined;
}

/** Ranks that the largest clusters have; more would take minutes and gigabytes. */
const MOST_NODES = 65536;

/**
 * Reads the arguments after `tutti topo`; 'help' when help is asked for.
 *
 * @throws TuttiError invalidArgument naming the option, the value and what would be right.
 */
export function parseTopoOptions(args: readonly string[]): TopoOptions | 'help' {
  const { values, tokens } = parse(args);
  if (values.help) return 'help';
  const sources: MachineSource[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') sources.push({ kind: 'file', name: token.value });
    if (token.kind !== 'option' || token.value === undefined) continue;
    if (token.name === 'file') sources.push({ kind: 'file', name: token.value });
    if (token.name === 'from') sources.push({ kind: 'record', name: token.value });
  }
  if (values.nvls && values['no-nvls']) {
    throw wrong(
      '--nvls --no-nvls: these exclude each other; give one of them, or none for what NCCL would do',
    );
  }
  const shows = (['explain', 'log', 'json'] as const).filter((name) => values[name]);
  if (shows.length > 1) {
    throw wrong(`${shows.map((name) => `--${name}`).join(' ')}: only one of them can be shown at a time`);
  }
  const nodes = values.nodes === undefined ? undefined : count('--nodes', values.nodes);
  const clique = values.clique === undefined ? 1 : count('--clique', values.clique);
  if (nodes !== undefined && sources.length > 1) {
    throw wrong(
      `--nodes ${nodes}: ${sources.length} machines are given, and --nodes repeats one; leave --nodes out or give one machine`,
    );
  }
  const total = nodes ?? Math.max(1, sources.length);
  if (total % clique !== 0) {
    throw wrong(
      `--clique ${clique}: ${total} nodes cannot be split into domains of ${clique}; give a multiple with --nodes`,
    );
  }
  for (const name of ['file', 'from', 'svg', 'dump', 'graph-dump', 'record'] as const) {
    if ([values[name]].flat().includes('')) throw wrong(`--${name}: the name is empty; give one`);
  }
  return {
    sources,
    nodes,
    clique,
    nvls: values['no-nvls'] ? false : values.nvls ? true : undefined,
    collnet: values.collnet ?? false,
    show: shows[0] ?? 'text',
    rank: values.rank === undefined ? undefined : integer('--rank', values.rank, 0, Number.MAX_SAFE_INTEGER),
    svg: values.svg,
    dump: values.dump,
    graphDump: values['graph-dump'],
    record: values.record,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      tokens: true,
      options: {
        file: { type: 'string', multiple: true },
        from: { type: 'string', multiple: true },
        nodes: { type: 'string' },
        clique: { type: 'string' },
        nvls: { type: 'boolean' },
        'no-nvls': { type: 'boolean' },
        collnet: { type: 'boolean' },
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
    });
  } catch (cause) {
    throw new TuttiError('invalidArgument', `${(cause as Error).message}; see 'tutti topo --help'`, {
      cause,
    });
  }
}

const wrong = (text: string) => new TuttiError('invalidArgument', text);

const count = (what: string, text: string): number => integer(what, text, 1, MOST_NODES);

function integer(what: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw wrong(`${what} ${text}: an integer ${range} is needed`);
}
