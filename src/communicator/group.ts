/**
 * Groups: calls that are submitted together, so that none waits for one that comes later in the code.
 * Groups may be nested; the outermost counts. They belong to the thread that opens them.
 */
import { TuttiError } from '../errors/tutti-error.js';

/** A communicator with calls in the open group. */
export interface GroupMember {
  /** Finds out whether they can be submitted, and throws where they cannot; absent where nothing can be known. */
  planGroup?(): void;
  /** Submits them; resolves when they are done, or enqueued where that was asked for. */
  submitGroup(): Promise<void>;
  /** Forgets them. */
  discardGroup(): void;
}

let depth = 0;
const members = new Set<GroupMember>();
/** The first error of a call in the open group. */
let failure: unknown;

export function isGroupOpen(): boolean {
  return depth > 0;
}

/** Joins the open group; false when there is none. */
export function joinGroup(member: GroupMember): boolean {
  if (depth > 0) members.add(member);
  return depth > 0;
}

/**
 * Has the end of a communicator begin with the open group's end, behind the calls of it; undefined when no group is open.
 * `forget` is called when the group is given up.
 */
export function finalizeInGroup(begin: () => Promise<void>, forget: () => void): Promise<void> | undefined {
  if (depth === 0) return undefined;
  const done = new Promise<void>((resolve, reject) => {
    members.add({
      submitGroup: async () => {
        resolve(begin());
        await done;
      },
      discardGroup: () => {
        forget();
        reject(new TuttiError('invalidUsage', 'finalize: the group was given up before its end'));
      },
    });
  });
  // Who looks at the group's promise need not look at this one.
  done.catch(() => {});
  return done;
}

/** A call of the open group is wrong: the group submits nothing and fails with the error. */
export function failGroup(error: unknown): void {
  if (depth > 0) failure ??= error;
}

function discard(): void {
  for (const member of members) member.discardGroup();
  members.clear();
  failure = undefined;
}

/**
 * Has calls made in `record` join the group, and gives its members when it was the outermost one. Throws what `record`
 * throws, or the first error of a call; then nothing is to be submitted.
 */
export function recordGroup(record: () => void): GroupMember[] {
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
    if (failure !== undefined) throw failure;
  } catch (error) {
    // Also when this is not the outermost one: the others must not submit what is left.
    if (depth > 1) failure ??= error;
    else discard();
    throw error;
  } finally {
    depth -= 1;
  }
  if (depth > 0) return [];
  const recorded = [...members];
  members.clear();
  return recorded;
}

/**
 * Everything that communicators send and receive inside `record` is submitted together when it returns, and so are other
 * calls on host memory. Resolves when all of it is done. Throws what `record` throws or the first error of a call, and
 * then nothing is submitted.
 */
export async function group(record: () => void): Promise<void> {
  const recorded = recordGroup(record);
  try {
    for (const member of recorded) member.planGroup?.();
  } catch (error) {
    for (const member of recorded) member.discardGroup();
    throw error;
  }
  await Promise.all(recorded.map((member) => member.submitGroup()));
}
