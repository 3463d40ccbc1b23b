/**
 * From program requests to machine code, once per process.
 *
 * Programs are generated, compiled to Wasm bytes and to a module at first use, and kept: a second communicator
 * or another rank of the same process takes them from here.
 */

import { buildProgram, type ProgramRequest, programKey } from '../collectives/registry.js';
import { loadModule } from '../device/host/kernels.js';
import type { WasmModule } from '../device/host/webassembly.js';
import { WASM_TRAITS } from '../kernel/ir.js';
import { compileWasm } from '../kernel/wasm/compile.js';

const modules = new Map<string, WasmModule>();

/** The module of one program; the program is its only export. */
export function moduleFor(request: ProgramRequest): WasmModule {
  const key = programKey(request);
  let module = modules.get(key);
  if (module === undefined) {
    module = loadModule(compileWasm(buildProgram(WASM_TRAITS, request)));
    modules.set(key, module);
  }
  return module;
}
