/**
 * Bytes of files as they were before they were packed: gzip, and zstd where Node has it, recognised by their first
 * bytes and unpacked piece by piece. Archives and formats that cannot be unpacked here are refused by name.
 */
import { Readable, type Transform } from 'node:stream';
import zlib from 'node:zlib';
import { TuttiError } from '../../errors/tutti-error.js';

export type Bytes = AsyncIterable<Uint8Array>;

/** Bytes that tell what a file is. */
const SNIFFED = 262 + 6;

/** Unpacked bytes from which on the ratio is watched. */
const FREE = 64 * 1024 * 1024;

/** Logs shrink to a twentieth, very even ones to a hundredth; a bomb shrinks to a thousandth. */
const MAX_RATIO = 250;

const startsWith = (head: Buffer, ...bytes: number[]): boolean => bytes.every((byte, i) => head[i] === byte);

/** What a file is packed with, and what takes it out of there. */
const REFUSED: readonly { readonly is: (head: Buffer) => boolean; readonly text: string }[] = [
  { is: (head) => startsWith(head, 0x50, 0x4b, 3, 4), text: 'a zip archive: unpack it and give the folder' },
  {
    is: (head) => startsWith(head, 0xfd, 0x37, 0x7a, 0x58, 0x5a, 0),
    text: 'packed with xz: unpack it (xz -d)',
  },
  {
    is: (head) => startsWith(head, 0x42, 0x5a, 0x68) && head[3]! >= 0x31 && head[3]! <= 0x39,
    text: 'packed with bzip2: unpack it (bzip2 -d)',
  },
  { is: (head) => startsWith(head, 0x04, 0x22, 0x4d, 0x18), text: 'packed with lz4: unpack it (lz4 -d)' },
];

/** Node has zstd from 22.15 on. */
type Zlib = typeof zlib & { createZstdDecompress?: () => Transform };

const isGzip = (head: Buffer): boolean => startsWith(head, 0x1f, 0x8b, 8);

function unpackerOf(head: Buffer): Transform | undefined {
  // Without the flush, what stands before a cut would be thrown away.
  if (isGzip(head)) return zlib.createGunzip({ finishFlush: zlib.constants.Z_SYNC_FLUSH });
  if (!startsWith(head, 0x28, 0xb5, 0x2f, 0xfd)) return undefined;
  const create = (zlib as Zlib).createZstdDecompress;
  if (create === undefined)
    throw refused(`packed with zstd, which Node ${process.versions.node} cannot unpack: unpack it (zstd -d)`);
  return create();
}

const refused = (text: string, cause?: unknown): TuttiError => new TuttiError('systemError', text, { cause });

/** A tar archive. */
export const isTar = (head: Uint8Array): boolean =>
  Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1', 257, 262) === 'ustar';

/** The first bytes of a stream, and the stream as if nothing had been taken. */
export async function peeked(bytes: Bytes): Promise<{ head: Buffer; bytes: Bytes }> {
  const iterator = bytes[Symbol.asyncIterator]();
  const taken: Uint8Array[] = [];
  let length = 0;
  let isDone = false;
  while (length < SNIFFED && !isDone) {
    const { value, done } = await iterator.next();
    isDone = done === true;
    if (value === undefined) continue;
    taken.push(value);
    length += value.length;
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    try {
      while (taken.length > 0) yield taken.shift()!;
      while (!isDone) {
        const { value, done } = await iterator.next();
        if (done === true) return;
        yield value;
      }
    } finally {
      await iterator.return?.();
    }
  }
  return {
    head: Buffer.concat(taken.map((one) => one.subarray(0, SNIFFED))).subarray(0, SNIFFED),
    bytes: all(),
  };
}

/**
 * Unpacks what is packed, and passes on what is not.
 *
 * @throws systemError, after all that could be unpacked, for data that are cut off, wrong, or grow beyond measure
 */
export async function unpacked(packed: Bytes): Promise<{ head: Buffer; bytes: Bytes }> {
  const { head, bytes } = await peeked(packed);
  const known = REFUSED.find(({ is }) => is(head));
  if (known !== undefined) throw refused(known.text);
  const unpacker = unpackerOf(head);
  return unpacker === undefined ? { head, bytes } : peeked(through(bytes, unpacker, isGzip(head)));
}

const CUT = 'the packed data are cut off: what stands before that was read';

/** Bytes of the length at the end of gzip data. */
const LENGTH_BYTES = 4;

async function* through(bytes: Bytes, unpacker: Transform, isGzipped: boolean): AsyncGenerator<Uint8Array> {
  let [read, made] = [0, 0];
  let end: Buffer = Buffer.alloc(0);
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const piece of bytes) {
      read += piece.length;
      end = Buffer.concat([end, piece.subarray(-LENGTH_BYTES)]).subarray(-LENGTH_BYTES);
      yield piece;
    }
  }
  const source = Readable.from(counted(), { objectMode: false });
  source.on('error', (error) => unpacker.destroy(error));
  source.pipe(unpacker);
  try {
    for await (const piece of unpacker) {
      made += (piece as Buffer).length;
      if (made > FREE && made > MAX_RATIO * read)
        throw refused(`unpacks to more than ${MAX_RATIO} times its size, which no log does: refused`);
      yield piece as Buffer;
    }
    // The last member of the data says how long it is: of data that are cut, mostly longer than all that came out.
    if (isGzipped && (end.length < LENGTH_BYTES || end.readUInt32LE() > made)) throw refused(CUT);
  } catch (error) {
    if (TuttiError.is(error)) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    throw refused(
      code === 'Z_BUF_ERROR'
        ? CUT
        : `the packed data are damaged (${message}): what stands before that was read`,
      error,
    );
  } finally {
    source.destroy();
    unpacker.destroy();
  }
}
