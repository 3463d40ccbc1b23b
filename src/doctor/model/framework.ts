/**
 * What frameworks and launchers say: time-outs, exceptions, processes that ended.
 */
import type { Place } from './place.js';

interface Event {
  readonly rank: number | undefined;
  host: string | undefined;
  readonly at: Place;
}

export type FrameworkEvent = Event &
  (
    | {
        readonly kind: 'watchdog';
        readonly sequence: number | undefined;
        readonly operation: string | undefined;
        /** Elements of the input. */
        readonly elements: number | undefined;
        readonly milliseconds: number | undefined;
      }
    /** How far a process group had come when its watchdog looked. */
    | {
        readonly kind: 'progress';
        readonly group: string;
        readonly enqueued: number;
        readonly completed: number;
      }
    | {
        readonly kind: 'exception';
        /** As `torch.OutOfMemoryError`. */
        readonly type: string;
        readonly text: string;
        readonly isOutOfMemory: boolean;
        readonly gpu: number | undefined;
        readonly pid: number | undefined;
      }
    /** An exception that reports a failure of NCCL. */
    | { readonly kind: 'ncclError'; readonly text: string; readonly version: string | undefined }
    /** The last warning of NCCL, as an exception quotes it. */
    | { readonly kind: 'lastError'; readonly text: string }
    /** A process ended by a signal or with an error. */
    | {
        readonly kind: 'exit';
        readonly signal: number | undefined;
        readonly code: number | undefined;
        readonly pid: number | undefined;
      }
    /** The scheduler ended the job. */
    | { readonly kind: 'cancelled'; readonly text: string }
  );
