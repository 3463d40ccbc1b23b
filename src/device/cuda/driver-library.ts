/**
 * The NVIDIA driver of this machine: libcuda.so.1 through koffi.
 *
 * Functions are looked up when they are first called, so that a driver which lacks one that nobody needs still works.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { type NativeLibrary, openLibrary } from '../../system/native-library.js';
import {
  DECLARATIONS,
  type DriverFunctions,
  IPC_HANDLE_BYTES,
  type ProcessMemory,
} from './driver-functions.js';

const LIBRARY = 'libcuda.so.1';

/** A function of the library by its name; one that it lacks throws when it is called. */
function lazily(library: NativeLibrary, name: keyof DriverFunctions, own: DriverFunctions) {
  return (...parameters: unknown[]): number => {
    let found: (...parameters: unknown[]) => number;
    try {
      found = library.func(DECLARATIONS[name]);
    } catch (cause) {
      throw new TuttiError(
        'unhandledCudaError',
        `the NVIDIA driver is too old: it lacks ${name}; install a newer driver`,
        { cause },
      );
    }
    (own as unknown as Record<string, unknown>)[name] = found;
    return found(...parameters);
  };
}

/**
 * Opens the driver's library. `name` is the name or path to load, for tests.
 * Throws `unhandledCudaError` with one sentence that says why there is none.
 */
export function openDriverLibrary(name: string = LIBRARY): DriverFunctions & ProcessMemory {
  let library: NativeLibrary;
  try {
    library = openLibrary(
      name,
      'no NVIDIA driver is installed, or this container was started without its GPUs (--gpus all)',
    );
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('unhandledCudaError', `no GPU can be used: ${reason}`, { cause });
  }
  library.declareBytes('CUipcMemHandle', IPC_HANDLE_BYTES);
  const functions = {
    view: library.view,
    addressOf: library.addressOf,
  } as DriverFunctions & ProcessMemory;
  for (const key of Object.keys(DECLARATIONS) as (keyof DriverFunctions)[]) {
    (functions as unknown as Record<string, unknown>)[key] = lazily(library, key, functions);
  }
  return functions;
}
