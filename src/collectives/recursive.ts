/**
 * Recursive doubling all-reduce: in round d every rank exchanges all it has with the rank whose number differs in bit d,
 * and both add. After log2(n) rounds everybody has the sum: the fewest rounds there are, for log2(n) times the data.
 *
 * Where n is no power of two, each rank beyond the largest one p gives its contribution to the rank p places before it
 * first, and gets the sum from it at the end: two more rounds.
 *
 * Both partners of a round combine the sum of the lower ranks with that of the higher ones in this order, so all ranks
 * end with the same bits. What one round receives and the next one sends is one pass over the chunk.
 * Source: Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH (2005).
 */

import { TuttiError } from '../errors/tutti-error.js';
import { kernel } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { type Reduction, stepArithmetic } from './arithmetic.js';
import { BlockWork, ConnectedBlock, ConnectedWork } from './connected-work.js';
import { Primitives } from './primitives.js';
import { type LowLatencyOptions, LowLatencyProtocol } from './protocol-ll.js';
import { SimpleProtocol } from './protocol-simple.js';

/**
 * What a rank does. Links of a rank that exchanges: receives are from the rank it stands for, if any, then the partners
 * of the rounds; sends are to the partners, then to that rank. A rank that is stood for has one link each way.
 */
export interface RecursiveRole {
  /** For each round, whether the partner has the lower number; none for a rank that another stands for. */
  readonly lowerPartners: readonly boolean[];
  /** Stands for another rank too. */
  readonly folds: boolean;
}

/** Name of a role, for program keys: `rank`, `exchange/01`, `exchange+/01`. */
export function recursiveRoleName({ lowerPartners, folds }: RecursiveRole): string {
  if (lowerPartners.length === 0) return 'rank';
  return `exchange${folds ? '+' : ''}/${lowerPartners.map(Number).join('')}`;
}

/** The inverse of `recursiveRoleName`. */
export function parseRecursiveRole(name: string): RecursiveRole {
  const [, folds, rounds] = /^exchange(\+?)\/([01]+)$/.exec(name) ?? [];
  if (name !== 'rank' && rounds === undefined) {
    throw new TuttiError('invalidArgument', `there is no recursive role ${name}`);
  }
  return { lowerPartners: [...(rounds ?? '')].map((digit) => digit === '1'), folds: folds === '+' };
}

export interface RecursiveParameters {
  readonly protocol: 'LL' | 'Simple';
  readonly reduction: Reduction;
  /** The roles of the rank's blocks, each once. */
  readonly roles: readonly string[];
  readonly lowLatency?: LowLatencyOptions;
}

export function recursive(
  traits: Traits,
  { protocol, reduction, roles, lowLatency }: RecursiveParameters,
): Program {
  return kernel(`recursive_${protocol}_allReduce`, traits, (k, work) => {
    const block = new ConnectedBlock(k, work);
    const size = ELEMENT_TYPES[reduction.type].size;
    const arithmetic = stepArithmetic(k, reduction, () => k.field(work, ConnectedWork, 'argument'));
    const primitives = (receives: readonly number[], sends: readonly number[]) => {
      const ends = block.ends(receives, sends);
      return new Primitives(
        protocol === 'LL'
          ? new LowLatencyProtocol(k, ends, reduction.type, arithmetic, lowLatency)
          : new SimpleProtocol(k, ends, reduction.type, arithmetic, { stepsPerChunk: 1, stepsPerSlice: 1 }),
      );
    };
    block.dispatch(roles.map(parseRecursiveRole), ({ lowerPartners, folds }) => {
      const first = k.field(block.block, BlockWork, 'offset');
      const end = first.add(k.field(block.block, BlockWork, 'count'));
      const rounds = lowerPartners.length;
      if (rounds === 0) {
        const out = primitives([], [0]);
        const back = primitives([0], []);
        block.chunks(first, end, (at, elements) => {
          out.send(block.send.offset(at.mul(size)), elements);
          back.recv(block.recv.offset(at.mul(size)), elements);
        });
        out.close();
        back.close();
        return;
      }
      // Stage s has the sum of s rounds (and of the rank stood for): it receives that round and sends for the next.
      const before = folds ? 1 : 0;
      const stages = Array.from({ length: rounds + 1 }, (_, stage) =>
        primitives(stage + before > 0 ? [stage + before - 1] : [], stage < rounds || folds ? [stage] : []),
      );
      block.chunks(first, end, (at, elements) => {
        const input = block.send.offset(at.mul(size));
        const output = block.recv.offset(at.mul(size));
        stages.forEach((stage, s) => {
          const isLast = s === rounds;
          // The first that combines reads the user's input, the others what is in the output.
          const isResult = s > 0 && (s > 1 || folds);
          const receives = s > 0 || folds;
          stage.protocol.transfer({
            receives,
            sends: !isLast || folds,
            input: isResult ? output : input,
            ...(receives && { output }),
            elements,
            isResult,
            receivedFirst: s > 0 && lowerPartners[s - 1]!,
            after: isLast,
          });
        });
      });
      for (const stage of stages) stage.close();
    });
  });
}
