/**
 * Lines that are wrapped in JSON, one object per line: Docker's json-file logs, and what log collectors make of them.
 */

/** Members that hold the line: of Docker and fluentd, of journald, of Google's and other collectors. */
const MEMBERS = ['log', 'MESSAGE', 'message', 'textPayload', 'msg'];

/** The text in a wrapped line, which may have several lines; undefined for what is none. */
export function unwrapped(line: string): string | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const value = JSON.parse(line) as Record<string, unknown>;
    for (const name of MEMBERS) {
      const text = value[name];
      if (typeof text === 'string') return text.replace(/\r?\n$/, '');
    }
  } catch {
    // No JSON, or cut off.
  }
  return undefined;
}
