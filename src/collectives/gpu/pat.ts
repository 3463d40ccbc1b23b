/**
 * PAT on GPUs: the program of pat.ts over connectors in the areas. The schedule comes with the launch, a word a step. A
 * block of the launch is a channel.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { kernel, type Value } from '../../kernel/builder.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { followSchedule, type PatField, type PatParameters, type PatPlace } from '../pat.js';
import { ConnectorBlock, type ConnectorParameters } from './connector-block.js';
import { patDimensionsOf } from './connectors.js';

export type GpuPatParameters = PatParameters & ConnectorParameters;

/** Bits of a field in the word of a step: the first one, and how many. 32 ranks need no more. */
const FIELD_BITS: Readonly<Record<PatField, readonly [first: number, bits: number]>> = {
  flags: [0, 5],
  distance: [5, 5],
  from: [10, 3],
  fromIndex: [13, 4],
  to: [17, 3],
  toIndex: [20, 4],
  ahead: [24, 3],
};

const FIELDS = Object.entries(FIELD_BITS) as [PatField, readonly [number, number]][];

/** The word of a step. */
export function patStepWord(step: Readonly<Record<PatField, number>>): number {
  let word = 0;
  for (const [name, [first, bits]] of FIELDS) {
    const value = step[name];
    if (value < 0 || value >= 2 ** bits) {
      throw new TuttiError('internalError', `a step of PAT with ${name} ${value}: ${bits} bits hold it`);
    }
    word += value * 2 ** first;
  }
  return word;
}

/** The PAT program of a collective; its descriptor is ConnectorWork. */
export function gpuPat(traits: Traits, parameters: GpuPatParameters): Program {
  const { collective, ranks } = parameters;
  return kernel(`pat_${collective}`, traits, (k, work) => {
    k.awaitLaunch();
    const block = new ConnectorBlock(k, work, parameters, k.blockIndex);
    const { team } = block;
    const links = block.connectors('PAT', 'Simple');
    const gathers = collective === 'allGather';
    /** Connections of the two collectives are apart: their schedules count different slots. */
    const number = (dimension: Value<'u32'>) => dimension.add(gathers ? patDimensionsOf(ranks) : 0);
    /** Reduce-scatter sends to the rank 2^d places on, all-gather to the one 2^d places back. */
    const ahead = (dimension: Value<'u32'>) => team.after(k.u32(1).shl(dimension));
    const behind = (dimension: Value<'u32'>) => team.after(k.u32(ranks).sub(k.u32(1).shl(dimension)));
    const place: PatPlace = {
      k,
      self: team.self,
      ranks: k.u32(ranks),
      send: block.send,
      recv: block.recv,
      sendStride: () => block.wide('sendStride'),
      recvStride: () => block.wide('recvStride'),
      argument: () => block.wide('argument'),
      slot: links.slot,
      buffers: links.buffers,
      receiveLink: (dimension) => ({
        own: links.receiver(team.own, number(dimension)),
        peer: () => links.sender(team.areaOf((gathers ? ahead : behind)(dimension)), number(dimension)),
        doorbell: () => team.own,
      }),
      sendLink: (dimension) => ({
        own: links.sender(team.own, number(dimension)),
        peer: () => links.receiver(team.areaOf((gathers ? behind : ahead)(dimension)), number(dimension)),
        doorbell: () => team.own,
      }),
      forChunks: (body) => {
        const { first, count } = block.share();
        const end = first.add(count);
        const chunk = block.wide('chunk');
        k.for(first, end, chunk, (at) => body(at, chunk.min(end.sub(at))));
      },
      forSteps: (body) => {
        k.for(k.u32(0), block.narrow('stepCount'), 1, (i) => {
          const word = block.entry('steps', i);
          body((name) => {
            const [first, bits] = FIELD_BITS[name];
            return word.shr(first).and(2 ** bits - 1);
          });
        });
      },
    };
    followSchedule(place, parameters);
  });
}
