/**
 * Builds the tree of a file that a reader takes apart into tags, within the limits, and notes what NCCL would leave out.
 *
 * Both readers use it, so that a file means the same whichever of them accepts it.
 */
import type { XmlElement } from './element.js';
import { fileError } from './file-error.js';
import {
  MAX_ATTRIBUTES,
  MAX_DEPTH,
  MAX_ELEMENTS,
  MAX_VALUE,
  NCCL_MAX_ATTRIBUTES,
  NCCL_MAX_CHARACTERS,
  NCCL_MAX_CHILDREN,
  NCCL_TABLE_SIZE,
} from './limits.js';
import { DOCUMENT, type RootName, readBelow } from './nesting.js';
import { type NoteBook, shown } from './notes.js';

/** An element whose closing tag is still to come. */
interface OpenElement {
  readonly one: XmlElement;
  /** NCCL reads it; false for what it ignores. */
  readonly isRead: boolean;
  /** Children of it that NCCL reads. */
  childrenRead: number;
}

const ENTITY = /&(?:#\d+|#x[\da-fA-F]+|[A-Za-z_][\w.-]*);/;

export class TreeBuilder {
  /** Elements outside of others: one, in most files. */
  readonly elements: XmlElement[] = [];
  readonly #open: OpenElement[] = [];
  readonly #root: RootName;
  readonly #notes: NoteBook;
  readonly #file: string | undefined;
  /** Names and values that are too long for NCCL. */
  tooLong = 0;
  #count = 0;
  #countRead = 0;

  constructor(root: RootName, notes: NoteBook, file: string | undefined) {
    this.#root = root;
    this.#notes = notes;
    this.#file = file;
  }

  /**
   * A tag, a comment or the like starts: there may only be so many.
   *
   * @throws TuttiError invalidUsage if there are more.
   */
  count(line: () => number): void {
    if (++this.#count <= MAX_ELEMENTS) return;
    throw fileError(
      this.#file,
      line(),
      this.top?.one.name,
      `the file has more than ${MAX_ELEMENTS} elements and comments; no topology or graph file needs as many`,
    );
  }

  /**
   * A tag has this many attributes so far: there may only be so many.
   *
   * @throws TuttiError invalidUsage if there are more.
   */
  countAttributes(count: number, name: string, line: () => number): void {
    if (count <= MAX_ATTRIBUTES) return;
    throw fileError(
      this.#file,
      line(),
      name,
      `the element has more than ${MAX_ATTRIBUTES} attributes; none needs as many`,
    );
  }

  /** The innermost open element. */
  get top(): OpenElement | undefined {
    return this.#open.at(-1);
  }

  /**
   * An opening or self-closing tag with its attributes as they stand, nameless and repeated ones included.
   *
   * @throws TuttiError invalidUsage if the file is beyond our limits.
   */
  open(
    name: string,
    attributes: readonly (readonly [key: string, value: string])[],
    line: number,
    selfClosing: boolean,
  ): void {
    this.count(() => line);
    if (this.#open.length === MAX_DEPTH) {
      throw fileError(
        this.#file,
        line,
        name,
        `elements stand inside each other more than ${MAX_DEPTH} deep; close those that come before`,
      );
    }
    const parent = this.top;
    const one: XmlElement = {
      name,
      attributes: this.#attributes(name, attributes, line),
      children: [],
      line,
      selfClosing,
    };
    const isRead = this.#isRead(parent, name, line);
    if (isRead) this.#countElement(parent, line);
    (parent?.one.children ?? this.elements).push(one);
    if (!selfClosing) this.#open.push({ one, isRead, childrenRead: 0 });
  }

  /** The end of the innermost open element. */
  close(): void {
    this.#open.pop();
  }

  #attributes(
    element: string,
    attributes: readonly (readonly [key: string, value: string])[],
    line: number,
  ): Map<string, string> {
    const note = (sentence: (tag: string) => string) =>
      this.#notes.add(line, sentence(`<${shown(element)}>`));
    const checkLength = (text: string, what: () => string) => {
      if (text.length <= NCCL_MAX_CHARACTERS) return;
      if (text.length > MAX_VALUE) {
        throw fileError(
          this.#file,
          line,
          element,
          `${what()} is longer than ${MAX_VALUE} characters; no topology or graph file needs as many`,
        );
      }
      this.tooLong++;
      note(
        (tag) =>
          `${what()} in ${tag} is longer than the ${NCCL_MAX_CHARACTERS} characters that NCCL accepts; shorten it`,
      );
    };
    checkLength(element, () => 'the name of an element');
    if (attributes.length > NCCL_MAX_ATTRIBUTES) {
      note(
        (tag) =>
          `${tag} has more than ${NCCL_MAX_ATTRIBUTES} attributes; NCCL ignores the rest ` +
          `("XML Parse : Ignoring extra attributes (max ${NCCL_MAX_ATTRIBUTES})"), and so does tutti`,
      );
    }
    const kept = new Map<string, string>();
    for (const [key, value] of attributes.slice(0, NCCL_MAX_ATTRIBUTES)) {
      checkLength(key, () => 'the name of an attribute');
      checkLength(value, () => `the value of ${shown(key)}`);
      const entity = value.includes('&') ? ENTITY.exec(value) : null;
      if (entity !== null) {
        note(
          (tag) =>
            `NCCL does not decode '${shown(entity[0])}' in the value of ${shown(key)} in ${tag}; ` +
            'the value is read as it stands',
        );
      }
      if (key === '') {
        note(
          (tag) =>
            `NCCL takes a second space, or a space before the end of the tag, for an attribute without a name in ${tag}; ` +
            'leave one space before each attribute and none after the last',
        );
      } else if (kept.has(key)) {
        note((tag) => `attribute ${shown(key)} is in ${tag} twice; the first one counts, remove the other`);
      }
      if (!kept.has(key)) kept.set(key, value);
    }
    return kept;
  }

  #isRead(parent: OpenElement | undefined, name: string, line: number): boolean {
    if (parent !== undefined && !parent.isRead) return false;
    const above = parent?.one.name ?? DOCUMENT;
    const names = readBelow(this.#root, above);
    if (names.includes(name)) return true;
    const where = parent === undefined ? 'outside of the root element' : `inside <${shown(above)}>`;
    this.#notes.add(line, `NCCL ignores <${shown(name)}> ${where}, with everything in it`);
    return false;
  }

  #countElement(parent: OpenElement | undefined, line: number): void {
    const size = NCCL_TABLE_SIZE[this.#root];
    if (++this.#countRead === size) {
      this.#notes.add(
        line,
        `NCCL refuses a file of ${size} elements or more, of which this is the ${size}th ` +
          `("Error : XML parser is limited to ${size} nodes"); leave out what it can find itself`,
      );
    }
    if (parent !== undefined && ++parent.childrenRead === NCCL_MAX_CHILDREN + 1) {
      this.#notes.add(
        line,
        `NCCL has no room for more than ${NCCL_MAX_CHILDREN} elements in <${shown(parent.one.name)}>`,
      );
    }
  }
}
