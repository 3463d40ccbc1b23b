/**
 * Is a process still there, and is it still the same one?
 *
 * A process number alone is reused sooner or later; together with the time the process started it names one
 * process for ever. Both are read from `/proc/PID/stat` (proc(5), fields 3 and 22). A process seen from another
 * process-number namespace (a container with its own) cannot be judged and counts as alive: other means, such
 * as closed sockets, have to notice its end. On systems without /proc, signal 0 tells whether the number is in
 * use.
 */
import { readFileSync, readlinkSync } from 'node:fs';

/** Names one process of this host for ever; plain data, to be announced to peers. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to the start of the process; 0 where the system does not tell. */
  readonly startTime: number;
  /** The process-number namespace, `pid:[4026531836]`; empty where the system does not tell. */
  readonly namespace: string;
}

interface Stat {
  readonly state: string;
  readonly startTime: number;
}

/** State and start time; undefined when there is no such process (or no /proc). */
function readStat(pid: number | 'self'): Stat | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // Field 2 is the program's name in parentheses and may itself hold blanks and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '?', startTime: Number(fields[19] ?? 0) };
}

function readNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return '';
  }
}

let own: ProcessIdentity | undefined;

/** Who this process is. */
export function ownIdentity(): ProcessIdentity {
  own ??= { pid: process.pid, startTime: readStat('self')?.startTime ?? 0, namespace: readNamespace() };
  return own;
}

/** False when the process has ended (also when it is a zombie, or when its number now names another one). */
export function isAlive(identity: ProcessIdentity): boolean {
  const self = ownIdentity();
  if (identity.namespace !== self.namespace) return true;
  if (self.startTime === 0) return isSignalable(identity.pid);
  const stat = readStat(identity.pid);
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return false;
  return identity.startTime === 0 || identity.startTime === stat.startTime;
}

/** True when the process exists and is stopped, by a signal or a debugger; false where that cannot be told. */
export function isStopped(identity: ProcessIdentity): boolean {
  if (identity.namespace !== ownIdentity().namespace) return false;
  const stat = readStat(identity.pid);
  if (stat === undefined || (identity.startTime !== 0 && identity.startTime !== stat.startTime)) return false;
  return stat.state === 'T' || stat.state === 't';
}

function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Not allowed to signal it: somebody else's process, which therefore exists.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Number of the calling thread as the system counts them, 0 where it does not tell. */
export function ownThread(): number {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1));
  } catch {
    return 0;
  }
}

/** False when a thread of this process has ended. Always true where the system does not tell. */
export function isThreadAlive(thread: number): boolean {
  if (thread === 0) return true;
  try {
    readFileSync(`/proc/self/task/${thread}/stat`);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}
