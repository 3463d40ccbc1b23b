/**
 * Compiled programs on the host: bytes to module, and module to instance in one heap with one way to wait.
 *
 * Compiling is the costly part, so modules are kept by the bytes' identity and, for bytes made anew, by their
 * content. Modules can be posted to worker threads, which share the machine code; every thread has its own
 * instances, because each waits by itself.
 */
import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { TuttiError } from '../../errors/tutti-error.js';
import { BLOCK_PASSES } from './launch.js';
import type { Waiter } from './waiting.js';
import {
  type WasmFunction,
  type WasmInstance,
  type WasmMemory,
  type WasmModule,
  wasm,
} from './webassembly.js';

const byIdentity = new WeakMap<Uint8Array, WasmModule>();
const byContent = new Map<string, WasmModule>();

/**
 * Compiles with V8's optimising compiler at once. Normally V8 begins with quick, slow code and replaces a function
 * after it has been called often; but a collective that is called once may run for milliseconds, and a loop that
 * is running is never replaced. The flag is the process's, so it is set for this one synchronous compilation only.
 */
function compileOptimised(bytes: Uint8Array): WasmModule {
  setFlagsFromString('--no-liftoff');
  try {
    return new wasm.Module(bytes);
  } finally {
    setFlagsFromString('--liftoff');
  }
}

/** Compiles a module, or returns the one made of the same bytes before. The bytes must not be changed. */
export function loadModule(bytes: Uint8Array): WasmModule {
  let module = byIdentity.get(bytes);
  if (module !== undefined) return module;
  const key = createHash('sha256').update(bytes).digest('base64');
  module = byContent.get(key);
  if (module === undefined) {
    try {
      module = compileOptimised(bytes);
    } catch (cause) {
      const text = cause instanceof Error ? cause.message : String(cause);
      throw new TuttiError('invalidArgument', `a device program is not valid Wasm: ${text}`, { cause });
    }
    byContent.set(key, module);
  }
  byIdentity.set(bytes, module);
  return module;
}

/** An instance over the heap that waits the waiter's way. */
export function instantiate(
  module: WasmModule,
  memory: WasmMemory,
  waiter: Waiter,
  resumable = false,
): WasmInstance {
  const { imports } = waiter;
  const spins = resumable ? Math.ceil(imports.spins / BLOCK_PASSES) : imports.spins;
  try {
    return new wasm.Instance(module, { env: { memory, ...imports, spins } });
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('invalidArgument', `a device program does not fit the host device: ${text}`, {
      cause,
    });
  }
}

/** Names of the functions that a module exports, in its own order: index i is program i of the module. */
export function programNames(module: WasmModule): string[] {
  return wasm.Module.exports(module)
    .filter(({ kind }) => kind === 'function')
    .map(({ name }) => name);
}

/** The functions of an instance in the order of `programNames`. */
export function programsOf(module: WasmModule, instance: WasmInstance): WasmFunction[] {
  return programNames(module).map((name) => instance.exports[name] as WasmFunction);
}
