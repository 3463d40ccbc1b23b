/**
 * The error for a worker thread of the library that has failed or ended: where the system refused what the thread needs
 * to start (descriptors, threads), that is no mistake of the library, and the user is told what is short.
 */
import { TuttiError } from '../errors/tutti-error.js';

/** Error names of the system, alone or at the end of what Node says of a thread that could not be set up. */
const SYSTEM_ERROR = /^(?:Worker initialization failure: )?(E[A-Z0-9]+)\b/;

/** What to do where a name tells. */
const REMEDIES: Readonly<Record<string, string>> = {
  EMFILE: '; raise the limit of open files (`ulimit -n`)',
  ENFILE: '; the whole machine has too many open files',
  EAGAIN: '; raise the limit of processes and threads (`ulimit -u`)',
  ENOMEM: '; the system has no memory for it',
};

/** `name` as in "the executor's thread"; `cause` where the thread said what it failed with. */
export function threadFailure(name: string, exitCode: number | undefined, cause?: Error): TuttiError {
  if (cause === undefined) {
    return new TuttiError('internalError', `${name} ended by itself with exit code ${exitCode}`);
  }
  const system = SYSTEM_ERROR.exec(cause.message)?.[1];
  const remedy = system === undefined ? '' : (REMEDIES[system] ?? '');
  const code = system === undefined ? 'internalError' : 'systemError';
  return new TuttiError(code, `${name} failed: ${cause.message}${remedy}`, { cause });
}
