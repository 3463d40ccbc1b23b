/**
 * Primitives: what one rank does with one chunk. Programs are written over them and do not know which protocol
 * moves the bytes.
 *
 * | call                  | receives | sends | own input | own output |
 * |-----------------------|----------|-------|-----------|------------|
 * | send                  |          | yes   | yes       |            |
 * | copySend              |          | yes   | yes       | yes        |
 * | recv                  | yes      |       |           | yes        |
 * | recvCopySend          | yes      | yes   |           | yes        |
 * | recvSend              | yes      | yes   |           |            |
 * | recvReduceSend        | yes      | yes   | yes       |            |
 * | recvReduceCopy        | yes      |       | yes       | yes        |
 * | recvReduceCopySend    | yes      | yes   | yes       | yes        |
 * | copy                  |          |       | yes       | yes        |
 *
 * With several connections (fan-in, fan-out) a call receives from all of them and sends the same to all.
 *
 * Every call takes part in the protocol even when it moves no element, so that both sides count the same
 * steps. `after` applies the closing operation of an integer average.
 */

import type { Value } from '../kernel/builder.js';
import type { Ends } from './ends.js';

/** One call in general form; the table above gives the forms in use. */
export interface Transfer {
  readonly receives: boolean;
  readonly sends: boolean;
  /** Where the own input of the chunk begins, when it takes part. */
  readonly input?: Value<'ptr'>;
  /** Where the result is written. */
  readonly output?: Value<'ptr'>;
  readonly elements: Value<'u64'>;
  readonly after?: boolean;
  /** The input is a result of earlier calls, which has had the opening operation of a float average. */
  readonly isResult?: boolean;
  /** Order of the two operands, input and received, where all ranks that combine them must agree; else the protocol's. */
  readonly receivedFirst?: boolean;
}

/** A protocol's way to do a transfer; `close` saves the step counters for the next program. */
export interface Protocol {
  readonly ends: Ends;
  transfer(transfer: Transfer): void;
  close(): void;
}

export class Primitives {
  constructor(readonly protocol: Protocol) {}

  send(input: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: false, sends: true, input, elements });
  }

  /** What earlier calls have left in the output. */
  sendResult(output: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: false, sends: true, input: output, elements, isResult: true });
  }

  copySend(input: Value<'ptr'>, output: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: false, sends: true, input, output, elements });
  }

  recv(output: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: true, sends: false, output, elements });
  }

  recvCopySend(output: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: true, sends: true, output, elements });
  }

  /** What comes goes on, and is of no interest here. */
  recvSend(elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: true, sends: true, elements });
  }

  recvReduceSend(input: Value<'ptr'>, elements: Value<'u64'>): void {
    this.protocol.transfer({ receives: true, sends: true, input, elements });
  }

  recvReduceCopy(input: Value<'ptr'>, output: Value<'ptr'>, elements: Value<'u64'>, after: boolean): void {
    this.protocol.transfer({ receives: true, sends: false, input, output, elements, after });
  }

  recvReduceCopySend(
    input: Value<'ptr'>,
    output: Value<'ptr'>,
    elements: Value<'u64'>,
    after: boolean,
  ): void {
    this.protocol.transfer({ receives: true, sends: true, input, output, elements, after });
  }

  /** The own input alone, to the own output. */
  copy(input: Value<'ptr'>, output: Value<'ptr'>, elements: Value<'u64'>, after: boolean): void {
    this.protocol.transfer({ receives: false, sends: false, input, output, elements, after });
  }

  close(): void {
    this.protocol.close();
  }
}
