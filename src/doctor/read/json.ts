/**
 * A reader of JSON that knows lines, bears a cut-off end, and is bounded in depth.
 *
 * Dumps are written by dying processes: what stands before the break is read.
 */

export type JsonValue =
  | { readonly type: 'object'; readonly line: number; readonly entries: Map<string, JsonValue> }
  | { readonly type: 'array'; readonly line: number; readonly items: JsonValue[] }
  | { readonly type: 'string'; readonly line: number; readonly value: string }
  | { readonly type: 'number'; readonly line: number; readonly value: number }
  | { readonly type: 'word'; readonly line: number; readonly value: boolean | null };

export interface JsonDocument {
  readonly value: JsonValue | undefined;
  /** The text ended, or stopped making sense, on this line. */
  readonly broken: number | undefined;
}

const MAX_DEPTH = 200;

const NUMBER = /[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|Infinity|NaN)|NaN/y;

const WORDS = [
  ['true', true],
  ['false', false],
  ['null', null],
] as const;

class Broken extends Error {}

class Parser {
  #at = 0;
  #line = 1;
  /** Containers that are open, outermost first: what a broken document gives. */
  root: JsonValue | undefined;

  constructor(private readonly text: string) {}

  get line(): number {
    return this.#line;
  }

  parse(): JsonValue {
    return this.#value(0, undefined, '');
  }

  #skip(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.#at);
      if (code !== 32 && code !== 10 && code !== 9 && code !== 13) return;
      if (code === 10) this.#line++;
      this.#at++;
    }
  }

  /** Reads a value. Containers are handed over before they are filled, so that a break leaves what was there. */
  #value(depth: number, into: Map<string, JsonValue> | JsonValue[] | undefined, key: string): JsonValue {
    this.#skip();
    const line = this.#line;
    const character = this.text[this.#at];
    if (character === '{') {
      const value: JsonValue = { type: 'object', line, entries: new Map() };
      this.#hand(value, into, key);
      this.#at++;
      this.#object(value.entries, depth + 1);
      return value;
    }
    if (character === '[') {
      const value: JsonValue = { type: 'array', line, items: [] };
      this.#hand(value, into, key);
      this.#at++;
      this.#array(value.items, depth + 1);
      return value;
    }
    const value = this.#scalar(character, line);
    this.#hand(value, into, key);
    return value;
  }

  #hand(value: JsonValue, into: Map<string, JsonValue> | JsonValue[] | undefined, key: string): void {
    if (into === undefined) this.root = value;
    else if (Array.isArray(into)) into.push(value);
    else into.set(key, value);
  }

  #object(entries: Map<string, JsonValue>, depth: number): void {
    if (depth > MAX_DEPTH) throw new Broken();
    this.#skip();
    if (this.#take('}')) return;
    for (;;) {
      this.#skip();
      const key = this.#string();
      this.#skip();
      if (!this.#take(':')) throw new Broken();
      this.#value(depth, entries, key);
      this.#skip();
      if (this.#take('}')) return;
      if (!this.#take(',')) throw new Broken();
      this.#skip();
      if (this.#take('}')) return; // a comma too many
    }
  }

  #array(items: JsonValue[], depth: number): void {
    if (depth > MAX_DEPTH) throw new Broken();
    this.#skip();
    if (this.#take(']')) return;
    for (;;) {
      this.#value(depth, items, '');
      this.#skip();
      if (this.#take(']')) return;
      if (!this.#take(',')) throw new Broken();
      this.#skip();
      if (this.#take(']')) return;
    }
  }

  #scalar(character: string | undefined, line: number): JsonValue {
    if (character === '"') return { type: 'string', line, value: this.#string() };
    for (const [word, value] of WORDS) {
      if (character === word[0] && this.text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return { type: 'word', line, value };
      }
    }
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.text);
    if (found === null) throw new Broken();
    this.#at += found[0].length;
    return { type: 'number', line, value: Number(found[0]) };
  }

  #string(): string {
    if (this.text[this.#at] !== '"') throw new Broken();
    let end = this.#at + 1;
    for (;;) {
      const code = this.text.charCodeAt(end);
      // Most of a string is none of the characters that mean something.
      if (code !== 34 && code !== 92 && code > 31) {
        end++;
        continue;
      }
      const character = this.text[end];
      if (character === undefined || character === '\n') throw new Broken();
      if (character === '"') break;
      end += character === '\\' ? 2 : 1;
    }
    const raw = this.text.slice(this.#at, end + 1);
    this.#at = end + 1;
    if (!raw.includes('\\')) return raw.slice(1, -1);
    try {
      return String(JSON.parse(raw));
    } catch {
      return raw.slice(1, -1);
    }
  }

  #take(character: string): boolean {
    if (this.text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }
}

/** Reads the first value of a text. */
export function readJson(text: string): JsonDocument {
  const parser = new Parser(text);
  try {
    return { value: parser.parse(), broken: undefined };
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { value: parser.root, broken: parser.line };
  }
}

/** A member of an object, under the first name that it has. */
export function member(value: JsonValue | undefined, names: readonly string[]): JsonValue | undefined {
  if (value?.type !== 'object') return undefined;
  for (const name of names) {
    const found = value.entries.get(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

export const stringOf = (value: JsonValue | undefined): string | undefined =>
  value?.type === 'string' ? value.value : value?.type === 'number' ? String(value.value) : undefined;

export const numberOf = (value: JsonValue | undefined): number | undefined => {
  if (value?.type === 'number') return Number.isFinite(value.value) ? value.value : undefined;
  if (value?.type === 'string' && /^-?\d+(?:\.\d+)?$/.test(value.value)) return Number(value.value);
  return undefined;
};
