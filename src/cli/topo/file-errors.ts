/** Why the system could not read or write a file, in words. */
import { getSystemErrorMap } from 'node:util';

/** `no such file or directory`; the message itself where the system has no number for it. */
export function reasonOf(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  return (errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1]) ?? message;
}
