/**
 * Groups: sends and receives that are submitted together, so that none waits for one that comes later in the code.
 * Groups may be nested; the outermost counts.
 */
import { TuttiError } from '../../errors/tutti-error.js';

/** A communicator with messages in the open group. */
export interface GroupMember {
  /** Submits them; resolves when they are done, or enqueued where that was asked for. */
  submitGroup(): Promise<void>;
  /** Forgets them. */
  discardGroup(): void;
}

let depth = 0;
const members = new Set<GroupMember>();

export function isGroupOpen(): boolean {
  return depth > 0;
}

/** Joins the open group; false when there is none. */
export function joinGroup(member: GroupMember): boolean {
  if (depth > 0) members.add(member);
  return depth > 0;
}

/**
 * Everything that communicators send and receive inside `record` is submitted together when it returns. Resolves when
 * all of it is done. Throws what `record` throws, and then nothing is submitted.
 */
export async function group(record: () => void): Promise<void> {
  depth += 1;
  try {
    const result: unknown = record();
    if (result instanceof Promise) {
      result.catch(() => {});
      throw new TuttiError(
        'invalidUsage',
        'group: the function must make its calls before it returns; it may not be async',
      );
    }
  } catch (error) {
    for (const member of members) member.discardGroup();
    members.clear();
    throw error;
  } finally {
    depth -= 1;
  }
  if (depth > 0) return;
  const submitted = [...members].map((member) => member.submitGroup());
  members.clear();
  await Promise.all(submitted);
}
