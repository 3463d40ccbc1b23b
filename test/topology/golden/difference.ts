/** Two trees of plain values, compared leaf by leaf; numbers as the 32-bit floats that NCCL keeps. */

/** One place where two trees differ. */
export interface Difference {
  /** Where, as a JSON path: `$.nodes.GPU[3].links[0]`. */
  readonly path: string;
  readonly expected: string;
  readonly got: string;
}

/**
 * Compares `got` with `expected`. The first `limit` differences are added to `into`; returns the number of all.
 * A key or an element that only one side has is one difference, whatever is below it.
 */
export function compareTrees(
  expected: unknown,
  got: unknown,
  into: Difference[],
  limit: number,
  path = '$',
): number {
  const report = () => {
    if (into.length < limit) into.push({ path, expected: show(expected), got: show(got) });
    return 1;
  };
  if (Array.isArray(expected) && Array.isArray(got)) {
    let count = 0;
    if (expected.length !== got.length) {
      if (into.length < limit) {
        into.push({ path: `${path}.length`, expected: `${expected.length}`, got: `${got.length}` });
      }
      count++;
    }
    for (let i = 0; i < Math.min(expected.length, got.length); i++) {
      count += compareTrees(expected[i], got[i], into, limit, `${path}[${i}]`);
    }
    return count;
  }
  if (isObject(expected) && isObject(got)) {
    let count = 0;
    for (const key of new Set([...Object.keys(expected), ...Object.keys(got)])) {
      count += compareTrees(expected[key], got[key], into, limit, `${path}.${key}`);
    }
    return count;
  }
  return sameLeaf(expected, got) ? 0 : report();
}

/**
 * Numbers are equal if they are the same 32-bit float: nine significant digits tell those apart. Whole numbers may be
 * counts, which have more digits than a float, and are equal only if they are the same.
 */
function sameLeaf(expected: unknown, got: unknown): boolean {
  if (typeof expected === 'number' && typeof got === 'number') {
    if (Number.isInteger(expected) && Number.isInteger(got)) return expected === got;
    return Math.fround(expected) === Math.fround(got);
  }
  return expected === got;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Longest text of a value in a message. */
const SHOWN = 160;

function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
  return text.length > SHOWN ? `${text.slice(0, SHOWN - 3)}...` : text;
}
