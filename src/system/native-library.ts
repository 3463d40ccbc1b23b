/**
 * Opens a C library through koffi, an optional dependency.
 */
import { createRequire } from 'node:module';

/** What this module uses of koffi's interface. */
interface Koffi {
  load(path: string): { func(definition: string): (...parameters: never[]) => unknown };
  decode(address: number | bigint, type: string, length: number): ArrayLike<bigint>;
  struct(name: string, members: Readonly<Record<string, unknown>>): unknown;
  array(type: string, length: number): unknown;
  view(address: number, bytes: number): ArrayBuffer;
  address(view: ArrayBufferView): bigint;
}

/** A function that returns an int or an address. */
export type NativeCall = (...parameters: unknown[]) => number;

export interface NativeLibrary {
  /** The function of a C declaration; an error if the library lacks it. */
  func(declaration: string): NativeCall;
  /** Addresses that stand one after the other in memory. */
  addressesAt(address: number | bigint, count: number): readonly bigint[];
  /**
   * Makes `name` known to declarations: a structure of nothing but bytes, passed by value as `{ bytes: Uint8Array }`.
   * Names are the process's; naming one twice does nothing.
   */
  declareBytes(name: string, bytes: number): void;
  /** Memory at an address as an array buffer; of no use once the memory is given back. */
  view(address: number, bytes: number): ArrayBuffer;
  /** Where the first byte of an array lies, for as long as somebody holds the array. */
  addressOf(array: ArrayBufferView): number;
}

const declared = new Set<string>();

/**
 * The library with this name or path.
 *
 * @throws Error that says why there is none; `meaning` ends the sentence if the library is not installed
 */
export function openLibrary(name: string, meaning: string): NativeLibrary {
  if (process.platform !== 'linux') {
    throw new Error(`${name} is asked on Linux only, not on ${process.platform}`);
  }
  if (process.env.TUTTI_NO_FFI === '1') throw new Error('TUTTI_NO_FFI=1 forbids calls into libraries');
  let koffi: Koffi;
  try {
    koffi = createRequire(import.meta.url)('koffi') as Koffi;
  } catch (error) {
    const text = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new Error(`the optional package koffi cannot be loaded (${text}); \`npm install koffi\` adds it`);
  }
  let library: ReturnType<Koffi['load']>;
  try {
    library = koffi.load(name);
  } catch (cause) {
    throw new Error(`there is no ${name}, so ${meaning}`, { cause });
  }
  return {
    func: (declaration) => library.func(declaration) as unknown as NativeCall,
    addressesAt: (address, count) => Array.from(koffi.decode(address, 'uintptr_t', count)),
    declareBytes: (type, bytes) => {
      if (declared.has(type)) return;
      declared.add(type);
      koffi.struct(type, { bytes: koffi.array('uint8_t', bytes) });
    },
    view: (address, bytes) => koffi.view(address, bytes),
    addressOf: (array) => {
      // Small arrays lie where the garbage collector moves them until somebody asks for their buffer.
      if (array.buffer.byteLength === 0) throw new Error('an empty array has no address');
      return Number(koffi.address(array));
    },
  };
}
