/**
 * The PTX target: device programs to the text of one module that the NVIDIA driver loads.
 *
 * Each program becomes one entry function with three parameters, 64 bits each:
 * - `descriptor`: address of the work descriptor, as on every target; or, with `descriptorBytes`, the descriptor itself,
 *   which then travels with the launch and is read without a way to memory;
 * - `abort`: address of a 32-bit word that is not 0 once the communicator is aborted; read at long waits;
 * - `status`: address of one 32-bit word per block of the launch, which whoever launches sets to 0. A block of
 *   which a thread ends with a status other than `STATUS.done` leaves it there (one of them, if they differ).
 * All addresses are such that the GPU can use them; `abort` and `status` may be host memory that is mapped.
 *
 * Blocks and threads are one-dimensional. The text depends on the programs and options alone. `.version` is the
 * lowest that carries what the programs use, so that older drivers load it too.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Program } from '../ir.js';
import { firstVersion, type PtxVersion, requireArchitecture } from './architecture.js';
import { type Code, REGISTER_PREFIX, type RegisterClass } from './code.js';
import { compileFunction, PARAMETERS } from './function.js';

export { architectureFor, PTX_ARCHITECTURES, type PtxArchitecture } from './architecture.js';

export interface PtxOptions {
  /** Architecture to generate for, `sm_70` or newer; the text runs on later ones too. */
  readonly arch: string;
  /** Most threads of a block at a launch, 32 to 1024; the assembler shares out registers for it. Default 512. */
  readonly threads?: number;
  /** Blocks that a multiprocessor must be able to run at a time; default 1. */
  readonly blocksPerMultiprocessor?: number;
  /** The first parameter is the descriptor itself, of so many bytes, 1 to 4000; by default it is its address. */
  readonly descriptorBytes?: number;
}

/** Threads of a block of Simple and LL programs at most, as NCCL has it. */
const DEFAULT_THREADS = 512;
const MOST_THREADS = 1024;

/** Parameters of an entry function take 4352 bytes at most before PTX 8.1; two of them are ours. */
const MOST_DESCRIPTOR_BYTES = 4000;

/** Column of the comments that name source places. */
const PLACE_COLUMN = 72;

const CLASSES = Object.keys(REGISTER_PREFIX) as RegisterClass[];

function requireWhole(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new TuttiError(
    'invalidArgument',
    `${name} ${value}: a whole number from ${least} to ${most} is needed`,
  );
}

/** Names of PTX are letters, digits, `_` and `$`, and begin with a letter. */
function requireName(name: string): void {
  if (/^[A-Za-z][A-Za-z0-9_$]*$/.test(name)) return;
  throw new TuttiError('internalError', `'${name}' is no name for a PTX function; use letters, digits and _`);
}

function functionText(
  name: string,
  code: Code,
  bounds: readonly string[],
  descriptorBytes: number | undefined,
): string[] {
  const parameters = PARAMETERS.map((p) =>
    p === 'descriptor' && descriptorBytes !== undefined
      ? `  .param .align 16 .b8 ${name}_${p}[${descriptorBytes}]`
      : `  .param .u64 ${name}_${p}`,
  ).join(',\n');
  const lines = [`.visible .entry ${name}(`, parameters, ')', ...bounds, '{'];
  for (const kind of CLASSES) {
    const count = code.registers.get(kind);
    if (count !== undefined) lines.push(`  .reg .${kind} ${REGISTER_PREFIX[kind]}<${count}>;`);
  }
  let place = '';
  for (const line of code.lines) {
    let text = line.kind === 'label' ? line.text : `  ${line.text}`;
    if (line.kind === 'instruction' && line.place !== place) {
      place = line.place;
      if (place !== '') text = `${text.padEnd(PLACE_COLUMN - 1)} // ${place}`;
    }
    lines.push(text);
  }
  lines.push('}');
  return lines;
}

/** 63 as `6.3`. */
function versionText(version: PtxVersion): string {
  return `${Math.floor(version / 10)}.${version % 10}`;
}

/**
 * Compiles programs to the text of one PTX module with an entry function per program; see above for its
 * parameters. Throws `invalidArgument` for an unknown architecture or impossible launch bounds, `internalError`
 * when two programs have one name or a program uses what the target lacks.
 */
export function compilePtx(programs: Program | readonly Program[], options: PtxOptions): string {
  const list = 'body' in programs ? [programs] : programs;
  const arch = requireArchitecture(options.arch);
  const threads = requireWhole('threads', options.threads ?? DEFAULT_THREADS, 32, MOST_THREADS);
  const blocks = requireWhole('blocksPerMultiprocessor', options.blocksPerMultiprocessor ?? 1, 1, 32);
  const { descriptorBytes } = options;
  if (descriptorBytes !== undefined)
    requireWhole('descriptorBytes', descriptorBytes, 1, MOST_DESCRIPTOR_BYTES);
  const bounds = [`.maxntid ${threads}, 1, 1`, `.minnctapersm ${blocks}`];
  const names = new Set<string>();
  let version = firstVersion(arch);
  const functions = list.map((program) => {
    const { name } = program;
    requireName(name);
    if (names.has(name)) {
      throw new TuttiError('internalError', `two programs of one module are called ${name}; rename one`);
    }
    names.add(name);
    const byValue = descriptorBytes !== undefined;
    const code = compileFunction(program, arch, firstVersion(arch), (p) => `${name}_${p}`, byValue);
    version = Math.max(version, code.version);
    return functionText(name, code, bounds, descriptorBytes).join('\n');
  });
  const head = [`.version ${versionText(version)}`, `.target ${arch}`, '.address_size 64'].join('\n');
  return `${[head, ...functions].join('\n\n')}\n`;
}
