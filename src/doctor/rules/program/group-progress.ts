/** How far the ranks of a communicator came, by dumps of their operations. */

import type { DumpedOperation, RankDump } from '../../model/dump.js';
import { largest } from '../../model/extremes.js';

const isOpen = ({ state }: DumpedOperation): boolean => state !== 'completed';

/** The operation that a rank waits in: the first that is not completed. */
export const waitingIn = (dump: RankDump): DumpedOperation | undefined => dump.operations.find(isOpen);

export const sizeOfGroup = (list: readonly RankDump[]): number =>
  largest(
    list.map(({ size }) => size ?? 0),
    list.length,
  );
