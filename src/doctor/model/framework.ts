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
        /** The process group, where the line names it. */
        readonly group: string | undefined;
        /** The rank in that group, where the line names it: another number than that of the process in a part of a job. */
        readonly groupRank: number | undefined;
      }
    /** The thread that watches operations stood still itself. */
    | { readonly kind: 'heartbeat'; readonly seconds: number | undefined }
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
        /** What the output of the same rank, or of nobody in particular, shows behind it. */
        after: { progress: number; isSuccess: boolean };
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
        /** The ranks, where a launcher reports several at once; `rank` is then absent. */
        readonly ranks?: readonly number[];
        /** The launcher or the scheduler was already ending the job: the end is its doing. */
        readonly isCleanUp?: boolean;
      }
    /** The scheduler, or somebody else, ended the job. */
    | {
        readonly kind: 'cancelled';
        readonly text: string;
        /** The output before it, of anybody, shows steps of a program. */
        readonly isAtWork: boolean;
      }
    /** A machine of the job failed, as the scheduler sees it; `host` where it is named. */
    | {
        readonly kind: 'nodeFailure' /** Only the daemon of a launcher there was lost. */;
        readonly isDaemon?: true;
      }
  );
