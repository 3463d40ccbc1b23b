/** Errors of the NVIDIA driver: what was being done, the driver's own name and text, and what helps. */
import { TuttiError } from '../../errors/tutti-error.js';
import type { DriverFunctions } from './driver-functions.js';

/** CUresult values that are told apart (cuda.h). */
export const CUDA = {
  success: 0,
  invalidValue: 1,
  outOfMemory: 2,
  notInitialized: 3,
  noDevice: 100,
  invalidDevice: 101,
  invalidContext: 201,
  noBinaryForGpu: 209,
  peerAccessUnsupported: 217,
  unsupportedPtxVersion: 222,
  notFound: 500,
  notReady: 600,
  peerAccessAlreadyEnabled: 704,
  hostMemoryAlreadyRegistered: 712,
  systemDriverMismatch: 803,
} as const;

const REMEDIES: Readonly<Record<number, string>> = {
  [CUDA.outOfMemory]: 'free memory on that GPU or use smaller buffers',
  [CUDA.noDevice]: 'check that a GPU is there (nvidia-smi) and that CUDA_VISIBLE_DEVICES does not hide it',
  [CUDA.noBinaryForGpu]: 'the cubin is for another GPU',
  [CUDA.unsupportedPtxVersion]: 'install a newer NVIDIA driver',
  [CUDA.systemDriverMismatch]:
    'the kernel module and libcuda.so.1 are of different versions; reboot, or reinstall the driver',
};

function textOf(functions: DriverFunctions, code: number): string {
  const name: [string | null] = [null];
  const text: [string | null] = [null];
  functions.cuGetErrorName(code, name);
  functions.cuGetErrorString(code, text);
  return `${name[0] ?? `CUDA error ${code}`} (${text[0] ?? 'unknown'})`;
}

/** The error of a call that returned `code`; `doing` ends the sentence "cannot ...". */
export function cudaError(functions: DriverFunctions, code: number, doing: string, detail = ''): TuttiError {
  const remedy = REMEDIES[code];
  const tail = `${remedy === undefined ? '' : `; ${remedy}`}${detail === '' ? '' : `\n${detail}`}`;
  const text = textOf(functions, code);
  return new TuttiError('unhandledCudaError', `cannot ${doing}: ${text}${tail}`, {
    cause: new CudaResult(code, text),
  });
}

/** What a call of the driver returned: the cause of the error that it became. */
export class CudaResult extends Error {
  readonly code: number;

  constructor(code: number, text: string) {
    super(text);
    this.code = code;
  }
}
