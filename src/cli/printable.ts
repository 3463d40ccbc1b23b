/**
 * Makes text that may hold anything (names in files, variables) fit for a terminal: control characters, which could
 * move its cursor, change its title or hide what was printed, are shown as `\x1b`.
 */

/** Colours are sequences of an escape character, `[`, numbers and `m`. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are looked for
const CONTROLS = /\u001b\[[0-9;]*m|[\u0000-\u001f\u007f-\u009f]/g;

/** One line without control characters; colours stay where the line is known to be painted. */
export const printable = (line: string, keepsColours = false): string =>
  line.replace(CONTROLS, (found) =>
    keepsColours && found.length > 1
      ? found
      : `\\x${found.charCodeAt(0).toString(16).padStart(2, '0')}${found.slice(1)}`,
  );

/** A sentence for the user, on one line. */
export const sentence = (text: string): string => printable(text.replace(/\s*\r?\n\s*/g, ' '));
