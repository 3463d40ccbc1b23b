/**
 * Sizes as tools print them: `64M`, `8.4M`, `62.9G`, `65536`.
 */
const POWERS: Readonly<Record<string, number>> = { '': 0, k: 1, m: 2, g: 3, t: 4, p: 5 };
const SIZE = /^(\d+(?:[.,]\d+)?) ?([kmgtp]?)(?:i?b)?$/i;

/** Bytes, with powers of 1024; undefined for anything that is no size. */
export function bytesOf(text: string): number | undefined {
  const found = SIZE.exec(text);
  if (found === null) return undefined;
  return Math.round(Number(found[1]!.replace(',', '.')) * 1024 ** POWERS[found[2]!.toLowerCase()]!);
}
