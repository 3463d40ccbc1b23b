/**
 * The command line of `tutti topo`.
 */
import { parseArgs } from 'node:util';
import { TuttiError } from '../../errors/tutti-error.js';
import type { TemplateFacts } from './templates.js';

export const TOPO_USAGE = `Usage: tutti topo [FILE ...] [options]

Shows what NCCL 2.30 decides about a machine or a cluster: the machine as it sees it, the path between every two
devices, the channels it finds, and the rings and trees over all ranks. Without a file: this machine.

What to look at:
  FILE, --file FILE     a topology file, as NCCL_TOPO_DUMP_FILE writes it; one per node, in order of the ranks
  --from RECORD         a machine that --record has recorded, or an archive or folder with its /sys; one per node
  --nodes N             N nodes in all: those given, and more like the last one
  --mnnvl, --clique N   all nodes, or every N of them, are one NVLink domain (as in an NVL72 rack)
  --sm NN, --nvlinks N, --nic-gbits N
                        what a template of a cloud for virtual machines leaves to the driver: compute capability of
                        its GPUs (90 for H100), NVLinks of each to an NVSwitch, speed of its network cards

What NCCL may use:
  --nvls, --no-nvls     NVLink SHARP (default: with NVSwitch and compute capability 9.0)
  --collnet             a CollNet plugin (SHARP), on all NICs
  NCCL_... variables    of the environment count as they do for NCCL

What to show (default: machine, paths, channels, orders):
  --explain             why: what limits each graph, why paths are refused, what would change it
  --rank N              what one rank has: its neighbours and NICs by channel
  --log [--rank N]      the lines that NCCL logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH (of rank 0)
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
  /** Nodes in all. */
  readonly nodes: number;
  /** Nodes of one NVLink domain. */
  readonly clique: number;
  readonly template: TemplateFacts;
  readonly nvls: boolean | undefined;
  readonly collnet: boolean;
  readonly show: 'text' | 'explain' | 'log' | 'json';
  readonly rank: number | undefined;
  readonly svg: string | undefined;
  readonly dump: string | undefined;
  readonly graphDump: string | undefined;
  readonly record: string | undefined;
}

/** Nodes that the largest clusters have; more would take minutes and gigabytes. */
const MOST_NODES = 65536;

/** Far above what any GPU or NIC has; larger numbers are mistakes. */
const MOST_NVLINKS = 256;
const MOST_GBITS = 100_000;

const MBITS_PER_GBIT = 1000;

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
  const named = Math.max(1, sources.length);
  const nodes = values.nodes === undefined ? named : count('--nodes', values.nodes);
  if (nodes < named) {
    throw wrong(
      `--nodes ${nodes}: ${named} machines are given, which is more; leave --nodes out or raise it`,
    );
  }
  if (values.mnnvl && values.clique !== undefined) {
    throw wrong(
      '--mnnvl --clique: --mnnvl makes one NVLink domain of all nodes, --clique several; give one of them',
    );
  }
  const clique = values.mnnvl ? nodes : values.clique === undefined ? 1 : count('--clique', values.clique);
  if (nodes % clique !== 0) {
    throw wrong(
      `--clique ${clique}: ${nodes} nodes cannot be split into domains of ${clique}; give a multiple with --nodes`,
    );
  }
  for (const name of ['file', 'from', 'svg', 'dump', 'graph-dump', 'record'] as const) {
    if ([values[name]].flat().includes('')) throw wrong(`--${name}: the name is empty; give one`);
  }
  return {
    sources,
    nodes,
    clique,
    template: {
      sm: values.sm === undefined ? undefined : integer('--sm', values.sm, 30, 999),
      nvlinks:
        values.nvlinks === undefined ? undefined : integer('--nvlinks', values.nvlinks, 1, MOST_NVLINKS),
      nicSpeed:
        values['nic-gbits'] === undefined
          ? undefined
          : integer('--nic-gbits', values['nic-gbits'], 1, MOST_GBITS) * MBITS_PER_GBIT,
    },
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
        mnnvl: { type: 'boolean' },
        sm: { type: 'string' },
        nvlinks: { type: 'string' },
        'nic-gbits': { type: 'string' },
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
