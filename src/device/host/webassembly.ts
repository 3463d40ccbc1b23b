/**
 * The part of the WebAssembly interface that the host device uses, typed.
 *
 * TypeScript knows `WebAssembly` only together with all of the browser's DOM, which a Node library must not ask
 * its users to have. The value is the engine's own; only the types are ours.
 */

export interface WasmMemory {
  readonly buffer: ArrayBufferLike;
}

/** Compiled code; may be posted to worker threads, which then share it. */
export interface WasmModule {
  readonly [Symbol.toStringTag]: string;
}

export type WasmFunction = (...parameters: number[]) => number;

export interface WasmInstance {
  readonly exports: Readonly<Record<string, unknown>>;
}

export interface WasmGlobal {
  value: number;
}

export type WasmImports = Record<string, Record<string, unknown>>;

interface WasmNamespace {
  readonly Memory: new (limits: { initial: number; maximum: number; shared: true }) => WasmMemory;
  readonly Module: {
    new (bytes: Uint8Array): WasmModule;
    exports(module: WasmModule): { name: string; kind: string }[];
    imports(module: WasmModule): { module: string; name: string; kind: string }[];
  };
  readonly Instance: new (module: WasmModule, imports: WasmImports) => WasmInstance;
  readonly Global: new (type: { value: 'i32'; mutable: boolean }, value: number) => WasmGlobal;
}

export const wasm = (globalThis as unknown as { readonly WebAssembly: WasmNamespace }).WebAssembly;
