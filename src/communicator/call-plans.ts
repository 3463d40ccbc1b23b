/** From checked calls and messages to what is to be done: operations, batches of messages, or copies of a lone rank. */

import { isDirect } from '../collectives/registry.js';
import { TuttiError } from '../errors/tutti-error.js';
import { messageStreams } from '../planning/message-plan.js';
import type { Buffer, CheckedCall } from './buffers.js';
import type { CheckedCallOf } from './call-check.js';
import { type MessageCollective, messagesOf } from './gather-scatter.js';
import { copyAlone, exchangeAlone } from './lone-rank.js';
import { factsOf, type Message, MessageBatch, type RootedCall } from './message-batch.js';
import { Operation } from './operation.js';
import type { OperationContext } from './operation-context.js';
import type { Plan } from './prepared-operation.js';
import type { StagingForm } from './staging.js';

/** A checked call: an operation of its own, or messages. */
export type AnyCall = CheckedCall | CheckedCallOf<Buffer, MessageCollective>;

function isMadeOfMessages(call: AnyCall): call is CheckedCallOf<Buffer, MessageCollective> {
  return call.collective === 'gather' || call.collective === 'scatter';
}

const ONE_RANK = 'one rank: a copy';

export class CallPlans {
  readonly #context: OperationContext;
  readonly #rank: number;
  readonly #size: number;

  constructor(context: OperationContext) {
    this.#context = context;
    this.#rank = context.team.rank;
    this.#size = context.team.size;
  }

  /** Plans a call. Throws as Operation and MessageBatch do. */
  ofCall(call: AnyCall, form: StagingForm, context = this.#context): Plan {
    const { collective: name, send, recv } = call;
    if (isMadeOfMessages(call)) {
      return this.ofMessages(messagesOf(call, { rank: this.#rank, size: this.#size }), form, call);
    }
    const arrays = [send, recv];
    const alone = () => copyAlone(call);
    if (this.#size === 1) return { name, arrays, work: null, alone, explanation: ONE_RANK };
    const work = this.named(name, () => new Operation(context, call, form));
    const { algorithm, protocol, reason } = work.selection;
    const explanation = `${algorithm}${isDirect(algorithm) ? '' : ` ${protocol}`}: ${reason}`;
    return { name, arrays, work, alone, explanation };
  }

  /** Plans messages that go together; `call` is the collective that they are made of. Throws as MessageBatch does. */
  ofMessages(messages: readonly Message[], form: StagingForm, call?: RootedCall): Plan {
    const arrays = messages.map(({ buffer }) => buffer);
    const alone = () => exchangeAlone(messages);
    const name = call?.collective ?? (messages.length === 1 ? messages[0]!.kind : 'group');
    if (this.#size === 1) {
      this.named(name, () => messageStreams(0, messages.map(factsOf)));
      return { name, arrays, work: null, alone, explanation: ONE_RANK };
    }
    const work = this.named(name, () => new MessageBatch(this.#context, messages, form, call));
    const background = () => this.named(name, () => new MessageBatch(this.#context, messages, 'whole', call));
    return { name, arrays, work, alone, explanation: work.explanation, background };
  }

  /** Has an error say which call it was. */
  named<T>(name: string, make: () => T): T {
    try {
      return make();
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, `${name}: ${error.message}`, { rank: this.#rank, cause: error });
    }
  }
}
