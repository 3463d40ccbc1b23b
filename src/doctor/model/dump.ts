/**
 * What flight recorders dumped: the operations of one rank in one communicator.
 */
import type { Place } from './place.js';

export type OperationState = 'queued' | 'started' | 'completed' | 'unknown';

export interface DumpedOperation {
  readonly sequence: number;
  readonly name: string;
  /** Elements, or shapes, as text: what has to be equal on all ranks. */
  readonly size: string | undefined;
  /** Elements, where the dump tells a number. */
  readonly elements: number | undefined;
  readonly type: string | undefined;
  readonly state: OperationState;
  readonly at: Place;
  /** A send or a receive: ranks do not call these together, and number them apart from collectives. */
  readonly message?: Message | 'unknown';
}

/** From whom to whom, by ranks of the group. */
export interface Message {
  readonly isSend: boolean;
  readonly from: number;
  readonly to: number;
}

export interface RankDump {
  readonly rank: number;
  readonly host: string | undefined;
  readonly communicator: string;
  /** Ranks of the communicator, where the dump tells. */
  readonly size: number | undefined;
  /** The ranks of the communicator, in the order of its own numbers, where the dump tells. */
  readonly members?: readonly number[];
  /** It is no dump, but put together from lines of which the group is not known. */
  readonly isGroupUnknown?: boolean;
  readonly operations: readonly DumpedOperation[];
  /** Why it was written, as 'timeout after 600 s'. */
  readonly reason: { readonly text: string; readonly at: Place } | undefined;
}
