/**
 * The beginning of a line of NCCL's log: `host:pid:tid [device] NCCL INFO text`, with what launchers put before it.
 *
 * Warnings carry file and line between device and level, and a time before the host (debug.cc of NCCL).
 */

import type { NcclProcess } from '../../model/process.js';
import { detached } from '../detached.js';

export interface Header {
  /** The process that it belongs to, once that is known. */
  process: NcclProcess | undefined;
  readonly host: string;
  readonly pid: number;
  readonly device: number;
  /** Time as printed, if the line has one. */
  readonly time: string | undefined;
  /** What stands before it: a launcher's prefix, or the beginning of another program's line. */
  readonly leading: string;
}

export interface LogLine {
  readonly header: Header;
  readonly level: 'INFO' | 'WARN' | 'TRACE';
  readonly text: string;
}

/** Longest text before the level that is searched. */
const MAX_HEAD = 600;

/** Heads that are remembered: a log has one per thread, except where lines carry times. */
const MAX_REMEMBERED = 4096;

const MARK = ' NCCL ';
const NUMBERS = /:(\d{1,10}):(\d{1,10}) \[(-?\d{1,5})\]/;
const TIME = /\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?/;

/** Places for heads that were seen a moment ago, by their last characters: a power of two. */
const SLOTS = 4096;

/** Characters in which heads of a log differ: process, thread and device. */
const TAIL = 20;

function slotOf(line: string, end: number): number {
  let hash = end;
  for (let i = Math.max(0, end - TAIL); i < end; i++) hash = (hash * 31 + line.charCodeAt(i)) | 0;
  return (hash ^ (hash >>> 12)) & (SLOTS - 1);
}

const isHostCharacter = (code: number): boolean =>
  (code >= 48 && code <= 57) ||
  (code >= 65 && code <= 90) ||
  (code >= 97 && code <= 122) ||
  code === 45 ||
  code === 46 ||
  code === 95;

export class HeaderReader {
  readonly #known = new Map<string, Header | undefined>();
  readonly #hosts = new Set<string>();
  readonly #recent = new Array<{ readonly head: string; readonly header: Header | undefined } | undefined>(
    SLOTS,
  );

  /** Where the level stood in the line before: lines of one host have heads of one length. */
  #hint = 0;

  /** The line as one of NCCL's log, or undefined. */
  read(line: string): LogLine | undefined {
    let header = this.#recentHead(line);
    let mark = this.#hint;
    if (header === undefined) {
      mark = line.indexOf(MARK);
      if (mark < 0 || mark > MAX_HEAD) return undefined;
    }
    const start = mark + MARK.length;
    const level = line.startsWith('INFO ', start)
      ? 'INFO'
      : line.startsWith('WARN ', start)
        ? 'WARN'
        : line.startsWith('TRACE ', start)
          ? 'TRACE'
          : undefined;
    if (level === undefined) return undefined;
    header ??= this.#header(line, mark);
    return header && { header, level, text: line.slice(start + level.length + 1) };
  }

  /** The head of the line, where it is one that was seen a moment ago and is as long as the last one. */
  #recentHead(line: string): Header | undefined {
    const mark = this.#hint;
    if (mark === 0 || !line.startsWith(MARK, mark)) return undefined;
    const recent = this.#recent[slotOf(line, mark)];
    return recent !== undefined && recent.head.length === mark && line.startsWith(recent.head)
      ? recent.header
      : undefined;
  }

  /** The head that ends at `mark`. */
  #header(line: string, mark: number): Header | undefined {
    const head = detached(line.slice(0, mark));
    let header = this.#known.get(head);
    if (header === undefined && !this.#known.has(head)) {
      header = parseHead(head, this.#hosts);
      if (this.#known.size >= MAX_REMEMBERED) this.#known.clear();
      this.#known.set(head, header);
    }
    this.#recent[slotOf(line, mark)] = { head, header };
    this.#hint = mark;
    return header;
  }
}

/** Hosts that are remembered to cut names from what was printed before them. */
const MAX_HOSTS = 64;

function parseHead(head: string, hosts: Set<string>): Header | undefined {
  const found = NUMBERS.exec(head);
  if (found === null) return undefined;
  let start = found.index;
  while (start > 0 && isHostCharacter(head.charCodeAt(start - 1))) start--;
  if (start === found.index) return undefined;
  start += glued(head, start, found.index, hosts);
  const leading = head.slice(0, start);
  const host = head.slice(start, found.index);
  if (start === 0 && hosts.size < MAX_HOSTS) hosts.add(host);
  return {
    process: undefined,
    host,
    pid: Number(found[1]),
    device: Number(found[3]),
    time: TIME.exec(leading)?.[0],
    leading,
  };
}

/** Characters of a number that another program printed without a line end: `  300.39       0node-a:1:1 [0] NCCL ...`. */
function glued(head: string, start: number, end: number, hosts: Set<string>): number {
  const name = head.slice(start, end);
  if (start === 0 || hosts.has(name)) return 0;
  const number = /^-?[\d.]+/.exec(name)?.[0].length ?? 0;
  for (let length = number; length > 0; length--) if (hosts.has(name.slice(length))) return length;
  return 0;
}
