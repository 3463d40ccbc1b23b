/**
 * Measurements of other tools: the wire (`ib_write_bw`), and tables of bandwidth by hosts.
 */
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const WIRE_HEADER = /^\s*#bytes\s+#iterations\s+BW peak\[(Gb|MB|MiB)\/sec\]/;
const WIRE_ROW = /^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)?\s*$/;

/** GB/s of one unit of perftest. */
const UNITS: Readonly<Record<string, number>> = { Gb: 1 / 8, MB: 1e-3, MiB: 1.048576e-3 };

export function wireReader(context: FileContext): LineReader {
  let unit: number | undefined;
  return (line) => {
    if (line.length > 200) return false;
    const header = WIRE_HEADER.exec(line);
    if (header !== null) {
      unit = UNITS[header[1]!];
      return kind(context, 'perftest');
    }
    if (unit === undefined) return false;
    const row = WIRE_ROW.exec(line);
    if (row === null) return false;
    context.job.wireTests.push({
      bytes: Number(row[1]),
      averageGBs: Number(row[4]) * unit,
      at: here(context),
    });
    return true;
  };
}

const PAIR_HEADER =
  /^\s*"?(?:nodes?|hosts?|pair|src|source|node[_ ]?a|host[_ ]?a|from)\b.*\b(?:\w*bw\w*|\w*bandwidth\w*|GB\/?s|gbps)/i;

/** Columns of results; others say what was measured. */
const RESULT = /bw|bandwidth|gb\/?s|gbps|time|lat|\bus\b|usec|msec|wrong|error|date|stamp|^#$|^id$|run|iter/i;

/** `nodes test busbw_GBs`, `src,dst,busbw`: columns by blanks, tabs, commas or semicolons. */
export function pairReader(context: FileContext): LineReader {
  let columns: { hosts: number[]; value: number; tests: number[]; cut: RegExp } | undefined;
  return (line) => {
    if (line.length > 500) return false;
    if (PAIR_HEADER.test(line)) {
      const cut = line.includes('\t') ? /\t+/ : /,/.test(line) && !/\s{2,}/.test(line) ? /[,;]/ : /\s+/;
      const names = line
        .trim()
        .split(cut)
        .map((name) => name.replaceAll('"', '').trim());
      const hosts = names.flatMap((name, i) =>
        /^(?:nodes?|hosts?|pair|src|dst|source|destination|from|to|(?:node|host)[_ ]?[ab12])$/i.test(name)
          ? [i]
          : [],
      );
      const value = names.findIndex((name) => /bus.*bw|busbw/i.test(name));
      const any = names.findIndex((name) => /bw|bandwidth|gb\/?s|gbps/i.test(name));
      if (hosts.length === 0 || any < 0) return false;
      const tests = names.flatMap((name, i) => (hosts.includes(i) || RESULT.test(name) ? [] : [i]));
      columns = { hosts, value: value < 0 ? any : value, tests, cut };
      return kind(context, 'table of hosts');
    }
    if (columns === undefined || line.trim() === '') return false;
    const cells = line.trim().split(columns.cut);
    const value = Number(cells[columns.value]);
    if (!Number.isFinite(value) || cells[columns.value] === undefined) return false;
    const hosts = columns.hosts.flatMap((i) => hostList(cells[i] ?? ''));
    const test = columns.tests.map((i) => cells[i] ?? '').join(' ');
    context.job.pairRows.push({ hosts, value, test, at: here(context) });
    return true;
  };
}

/** `ibis-a,ibis-b`, and the short form `ibis-a,b,c`. */
function hostList(text: string): string[] {
  const names = text
    .split(/[,+&/]|<->|--/)
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const [first = ''] = names;
  const stem = /^(.*[-_.]|.*\D)(?=\w+$)/.exec(first)?.[1] ?? '';
  return names.map((name, i) =>
    i > 0 && name.length < first.length && !name.startsWith(stem) ? stem + name : name,
  );
}
