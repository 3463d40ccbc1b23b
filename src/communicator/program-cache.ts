/**
 * From program requests to machine code, once per process.
 *
 * Programs are generated, compiled to Wasm bytes and to a module at first use, and kept: a second communicator
 * or another rank of the same process takes them from here.
 */

import { buildProgram, type ProgramRequest, programKey } from '../collectives/registry.js';
import { loadModule } from '../device/host/kernels.js';
import type { WasmModule } from '../device/host/webassembly.js';
import { type Program, type Traits, WASM_TRAITS } from '../kernel/ir.js';
import { compileWasm, frameBytes } from '../kernel/wasm/compile.js';

/** A program that no request names. */
export interface ProgramSource {
  readonly key: string;
  readonly resumable: boolean;
  build(traits: Traits): Program;
}

export type HostProgram = ProgramRequest | ProgramSource;

interface Compiled {
  readonly module: WasmModule;
  /** Bytes that a block of a resumable program keeps its state in; 0 for plain programs. */
  readonly frameBytes: number;
}

const modules = new Map<string, Compiled>();

/** The module of one program; the program is its only export. */
export function moduleFor(request: HostProgram): WasmModule {
  return compiled(request).module;
}

/** Bytes that each block of a resumable program needs for its state; 0 for a plain one. */
export function frameBytesFor(request: HostProgram): number {
  return request.resumable === true ? compiled(request).frameBytes : 0;
}

/** Equal keys mean equal programs. */
export function hostProgramKey(request: HostProgram): string {
  return 'build' in request ? request.key : programKey(request);
}

function compiled(request: HostProgram): Compiled {
  const key = hostProgramKey(request);
  let made = modules.get(key);
  if (made === undefined) {
    const program = 'build' in request ? request.build(WASM_TRAITS) : buildProgram(WASM_TRAITS, request);
    const resumable = request.resumable === true;
    const module = loadModule(compileWasm(program, { resumable }));
    made = { module, frameBytes: resumable ? frameBytes(program) : 0 };
    modules.set(key, made);
  }
  return made;
}
