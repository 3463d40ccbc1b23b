/**
 * A tar archive (POSIX ustar) of texts: the one format that every system unpacks and needs no compression to be useful.
 */
const BLOCK = 512;

/** Bytes of a name in a header. */
const NAME = 100;

export interface TarEntry {
  readonly name: string;
  readonly text: string;
}

/** The bytes of an archive. Owner and time are the same for everybody. */
export function tarArchive(entries: readonly TarEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const { name, text } of entries) {
    const data = Buffer.from(text, 'utf8');
    const padding = (BLOCK - (data.length % BLOCK)) % BLOCK;
    parts.push(header(name, data.length), data, Buffer.alloc(padding));
  }
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function header(name: string, size: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, '0')}\0`;
  block.write(shortened(name), 0, NAME, 'utf8');
  block.write(octal(0o644, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(size, 12), 124);
  block.write(octal(0, 12), 136);
  block.write(' '.repeat(8), 148); // the sum counts itself as blanks
  block.write('0', 156);
  block.write('ustar\0', 257);
  block.write('00', 263);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** The end of a long name, which tells files apart. */
function shortened(name: string): string {
  let short = name.replace(/^\/+/, '').replaceAll('../', '');
  while (Buffer.byteLength(short) >= NAME) short = short.slice(1);
  return short;
}
