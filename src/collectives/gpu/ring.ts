/**
 * Rings on GPUs: the programs of ring.ts over connectors in the areas. In which order the ranks stand comes with the launch;
 * a block of it is a channel.
 */

import { kernel } from '../../kernel/builder.js';
import type { Program, Traits } from '../../kernel/ir.js';
import type { Reduction } from '../arithmetic.js';
import type { ConnectionProtocol } from '../connection-protocol.js';
import { goRound, type RingCollective, type RingPlace } from '../ring.js';
import { ConnectorBlock, type ConnectorParameters } from './connector-block.js';

export interface GpuRingParameters extends ConnectorParameters {
  readonly collective: RingCollective;
  readonly protocol: ConnectionProtocol;
  readonly reduction: Reduction;
}

/** The ring program of a collective; its descriptor is ConnectorWork. */
export function gpuRing(traits: Traits, parameters: GpuRingParameters): Program {
  const { collective, protocol, reduction, ranks } = parameters;
  return kernel(`ring_${protocol}_${collective}`, traits, (k, work) => {
    k.awaitLaunch();
    const block = new ConnectorBlock(k, work, parameters, k.blockIndex);
    const { team } = block;
    const links = block.connectors('Ring', protocol);
    const ring = block.ring();
    const next = ring.after(1);
    const prev = ring.after(ranks - 1);
    const place: RingPlace = {
      ends: () => links.ends([links.receiveEnd(team.areaOf(prev), 0)], [links.sendEnd(team.areaOf(next), 0)]),
      self: team.self,
      ranks: k.u32(ranks),
      root: () => block.narrow('root'),
      send: block.send,
      recv: block.recv,
      sendStride: () => block.wide('sendStride'),
      recvStride: () => block.wide('recvStride'),
      argument: () => block.wide('argument'),
      offset: () => block.share().first,
      count: () => block.share().count,
      chunk: () => block.wide('chunk'),
      position: () => ring.position,
      prev: () => prev,
      next: () => next,
      rankAfter: (distance) => ring.after(distance),
    };
    goRound(k, place, { collective, protocol, reduction });
  });
}
