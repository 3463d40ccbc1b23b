/**
 * The two ends of connections as a program sees them: addresses that are known at run time.
 *
 * A protocol moves chunks over a fixed set of them: it receives from all of its receive ends (fan-in) and sends the
 * same to all of its send ends (fan-out). A ring has one of each; a tree up to three of one kind.
 * Source: NCCL 2.30, primitives with several receive and send peers.
 */

import type { Value, Variable } from '../kernel/builder.js';

/** Where this rank receives. */
export interface ReceiveEnd {
  /** Its own ReceiverControl, followed by the buffer. */
  readonly own: Value<'ptr'>;
  /** The sender's SenderControl, where credits are returned. */
  readonly sender: Value<'ptr'>;
  /** What the sender's waits sleep on. */
  readonly doorbell: Value<'ptr'>;
}

/** Where this rank sends. */
export interface SendEnd {
  /** Its own SenderControl. */
  readonly own: Value<'ptr'>;
  /** The receiver's ReceiverControl, followed by the buffer. */
  readonly receiver: Value<'ptr'>;
  /** What the receiver's waits sleep on. */
  readonly doorbell: Value<'ptr'>;
}

/** A send end with its place in the sequence of steps. */
export interface Sending {
  readonly end: SendEnd;
  readonly buffer: Value<'ptr'>;
  readonly step: Variable<'u64'>;
  /** The latest head seen. */
  readonly head: Variable<'u64'>;
}

/** The connections of one protocol object. */
export interface Ends {
  /** In the order in which received operands are combined. */
  readonly receives: readonly ReceiveEnd[];
  readonly sends: readonly SendEnd[];
  /** Bytes of one slot. */
  readonly slot: Value<'u64'>;
  /** Bytes from a ReceiverControl to the buffer of this protocol. */
  readonly buffers: Value<'u64'>;
  /** Both ends are programs: nobody in between has to be told how much is in a slot. */
  readonly withoutProxy?: true;
}
