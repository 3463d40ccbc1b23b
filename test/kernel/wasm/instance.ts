/** Compiles programs, checks that the bytes are valid, and instantiates them over a shared memory. */
import type { Program } from '#src/kernel/ir.js';
import { type CompileOptions, compileWasm } from '#src/kernel/wasm/compile.js';

export type Entry = (descriptor: number, block: number, blocks: number, frame?: number) => number;

export interface Environment extends CompileOptions {
  memory?: WebAssembly.Memory;
  spins?: number;
  relax?: (round: number, doorbell: number) => number;
  wake?: (doorbell: number) => void;
}

export interface Instance {
  readonly memory: WebAssembly.Memory;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly entries: Readonly<Record<string, Entry>>;
}

export function sharedMemory(pages = 4): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
}

export function instance(programs: Program | readonly Program[], environment: Environment = {}): Instance {
  const code = compileWasm(programs, { resumable: environment.resumable ?? false });
  if (!WebAssembly.validate(code)) new WebAssembly.Module(code); // throws with the reason
  const memory = environment.memory ?? sharedMemory();
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), {
    env: {
      memory,
      spins: environment.spins ?? 10,
      relax: environment.relax ?? (() => 1),
      wake: environment.wake ?? (() => {}),
    },
  });
  return {
    memory,
    bytes: new Uint8Array(memory.buffer),
    view: new DataView(memory.buffer),
    entries: exports as unknown as Record<string, Entry>,
  };
}
