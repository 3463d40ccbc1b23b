/**
 * Reads a topology file or a graph file.
 *
 * What NCCL accepts means what it means to NCCL. Ordinary XML that NCCL refuses is accepted too, with notes that say
 * where NCCL would stop: whoever writes a file by hand then learns it here and not from a job. Elements and attributes
 * that NCCL ignores stay in the tree (see nesting.ts). Time and memory are bounded for any text.
 */
import type { TuttiError } from '../../errors/tutti-error.js';
import { cInteger } from '../c-integer.js';
import type { XmlElement } from './element.js';
import { fileError } from './file-error.js';
import { foreignForm } from './foreign-form.js';
import { MAX_TEXT } from './limits.js';
import { type Refusal, readByNcclGrammar } from './nccl-grammar.js';
import type { RootName } from './nesting.js';
import { NoteBook, shown } from './notes.js';
import { NotWellFormed, readOrdinaryXml } from './ordinary-xml.js';
import type { TreeBuilder } from './tree-builder.js';

export interface ReadOptions {
  /** Kind of file: `system` for a topology, `graphs` for graphs. */
  readonly root: RootName;
  /** Name of the file, for messages. */
  readonly file?: string;
}

/** A document, and what NCCL would ignore or refuse in it: sentences that begin with the line. */
export interface XmlDocument {
  readonly root: XmlElement;
  readonly notes: string[];
}

/** Names of the kinds of files, for messages, and the variable that NCCL takes them by. */
const KINDS: Readonly<Record<RootName, readonly [kind: string, variable: string]>> = {
  system: ['topology', 'NCCL_TOPO_FILE'],
  graphs: ['graph', 'NCCL_GRAPH_FILE'],
};

/** A byte order mark, also as it looks when UTF-8 is read byte by byte. */
const BYTE_ORDER_MARK = /^(?:\ufeff|\u00ef\u00bb\u00bf)/;

/**
 * Reads the text of a file.
 *
 * @throws TuttiError invalidUsage naming file, line, element, what is wrong and the remedy.
 */
export function readXml(text: string, options: ReadOptions): XmlDocument {
  const { root, file } = options;
  if (text.length > MAX_TEXT) {
    throw fileError(
      file,
      1,
      undefined,
      `the file has ${text.length} characters, more than the ${MAX_TEXT} that any ${KINDS[root][0]} file needs`,
    );
  }
  const foreign = foreignForm(text);
  if (foreign !== undefined) {
    throw fileError(file, 1, undefined, `the file ${foreign.what}, not XML; ${foreign.remedy}`);
  }
  const { tree, notes } = readTree(text, root, file);
  const documents = tree.elements.filter((one) => one.name === root);
  const [document, second] = documents;
  if (document === undefined) throw missingRoot(tree.elements, options);
  for (const one of documents) checkVersion(one, options);
  if (second !== undefined) {
    notes.add(second.line!, `a second <${root}> follows the one of line ${document.line}; it is left out`);
  }
  return { root: document, notes: notes.sentences() };
}

function readTree(
  text: string,
  root: RootName,
  file: string | undefined,
): { tree: TreeBuilder; notes: NoteBook } {
  const notes = new NoteBook();
  const reading = readByNcclGrammar(text, root, notes, file);
  if ('tree' in reading) return { tree: reading.tree, notes };
  const { refusal } = reading;
  if (refusal.isBroken) throw brokenFile(refusal, file);
  // The notes so far are about a part of the file; the other reader makes its own.
  const own = new NoteBook();
  const unmarked = text.replace(BYTE_ORDER_MARK, '');
  const marked = unmarked !== text;
  if (marked) own.add(1, 'NCCL does not accept a byte order mark; save the file without it');
  try {
    const { tree, stops } = readOrdinaryXml(unmarked, root, own, file);
    if (stops === 0 && !marked) {
      own.add(refusal.line, `NCCL stops here: ${refusal.wrong}${ncclWords(refusal)}; ${refusal.remedy}`);
    }
    return { tree, notes: own };
  } catch (error) {
    if (!(error instanceof NotWellFormed)) throw error;
    throw fileError(
      file,
      error.line,
      error.element,
      `not well-formed XML: ${shown(error.message.replace(/\.$/, ''))}; correct it there`,
    );
  }
}

/** The error for a text that no reader accepts. */
function brokenFile(refusal: Refusal, file: string | undefined): TuttiError {
  const { line, element, wrong, remedy } = refusal;
  return fileError(file, line, element, `${wrong}; ${remedy}${ncclWords(refusal)}`);
}

const ncclWords = ({ nccl }: Refusal): string => (nccl === undefined ? '' : ` (NCCL: "${nccl}")`);

function missingRoot(elements: readonly XmlElement[], { root, file }: ReadOptions): TuttiError {
  const [kind] = KINDS[root];
  const [first] = elements;
  if (first === undefined) {
    return fileError(file, 1, undefined, `the file is empty; a ${kind} file holds a <${root}> element`);
  }
  const other = first.name === 'system' || first.name === 'graphs' ? KINDS[first.name] : undefined;
  return fileError(
    file,
    first.line!,
    first.name,
    other === undefined
      ? `the file holds no <${root}> element and so is no ${kind} file; give one as NCCL_TOPO_DUMP_FILE or NCCL_GRAPH_DUMP_FILE writes it`
      : `this is a ${other[0]} file (${other[1]}), not a ${kind} file; give a file that holds a <${root}> element`,
  );
}

function checkVersion({ name, attributes, line }: XmlElement, { root, file }: ReadOptions): void {
  const version = attributes.get('version');
  const kind = root === 'system' ? 'Topology' : 'Graph';
  if (version === undefined) {
    throw fileError(file, line!, name, 'attribute version is missing; write version="1"');
  }
  if (cInteger(version) !== 1n) {
    throw fileError(
      file,
      line!,
      name,
      `XML ${kind} has wrong version ${shown(version)}, 1 needed; write version="1" if the file follows that version`,
    );
  }
}
