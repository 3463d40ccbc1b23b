/**
 * NCCL's own reader: a small grammar that only looks like XML.
 *
 * It refuses much that XML allows (a prolog, tabs, line breaks inside tags) and accepts much that XML does not
 * (attributes without a name, any character in a value, closing tags of any name inside what it ignores). What it
 * accepts is read here as it reads it. (NCCL 2.30.7, xml.cc.)
 */
import { fileError } from './file-error.js';
import { NCCL_MAX_CHARACTERS } from './limits.js';
import { LineCounter } from './lines.js';
import type { RootName } from './nesting.js';
import { type NoteBook, shown } from './notes.js';
import { TreeBuilder } from './tree-builder.js';

/** Why NCCL refuses a file. */
export interface Refusal {
  readonly line: number;
  /** Name of the element there. */
  readonly element: string | undefined;
  /** What is wrong. */
  readonly wrong: string;
  readonly remedy: string;
  /** What NCCL prints. */
  readonly nccl?: string;
  /** Wrong in any XML; false where ordinary XML may allow it. */
  readonly isBroken: boolean;
}

/** The file as NCCL reads it, or where it stops. */
export type NcclReading = { readonly tree: TreeBuilder } | { readonly refusal: Refusal };

/**
 * Reads a text by NCCL's grammar.
 *
 * @throws TuttiError invalidUsage for what is refused whoever reads it: document types, and files beyond our limits.
 */
export function readByNcclGrammar(
  text: string,
  root: RootName,
  notes: NoteBook,
  file: string | undefined,
): NcclReading {
  const tree = new TreeBuilder(root, notes, file);
  try {
    new Scanner(text, tree, notes, file).scan();
    return { tree };
  } catch (error) {
    if (error instanceof Refused) return { refusal: error.refusal };
    throw error;
  }
}

/** Carries a refusal out of the scanner. */
class Refused extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.wrong);
  }
}

/** What separates elements. */
const BETWEEN_ELEMENTS = /[ \n\r]*/y;

/** A name: it ends before a space, a line break, `>`, `/` or `=`. */
const NAME = /[^ >/\n\r=]*/y;

const COMMENT_START = '!--';
const COMMENT_END = '-->';

/** Starts of names that are not those of elements: processing instructions, CDATA sections, declarations. */
const DECLARATION = /^(?:\?|!\[CDATA\[|![A-Za-z])/;

class Scanner {
  readonly #text: string;
  readonly #tree: TreeBuilder;
  readonly #notes: NoteBook;
  readonly #file: string | undefined;
  readonly #lines: LineCounter;
  #position = 0;

  constructor(text: string, tree: TreeBuilder, notes: NoteBook, file: string | undefined) {
    this.#text = text;
    this.#tree = tree;
    this.#notes = notes;
    this.#file = file;
    this.#lines = new LineCounter(text);
  }

  scan(): void {
    const text = this.#text;
    for (;;) {
      this.#take(BETWEEN_ELEMENTS);
      if (this.#position === text.length) break;
      const start = this.#position;
      if (text[start] !== '<') this.#refuseText(start);
      this.#position++;
      this.#tag(start);
    }
    const { top } = this.#tree;
    if (top === undefined) return;
    const { name, line } = top.one;
    throw new Refused({
      line: this.#lines.at(text.length),
      element: name,
      wrong: `the file ends inside <${shown(name)}> of line ${line}`,
      remedy: `add </${shown(name)}>, or look for the rest of the file`,
      nccl: `XML Parse : unterminated ${shown(name)}`,
      isBroken: true,
    });
  }

  /** Moves over what a sticky pattern matches, and returns it. */
  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#position;
    const taken = pattern.exec(this.#text)![0];
    this.#position += taken.length;
    return taken;
  }

  /** The next character, which a tag that starts at `start` cannot do without. */
  #next(start: number): string {
    const character = this.#text[this.#position++];
    if (character === undefined) this.#refuseEnd(start);
    return character;
  }

  /** A name and the character after it. */
  #name(start: number): [name: string, end: string] {
    const name = this.#take(NAME);
    if (name.length > NCCL_MAX_CHARACTERS) {
      this.#refuse(start, {
        wrong: `'${shown(name)}' is longer than the ${NCCL_MAX_CHARACTERS} characters that NCCL accepts`,
        remedy: 'shorten it',
      });
    }
    return [name, this.#next(start)];
  }

  #tag(start: number): void {
    const [name, end] = this.#name(start);
    if (end === '=') this.#refuseUnexpectedValue(start, name);
    if (name.startsWith(COMMENT_START)) {
      this.#tree.count(() => this.#lines.at(start));
      this.#comment(start);
    } else if (name === '' && end === '/') {
      this.#closingTag(start);
    } else {
      if (DECLARATION.test(name)) this.#refuseDeclaration(start, name);
      this.#openingTag(start, name, end);
    }
  }

  #comment(start: number): void {
    const end = this.#text.indexOf(COMMENT_END, start + 1 + COMMENT_START.length);
    if (end < 0) {
      this.#refuse(start, {
        wrong: 'a comment does not end',
        remedy: `end it with ${COMMENT_END}`,
        nccl: 'XML Parse error : unterminated comment',
        isBroken: true,
      });
    }
    this.#position = end + COMMENT_END.length;
  }

  #closingTag(start: number): void {
    const [name, end] = this.#name(start);
    if (end === '=') this.#refuseUnexpectedValue(start, name);
    if (end !== '>') {
      this.#refuse(start, {
        wrong: `the closing tag of <${shown(name)}> does not end after the name`,
        remedy: `write </${shown(name)}>`,
        nccl: `XML Parse error : unexpected trailing ${shown(end)} in closing tag ${shown(name)}`,
      });
    }
    const { top } = this.#tree;
    if (top === undefined) {
      this.#refuse(start, {
        wrong: `</${shown(name)}> closes nothing`,
        remedy: 'remove it',
        isBroken: true,
      });
    }
    const open = top.one.name;
    if (name !== open) {
      if (top.isRead) {
        this.#refuse(start, {
          wrong: `</${shown(name)}> does not close <${shown(open)}> of line ${top.one.line}`,
          remedy: `write </${shown(open)}>, or close what is inside first`,
          nccl: `XML Mismatch : ${shown(open)} / ${shown(name)}`,
          isBroken: true,
        });
      }
      this.#notes.add(
        this.#lines.at(start),
        `</${shown(name)}> closes <${shown(open)}>, which NCCL does not mind inside what it ignores`,
      );
    }
    this.#tree.close();
  }

  #openingTag(start: number, name: string, firstEnd: string): void {
    const line = this.#lines.at(start);
    const attributes: [string, string][] = [];
    let end = firstEnd;
    while (end === ' ') {
      let [key, after] = this.#name(start);
      let value = '';
      if (after === '=') {
        value = this.#value(start, name, key);
        after = this.#next(start);
      } else if (key !== '') {
        this.#notes.add(
          line,
          `attribute ${shown(key)} of <${shown(name)}> has no value for NCCL; write ${shown(key)}="..." without spaces`,
        );
      }
      attributes.push([key, value]);
      this.#tree.countAttributes(attributes.length, name, () => line);
      end = after;
    }
    const selfClosing = end === '/';
    if (selfClosing) end = this.#next(start);
    if (end !== '>') {
      const lineBreak = end === '\n' || end === '\r';
      this.#refuse(
        this.#position - 1,
        {
          wrong: lineBreak
            ? 'the tag continues on the next line'
            : `'${shown(end)}' stands where the tag should end`,
          remedy: 'write the tag on one line with one space before each attribute',
          nccl: `XML Parse : expected >, got '${shown(end)}'`,
        },
        name,
      );
    }
    this.#tree.open(name, attributes, line, selfClosing);
  }

  /** The value after an equals sign. */
  #value(start: number, element: string, key: string): string {
    const quote = this.#next(start);
    if (quote !== '"' && quote !== "'") {
      this.#refuse(
        this.#position - 1,
        {
          wrong: `the value of ${shown(key)} does not start with a quote`,
          remedy: `write ${shown(key)}="..."`,
          nccl: 'XML Parse : Expected (double) quote.',
          isBroken: !/\s/.test(quote),
        },
        element,
      );
    }
    const from = this.#position;
    const to = this.#text.indexOf(quote, from);
    if (to < 0) {
      this.#refuse(
        start,
        {
          wrong: `the value of ${shown(key)} does not end`,
          remedy: `end it with ${quote}`,
          nccl: 'XML Parse : Unexpected EOF',
          isBroken: true,
        },
        element,
      );
    }
    if (to - from > NCCL_MAX_CHARACTERS) {
      this.#refuse(
        start,
        {
          wrong: `the value of ${shown(key)} is longer than the ${NCCL_MAX_CHARACTERS} characters that NCCL accepts`,
          remedy: 'shorten it',
        },
        element,
      );
    }
    this.#position = to + 1;
    return this.#text.slice(from, to);
  }

  #refuseText(start: number): never {
    const character = this.#text[start]!;
    this.#refuse(start, {
      wrong: `'${shown(character)}' stands between elements`,
      remedy: character === '\t' ? 'indent with spaces' : 'remove it',
      nccl: `XML Parse error : expecting '<', got '${shown(character)}'`,
    });
  }

  #refuseUnexpectedValue(start: number, name: string): never {
    this.#refuse(start, {
      wrong: `'=' follows '${shown(name)}'`,
      remedy: name.startsWith(COMMENT_START) ? 'put a space after <!--' : 'write it as an attribute',
      nccl: `XML Parse : Unexpected value with name ${shown(name)}`,
    });
  }

  #refuseDeclaration(start: number, name: string): never {
    if (name.startsWith('!') && !name.startsWith('![')) {
      throw fileError(
        this.#file,
        this.#lines.at(start),
        this.#tree.top?.one.name,
        `'<${shown(name)}' declares something; topology and graph files have no document type and no entities, remove it`,
      );
    }
    this.#refuse(start, {
      wrong: `'<${shown(name)}' is not an element`,
      remedy: 'remove it before giving this file to NCCL',
      ...(name.startsWith('?') ? { nccl: "XML Parse : expected >, got '?'" } : {}),
    });
  }

  #refuseEnd(start: number): never {
    this.#refuse(start, {
      wrong: 'the file ends inside a tag',
      remedy: 'complete the tag, or look for the rest of the file',
      nccl: 'XML Parse : Unexpected EOF',
      isBroken: true,
    });
  }

  #refuse(
    position: number,
    what: Pick<Refusal, 'wrong' | 'remedy' | 'nccl'> & Partial<Pick<Refusal, 'isBroken'>>,
    element: string | undefined = this.#tree.top?.one.name,
  ): never {
    throw new Refused({ isBroken: false, ...what, line: this.#lines.at(position), element });
  }
}
