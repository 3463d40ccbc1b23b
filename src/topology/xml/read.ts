/**
 * Reads NCCL's topology and graph files.
 *
 * NCCL's own parser takes a small part of XML; this one takes any well-formed document, so that a file that an editor
 * or a script has touched can be looked at, and notes where NCCL would refuse it. What a document could do to harm a
 * reader (entities, endless nesting, sheer size) is refused. (NCCL 2.30.7, xml.cc; limits there are noted.)
 */
import { SaxesParser, type SaxesTagPlain } from 'saxes';
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../c-integer.js';
import type { XmlElement } from './element.js';

export interface ReadOptions {
  /** Name that the outermost element must have. */
  readonly root: 'system' | 'graphs';
  /** For messages. */
  readonly file?: string;
}

export interface ReadResult {
  readonly root: XmlElement;
  /** What NCCL would make of it differently, a sentence each. */
  readonly notes: readonly string[];
}

/** Characters of a document. A cluster of a thousand described GPUs is below one million. */
const MAX_CHARACTERS = 64 * 2 ** 20;

/** Elements inside each other. PCI trees are a dozen deep. */
const MAX_DEPTH = 256;

/** Elements of a document: NCCL's limit for graph files; a topology of one host has at most 255 in NCCL. */
const MAX_ELEMENTS = 65536;

/** NCCL's limits for the topology of one host. */
const NCCL_MAX_ELEMENTS = 255;
const NCCL_MAX_ATTRIBUTES = 16;
const NCCL_MAX_TEXT = 253;

/** Notes of one document; more would not be read. */
const MAX_NOTES = 50;

/** Characters that are handed to the parser at once. */
const SLICE = 2 ** 16;

/** What an element may hold; others are ignored by NCCL with all that is in them. */
const NESTING: Readonly<Record<ReadOptions['root'], Readonly<Record<string, readonly string[]>>>> = {
  system: {
    system: ['cpu'],
    cpu: ['pci', 'nic'],
    pci: ['pci', 'gpu', 'nic', 'pcilink'],
    gpu: ['nvlink', 'c2c'],
    nic: ['net'],
    net: [],
    nvlink: [],
    c2c: [],
    pcilink: [],
  },
  graphs: { graphs: ['graph'], graph: ['channel'], channel: ['net', 'gpu'], net: [], gpu: [] },
};

/**
 * Reads a document.
 *
 * @throws TuttiError invalidUsage with file, line, what is wrong and what would be right
 */
export function readXml(text: string, options: ReadOptions): ReadResult {
  return new Reader(text, options).read();
}

class Reader {
  readonly #text: string;
  readonly #options: ReadOptions;
  readonly #parser = new SaxesParser({ xmlns: false, position: true });
  readonly #notes: string[] = [];
  readonly #open: XmlElement[] = [];
  #root: XmlElement | undefined;
  #elements = 0;
  /** Line and attributes of the tag that is being read. */
  #tagLine = 1;
  #attributes = new Map<string, string>();

  constructor(text: string, options: ReadOptions) {
    this.#text = text;
    this.#options = options;
  }

  read(): ReadResult {
    const text = this.#text.startsWith('\uFEFF') ? this.#text.slice(1) : this.#text;
    if (text.length > MAX_CHARACTERS) {
      throw this.#error(1, `the file has ${text.length} characters; at most ${MAX_CHARACTERS} are read`);
    }
    if (text.trim() === '') throw this.#error(1, `the file is empty; it must hold a <${this.#options.root}>`);
    this.#listen();
    // Errors are thrown by the handler; slices keep a broken document from being read to its end.
    for (let at = 0; at < text.length; at += SLICE) this.#parser.write(text.slice(at, at + SLICE));
    this.#parser.close();
    if (this.#root === undefined) throw this.#error(1, `there is no <${this.#options.root}> in it`);
    this.#checkVersion(this.#root);
    this.#noteForms(text);
    if (this.#options.root === 'system' && this.#elements > NCCL_MAX_ELEMENTS) {
      this.#note(
        `the document has ${this.#elements} elements; NCCL takes at most ${NCCL_MAX_ELEMENTS} from one file`,
      );
    }
    return { root: this.#root, notes: this.#notes };
  }

  #listen(): void {
    const parser = this.#parser;
    parser.on('error', (error) => {
      const open = this.#open.at(-1);
      const inside = open === undefined ? '' : `, inside <${open.name}> of line ${open.line}`;
      // The parser prefixes its own position.
      const reason = error.message.replace(/^(?:[^:]*:)?\d+:\d+:\s*/, '').replace(/\.$/, '');
      throw this.#error(parser.line, `${reason}${inside}; the file is not well-formed XML`, error);
    });
    parser.on('doctype', () => {
      throw this.#error(parser.line, 'a DOCTYPE is not read (it could define entities); remove it');
    });
    parser.on('xmldecl', () => {
      this.#note('NCCL does not accept an XML prolog (<?xml ...?>); remove it for NCCL', parser.line);
    });
    parser.on('processinginstruction', () => {
      this.#note('NCCL does not accept processing instructions; remove it for NCCL', parser.line);
    });
    parser.on('cdata', () => {
      this.#note('NCCL does not accept CDATA; remove it for NCCL', parser.line);
    });
    parser.on('text', (content) => {
      if (content.trim() === '') return;
      this.#note('text between elements is ignored; NCCL refuses it', parser.line);
    });
    parser.on('opentagstart', () => {
      this.#tagLine = parser.line;
      this.#attributes = new Map();
    });
    parser.on('attribute', ({ name, value }: { name: string; value: string }) => {
      this.#attributes.set(name, value);
    });
    parser.on('opentag', (tag) => this.#enter(tag as SaxesTagPlain));
    parser.on('closetag', () => {
      this.#open.pop();
    });
  }

  #enter({ name }: SaxesTagPlain): void {
    const line = this.#tagLine;
    const element: XmlElement = { name, attributes: this.#attributes, children: [], line };
    this.#elements += 1;
    if (this.#elements > MAX_ELEMENTS) {
      throw this.#error(
        line,
        `<${name}> is element number ${this.#elements}; at most ${MAX_ELEMENTS} are read`,
      );
    }
    if (this.#open.length >= MAX_DEPTH) {
      throw this.#error(line, `<${name}> is nested ${this.#open.length} deep; at most ${MAX_DEPTH} are read`);
    }
    const parent = this.#open.at(-1);
    if (parent !== undefined) parent.children.push(element);
    else {
      const { root } = this.#options;
      if (name !== root) {
        throw this.#error(
          line,
          `the outermost element is <${name}>; a ${root === 'system' ? 'topology' : 'graph'} file begins with <${root} version="1">`,
        );
      }
      this.#root = element;
    }
    this.#noteElement(element, parent);
    this.#open.push(element);
  }

  #noteElement({ name, attributes, line }: XmlElement, parent: XmlElement | undefined): void {
    if (parent !== undefined) {
      const known = NESTING[this.#options.root][parent.name];
      if (known !== undefined && !known.includes(name)) {
        this.#note(`NCCL ignores <${name}> inside <${parent.name}>, with all that is in it`, line);
      }
    }
    if (attributes.size > NCCL_MAX_ATTRIBUTES) {
      this.#note(
        `<${name}> has ${attributes.size} attributes; NCCL ignores those after the first ${NCCL_MAX_ATTRIBUTES}`,
        line,
      );
    }
    for (const [key, value] of [['name', name], ...attributes] as const) {
      const length = Math.max(key.length, value.length);
      if (length > NCCL_MAX_TEXT) {
        this.#note(`<${name}> has a text of ${length} characters; NCCL takes at most ${NCCL_MAX_TEXT}`, line);
      }
    }
  }

  #checkVersion({ name, attributes, line }: XmlElement): void {
    const version = attributes.get('version');
    if (version === undefined) {
      throw this.#error(line ?? 1, `<${name}> has no version; write <${name} version="1">`);
    }
    if (cInt(version) !== 1) {
      const what = this.#options.root === 'system' ? 'Topology' : 'Graph';
      throw this.#error(line ?? 1, `XML ${what} has wrong version ${version}, 1 needed`);
    }
  }

  /** Forms that are right XML and that NCCL's parser refuses. */
  #noteForms(text: string): void {
    const lines = text.split('\n');
    for (const [at, line] of lines.entries()) {
      if (this.#notes.length >= MAX_NOTES) return;
      const where = at + 1;
      if (/^\s*\t/.test(line)) this.#note('NCCL does not accept TABs; use blanks', where);
      if (/<[a-z][^<>]*$/.test(line.trimEnd())) {
        this.#note('NCCL does not accept a tag that goes over several lines', where);
      }
      if (/&(?:amp|lt|gt|quot|apos|#)/.test(line)) {
        this.#note('NCCL does not decode entities: it keeps the text as it stands', where);
      }
    }
  }

  #note(text: string, line?: number): void {
    if (this.#notes.length < MAX_NOTES) this.#notes.push(line === undefined ? text : `line ${line}: ${text}`);
  }

  #error(line: number, text: string, cause?: unknown): TuttiError {
    const { file } = this.#options;
    return new TuttiError(
      'invalidUsage',
      `${file === undefined ? '' : `${file}, `}line ${line}: ${text}`,
      cause === undefined ? {} : { cause },
    );
  }
}
