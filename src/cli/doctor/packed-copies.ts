/**
 * Logs that lie there twice, plain and packed: each is read once, since the same lines from two files would count twice.
 */
import { type Bytes, unpacked } from './unpack.js';

interface Named {
  readonly name: string;
  readonly path: string;
  readonly isStream: boolean;
}

/** Suffixes that packers add. */
const PACKED = /\.(?:gz|zst)$/;

/** The files without packed copies of others; `note` is told of each that is left out. */
export async function withoutPackedCopies<T extends Named>(
  files: readonly T[],
  read: (path: string) => Bytes,
  note: (text: string) => void,
): Promise<T[]> {
  const byPath = new Map(files.map((file) => [file.path, file] as const));
  const kept: T[] = [];
  for (const file of files) {
    const plain = PACKED.test(file.path) ? byPath.get(file.path.replace(PACKED, '')) : undefined;
    if (plain !== undefined && !plain.isStream && (await isSame(file.path, plain.path, read)))
      note(`${file.name} holds the same as ${plain.name} and is left out`);
    else kept.push(file);
  }
  return kept;
}

async function isSame(packed: string, plain: string, read: (path: string) => Bytes): Promise<boolean> {
  try {
    const [one, other] = await Promise.all([unpacked(read(packed)), unpacked(read(plain))]);
    return await isEqual(one.bytes, other.bytes);
  } catch {
    // What cannot be read is told when it is read for its own sake.
    return false;
  }
}

/** Whether two streams hold the same bytes, whatever their pieces. */
async function isEqual(one: Bytes, other: Bytes): Promise<boolean> {
  const [a, b] = [one[Symbol.asyncIterator](), other[Symbol.asyncIterator]()];
  let [x, y]: [Uint8Array, Uint8Array] = [new Uint8Array(), new Uint8Array()];
  try {
    for (;;) {
      if (x.length === 0) x = (await a.next()).value ?? x;
      if (y.length === 0) y = (await b.next()).value ?? y;
      const length = Math.min(x.length, y.length);
      if (length === 0) return x.length === y.length;
      if (Buffer.compare(x.subarray(0, length), y.subarray(0, length)) !== 0) return false;
      x = x.subarray(length);
      y = y.subarray(length);
    }
  } finally {
    await Promise.all([a.return?.(), b.return?.()]);
  }
}
