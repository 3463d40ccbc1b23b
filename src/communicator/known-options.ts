/**
 * Options objects hold what is known and nothing else: a mistyped name would otherwise be ignored in silence.
 */

import { TuttiError } from '../errors/tutti-error.js';

/** Throws `invalidArgument` when `options` is not an object or has a key that is not among the known ones. */
export function checkKnownOptions(what: string, options: unknown, known: readonly string[]): void {
  if (options === null || typeof options !== 'object' || ArrayBuffer.isView(options)) {
    const given =
      options === null ? 'null' : typeof options === 'object' ? 'an array' : `'${String(options)}'`;
    throw new TuttiError(
      'invalidArgument',
      `${what}: options must be an object like { ${known[0]}: ... }, not ${given}`,
    );
  }
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || known.includes(key)) continue;
    throw new TuttiError(
      'invalidArgument',
      `${what}: unknown option '${key}'; there are ${known.join(', ')}`,
    );
  }
}
