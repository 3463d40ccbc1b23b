/**
 * Whether a prepared operation may run at once without asking anybody: the communicator is healthy and open, and
 * nothing is under way. One flag that is kept up to date where these change, because asking four objects takes
 * longer than a small operation does, above all before the JavaScript engine has optimised the asking.
 */

export class Gate {
  /** Read before every run. */
  open = true;
  #barred = false;
  #busy = 0;

  /** An operation is under way in the background. */
  enter(): void {
    this.#busy += 1;
    this.open = false;
  }

  leave(): void {
    this.#busy -= 1;
    this.open = this.#busy === 0 && !this.#barred;
  }

  /** The communicator has failed or is being closed: never again. */
  bar(): void {
    this.#barred = true;
    this.open = false;
  }
}
