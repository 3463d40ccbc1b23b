/**
 * Which algorithms and protocols of host memory a user allows, from NCCL_ALGO and NCCL_PROTO or the options of a
 * communicator: NCCL's lists (selection-list.ts) over NCCL's names and those of this library.
 */

import type { Collective } from '../collectives/control-block.js';
import { ALGORITHMS, type Algorithm } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { NCCL_ALGORITHMS, NCCL_FUNCTIONS, NCCL_PROTOCOLS } from './names.js';
import { applyList, Choice, type Choices } from './selection-list.js';

/** All-to-all is no function of NCCL: a list is for it only where it names it (`alltoall:Ring`). */
const MORE_FUNCTIONS = ['AllToAll'] as const;
const FUNCTIONS = [...NCCL_FUNCTIONS, ...MORE_FUNCTIONS] as const;

/** Functions in lists; a barrier has none. */
const FUNCTION_OF: Partial<Record<Collective, (typeof FUNCTIONS)[number]>> = {
  broadcast: 'Broadcast',
  reduce: 'Reduce',
  allGather: 'AllGather',
  reduceScatter: 'ReduceScatter',
  allReduce: 'AllReduce',
  allToAll: 'AllToAll',
};

/** Names in a list of algorithms: ours first, then those of NCCL that have no program here. */
const ALGORITHM_NAMES: readonly string[] = [
  ...ALGORITHMS,
  ...NCCL_ALGORITHMS.filter((name) => !(ALGORITHMS as readonly string[]).includes(name)),
];

/** Lists as they were written, for messages. */
export interface HostLists {
  readonly algorithm: string | undefined;
  readonly protocol: string | undefined;
}

export interface HostChoices extends HostLists {
  /** True when nothing restricts the algorithms of the collective. */
  anyAlgorithm(collective: Collective): boolean;
  allowsAlgorithm(collective: Collective, algorithm: Algorithm): boolean;
  /** True when the allowed algorithms of the collective are those that a list names, not what it leaves over. */
  namesAlgorithms(collective: Collective): boolean;
  /** Protocols of {LL, Simple} that are allowed; both when nothing is said. */
  protocols(collective: Collective): readonly RingProtocol[];
  /** Whether a protocol of NCCL is allowed, host memory has it or not. */
  allowsProtocol(collective: Collective, protocol: (typeof NCCL_PROTOCOLS)[number]): boolean;
}

/**
 * Reads the lists; `names` says what they are called in errors.
 *
 * @throws TuttiError invalidUsage naming the wrong word and the nearest right one
 */
export function hostChoices(
  lists: HostLists,
  names: { algorithm: string; protocol: string } = { algorithm: 'NCCL_ALGO', protocol: 'NCCL_PROTO' },
): HostChoices {
  // The cell behind the last name holds what a list says of names that it lacks.
  const algorithms: Choices = FUNCTIONS.map(() => [...ALGORITHM_NAMES, ''].map(() => Choice.ON));
  const protocols: Choices = FUNCTIONS.map(() => NCCL_PROTOCOLS.map(() => Choice.ON));
  if (lists.algorithm !== undefined)
    applyList(names.algorithm, lists.algorithm, ALGORITHM_NAMES, algorithms, MORE_FUNCTIONS);
  if (lists.protocol !== undefined)
    applyList(names.protocol, lists.protocol, NCCL_PROTOCOLS, protocols, MORE_FUNCTIONS);
  const rowOf = (table: Choices, collective: Collective) => {
    const fn = FUNCTION_OF[collective];
    return fn === undefined ? undefined : table[FUNCTIONS.indexOf(fn)]!;
  };
  const allows = (collective: Collective, algorithm: Algorithm) =>
    (rowOf(algorithms, collective)?.[ALGORITHM_NAMES.indexOf(algorithm)] ?? Choice.ON) !== Choice.OFF;
  return {
    ...lists,
    anyAlgorithm: (collective) => ALGORITHMS.every((algorithm) => allows(collective, algorithm)),
    allowsAlgorithm: allows,
    namesAlgorithms: (collective) => rowOf(algorithms, collective)?.[ALGORITHM_NAMES.length] === Choice.OFF,
    protocols: (collective) => {
      const row = rowOf(protocols, collective);
      return (['LL', 'Simple'] as const).filter(
        (protocol) => row === undefined || row[NCCL_PROTOCOLS.indexOf(protocol)] !== Choice.OFF,
      );
    },
    allowsProtocol: (collective, protocol) =>
      rowOf(protocols, collective)?.[NCCL_PROTOCOLS.indexOf(protocol)] !== Choice.OFF,
  };
}

/** Nothing was said. */
export const NO_CHOICES: HostChoices = hostChoices({ algorithm: undefined, protocol: undefined });

/** NCCL's name of a collective, for messages and lists; its own where NCCL has none. */
export function functionName(collective: Collective): string {
  return FUNCTION_OF[collective] ?? collective;
}
