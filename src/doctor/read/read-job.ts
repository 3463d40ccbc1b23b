/**
 * Reads files into the model of a job. The kind of a file is recognised by its content, line by line: one file may hold
 * logs of many ranks, a table of results between them, and the output of a tool below.
 *
 * Text is streamed; only documents (JSON, XML) are held as a whole, up to a limit. Nothing is ever executed, and text
 * of any form is read in time proportional to its length.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { emptyJob, type FileRecord, type Job } from '../model/job.js';
import type { Stated } from '../model/place.js';
import type { NcclProcess } from '../model/process.js';
import { detached } from './detached.js';
import { readJsonDocument, readXmlDocument } from './documents.js';
import { type FileContext, type LineReader, ProcessTable } from './file-context.js';
import { frameworkReader } from './framework.js';
import { attributeHosts } from './hosts.js';
import { LineSplitter } from './line-splitter.js';
import { type Header, HeaderReader } from './nccl/header.js';
import { readMessage } from './nccl/messages.js';
import { ncclTestsReader } from './nccl-tests.js';
import { timeless, withoutPrefixes } from './prefixes.js';
import { addQuotedErrors } from './quoted-errors.js';
import { rasReader } from './ras-text.js';
import { joinProcesses } from './same-process.js';
import { shellReader } from './shell.js';
import { gidReader, portReader } from './tools/adapters.js';
import { diagnosticReader } from './tools/diagnostics.js';
import { gpuClockReader } from './tools/gpu-clocks.js';
import { gpuReader } from './tools/gpus.js';
import { interfaceReader } from './tools/interfaces.js';
import { linkMatrixReader } from './tools/link-matrix.js';
import { lspciReader } from './tools/lspci.js';
import { pairReader, wireReader } from './tools/measurements.js';
import { noticeReader } from './tools/notices.js';
import {
  counterReader,
  diskReader,
  kernelLogReader,
  moduleReader,
  settingsReader,
  socketSummaryReader,
  verbsReader,
} from './tools/system.js';

import { unwrapped } from './wrapped-lines.js';

/**
 * A file: its name, and its text in pieces of any size. A text that breaks off with a `TuttiError` is read up to there,
 * and the message is told as a problem of the file.
 */
export interface Source {
  readonly name: string;
  readonly text: AsyncIterable<string> | Iterable<string>;
}

/** Documents beyond this are not read: the largest topology file has some hundred kilobytes, dumps some megabytes. */
export const MAX_DOCUMENT = 64 * 1024 * 1024;

/** Reads all sources, one after the other. */
export async function readJob(sources: Iterable<Source> | AsyncIterable<Source>): Promise<Job> {
  const job = emptyJob();
  const processes = new ProcessTable(job);
  for await (const source of sources) {
    const reader = new FileReader(source.name, job, processes);
    try {
      for await (const chunk of source.text) {
        if (!reader.push(chunk)) break;
      }
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      reader.fail(error.message);
    }
    reader.end();
  }
  joinProcesses(job);
  attributeHosts(job);
  addQuotedErrors(job);
  return job;
}

/** Colours, and other sequences of terminals. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are looked for
const TERMINAL = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])/g;

/** `3: ` of srun -l: taken away only where nothing else reads the line. */
const TASK = /^ {0,5}\d{1,6}: /;
/** `worker-1: ` of pdsh and srun: taken away where lines of NCCL had the same prefix. */
const HOST_PREFIX = /^[A-Za-z][\w.-]{0,200}: /;
/** `[rank3]:` and `[default3]:` of torchrun, before output that is not torch's own. */
const TORCHRUN = /^\[(?:rank|default)\d+\]: ?/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the first bytes of a pickle
const PICKLE = /^(?:\u0080|\ufffd)[\u0002-\u0005]/;

/** Numbers of a table that a line of a log goes on. */
const FRAGMENT = /^ *[\d.]+(?:e[+-]?\d+)? +[\d.]/;

/** Behind a host, as pdsh and DeepSpeed print it. RAS prints `NCCL version 2.28.9 compiled with CUDA 13.0` instead. */
const BARE_VERSION = /^(?:[\w.-]{1,200}: )?NCCL version (\d+\.\d+\.\d+\S*)\s*$/;

/** Prefixes of lines that are remembered: launchers have one per rank. */
const MAX_PREFIXES = 4096;

class FileReader {
  readonly #record: FileRecord;
  readonly #context: FileContext;
  readonly #headers = new HeaderReader();
  readonly #bench: ReturnType<typeof ncclTestsReader>;
  readonly #readers: readonly LineReader[];
  readonly #splitter = new LineSplitter((line) => this.#line(line));
  #mode: 'unknown' | Exclude<Mode, 'wrapped'> = 'unknown';
  /** Each line is an object of JSON with the line in it. */
  #isWrapped = false;
  /** Sequences of terminals were seen. */
  #hasColours = false;
  /** Number of the last line with text in it. */
  #last = 0;
  #document: string[] = [];
  #length = 0;
  /** The line that is read, with all that stands before it. */
  #whole = '';
  /** Versions printed without a process (null: several), and processes (null: several), by the prefix of their lines. */
  readonly #versions = new Map<string, Stated<string> | null>();
  readonly #byPrefix = new Map<string, NcclProcess | null>();
  /** JSON that stands one document per line is read by lines. */
  #opening = '';

  constructor(
    name: string,
    private readonly job: Job,
    private readonly processes: ProcessTable,
  ) {
    this.#record = {
      name,
      lines: 0,
      kinds: new Set(),
      problems: [],
      refusedTopology: undefined,
      endsInLine: false,
      last: undefined,
      processes: new Set(),
    };
    job.files.push(this.#record);
    const context: FileContext = {
      job,
      record: this.#record,
      line: 0,
      host: undefined,
      command: undefined,
      bench: undefined,
    };
    this.#context = context;
    this.#bench = ncclTestsReader(context);
    this.#readers = [
      this.#bench,
      frameworkReader(context),
      rasReader(context),
      shellReader(context),
      linkMatrixReader(context),
      lspciReader(context),
      gidReader(context),
      portReader(context),
      gpuReader(context),
      gpuClockReader(context),
      diagnosticReader(context),
      interfaceReader(context),
      wireReader(context),
      pairReader(context),
      settingsReader(context),
      verbsReader(context),
      diskReader(context),
      socketSummaryReader(context),
      moduleReader(context),
      counterReader(context),
      kernelLogReader(context),
      noticeReader(context),
    ];
  }

  /** Takes a piece of the text; false when nothing more is needed. */
  push(chunk: string): boolean {
    if (this.#mode === 'unknown') {
      this.#opening += chunk;
      const mode = modeOf(this.#opening, false);
      if (mode === undefined && this.#opening.length < MAX_OPENING) return true;
      this.#take(mode ?? 'lines');
      chunk = this.#opening;
      this.#opening = '';
    }
    if (this.#mode === 'refused') {
      this.#refuse(chunk);
      return false;
    }
    if (this.#mode === 'lines') {
      this.#lines(chunk);
      return true;
    }
    this.#length += chunk.length;
    if (this.#length > MAX_DOCUMENT) {
      this.#record.problems.push(`longer than the ${MAX_DOCUMENT >> 20} MiB that are read of a document`);
      this.#document = [];
      this.#mode = 'refused';
      return false;
    }
    this.#document.push(chunk);
    return true;
  }

  #take(mode: Mode): void {
    this.#isWrapped = mode === 'wrapped';
    this.#mode = mode === 'wrapped' ? 'lines' : mode;
  }

  #lines(chunk: string): void {
    this.#hasColours ||= this.#isWrapped || chunk.includes('\u001b');
    this.#splitter.push(withoutHoles(chunk));
  }

  /** The text cannot be read any further. */
  fail(reason: string): void {
    this.#record.problems.push(reason);
  }

  end(): void {
    if (this.#mode === 'unknown') {
      this.#take(modeOf(`${this.#opening}\n`, true) ?? 'lines');
      const mode = this.#mode as Mode;
      if (mode === 'refused') this.#refuse(this.#opening);
      else if (mode === 'lines') this.#lines(this.#opening);
      else this.#document.push(this.#opening);
    }
    if (this.#mode === 'lines') {
      this.#record.endsInLine = this.#splitter.isInLine;
      this.#splitter.end();
      for (const [prefix, version] of this.#versions) {
        const process = prefix === '' ? this.#onlyProcess : this.#byPrefix.get(prefix);
        if (version !== null && process !== undefined && process !== null) process.version ??= version;
      }
    }
    if (this.#last > 0) this.#record.last = { file: this.#record.name, line: this.#last };
    const text = this.#document.join('');
    this.#document = [];
    if (this.#mode === 'json') readJsonDocument(text, this.#record, this.job);
    if (this.#mode === 'xml') readXmlDocument(text, this.#record, this.job);
    if (this.#mode === 'json' || this.#mode === 'xml') this.#record.lines = countLines(text);
  }

  /** The process of a file that holds the log of no other. */
  get #onlyProcess(): NcclProcess | undefined {
    const { processes } = this.#record;
    return processes.size === 1 ? [...processes][0] : undefined;
  }

  #refuse(text: string): void {
    this.#record.problems.push(
      PICKLE.test(text)
        ? 'a pickle: reading one runs the code in it, so it is refused; write the dump as JSON (TORCH_NCCL_DUMP as JSON, or json.dump of what pickle.load gives, on a machine that you trust with it)'
        : 'binary data, not text',
    );
  }

  #line(raw: string): void {
    this.#context.line++;
    this.#record.lines++;
    const text = this.#isWrapped ? unwrapped(raw) : undefined;
    if (text === undefined) this.#content(raw);
    else for (const line of text.split('\n')) this.#content(line);
  }

  #content(raw: string): void {
    const context = this.#context;
    const line = this.#hasColours && raw.includes('\u001b') ? raw.replace(TERMINAL, '') : raw;
    if (line === '') return;
    const log = this.#headers.read(line);
    if (log !== undefined) {
      const process = this.#processOf(log.header);
      process.last.line = context.line;
      this.#last = context.line;
      if (FRAGMENT.test(log.header.leading)) this.#bench.fragment(log.header.leading);
      readMessage(process, log, context);
      return;
    }
    if (line.trim() !== '') this.#last = context.line;
    this.#other(detached(line));
  }

  /** The process of a line; the same header object means the same process. */
  #processOf(header: Header): NcclProcess {
    if (header.process !== undefined) return header.process;
    const process = this.processes.get(header.host, header.pid, this.#context);
    process.last = { file: this.#record.name, line: this.#context.line };
    this.#record.processes.add(process);
    this.#record.kinds.add('NCCL log');
    header.process = process;
    const prefix = timeless(header.leading);
    if (prefix !== '' && this.#byPrefix.size < MAX_PREFIXES) {
      const same = this.#byPrefix.get(prefix);
      this.#byPrefix.set(prefix, same === undefined || same === process ? process : null);
    }
    return process;
  }

  #other(line: string): void {
    this.#whole = line;
    if (this.#offer(line)) return;
    let bare = line;
    for (bare of withoutPrefixes(line)) if (this.#offer(bare)) return;
    for (const form of [TASK, TORCHRUN, HOST_PREFIX]) {
      const prefix = form.exec(bare)?.[0];
      if (prefix === undefined || (form === HOST_PREFIX && !this.#byPrefix.has(prefix))) continue;
      bare = bare.slice(prefix.length);
      if (this.#offer(bare)) return;
    }
  }

  /** `NCCL version 2.20.5+cuda12.4` without a head, as the levels WARN and VERSION print it. */
  #readBareVersion(line: string): boolean {
    const found = BARE_VERSION.exec(line);
    if (found === null) return false;
    const version = {
      value: detached(found[1]!),
      at: { file: this.#record.name, line: this.#context.line },
    };
    this.job.bareVersions.push(version);
    // Launchers print one prefix per rank.
    const prefix = timeless(this.#whole.slice(0, this.#whole.lastIndexOf('NCCL version ')));
    const known = this.#versions.get(prefix);
    if (known !== undefined && known?.value !== version.value) this.#versions.set(prefix, null);
    else if (this.#versions.size < MAX_PREFIXES) this.#versions.set(detached(prefix), version);
    this.#record.kinds.add('NCCL log');
    return true;
  }

  #offer(line: string): boolean {
    if (line.includes('NCCL version ') && this.#readBareVersion(line)) return true;
    return this.#readers.some((read) => read(line));
  }
}

/**
 * What binary data have beside zeros and text does not. Zeros alone are holes: logs that are cut while they are written
 * begin with them, and file systems leave them behind when a machine crashes.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are looked for
const BINARY = /[\u0001-\u0006\u000e-\u001a\u001c-\u001f\ufffd]/;

type Mode = 'lines' | 'wrapped' | 'json' | 'xml' | 'refused';

/** Characters that are looked at to tell how a text is to be read. */
const MAX_OPENING = 65_536;

/** Characters after blanks that tell how a text is to be read. */
const HEAD = 64;

/** How a text is to be read, by its first characters; undefined as long as they do not tell. */
function modeOf(opening: string, isEnd: boolean): Mode | undefined {
  const head = opening.slice(0, 4096);
  const hasHoles = head.includes('\0');
  if (PICKLE.test(head) || (hasHoles && BINARY.test(head))) return 'refused';
  if (hasHoles) return isEnd || withoutHoles(opening).length >= HEAD ? 'lines' : undefined;
  const start = head.replace(/^\ufeff?\s*/, '');
  // A piece may end anywhere: the same text is read the same way however it comes.
  if (start.length < (isEnd ? 2 : HEAD)) return undefined;
  if (start.startsWith('<'))
    return /^<(?:\?xml|!--|system\b|graphs\b|!DOCTYPE)/.test(start) ? 'xml' : 'lines';
  if (/^\{\s*(?:"|\}|$)/.test(start)) {
    const first = opening.slice(0, MAX_OPENING).replace(/^\ufeff?\s*/, '');
    const end = first.indexOf('\n');
    if (end < 0 && !isEnd && opening.length < MAX_OPENING) return undefined;
    return end >= 0 && unwrapped(first.slice(0, end)) !== undefined ? 'wrapped' : 'json';
  }
  if (/^\[\s*(?:\{|\[\s*[[{"]|$)/.test(start)) return 'json';
  return 'lines';
}

const withoutHoles = (text: string): string => (text.includes('\0') ? text.replace(/\0+/g, '') : text);

function countLines(text: string): number {
  let count = text === '' || text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}
