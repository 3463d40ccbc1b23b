/**
 * The files of a tar archive, one after the other as they stand in it (POSIX ustar and pax, names of GNU tar).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { Bytes } from './unpack.js';

const BLOCK = 512;

/** Longest name in a header of its own. */
const MAX_NAME = 64 * 1024;

export interface TarFile {
  readonly name: string;
  readonly bytes: Bytes;
}

/** Takes bytes from a stream in portions. */
class Taker {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = new Uint8Array(0);

  constructor(bytes: Bytes) {
    this.#iterator = bytes[Symbol.asyncIterator]();
  }

  /** The next bytes, at most `limit`; undefined at the end. */
  async some(limit: number): Promise<Uint8Array | undefined> {
    while (this.#piece.length === 0) {
      const { value, done } = await this.#iterator.next();
      if (done === true) return undefined;
      this.#piece = value;
    }
    const part = this.#piece.subarray(0, limit);
    this.#piece = this.#piece.subarray(part.length);
    return part;
  }

  /** Exactly `length` bytes; fewer at the end. */
  async all(length: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for (let left = length; left > 0; ) {
      const part = await this.some(left);
      if (part === undefined) break;
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  async skip(length: number): Promise<void> {
    for (let left = length; left > 0; ) {
      const part = await this.some(left);
      if (part === undefined) return;
      left -= part.length;
    }
  }

  async close(): Promise<void> {
    await this.#iterator.return?.();
  }
}

const text = (block: Buffer, start: number, length: number): string =>
  block.toString('utf8', start, start + length).replace(/\0.*$/s, '');

/** Octal digits, or binary with the first bit set for large files. */
function sizeOf(block: Buffer): number {
  if ((block[124]! & 0x80) !== 0) return Number(block.readBigUInt64BE(128) & 0xffff_ffff_ffffn);
  const size = Number.parseInt(text(block, 124, 12).trim() || '0', 8);
  return Number.isNaN(size) ? 0 : size;
}

/**
 * The regular files of an archive. The bytes of one are to be taken before the next one is asked for; what is left of
 * them is passed over.
 *
 * @throws systemError where the archive is cut off in the middle of a file
 */
export async function* tarFiles(bytes: Bytes): AsyncGenerator<TarFile> {
  const taker = new Taker(bytes);
  let longName: string | undefined;
  try {
    for (;;) {
      const header = await taker.all(BLOCK);
      if (header.length < BLOCK || header.every((byte) => byte === 0)) return;
      const size = sizeOf(header);
      const padding = (BLOCK - (size % BLOCK)) % BLOCK;
      const type = String.fromCharCode(header[156]!);
      if ((type === 'L' || type === 'x') && size <= MAX_NAME) {
        const content = (await taker.all(size + padding)).subarray(0, size).toString('utf8');
        longName =
          type === 'L' ? content.replace(/\0.*$/s, '') : (/^\d+ path=(.*)$/m.exec(content)?.[1] ?? longName);
        continue;
      }
      const prefix = text(header, 345, 155);
      const name = longName ?? `${prefix === '' ? '' : `${prefix}/`}${text(header, 0, 100)}`;
      longName = undefined;
      if (type !== '0' && type !== '\0' && type !== '7') {
        await taker.skip(size + padding);
        continue;
      }
      let left = size;
      async function* content(): AsyncGenerator<Uint8Array> {
        while (left > 0) {
          const part = await taker.some(left);
          if (part === undefined)
            throw new TuttiError(
              'systemError',
              'the archive is cut off here: what stands before that was read',
            );
          left -= part.length;
          yield part;
        }
      }
      yield { name, bytes: content() };
      await taker.skip(left + padding);
    }
  } finally {
    await taker.close();
  }
}
