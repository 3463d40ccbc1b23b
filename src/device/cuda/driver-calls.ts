/**
 * Calls of the driver with their results checked, and the context that calls of this thread mean.
 *
 * The current context is remembered so that it is set only when it changes. One object per thread.
 */
import { CUDA, cudaError } from './cuda-error.js';
import type { DriverFunctions, Out, ProcessMemory } from './driver-functions.js';

export class DriverCalls {
  readonly functions: DriverFunctions & ProcessMemory;
  #current = 0;

  constructor(functions: DriverFunctions & ProcessMemory) {
    this.functions = functions;
  }

  /** Throws the error of a call that did not succeed; `doing` ends the sentence "cannot ...". */
  check(code: number, doing: string): void {
    if (code !== CUDA.success) throw cudaError(this.functions, code, doing);
  }

  /** The one number that a call leaves. */
  value(call: (out: Out) => number, doing: string): number {
    const out: Out = [0];
    this.check(call(out), doing);
    return out[0];
  }

  /** Makes a context the one that calls of this thread mean. */
  makeCurrent(context: number): void {
    // Always: another library may have made another one current meanwhile.
    this.check(this.functions.cuCtxSetCurrent(context), 'switch to another GPU');
    this.#current = context;
  }

  /**
   * As `makeCurrent`, at no cost where the context was made current here last: for calls whose handles (of kernels, graphs,
   * streams, events) say which GPU they mean whatever another library has made current.
   */
  expectCurrent(context: number): void {
    if (this.#current !== context) this.makeCurrent(context);
  }

  /** A context is about to go: nothing may mean it any more. */
  forget(context: number): void {
    if (this.#current !== context) return;
    this.functions.cuCtxSetCurrent(0);
    this.#current = 0;
  }
}
