/**
 * The part of a command line that says which machines are looked at and what NCCL may use on them: the same for
 * `tutti topo` and `tutti tune`.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { countText } from '../../topology/report/quantities.js';
import type { TemplateFacts } from './templates.js';

/** Lines of the usage about the machines. */
export const MACHINE_USAGE = `  FILE, --file FILE     a topology file, as NCCL_TOPO_DUMP_FILE writes it (- reads the standard input); one per node,
                        in order of the ranks
  --from RECORD         a machine that 'tutti topo --record' has recorded, or an archive or folder with its /sys; one
                        per node
  --nodes N             N nodes in all: those given, and more like the last one
  --mnnvl, --clique N   all nodes, or every N of them, are one NVLink domain (as in an NVL72 rack)
  --sm NN, --nvlinks N, --nic-gbits N
                        what a template of a cloud for virtual machines leaves to the driver: compute capability of
                        its GPUs (90 for H100), NVLinks of each to an NVSwitch, speed of its network cards
`;

/** Lines of the usage about what may be used. */
export const ABILITY_USAGE = `  --nvls, --no-nvls     NVLink SHARP (default: with NVSwitch and compute capability 9.0 or later)
  --collnet             a CollNet plugin (SHARP), on all NICs
  NCCL_... variables    of the environment count as they do for NCCL
`;

/** For parseArgs. */
export const MACHINE_OPTIONS = {
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
} as const;

/** In place of a file's name: standard input, standard output. */
export const STANDARD = '-';

/** Where a node comes from. */
export interface MachineSource {
  readonly kind: 'file' | 'record';
  readonly name: string;
}

export interface MachineOptions {
  readonly sources: readonly MachineSource[];
  /** Nodes in all. */
  readonly nodes: number;
  /** Nodes of one NVLink domain. */
  readonly clique: number;
  readonly template: TemplateFacts;
  readonly nvls: boolean | undefined;
  readonly collnet: boolean;
}

/** What parseArgs gives for MACHINE_OPTIONS. */
export interface MachineValues {
  readonly file?: string[] | undefined;
  readonly from?: string[] | undefined;
  readonly nodes?: string | undefined;
  readonly clique?: string | undefined;
  readonly mnnvl?: boolean | undefined;
  readonly sm?: string | undefined;
  readonly nvlinks?: string | undefined;
  readonly 'nic-gbits'?: string | undefined;
  readonly nvls?: boolean | undefined;
  readonly 'no-nvls'?: boolean | undefined;
  readonly collnet?: boolean | undefined;
}

/** The part of parseArgs' tokens that tells the order of files and records. */
export interface ArgumentToken {
  readonly kind: 'option' | 'positional' | 'option-terminator';
  readonly name?: string;
  readonly value?: string | undefined;
}

/** Nodes that the largest clusters have; more would take minutes and gigabytes. */
const MOST_NODES = 65536;

/** Far above what any GPU or NIC has; larger numbers are mistakes. */
const MOST_NVLINKS = 256;
const MOST_GBITS = 100_000;

const MBITS_PER_GBIT = 1000;

/**
 * Reads the values that parseArgs found.
 *
 * @throws TuttiError invalidArgument naming the option, the value and what would be right
 */
export function machineOptions(values: MachineValues, tokens: readonly ArgumentToken[]): MachineOptions {
  checkRepeated(tokens);
  const sources: MachineSource[] = [];
  for (const token of tokens) {
    if (token.value === undefined) continue;
    if (token.kind === 'positional') sources.push({ kind: 'file', name: token.value });
    else if (token.name === 'file') sources.push({ kind: 'file', name: token.value });
    else if (token.name === 'from') sources.push({ kind: 'record', name: token.value });
  }
  if (values.nvls && values['no-nvls']) {
    throw wrong(
      '--nvls --no-nvls: these exclude each other; give one of them, or none for what NCCL would do',
    );
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
      `--clique ${clique}: ${countText(nodes, 'node')} cannot be split into domains of ${clique}; give a multiple with --nodes`,
    );
  }
  checkNames(values, ['file', 'from']);
  if (values.from?.includes(STANDARD)) {
    throw wrong('--from -: a recording is read from a file only; give its name');
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
  };
}

/** Options that may be given several times. */
const REPEATABLE: ReadonlySet<string> = new Set(['file', 'from', 'what-if']);

/** Of two values of an option only one could count, and nobody would see which. */
function checkRepeated(tokens: readonly ArgumentToken[]): void {
  const given = new Map<string, string>();
  for (const { kind, name, value } of tokens) {
    if (kind !== 'option' || name === undefined || value === undefined || REPEATABLE.has(name)) continue;
    const earlier = given.get(name);
    if (earlier !== undefined && earlier !== value) {
      throw wrong(`--${name} ${value}: it was --${name} ${earlier} before; give it once`);
    }
    given.set(name, value);
  }
}

/** @throws TuttiError invalidArgument if a file is asked for by an empty name */
export function checkNames<T extends string>(
  values: { readonly [name in T]?: string | string[] | undefined },
  names: readonly T[],
): void {
  for (const name of names) {
    const given: string | string[] | undefined = values[name];
    if ([given].flat().includes('')) throw wrong(`--${name}: the name is empty; give one`);
  }
}

/** The command line asks for what cannot be. */
export class WrongUse extends TuttiError {
  constructor(text: string) {
    super('invalidArgument', text);
  }
}

export const wrong = (text: string): WrongUse => new WrongUse(text);

const count = (what: string, text: string): number => integer(what, text, 1, MOST_NODES);

/** @throws TuttiError invalidArgument unless the text is a decimal integer in range */
export function integer(what: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw wrong(`${what} ${text}: an integer ${range} is needed`);
}
