/**
 * What `tutti kernel` prints: the list of programs, and one program as text.
 *
 * The command imports this file only after it has switched on source maps, so that the recorded places are
 * those of the TypeScript source.
 */
import { COLLECTIVES, type Collective } from '../../collectives/control-block.js';
import {
  ALGORITHMS,
  type Algorithm,
  buildProgram,
  canonicalRequest,
  type ProgramRequest,
} from '../../collectives/registry.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { withPlaces } from '../../kernel/builder.js';
import { ELEMENT_TYPE_NAMES, REDUCE_OP_NAMES } from '../../kernel/element-types.js';
import { type Program, PTX_TRAITS, type Traits, WASM_TRAITS } from '../../kernel/ir.js';
import { printProgram } from '../../kernel/print.js';
import { requireArchitecture } from '../../kernel/ptx/architecture.js';
import { compilePtx, PTX_ARCHITECTURES, type PtxArchitecture } from '../../kernel/ptx/compile.js';
import { compileWasm, frameBytes, wasmText } from '../../kernel/wasm/compile.js';
import { parseArguments } from '../parse-arguments.js';

const PROTOCOLS = ['Simple', 'LL'] as const;
const TARGETS = ['ir', 'wasm', 'ptx'] as const;
const TRAITS: Readonly<Record<string, Traits>> = { wasm: WASM_TRAITS, ptx: PTX_TRAITS };

export const KERNEL_USAGE = `Usage: tutti kernel list
       tutti kernel show PROGRAM [options]

list prints the names of all device programs. show prints one, ALGORITHM/COLLECTIVE, for instance
Ring/allReduce; upper and lower case are the same.

Options of show:
  --target ir|wasm|ptx  what to print: the intermediate representation (default), WebAssembly instructions, or PTX
  --arch ARCH           GPU architecture of PTX, ${PTX_ARCHITECTURES[0]!} (default) or newer, for instance sm_90
  --type TYPE           ${ELEMENT_TYPE_NAMES.slice(0, 6).join(' ')}
                        ${ELEMENT_TYPE_NAMES.slice(6).join(' ')} (default float32)
  --op OP               ${REDUCE_OP_NAMES.join(' ')} (default sum)
  --protocol NAME       rings: ${PROTOCOLS.join(' ')} (default Simple)
  --ranks N             direct programs unroll over the ranks (default 2)
  --traits wasm|ptx     what the representation is generated for (default wasm; ptx with --target ptx)
  --resumable           WebAssembly that saves its state and returns at waits
  --no-places           without source places
  -h, --help            this text
`;

/** The entry of a list of names that `text` means, whatever its case. */
function choose<T extends string>(what: string, names: readonly T[], text: string): T {
  const found = names.find((name) => name.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return found;
  throw new TuttiError('invalidArgument', `There is no ${what} '${text}'; choose from ${names.join(', ')}.`);
}

function rankCount(text: string): number {
  const ranks = Number(text);
  if (/^\d+$/.test(text) && ranks >= 1) return ranks;
  throw new TuttiError('invalidArgument', `--ranks ${text}: an integer from 1 is needed.`);
}

/** Whether the registry has a program of this algorithm and collective. */
function exists(algorithm: Algorithm, collective: Collective): boolean {
  try {
    buildProgram(WASM_TRAITS, {
      algorithm,
      collective,
      protocol: 'Simple',
      type: 'float32',
      op: 'sum',
      ranks: 2,
    });
    return true;
  } catch (error) {
    if (TuttiError.is(error) && error.code === 'invalidArgument') return false;
    throw error;
  }
}

function programNames(): string[] {
  const collectives = Object.keys(COLLECTIVES) as Collective[];
  return ALGORITHMS.flatMap((algorithm) =>
    collectives.filter((collective) => exists(algorithm, collective)).map((name) => `${algorithm}/${name}`),
  );
}

/** The names of all programs and the options that each depends on, one a line. */
export function listPrograms(): string {
  const lines = programNames().map((name) => {
    const [algorithm] = name.split('/');
    const options = algorithm === 'Ring' ? '--type --op --protocol' : '--type --op --ranks';
    return `${name.padEnd(24)}${options}`;
  });
  return `${lines.join('\n')}\n`;
}

export interface ShowOptions {
  readonly request: ProgramRequest;
  readonly target: (typeof TARGETS)[number];
  readonly traits: Traits;
  readonly arch: PtxArchitecture;
  readonly resumable: boolean;
  readonly places: boolean;
}

/**
 * Reads the arguments after `show`; 'help' when help is asked for.
 * @throws TuttiError invalidArgument
 */
export function parseShow(argv: string[]): ShowOptions | 'help' {
  const { values, positionals } = parse(argv);
  if (values.help) return 'help';
  const [name, ...more] = positionals;
  if (name === undefined || more.length > 0) {
    throw new TuttiError('invalidArgument', "One PROGRAM is needed; 'tutti kernel list' names them.");
  }
  const [algorithm, collective] = choose('program', programNames(), name).split('/') as [
    Algorithm,
    Collective,
  ];
  const target = choose('target', TARGETS, values.target);
  const traits = choose('traits', Object.keys(TRAITS), values.traits ?? (target === 'ptx' ? 'ptx' : 'wasm'));
  if (target !== 'ir' && target !== traits) {
    throw new TuttiError(
      'invalidArgument',
      `--target ${target} is generated with traits ${target}, not ${traits}.`,
    );
  }
  return {
    request: {
      algorithm,
      collective,
      protocol: choose('protocol', PROTOCOLS, values.protocol),
      type: choose('element type', ELEMENT_TYPE_NAMES, values.type),
      op: choose('operator', REDUCE_OP_NAMES, values.op),
      ranks: rankCount(values.ranks),
    },
    target,
    traits: TRAITS[traits]!,
    arch: requireArchitecture(values.arch),
    resumable: values.resumable,
    places: !values['no-places'],
  };
}

function parse(argv: string[]) {
  return parseArguments(
    {
      args: argv,
      allowPositionals: true,
      options: {
        target: { type: 'string', default: 'ir' },
        type: { type: 'string', default: 'float32' },
        op: { type: 'string', default: 'sum' },
        protocol: { type: 'string', default: 'Simple' },
        ranks: { type: 'string', default: '2' },
        traits: { type: 'string' },
        arch: { type: 'string', default: PTX_ARCHITECTURES[0]! },
        resumable: { type: 'boolean', default: false },
        'no-places': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    },
    'kernel',
  );
}

/** What was built, since several requests give one program; comments of the text that follows. */
function heading(options: ShowOptions, program: Program): string {
  const comment = { ir: ';', wasm: ';;', ptx: '//' }[options.target];
  const { algorithm, collective, protocol, type, op, ranks } = canonicalRequest(options.request);
  const unrolled = algorithm === 'Ring' ? `protocol ${protocol}` : `${ranks} ranks`;
  const lines = [`${algorithm}/${collective}, ${type}, ${op}, ${unrolled}`];
  if (options.target === 'wasm') {
    const { resumable } = options;
    const bytes = compileWasm(program, { resumable }).length;
    lines.push(`${bytes} bytes of WebAssembly${resumable ? `, frame of ${frameBytes(program)} bytes` : ''}`);
  }
  return lines.map((line) => `${comment} ${line}\n`).join('');
}

/** The text of one program. */
export function showProgram(options: ShowOptions): string {
  const { request, traits, target, arch, resumable, places } = options;
  const build = () => buildProgram(traits, request);
  const program = places ? withPlaces(build) : build();
  const text = {
    ir: () => printProgram(program),
    wasm: () => wasmText(program, { resumable }),
    ptx: () => compilePtx(program, { arch }),
  };
  return heading(options, program) + text[target]();
}
