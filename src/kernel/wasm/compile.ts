/**
 * The WebAssembly target: device programs to the bytes (or text) of one module.
 *
 * A block of a program is one thread, so each program becomes one exported function
 * `(descriptor, block, blocks) -> status`. Addresses are 32-bit offsets into the imported shared memory.
 *
 * Imports, all of module `env`:
 * - `memory`: the shared memory;
 * - `spins` (i32 global, at least 1): polls of a wait between two calls of `relax`;
 * - `relax(round, doorbell) -> i32`: called by a long wait, `round` counts from 0; may sleep on the doorbell
 *   (0 when the program has none yet); nonzero ends the program with `STATUS.aborted`;
 * - `wake(doorbell)`: called after a publication when the doorbell's first word says that someone sleeps.
 *
 * In a resumable module the functions take a fourth parameter, the address of a frame of `frameBytes(program)`
 * bytes whose first word is 0 at first. A wait that does not come true within `spins` polls stores the
 * program's state there and returns `STATUS.blocked`; called again with the same arguments the program goes on
 * at that wait. So one thread can run many blocks and ranks in turn.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Program } from '../ir.js';
import { encodeModule, type FunctionType, type Import, type Module } from './encoder.js';
import { compileFunction } from './function.js';
import { printModule } from './text.js';

export { frameBytes } from './frame.js';

export interface CompileOptions {
  /** Programs save their state and return at waits that do not come true soon; see above. */
  readonly resumable?: boolean;
}

/** Pages of 64 KiB: the whole range of 32-bit addresses. */
const MAXIMUM_PAGES = 65536;

/** Functions come first in the index space in this order; function.ts calls them by these numbers. */
const IMPORTS: readonly Import[] = [
  { module: 'env', name: 'memory', what: { kind: 'memory', minimum: 1, maximum: MAXIMUM_PAGES } },
  { module: 'env', name: 'spins', what: { kind: 'global', type: 'i32' } },
  {
    module: 'env',
    name: 'relax',
    what: { kind: 'function', type: { parameters: ['i32', 'i32'], results: ['i32'] } },
  },
  { module: 'env', name: 'wake', what: { kind: 'function', type: { parameters: ['i32'], results: [] } } },
];

function buildModule(programs: Program | readonly Program[], options: CompileOptions): Module {
  const list = 'body' in programs ? [programs] : programs;
  const names = new Set<string>();
  for (const { name } of list) {
    if (names.has(name)) {
      throw new TuttiError('internalError', `two programs of one module are called ${name}; rename one`);
    }
    names.add(name);
  }
  const resumable = options.resumable ?? false;
  const type: FunctionType = {
    parameters: resumable ? ['i32', 'i32', 'i32', 'i32'] : ['i32', 'i32', 'i32'],
    results: ['i32'],
  };
  return {
    imports: IMPORTS,
    functions: list.map((program) => {
      const code = compileFunction(program, resumable);
      return { name: program.name, type, locals: code.locals, instructions: code.instructions };
    }),
  };
}

/**
 * Compiles programs to the bytes of one WebAssembly module that exports a function per program.
 * Throws `internalError` when two programs have one name or a program uses what the target lacks.
 */
export function compileWasm(
  programs: Program | readonly Program[],
  options: CompileOptions = {},
): Uint8Array<ArrayBuffer> {
  return encodeModule(buildModule(programs, options));
}

/** The text of the module that `compileWasm` gives as bytes, from the same instruction lists. */
export function wasmText(programs: Program | readonly Program[], options: CompileOptions = {}): string {
  return printModule(buildModule(programs, options));
}
