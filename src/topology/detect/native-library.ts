/**
 * Opens a C library through koffi, an optional dependency.
 */
import { createRequire } from 'node:module';

/** What this module uses of koffi's interface. */
interface Koffi {
  load(path: string): { func(definition: string): (...parameters: never[]) => unknown };
  decode(address: number | bigint, type: string, length: number): ArrayLike<bigint>;
}

/** A function that returns an int or an address. */
export type NativeCall = (...parameters: unknown[]) => number;

export interface NativeLibrary {
  /** The function of a C declaration; an error if the library lacks it. */
  func(declaration: string): NativeCall;
  /** Addresses that stand one after the other in memory. */
  addressesAt(address: number | bigint, count: number): readonly bigint[];
}

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
  };
}
