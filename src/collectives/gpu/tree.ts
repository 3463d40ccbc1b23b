/**
 * The tree all-reduce on GPUs: the program of tree.ts over connectors in the areas, in two trees over the same ranks.
 *
 * Channel c belongs to tree c mod 2. A channel has one block (unsplit) or two (split: upwards, downwards). What a block
 * does follows from its number modulo 2 or 4: the descriptor says which role that is for this rank, and names parent and
 * children in each tree.
 */

import { kernel, type Value } from '../../kernel/builder.js';
import type { Program, Traits } from '../../kernel/ir.js';
import type { Reduction } from '../arithmetic.js';
import type { ConnectedPlace } from '../connected-work.js';
import type { ConnectionProtocol } from '../connection-protocol.js';
import type { ReceiveEnd, SendEnd } from '../ends.js';
import { goUpAndDown, parseTreeRole, type TreeRole } from '../tree.js';
import { ConnectorBlock, type ConnectorParameters } from './connector-block.js';
import { GPU_TREES } from './connector-work.js';
import { type Connectors, GPU_TREE_CHILDREN, TREE_DOWN, TREE_UP } from './connectors.js';

export interface GpuTreeParameters extends ConnectorParameters {
  readonly protocol: ConnectionProtocol;
  readonly reduction: Reduction;
  readonly split: boolean;
  /** The roles of all ranks' blocks, each once; the descriptor holds indices of this list. A number beyond it: idle. */
  readonly roles: readonly string[];
}

/** Packets that a thread has under way at most. */
const MOST_PACKETS = 2;

/** The connections of a block with its parent and children in its tree. */
class Neighbours {
  readonly #block: ConnectorBlock;
  readonly #links: Connectors;
  readonly #tree: Value<'u32'>;

  constructor(block: ConnectorBlock, protocol: ConnectionProtocol) {
    this.#block = block;
    this.#links = block.connectors('Tree', protocol);
    this.#tree = block.channel.rem(GPU_TREES);
  }

  #areaOf(rank: Value<'u32'>): Value<'ptr'> {
    return this.#block.team.areaOf(rank);
  }

  #parent(): Value<'ptr'> {
    return this.#areaOf(this.#block.entry('parent', this.#tree));
  }

  #child(index: number): Value<'ptr'> {
    return this.#areaOf(this.#block.entry('children', this.#tree.mul(GPU_TREE_CHILDREN).add(index)));
  }

  /** This rank's place among its parent's children. */
  #place(): Value<'u32'> {
    return this.#block.entry('place', this.#tree);
  }

  fromParent(): ReceiveEnd {
    return this.#links.receiveEnd(this.#parent(), this.#place().add(TREE_DOWN));
  }

  toParent(): SendEnd {
    return this.#links.sendEnd(this.#parent(), this.#place().add(TREE_UP));
  }

  fromChild(index: number): ReceiveEnd {
    return this.#links.receiveEnd(this.#child(index), TREE_UP + index);
  }

  toChild(index: number): SendEnd {
    return this.#links.sendEnd(this.#child(index), TREE_DOWN + index);
  }

  ends(receives: readonly ReceiveEnd[], sends: readonly SendEnd[]) {
    return this.#links.ends(receives, sends);
  }
}

/** The links of a role in the order of tree.ts: receives are the children, then the parent; sends the other way. */
function linksOf({ part, parent, children }: TreeRole, near: Neighbours) {
  const all = Array.from({ length: children }, (_, i) => i);
  const fromParent = parent ? [() => near.fromParent()] : [];
  const toParent = parent ? [() => near.toParent()] : [];
  const fromChildren = all.map((i) => () => near.fromChild(i));
  const toChildren = all.map((i) => () => near.toChild(i));
  switch (part) {
    case 'root':
      return { receives: fromChildren, sends: toChildren };
    case 'up':
      return { receives: fromChildren, sends: toParent };
    case 'down':
      return { receives: fromParent, sends: toChildren };
    case 'both':
      return { receives: [...fromChildren, ...fromParent], sends: [...toParent, ...toChildren] };
  }
}

/** The tree program of all ranks; its descriptor is ConnectorWork. */
export function gpuTree(traits: Traits, parameters: GpuTreeParameters): Program {
  const { protocol, reduction, split, roles } = parameters;
  // What the blocks of two trees do with several children takes the registers that more packets under way would.
  const unroll = Math.min(traits.unroll, MOST_PACKETS);
  return kernel(`tree_${protocol}_allReduce`, { ...traits, unroll }, (k, work) => {
    k.awaitLaunch();
    const channel = split ? k.blockIndex.shr(1) : k.blockIndex;
    const block = new ConnectorBlock(k, work, parameters, channel);
    const near = new Neighbours(block, protocol);
    const parsed = roles.map(parseTreeRole);
    /** Of the role whose code is being made. */
    let links: ReturnType<typeof linksOf>;
    const place: ConnectedPlace = {
      k,
      send: block.send,
      recv: block.recv,
      argument: () => block.wide('argument'),
      offset: () => block.share().first,
      count: () => block.share().count,
      window: () => block.wide('window'),
      dispatch: (list, act) => {
        block.share();
        const role = block.entry('roles', k.blockIndex.rem(split ? 2 * GPU_TREES : GPU_TREES));
        list.forEach((one, i) => {
          k.if(role.eq(i), () => {
            links = linksOf(parsed[i]!, near);
            act(one);
          });
        });
      },
      ends: (receives, sends) =>
        near.ends(
          receives.map((i) => links.receives[i]!()),
          sends.map((i) => links.sends[i]!()),
        ),
      chunks: (first, end, body) => {
        const chunk = block.wide('chunk');
        k.for(first, end, chunk, (at) => body(at, chunk.min(end.sub(at))));
      },
    };
    goUpAndDown(place, { protocol, reduction, roles });
  });
}
