/**
 * A copy of a text that shares no memory with the piece of the file that it was cut from.
 *
 * V8 represents a cut-out of a string by a reference to the whole; a model that kept such strings would hold every
 * piece of a file in memory. Joining and cutting again makes a string of its own.
 */
export const detached = (text: string): string => ` ${text}`.slice(1);
