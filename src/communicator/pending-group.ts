/** What a communicator is to do at the end of the open group. */

import type { Message } from './message-batch.js';
import type { Plan } from './prepared-operation.js';
import type { StagingForm } from './staging.js';

/** A call and its promise. */
interface Entry {
  readonly plan: (form: StagingForm) => Plan;
  readonly done: Promise<void>;
  resolve(): void;
  reject(error: unknown): void;
}

export class PendingGroup {
  readonly messages: Message[] = [];
  /** In the order of the calls; the messages together where the first of them stands. */
  readonly #entries: Entry[] = [];
  #planned: Plan[] = [];
  #messages: Promise<void> | undefined;

  get hasOnlyMessages(): boolean {
    return this.#messages !== undefined && this.#entries.length === 1;
  }

  /** Adds a call that is planned at the group's end. The promise is settled with the call; nobody need look at it. */
  add(plan: Entry['plan']): Promise<void> {
    return this.#push(plan);
  }

  /** Adds a message; `plan` plans all of them. */
  addMessage(
    message: Message,
    plan: (messages: readonly Message[], form: StagingForm) => Plan,
  ): Promise<void> {
    this.messages.push(message);
    this.#messages ??= this.#push((form) => plan(this.messages, form));
    return this.#messages;
  }

  #push(plan: Entry['plan']): Promise<void> {
    let resolve!: () => void;
    let reject!: (error: unknown) => void;
    const done = new Promise<void>((yes, no) => {
      resolve = yes;
      reject = no;
    });
    done.catch(() => {});
    this.#entries.push({ plan, done, resolve, reject });
    return done;
  }

  /** Plans everything. Throws the first error; `discard` gives back what was planned before. */
  plan(form: StagingForm): void {
    for (const { plan } of this.#entries) this.#planned.push(plan(form));
  }

  /** Hands everything over in order; settles when all of it is done. */
  async submit(run: (plan: Plan) => Promise<void>): Promise<void> {
    const plans = this.#planned;
    this.#planned = [];
    await Promise.all(
      this.#entries.map(async ({ resolve, reject }, i) => {
        try {
          await run(plans[i]!);
          resolve();
        } catch (error) {
          reject(error);
          throw error;
        }
      }),
    );
  }

  /** Does everything now, in order, after `plan` has planned it. */
  run(act: (plan: Plan) => void, plan: () => void): void {
    try {
      plan();
      for (const one of this.#planned) act(one);
      for (const { resolve } of this.#entries) resolve();
    } catch (error) {
      for (const { reject } of this.#entries) reject(error);
      throw error;
    } finally {
      for (const { work } of this.#planned.splice(0)) work?.release();
    }
  }

  /** Forgets everything; the calls fail. */
  discard(error: unknown): void {
    for (const { work } of this.#planned.splice(0)) work?.release();
    for (const { reject } of this.#entries) reject(error);
  }
}
