/**
 * Names of collectives as users write them: those of nccl-tests (`all_reduce`, `all_reduce_perf`) and those of NCCL
 * (`AllReduce`, `ncclAllReduce`).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { NCCL_FUNCTIONS, type NcclFunction } from '../../tuning/names.js';
import { nearestName } from '../../tuning/nearest-name.js';

/** nccl-tests' names, in the order of NCCL_FUNCTIONS. */
const TEST_NAMES = ['broadcast', 'reduce', 'all_gather', 'reduce_scatter', 'all_reduce'] as const;

/** All five functions. */
export const EVERY_COLLECTIVE = 'each';

/** Collectives that NCCL makes of sends and receives: no algorithm is chosen. */
const BY_MESSAGES = ['alltoall', 'sendrecv', 'send', 'recv', 'scatter', 'gather', 'hypercube'];

const plain = (name: string) =>
  name
    .toLowerCase()
    .replace(/_perf$/, '')
    .replace(/^nccl/, '')
    .replaceAll(/[\s_-]/g, '');

/**
 * Functions of a name; all of them for `each`.
 *
 * @throws TuttiError invalidArgument with a suggestion
 */
export function functionsNamed(name: string): readonly NcclFunction[] {
  const wanted = plain(name);
  if (wanted === EVERY_COLLECTIVE) return NCCL_FUNCTIONS.toReversed();
  const found = NCCL_FUNCTIONS.find((fn) => fn.toLowerCase() === wanted);
  if (found !== undefined) return [found];
  if (BY_MESSAGES.includes(wanted)) {
    throw new TuttiError(
      'invalidArgument',
      `--coll ${name}: NCCL makes it of sends and receives, so no algorithm is chosen; use ${TEST_NAMES.join(', ')} or ${EVERY_COLLECTIVE}`,
    );
  }
  const near = nearestName(name, [...TEST_NAMES, EVERY_COLLECTIVE]);
  throw new TuttiError(
    'invalidArgument',
    `--coll ${name} is unknown${near === undefined ? '' : ` (did you mean ${near}?)`}; use ${TEST_NAMES.join(', ')} or ${EVERY_COLLECTIVE}`,
  );
}
