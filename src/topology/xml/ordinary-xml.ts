/**
 * Reads well-formed XML that NCCL's grammar refuses, and notes every place where NCCL would stop.
 *
 * The parser judges whether the text is well formed; names and values are taken from the text as they stand, because
 * NCCL decodes nothing and a file must be written back as it was.
 */
import { SaxesParser } from 'saxes';
import { fileError } from './file-error.js';
import { MAX_BETWEEN_TAGS } from './limits.js';
import { LineCounter } from './lines.js';
import type { RootName } from './nesting.js';
import { type NoteBook, shown } from './notes.js';
import { TreeBuilder } from './tree-builder.js';

/** The tree of a file, and how many places NCCL would stop at. */
export interface OrdinaryReading {
  readonly tree: TreeBuilder;
  readonly stops: number;
}

/** Where a text is not well-formed XML. */
export class NotWellFormed extends Error {
  constructor(
    readonly line: number,
    readonly element: string | undefined,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Reads a text as XML.
 *
 * @throws NotWellFormed, and TuttiError invalidUsage for document types and files beyond our limits.
 */
export function readOrdinaryXml(
  text: string,
  root: RootName,
  notes: NoteBook,
  file: string | undefined,
): OrdinaryReading {
  return new Reader(text, root, notes, file).read();
}

/** An attribute of a tag whose form is known to be right: space, name, equals sign, value with quotes. */
const ATTRIBUTE = /([ \t\n\r]+)([^ \t\n\r=/>]+)([ \t\n\r]*=[ \t\n\r]*)(?:"([^"]*)"|'([^']*)')/y;

const TAG_NAME = /[^ \t\n\r/>]+/y;

/** Half of a surrogate pair: the parser would take what follows, were it a tag, for its other half. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What the parser says of a repeated attribute; NCCL does not mind, the first one counts. */
const DUPLICATE = /duplicate attribute/;

/** Characters that the parser gets at once. */
const SLICE = 64 * 1024;

/** Where a slice ends: not between two characters that the parser takes for one. */
function sliceEnd(text: string, from: number): number {
  let to = Math.min(from + SLICE, text.length);
  while (to < text.length && /[\r\ud800-\udbff]/.test(text[to - 1]!)) to++;
  return to;
}

class Reader {
  readonly #text: string;
  readonly #notes: NoteBook;
  readonly #file: string | undefined;
  readonly #lines: LineCounter;
  readonly #tree: TreeBuilder;
  /** Position after the last tag, comment or the like. */
  #done = 0;
  #stops = 0;

  constructor(text: string, root: RootName, notes: NoteBook, file: string | undefined) {
    this.#text = text;
    this.#notes = notes;
    this.#file = file;
    this.#lines = new LineCounter(text);
    this.#tree = new TreeBuilder(root, notes, file);
  }

  read(): OrdinaryReading {
    // Version 1.1 would allow other characters for line breaks and spaces.
    const lone = LONE_SURROGATE.exec(this.#text);
    if (lone !== null) {
      const what = `half of a character (${shown(lone[0])})`;
      throw new NotWellFormed(this.#lines.at(lone.index), undefined, `disallowed character: ${what}`);
    }
    const parser = new SaxesParser({
      xmlns: false,
      fragment: false,
      position: false,
      defaultXMLVersion: '1.0',
      forceXMLVersion: true,
    });
    parser.on('error', ({ message }) => {
      if (DUPLICATE.test(message)) return;
      throw new NotWellFormed(this.#lines.at(parser.position), this.#tree.top?.one.name, message);
    });
    parser.on('doctype', () => this.#refuseDocumentType());
    const instruction = () => {
      const start = this.#start('?>');
      const what = this.#text.startsWith('<?xml ', start) ? 'an XML prolog' : 'a processing instruction';
      this.#stop(
        start,
        `NCCL does not accept ${what} ("XML Parse : expected >, got '?'"); remove it before giving this file to NCCL`,
      );
    };
    parser.on('xmldecl', instruction);
    parser.on('processinginstruction', instruction);
    parser.on('comment', () => this.#comment(this.#start('-->')));
    parser.on('cdata', () => {
      this.#stop(this.#start(']]>'), 'NCCL does not accept a CDATA section; remove it');
    });
    let attributes = 0;
    parser.on('opentagstart', () => {
      attributes = 0;
    });
    parser.on('attribute', () => {
      this.#tree.countAttributes(++attributes, this.#tree.top?.one.name ?? '?', () =>
        this.#lines.at(parser.position),
      );
    });
    parser.on('opentag', ({ isSelfClosing }) => this.#openingTag(parser.position, isSelfClosing));
    parser.on('closetag', ({ isSelfClosing }) => {
      if (!isSelfClosing) this.#closingTag(parser.position);
    });
    for (let from = 0; from < this.#text.length; ) {
      const to = sliceEnd(this.#text, from);
      parser.write(this.#text.slice(from, to));
      this.#checkProgress(to);
      from = to;
    }
    parser.close();
    this.#checkGap(this.#text.length);
    return { tree: this.#tree, stops: this.#stops + this.#tree.tooLong };
  }

  #refuseDocumentType(): never {
    throw fileError(
      this.#file,
      this.#lines.at(this.#done),
      undefined,
      'the file has a document type (<!DOCTYPE); topology and graph files have none and no entities, remove it',
    );
  }

  /** Refuses what goes on and on without the end of a tag or comment; the parser would collect it. */
  #checkProgress(position: number): void {
    if (position - this.#done <= MAX_BETWEEN_TAGS) return;
    if (this.#text.startsWith('<!DOCTYPE', this.#text.indexOf('<', this.#done))) this.#refuseDocumentType();
    throw fileError(
      this.#file,
      this.#lines.at(this.#done),
      this.#tree.top?.one.name,
      `no tag and no comment ends within ${MAX_BETWEEN_TAGS} characters; remove what stands there`,
    );
  }

  /** Notes a place where NCCL would stop. */
  #stop(position: number, sentence: string): void {
    this.#stops++;
    this.#notes.add(this.#lines.at(position), sentence);
  }

  /** The start of the markup that has just been read and ends with `end`. */
  #start(end: string): number {
    const start = this.#text.indexOf('<', this.#done);
    this.#checkGap(start);
    this.#done = this.#text.indexOf(end, start) + end.length;
    this.#tree.count(() => this.#lines.at(start));
    return start;
  }

  /** Looks at what stands between the last markup and the next. */
  #checkGap(to: number): void {
    const gap = this.#text.slice(this.#done, to);
    const at = gap.search(/[^ \n\r]/);
    if (at < 0) return;
    const character = gap[at]!;
    const [what, remedy] =
      character === '\t' ? ['a tab', 'indent with spaces'] : ['text between elements', 'remove it'];
    this.#stop(
      this.#done + at,
      `NCCL does not accept ${what} ("XML Parse error : expecting '<', got '${shown(character)}'"); ${remedy}`,
    );
    if (character === '\t' && /[^\s]/.test(gap)) {
      this.#stop(this.#done + gap.search(/[^\s]/), 'NCCL does not accept text between elements; remove it');
    }
  }

  #comment(start: number): void {
    const name = /[^ >/\n\r]*/.exec(this.#text.slice(start + 1, start + 1024))![0];
    if (name.includes('=')) {
      this.#stop(
        start,
        `NCCL does not accept a comment with '=' in its first word ("XML Parse : Unexpected value with name ` +
          `${shown(name.slice(0, name.indexOf('=')))}"); put a space after <!--`,
      );
    }
  }

  #openingTag(end: number, selfClosing: boolean): void {
    const text = this.#text;
    const start = text.indexOf('<', this.#done);
    this.#checkGap(start);
    this.#done = end;
    TAG_NAME.lastIndex = start + 1;
    const name = TAG_NAME.exec(text)![0];
    const attributes: [string, string][] = [];
    let position = start + 1 + name.length;
    for (;;) {
      ATTRIBUTE.lastIndex = position;
      const match = ATTRIBUTE.exec(text);
      if (match === null) break;
      const [whole, space, key, equals, double, single] = match;
      this.#checkSpace(position, space!, ' ', name);
      if (equals !== '=') {
        this.#stop(
          position,
          `NCCL does not accept spaces around the '=' of an attribute of <${shown(name)}>; remove them`,
        );
      }
      attributes.push([key!, double ?? single!]);
      position += whole.length;
    }
    this.#checkSpace(position, text.slice(position, end - (selfClosing ? 2 : 1)), '', name);
    this.#tree.open(name, attributes, this.#lines.at(start), selfClosing);
  }

  /** Notes space inside a tag that is not what NCCL expects there. */
  #checkSpace(position: number, space: string, expected: string, element: string): void {
    if (space === expected) return;
    const tag = `<${shown(element)}>`;
    const wrong = /[^ ]/.exec(space);
    if (wrong === null) {
      this.#notes.add(
        this.#lines.at(position),
        `NCCL takes a second space, or a space before the end of the tag, for an attribute without a name in ${tag}; ` +
          'leave one space before each attribute and none after the last',
      );
      return;
    }
    const what = wrong[0] === '\t' ? 'a tab' : 'a line break';
    this.#stop(
      position + wrong.index,
      `NCCL does not accept ${what} inside the tag of ${tag} ("XML Parse : expected >, got '${shown(wrong[0])}'"); ` +
        'write the tag on one line with one space before each attribute',
    );
  }

  #closingTag(end: number): void {
    const text = this.#text;
    const start = text.indexOf('<', this.#done);
    this.#checkGap(start);
    this.#done = end;
    const { name, line } = this.#tree.top!.one;
    TAG_NAME.lastIndex = start + '</'.length;
    const closed = TAG_NAME.exec(text)?.[0] ?? '';
    if (closed !== name) {
      throw new NotWellFormed(
        this.#lines.at(start),
        name,
        `</${shown(closed)}> does not close <${shown(name)}> of line ${line}`,
      );
    }
    if (end - start > name.length + '</>'.length) {
      this.#stop(
        start,
        `NCCL does not accept space in </${shown(name)}> ("XML Parse error : unexpected trailing ` +
          `${shown(text[start + 2 + name.length]!)} in closing tag ${shown(name)}"); remove it`,
      );
    }
    this.#tree.close();
  }
}
