/**
 * Tar archives in memory: reading those that people make of /sys with any tar, writing those that tutti makes.
 *
 * Reads the POSIX.1-1988 form (ustar) with the extensions for long names of GNU tar (types L and K) and of POSIX.1-2001
 * (types x and g), optionally compressed by gzip. Nothing is ever unpacked to disk. Writes ustar, with type x where a
 * name is too long, with fixed times and owners, so that equal entries give equal bytes.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { TuttiError } from '../../errors/tutti-error.js';

export type ArchiveEntry =
  | { readonly kind: 'file'; readonly path: string; readonly bytes: Uint8Array }
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string };

const BLOCK = 512;

/** Bytes that an archive may grow to when it is decompressed: a whole /sys has about a hundred million. */
const MAX_ARCHIVE_BYTES = 256 << 20;

/** Characters of a path, as in Linux (PATH_MAX). */
const MAX_PATH = 4096;

/** Offset and length of the fields of a header. */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  time: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  link: [157, 100],
  magic: [257, 6],
  version: [263, 2],
  prefix: [345, 155],
} as const;
type Field = keyof typeof FIELDS;

/**
 * Entries of an archive, in their order; paths relative, without dots. `file` names it in messages.
 *
 * @throws TuttiError invalidArgument for what is no archive, is cut off or damaged, or names paths outside of itself.
 */
export function readArchive(data: Uint8Array, file: string): ArchiveEntry[] {
  const bytes = data[0] === 0x1f && data[1] === 0x8b ? decompress(data, file) : data;
  const refuse = (offset: number, why: string): never => {
    throw new TuttiError('invalidArgument', `${file} is not a readable archive: ${why} at byte ${offset}`);
  };
  const entries: ArchiveEntry[] = [];
  const files = new Map<string, Uint8Array>();
  let long: { path?: string; target?: string } = {};
  let offset = 0;
  let ended = false;
  while (offset + BLOCK <= bytes.length) {
    const header = bytes.subarray(offset, offset + BLOCK);
    if (header.every((byte) => byte === 0)) {
      ended = true;
      break;
    }
    if (!hasChecksum(header)) refuse(offset, 'there is no tar header');
    const size = sizeOf(header);
    const start = offset + BLOCK;
    if (size === undefined) return refuse(offset, 'a size is not a number');
    if (start + size > bytes.length) refuse(offset, `it ends within an entry of ${size} bytes`);
    const content = bytes.subarray(start, start + size);
    const type = field(header, 'type');
    const path = (): string => {
      const clean = cleanPath(long.path ?? nameOf(header));
      return clean ?? refuse(offset, `the path '${printable(long.path ?? nameOf(header))}' leads out of it`);
    };
    const target = () => long.target ?? field(header, 'link');
    switch (type) {
      case 'L':
        long.path = untilNul(content);
        break;
      case 'K':
        long.target = untilNul(content);
        break;
      case 'x':
        long = { ...long, ...recordsOf(content) };
        break;
      case '':
      case '0':
      case '7':
        entries.push({ kind: 'file', path: path(), bytes: content });
        files.set(path(), content);
        break;
      case '1': {
        // A hard link: the content of an earlier entry under a second name.
        const earlier = files.get(cleanPath(target()) ?? '');
        if (earlier !== undefined) entries.push({ kind: 'file', path: path(), bytes: earlier });
        break;
      }
      case '2':
        entries.push({ kind: 'link', path: path(), target: target() });
        break;
      case '5':
        entries.push({ kind: 'directory', path: path() });
        break;
      default:
    }
    if (!'LKx'.includes(type) || type === '') long = {};
    offset = start + Math.ceil(size / BLOCK) * BLOCK;
  }
  if (!ended) refuse(Math.min(offset, bytes.length), 'it ends without an end mark, so a part is missing');
  return entries;
}

function decompress(data: Uint8Array, file: string): Uint8Array {
  try {
    return gunzipSync(data, { maxOutputLength: MAX_ARCHIVE_BYTES });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const why =
      code === 'ERR_BUFFER_TOO_LARGE'
        ? `it has more than ${MAX_ARCHIVE_BYTES} bytes when decompressed`
        : `its compressed data is cut off or damaged (${cause instanceof Error ? cause.message : String(cause)})`;
    throw new TuttiError('invalidArgument', `${file} is not a readable archive: ${why}`, { cause });
  }
}

/** One character per byte (TextDecoder's `latin1` is Windows-1252, which is not). */
export const bytesAsText = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');

function untilNul(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return bytesAsText(end < 0 ? bytes : bytes.subarray(0, end));
}

function field(header: Uint8Array, name: Field): string {
  const [start, length] = FIELDS[name];
  return untilNul(header.subarray(start, start + length));
}

function nameOf(header: Uint8Array): string {
  // GNU's old form keeps times where POSIX has the prefix.
  const prefix = field(header, 'magic') === 'ustar' ? field(header, 'prefix') : '';
  return prefix === '' ? field(header, 'name') : `${prefix}/${field(header, 'name')}`;
}

/** Undefined where the field holds no number; sizes that no archive can have are cut to one that fails. */
function sizeOf(header: Uint8Array): number | undefined {
  const [start, length] = FIELDS.size;
  if ((header[start]! & 0x80) !== 0) {
    // Base 256: GNU's form for large files.
    let value = header[start]! & 0x7f;
    for (const byte of header.subarray(start + 1, start + length)) value = value * 256 + byte;
    return Math.min(value, Number.MAX_SAFE_INTEGER);
  }
  const text = field(header, 'size').trim();
  return /^[0-7]*$/.test(text) ? Number.parseInt(text || '0', 8) : undefined;
}

function hasChecksum(header: Uint8Array): boolean {
  return Number.parseInt(field(header, 'checksum').trim(), 8) === checksumOf(header);
}

/** Sum of all bytes, those of the checksum itself counted as blanks. */
function checksumOf(header: Uint8Array): number {
  const [start, length] = FIELDS.checksum;
  return header.reduce((sum, byte, at) => sum + (at >= start && at < start + length ? 0x20 : byte), 0);
}

/** `path` and `linkpath` of an extended header: lines of the form `LENGTH KEY=VALUE`. */
function recordsOf(content: Uint8Array): { path?: string; target?: string } {
  const found: { path?: string; target?: string } = {};
  const text = bytesAsText(content);
  for (let at = 0; at < text.length; ) {
    const [, digits] = /^(\d{1,9}) /.exec(text.slice(at, at + 10)) ?? [];
    const length = Number(digits);
    if (digits === undefined || length <= digits.length + 1) break;
    const [, key, value] = /^([^=]*)=(.*)\n$/s.exec(text.slice(at + digits.length + 1, at + length)) ?? [];
    if (key === 'path') found.path = value!;
    if (key === 'linkpath') found.target = value!;
    at += length;
  }
  return found;
}

/** Without leading slashes and dots; undefined where it climbs or is too long. */
function cleanPath(path: string): string | undefined {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  return path.length > MAX_PATH || parts.includes('..') ? undefined : parts.join('/');
}

const printable = (text: string): string => text.slice(0, 100).replace(/[^ -~]/g, '?');

/** A compressed archive that every tar reads. Paths are relative; times and owners are zero. */
export function writeArchive(entries: readonly ArchiveEntry[]): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (const entry of entries) {
    const path = entry.kind === 'directory' ? `${entry.path}/` : entry.path;
    const target = entry.kind === 'link' ? entry.target : '';
    const records = [
      ...(path.length > FIELDS.name[1] ? [recordOf('path', path)] : []),
      ...(target.length > FIELDS.link[1] ? [recordOf('linkpath', target)] : []),
    ].join('');
    if (records !== '') blocks.push(...block('x', 'extended', '', latin1(records)));
    const type = { file: '0', link: '2', directory: '5' }[entry.kind];
    blocks.push(...block(type, path, target, entry.kind === 'file' ? entry.bytes : new Uint8Array()));
  }
  blocks.push(new Uint8Array(2 * BLOCK));
  return gzipSync(Buffer.concat(blocks), { level: 9 });
}

const latin1 = (text: string): Uint8Array => Buffer.from(text, 'latin1');

/** The length counts itself. */
function recordOf(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`.length;
  let length = rest + String(rest).length;
  if (rest + String(length).length !== length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function block(type: string, path: string, target: string, content: Uint8Array): Uint8Array[] {
  const header = Buffer.alloc(BLOCK);
  const put = (name: Field, text: string) => header.write(text, FIELDS[name][0], FIELDS[name][1], 'latin1');
  put('name', path);
  put('mode', type === '5' ? '0000755' : '0000644');
  put('uid', '0000000');
  put('gid', '0000000');
  put('size', content.length.toString(8).padStart(11, '0'));
  put('time', '00000000000');
  put('type', type);
  put('link', target);
  put('magic', 'ustar');
  put('version', '00');
  put('checksum', checksumOf(header).toString(8).padStart(6, '0'));
  header[FIELDS.checksum[0] + 7] = 0x20;
  const rest = (BLOCK - (content.length % BLOCK)) % BLOCK;
  return [header, content, new Uint8Array(rest)];
}
