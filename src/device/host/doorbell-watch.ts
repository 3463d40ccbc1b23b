/**
 * Waiting on a doorbell in an event loop, for threads that have other things to do: a callback instead of a
 * sleep. The rule is that of every sleeper (see doorbell.ts): register, look once more, and only then wait.
 */
import { armDoorbell, DOORBELL, type DoorbellMemory } from './doorbell.js';

/** `Atomics.waitAsync` (ES2024), which the language level we compile for does not know yet. */
const waitAsync = (
  Atomics as unknown as {
    waitAsync(
      array: Int32Array,
      index: number,
      value: number,
    ): { async: true; value: Promise<string> } | { async: false };
  }
).waitAsync;

export class DoorbellWatch {
  readonly #i32: Int32Array;
  readonly #doorbell: number;
  readonly #sleepers: number;
  readonly #rings: number;
  readonly #look: () => void;
  #stopped = false;

  /** Calls `look` now, and whenever the doorbell was rung. `look` must not throw. */
  constructor(memory: Pick<DoorbellMemory, 'i32'>, doorbell: number, look: () => void) {
    this.#i32 = memory.i32;
    this.#doorbell = doorbell;
    this.#sleepers = (doorbell + DOORBELL.sleepers) >>> 2;
    this.#rings = (doorbell + DOORBELL.rings) >>> 2;
    this.#look = look;
    this.#wait();
  }

  readonly #wait = (): void => {
    if (this.#stopped) return;
    const i32 = this.#i32;
    Atomics.add(i32, this.#sleepers, 1);
    const seen = armDoorbell(i32, this.#doorbell);
    this.#look();
    const wait = waitAsync(i32, this.#rings, seen);
    // Rung meanwhile: other events have their turn before the next look.
    if (wait.async) void wait.value.then(this.#woken);
    else setImmediate(this.#woken);
  };

  readonly #woken = (): void => {
    // While it looks nobody needs to ring: ringing costs the program a system call.
    Atomics.sub(this.#i32, this.#sleepers, 1);
    if (this.#stopped) return;
    this.#look();
    this.#wait();
  };

  /** No more calls of `look`. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    Atomics.add(this.#i32, this.#rings, 1);
    Atomics.notify(this.#i32, this.#rings);
  }
}
