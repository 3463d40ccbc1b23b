/** Which GPU a rank works on. */
import { TuttiError } from '../../errors/tutti-error.js';

/** A GPU by the driver's number; made by `cuda`. */
export interface CudaDeviceName {
  readonly kind: 'cuda';
  readonly index: number;
}

/**
 * The GPU with this number, from 0 in the driver's order (CUDA_VISIBLE_DEVICES decides about it). Nothing is asked of
 * the driver yet. Throws `invalidArgument` for what is no number of a GPU.
 */
export function cuda(index = 0): CudaDeviceName {
  if (Number.isInteger(index) && index >= 0) return { kind: 'cuda', index };
  const given = typeof index === 'string' ? JSON.stringify(index) : String(index);
  throw new TuttiError(
    'invalidArgument',
    `cuda(${given}): the number of a GPU is an integer from 0, as cuda(0)`,
  );
}

/** Whether a value was made by `cuda`. */
export function isCudaDeviceName(value: unknown): value is CudaDeviceName {
  return (
    typeof value === 'object' &&
    value !== null &&
    (value as CudaDeviceName).kind === 'cuda' &&
    Number.isInteger((value as CudaDeviceName).index)
  );
}
