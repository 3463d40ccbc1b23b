/**
 * The lists of NCCL_ALGO and NCCL_PROTO: which algorithms and protocols each function may use.
 *
 * `list` or `function:list`, several joined by ';'; a list is names joined by ',', with '^' in front all but those.
 * Only the first may lack a function; it then is for all. Later lists replace earlier ones. (NCCL 2.30.7, tuning.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { NCCL_ALGORITHMS, NCCL_FUNCTIONS, NCCL_PROTOCOLS, ProtocolId } from './names.js';
import { nearestName } from './nearest-name.js';

/** What a user said of an algorithm or protocol. */
export const Choice = {
  /** Excluded by a list. */
  OFF: 0,
  /** Allowed, for LL128: by a list, so that what the machine can do is not asked. */
  ON: 1,
  /** LL128 only: not in any list, allowed where the machine can do it. */
  AUTO: 2,
} as const;
export type Choice = (typeof Choice)[keyof typeof Choice];

/** Choices by function (first index) and name. */
export type Choices = Choice[][];

export interface SelectionLists {
  readonly algorithms: Choices;
  readonly protocols: Choices;
}

/**
 * Choices after NCCL_ALGO and NCCL_PROTO.
 *
 * @throws TuttiError invalidUsage naming the wrong word and the nearest right one
 */
export function selectionLists(algo: string | undefined, proto: string | undefined): SelectionLists {
  const protocols: Choices = NCCL_FUNCTIONS.map(() =>
    NCCL_PROTOCOLS.map((_, protocol) => (protocol === ProtocolId.LL128 ? Choice.AUTO : Choice.ON)),
  );
  const algorithms: Choices = NCCL_FUNCTIONS.map(() => NCCL_ALGORITHMS.map(() => Choice.ON));
  if (proto !== undefined) applyList('NCCL_PROTO', proto, NCCL_PROTOCOLS, protocols);
  if (algo !== undefined) applyList('NCCL_ALGO', algo, NCCL_ALGORITHMS, algorithms);
  return { algorithms, protocols };
}

/**
 * Applies the text of a variable to the choices of `names`, in place. Choices are by function: NCCL's, then `more`, to
 * which a list belongs only where it names them.
 */
export function applyList(
  variable: string,
  text: string,
  names: readonly string[],
  choices: Choice[][],
  more: readonly string[] = [],
): void {
  let offset = 0;
  for (const entry of text.split(';')) {
    const start = offset;
    offset += entry.length + 1;
    if (entry === '') continue;
    const parts = entry.split(':').filter((part) => part !== '');
    if (parts.length === 0) {
      throw wrong(variable, text, `"${entry}" has neither a function nor a list`);
    }
    const functionName = parts.length > 1 ? parts[0] : undefined;
    if (functionName === undefined && (start > 0 || entry.startsWith(':'))) {
      throw wrong(
        variable,
        text,
        `All entries except the first must have a prefix: "${entry}" has none; write function:${entry}`,
      );
    }
    const functions = functionsNamed(variable, text, functionName, more);
    const list = parts[functionName === undefined ? 0 : 1]!;
    const inverted = list.startsWith('^');
    const [unset, set] = inverted ? [Choice.ON, Choice.OFF] : [Choice.OFF, Choice.ON];
    const elements = (inverted ? list.slice(1) : list)
      .split(',')
      .filter((element) => element !== '')
      .map((element) => elementNamed(variable, text, element, names));
    for (const fn of functions) {
      choices[fn]!.fill(unset);
      for (const element of elements) choices[fn]![element] = set;
    }
  }
}

function functionsNamed(
  variable: string,
  text: string,
  name: string | undefined,
  more: readonly string[],
): readonly number[] {
  if (name === undefined) return NCCL_FUNCTIONS.map((_, fn) => fn);
  const known = [...NCCL_FUNCTIONS, ...more];
  const found = indexIgnoringCase(known, name);
  if (found >= 0) return [found];
  throw wrong(
    variable,
    text,
    `Unrecognized prefix token "${name}"${suggestion(name, known)}; functions are ${known.join(', ')}`,
  );
}

/** What people write into the wrong one of the two lists. */
const OTHER_LISTS: readonly (readonly [what: string, names: readonly string[]])[] = [
  ['a protocol', NCCL_PROTOCOLS],
  ['an algorithm', NCCL_ALGORITHMS],
];

function elementNamed(variable: string, text: string, name: string, names: readonly string[]): number {
  const found = indexIgnoringCase(names, name);
  if (found >= 0) return found;
  const other = OTHER_LISTS.find(([, known]) => known !== names && indexIgnoringCase(known, name) >= 0);
  const meant = other === undefined ? suggestion(name, names) : ` (that is ${other[0]})`;
  throw wrong(variable, text, `Unrecognized element token "${name}"${meant}; use ${names.join(', ')}`);
}

const indexIgnoringCase = (names: readonly string[], name: string): number =>
  names.findIndex((known) => known.toLowerCase() === name.toLowerCase());

function suggestion(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names);
  return nearest === undefined ? '' : ` (did you mean ${nearest}?)`;
}

const wrong = (variable: string, text: string, what: string): TuttiError =>
  new TuttiError('invalidUsage', `${what}, when parsing ${variable}="${text}"`);
