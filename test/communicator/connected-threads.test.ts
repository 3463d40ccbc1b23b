/**
 * Algorithms with connections of their own between ranks that are threads: every element type and operator, 2 to 9
 * ranks, compared bit for bit with an oracle that knows the order of the operands.
 */
import { describe, expect, it } from 'vitest';
import type { ConnectedName } from '#src/collectives/registry.js';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import { connectedSetting } from '#src/planning/connected-algorithms.js';
import { hierarchicalExpected } from '../collectives/hierarchical-model.js';
import { patExpected } from '../collectives/pat-model.js';
import { recursiveExpected } from '../collectives/recursive-model.js';
import { treeExpected } from '../collectives/tree-model.js';
import { effort } from '../effort.js';
import { type ConnectedCase, type Oracle, runConnected } from './connected-cases.js';
import { random, SEED } from './random.js';
import { drawCount, SMALL_SLOTS, useSmallSlots } from './small-slots.js';

interface Kind {
  readonly algorithm: ConnectedName;
  readonly protocol: 'LL' | 'Simple';
  readonly collective: ConnectedCase['collective'];
  readonly ranksPerNode?: number;
  /** Of the short form, where others suffice. */
  readonly ranks?: readonly number[];
  readonly oracle: (ranks: number, kind: Kind) => Oracle;
}

const settingOf = (ranks: number, { algorithm, protocol, ranksPerNode }: Kind) =>
  connectedSetting(algorithm, protocol, { ranks, ranksPerNode, channels: 1, ...SMALL_SLOTS });

const treeOracle: Kind['oracle'] = (ranks, kind) => (call, inputs) =>
  treeExpected(settingOf(ranks, kind), call, inputs);

const patOracle: Kind['oracle'] = (ranks, kind) => (call, inputs) =>
  patExpected(settingOf(ranks, kind), call, inputs);

const hierarchicalOracle: Kind['oracle'] = (ranks, kind) => (call, inputs) =>
  hierarchicalExpected(settingOf(ranks, kind), call, inputs);

const recursiveOracle: Kind['oracle'] = () => (call, inputs) => recursiveExpected(call, inputs);

const KINDS: readonly Kind[] = [
  { algorithm: 'Tree', protocol: 'LL', collective: 'allReduce', oracle: treeOracle },
  { algorithm: 'Tree', protocol: 'Simple', collective: 'allReduce', oracle: treeOracle },
  { algorithm: 'Tree', protocol: 'Simple', collective: 'allReduce', ranksPerNode: 3, oracle: treeOracle },
  { algorithm: 'Hierarchical', protocol: 'LL', collective: 'allReduce', oracle: hierarchicalOracle },
  { algorithm: 'Hierarchical', protocol: 'Simple', collective: 'allReduce', oracle: hierarchicalOracle },
  {
    ...{ algorithm: 'Recursive', protocol: 'LL', collective: 'allReduce', oracle: recursiveOracle },
    ranks: [3, 4],
  },
  {
    ...{ algorithm: 'Recursive', protocol: 'Simple', collective: 'allReduce', oracle: recursiveOracle },
    ranks: [2, 5],
  },
  { algorithm: 'PAT', protocol: 'Simple', collective: 'reduceScatter', oracle: patOracle },
  { algorithm: 'PAT', protocol: 'Simple', collective: 'allGather', oracle: patOracle },
];

useSmallSlots();

describe(`connections of their own between threads, TUTTI_SEED=${SEED}`, () => {
  for (const kind of KINDS) {
    const { algorithm, protocol, collective, ranksPerNode } = kind;
    const full = [2, 3, 4, 5, 6, 7, 8, 9];
    const short = kind.ranks ?? [2, 3, 5, 8];
    const nodes = ranksPerNode === undefined ? '' : `, nodes of ${ranksPerNode}`;
    for (const ranks of ranksPerNode === undefined ? effort(short, full) : effort([7], [4, 7, 9])) {
      it(`${algorithm} ${protocol} ${collective}, ${ranks} ranks${nodes}, is right for all types`, async () => {
        const next = random(SEED + ranks);
        let comms: Communicator[] = [];
        try {
          comms = await createLocalCommunicators(ranks, {
            algorithm,
            protocol,
            timeoutMs: 20_000,
            ...(ranksPerNode !== undefined && { ranksPerNode }),
          });
          let made = 0;
          for (const [i, type] of ELEMENT_TYPE_NAMES.entries()) {
            // All pairs of type and operator come by between 2 and 9 ranks.
            for (const op of [REDUCE_OP_NAMES[(i + ranks) % 5]!]) {
              // PAT does no averages.
              if (algorithm === 'PAT' && op === 'avg') continue;
              const place = Math.floor(next() * 3);
              const call: ConnectedCase = {
                collective,
                type,
                op,
                count: drawCount(ELEMENT_TYPES[type].size, next),
                inPlace: next() < 0.5,
                offset: Math.floor(next() * 4),
                heap: comms.map(() => (place === 2 ? next() < 0.5 : place === 0)),
                plain: next() < 0.5,
                prepared: next() < 0.3,
                seed: Math.floor(next() * 2 ** 31),
              };
              await runConnected(comms, call, kind.oracle(ranks, kind));
              made += 1;
            }
          }
          expect(made).toBeGreaterThanOrEqual(9);
        } finally {
          await Promise.all(comms.map((comm) => comm.close()));
        }
      });
    }
  }
});
