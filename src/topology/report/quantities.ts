/**
 * Numbers and lists as people write them: bandwidths, speeds, ranges of ranks.
 */

/** A bandwidth in GB/s without its unit: four digits, no trailing zeros (`370.8`, `48`, `1.25`, `0.1875`). */
export const bandwidthText = (value: number): string => String(Number(value.toPrecision(4)));

/** A speed in Mbit/s with its unit: `400 Gbit/s`, `2.5 Gbit/s`, `100 Mbit/s`. */
export const netSpeedText = (mbit: number): string =>
  mbit >= 1000 ? `${Number((mbit / 1000).toPrecision(4))} Gbit/s` : `${Math.round(mbit)} Mbit/s`;

/** Numbers in ascending order with runs joined: `0-3 8 10-11`. */
export function rangesText(numbers: Iterable<number>, separator = ' '): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end]! + 1) end += 1;
    parts.push(end === i ? `${sorted[i]}` : `${sorted[i]}-${sorted[end]}`);
    i = end + 1;
  }
  return parts.join(separator);
}

/** `1 GPU`, `2 GPUs`. */
export const countText = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

/** `a`, `a and b`, `a, b and c`. */
export function listText(words: readonly string[]): string {
  if (words.length <= 1) return words[0] ?? '';
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

/** CPU numbers of an affinity mask: hexadecimal words of 32 CPUs, most significant first, separated by commas. */
export function affinityText(mask: string): string {
  const cpus: number[] = [];
  for (const [word, text] of mask.split(',').reverse().entries()) {
    const bits = Number.parseInt(text, 16);
    if (Number.isNaN(bits)) continue;
    for (let bit = 0; bit < 32; bit++) if (Math.floor(bits / 2 ** bit) % 2 === 1) cpus.push(word * 32 + bit);
  }
  return rangesText(cpus, ',');
}
