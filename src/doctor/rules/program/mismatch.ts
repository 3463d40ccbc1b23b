/** Ranks that differ in the operation that they wait in. */

import type { DumpedOperation, RankDump } from '../../model/dump.js';
import { smallest } from '../../model/extremes.js';
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { remembered } from '../remembered.js';
import type { Finding } from '../rule.js';
import { waitingIn } from './group-progress.js';

/** The value that most ranks have; undefined where no value has a majority. */
function majority<T>(values: readonly T[]): T | undefined {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [top, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return top !== undefined && (second === undefined || top[1] > second[1]) ? top[0] : undefined;
}

/** Collectives in which ranks may pass different counts. */
const UNEVEN = /send|recv|all_?to_?all|alltoall|gather_?v|scatter_?v|barrier|(?:^|:)_?(?:gather|scatter)/i;

const fraction = (part: number, whole: number): string => {
  for (let below = 2; below <= 12; below++) {
    const above = (part / whole) * below;
    if (Math.abs(above - Math.round(above)) < 1e-9 && above > 0)
      return ` is ${Math.round(above)}/${below} of ${whole}`;
  }
  return ` is not ${whole}`;
};

type Respect = 'operation' | 'type' | 'count';

/** Ranks that differ in one respect in the first operation that is not completed everywhere. */
export function mismatchIn(list: readonly RankDump[], wanted: Respect): Finding[] {
  const found = mismatchOf(list);
  return found?.what === wanted ? [found.finding] : [];
}

interface Mismatch {
  readonly what: Respect;
  readonly finding: Finding;
}

/** In what ranks differ first; undefined where they do not. */
export const mismatchOf = remembered(findMismatch);

function findMismatch(list: readonly RankDump[]): Mismatch | undefined {
  // The first operation that is not completed everywhere: ranks that disagree do not get past it.
  const open = list.flatMap((dump) => waitingIn(dump)?.sequence ?? []);
  if (open.length === 0) return undefined;
  const sequence = smallest(open);
  const all = list.flatMap((dump) => {
    const operation = dump.operations.find((one) => one.sequence === sequence);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const keys = [
    (one: DumpedOperation) => one.name,
    (one: DumpedOperation) => one.type,
    (one: DumpedOperation) => (UNEVEN.test(one.name) ? '' : one.size),
  ];
  const names = ['operation', 'type', 'count'] as const;
  // A dump that does not tell it is not compared.
  const telling = keys.map((tell) => all.filter(({ operation }) => tell(operation) !== undefined));
  const wrong = keys.findIndex(
    (tell, i) => new Set(telling[i]!.map(({ operation }) => tell(operation))).size > 1,
  );
  if (wrong < 0) return undefined;
  const key = keys[wrong]!;
  const there = telling[wrong]!;
  const usual = majority(there.map(({ operation }) => key(operation)));
  const odd = usual === undefined ? there : there.filter(({ operation }) => key(operation) !== usual);
  const { dump, operation } = odd[0]!;
  const other = there.find((one) => key(one.operation) !== key(operation))!;
  const expected = other.operation.elements;
  const what = names[wrong]!;
  const ranks = odd.map((one) => one.dump.rank);
  const part =
    wrong === 2 && expected !== undefined && operation.elements !== undefined && operation.elements < expected
      ? `: ${operation.elements}${fraction(operation.elements, expected)}, look for a short last batch that is not dropped or padded`
      : '';
  const finding: Finding = {
    severity: 'error',
    // Time-outs that name no group may be of several.
    confidence: list.some(({ isGroupUnknown }) => isGroupUnknown) ? 'possible' : 'certain',
    text:
      odd.length === there.length
        ? `ranks ${listed(ranks)} disagree about the ${what} of operation ${sequence}: ${String(key(operation))} and ${String(key(other.operation))}`
        : `rank ${listed(ranks)} calls operation ${sequence} with another ${what} (${String(key(operation))}) than the others (${String(key(other.operation))})`,
    culprit: {
      ...(odd.length === 1 ? { rank: dump.rank } : { ranks }),
      ...(dump.host === undefined ? {} : { host: dump.host }),
      seq: sequence,
      ...(wrong === 2 && operation.elements !== undefined
        ? { elements: operation.elements, expected }
        : { [what]: key(operation), expected: key(other.operation) }),
    },
    evidence: distinctPlaces([
      ...some(odd.map((one) => one.operation.at)),
      ...some(there.filter((one) => !odd.includes(one)).map((one) => one.operation.at)),
    ]),
    repair: `Make rank ${listed(ranks)} pass the same ${what}${part}.`,
    workaround: null,
  };
  return { what, finding };
}
