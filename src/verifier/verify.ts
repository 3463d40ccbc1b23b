/**
 * Proves of a collective's programs, for a number of ranks and elements, what their users rely on: every element of a
 * result holds each rank's contribution exactly once, and no wait blocks for ever.
 *
 * *Exactly once.* Ranks contribute random numbers of 64 bits, one for each element, and their sum modulo 2^64 is
 * compared. A program does not look at what it sums, so what it computes is a sum of contributions with some
 * multiplicities; were one of them not 1 (or one of another element not 0), the sums would still be equal for one in
 * 2^50 drawings or fewer, as no contribution is there 2^14 times. Copies must bring the very numbers.
 *
 * *No wait blocks.* Connections have their true, bounded number of slots. Programs branch on nothing but their
 * descriptors, and every wait is for a counter to reach a value, which it then never falls below, or for the lines that
 * exactly one earlier store fills. So whatever can go on in one order of events can go on in every other: if one order
 * runs to the end, all do. The run also reports races and loads of what nobody has published.
 *
 * Bytes per link and the longest chain of messages are counted on the way.
 */

import { protocolsOf, supports } from '../collectives/registry.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { Program } from '../kernel/ir.js';
import { needsEqualNodes } from '../planning/connected-algorithms.js';
import { countText } from '../topology/report/quantities.js';
import type { VerifiedCall } from './call.js';
import { blocksOf, type PortTraffic, VerifiedTeam } from './team.js';
import { type Traffic, TrafficCounter } from './traffic.js';

export interface Verification extends Traffic {
  readonly call: VerifiedCall;
  /** Accesses and turns of the simulated machine. */
  readonly machineSteps: number;
  /** What passed through the ports of emulated switches. */
  readonly ports: readonly PortTraffic[];
}

export interface VerifyOptions {
  /** Of the contributions and of the order of events. */
  readonly seed?: number;
  /** Puts another program in the place of one, to see that its faults are found. */
  readonly replace?: (program: Program) => Program;
}

/**
 * Verifies one call.
 *
 * @throws MachineFault for a deadlock, race or wild access; TuttiError internalError for a wrong result, which names
 * the rank and the element; invalidArgument for what does not exist
 */
export function verify(call: VerifiedCall, { seed = 1, replace }: VerifyOptions = {}): Verification {
  check(call);
  const { ranks, count, collective, root } = call;
  const state: { counter: TrafficCounter | undefined } = { counter: undefined };
  const team = new VerifiedTeam(call, seed, (access) => state.counter?.observe(access));
  const blocks = blocksOf(collective, ranks);
  const contributions = randomNumbers(seed, ranks, blocks.send * count);
  for (const [rank, { send }] of team.places.entries()) {
    team.machine.writeArray(send, contributions[rank]!);
  }
  team.launch(replace);
  state.counter = new TrafficCounter(team.map, ranks);
  const { steps, launches } = team.machine.run();
  for (const { rank, statuses } of launches) {
    const failed = statuses.find((status) => status !== 0);
    if (failed !== undefined) {
      throw new TuttiError(
        'internalError',
        `${describe(call)}: the program of rank ${rank} ended with status ${failed}`,
        { rank },
      );
    }
  }
  for (let rank = 0; rank < ranks; rank++) {
    if (collective === 'reduce' && rank !== root) continue;
    const { recv } = team.places[rank]!;
    const got = team.machine.readArray(recv, BigUint64Array, blocks.recv * count);
    for (const [element, value] of got.entries()) {
      const due = expected(call, contributions, rank, element);
      if (value !== due) throw wrongElement(call, contributions, rank, element, value);
    }
  }
  return { call, machineSteps: steps, ports: team.portTraffic(), ...state.counter.result() };
}

function check(call: VerifiedCall): void {
  const { algorithm, protocol, collective, ranks, perNode, count, root, slotBytes } = call;
  const refuse = (what: string): never => {
    throw new TuttiError('invalidArgument', what);
  };
  if (!supports(algorithm, collective)) refuse(`${algorithm} does not do ${collective}`);
  if (!protocolsOf(algorithm).includes(protocol)) refuse(`${algorithm} has no ${protocol} programs`);
  if (needsEqualNodes(algorithm, collective) && ranks % Math.min(ranks, perNode) !== 0) {
    refuse(
      `${algorithm} does ${collective} on nodes of one size, and ${ranks} ranks make none of ${perNode}`,
    );
  }
  // A communicator of one rank copies by itself, without a program.
  if (!Number.isInteger(ranks) || ranks < 2)
    refuse(`${countText(ranks, 'rank')}: no programs to verify; give 2 or more`);
  if (!Number.isInteger(count) || count < 0) refuse(`${count} elements: give a whole number from 0 on`);
  if (!Number.isInteger(root) || root < 0 || root >= ranks) {
    refuse(`root ${root} is none of the ranks 0 to ${ranks - 1}`);
  }
  if (slotBytes % 512 !== 0 || slotBytes <= 0) refuse(`slots of ${slotBytes} bytes: give a multiple of 512`);
}

/** What a rank must receive. */
function expected(
  { collective, count, root }: VerifiedCall,
  contributions: readonly BigUint64Array[],
  rank: number,
  element: number,
): bigint {
  const sum = (at: number) =>
    BigInt.asUintN(
      64,
      contributions.reduce((total, own) => total + own[at]!, 0n),
    );
  switch (collective) {
    case 'allReduce':
    case 'reduce':
      return sum(element);
    case 'reduceScatter':
      return sum(rank * count + element);
    case 'broadcast':
      return contributions[root]![element]!;
    case 'allGather':
      return contributions[Math.floor(element / count)]![element % count]!;
    case 'allToAll':
      return contributions[Math.floor(element / count)]![rank * count + (element % count)]!;
  }
}

/** Says what is wrong with an element: which contribution is missing or there twice, if it is one. */
function wrongElement(
  call: VerifiedCall,
  contributions: readonly BigUint64Array[],
  rank: number,
  element: number,
  value: bigint,
): TuttiError {
  const due = expected(call, contributions, rank, element);
  const at = call.collective === 'reduceScatter' ? rank * call.count + element : element;
  const missing = contributions.findIndex((own) => BigInt.asUintN(64, value + (own[at] ?? 0n)) === due);
  const twice = contributions.findIndex((own) => BigInt.asUintN(64, due + (own[at] ?? 0n)) === value);
  const why =
    missing !== -1
      ? `the contribution of rank ${missing} is missing`
      : twice !== -1
        ? `the contribution of rank ${twice} is in it twice`
        : 'it is no sum of the contributions';
  return new TuttiError(
    'internalError',
    `${describe(call)}: element ${element} of rank ${rank} is wrong: ${why}`,
    { rank },
  );
}

const describe = ({ algorithm, protocol, collective, ranks, count }: VerifiedCall): string =>
  `${algorithm}/${protocol} ${collective} of ${count} elements on ${ranks} ranks`;

/** Random numbers of 64 bits: `count` for each of the ranks (xorshift64*). */
function randomNumbers(seed: number, ranks: number, count: number): BigUint64Array[] {
  let state = BigInt.asUintN(64, (BigInt(seed) + 1n) * 0x9e3779b97f4a7c15n) | 1n;
  const next = () => {
    state ^= state >> 12n;
    state = BigInt.asUintN(64, state ^ (state << 25n));
    state ^= state >> 27n;
    return BigInt.asUintN(64, state * 0x2545f4914f6cdd1dn);
  };
  return Array.from({ length: ranks }, () => BigUint64Array.from({ length: count }, next));
}
