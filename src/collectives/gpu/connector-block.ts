/** What the programs over connectors have in common: the descriptor's fields and the elements of a channel. */

import type { KernelBuilder, Value } from '../../kernel/builder.js';
import type { ConnectionProtocol } from '../connection-protocol.js';
import type { AreaSizes } from './area.js';
import { type ConnectorWork, connectorWork } from './connector-work.js';
import { type ConnectorKind, type ConnectorSizes, Connectors } from './connectors.js';
import { Team } from './team.js';

export interface ConnectorParameters {
  readonly ranks: number;
  /** Sizes of the areas, which must have connectors of the algorithm. */
  readonly sizes: AreaSizes & { readonly connectors: ConnectorSizes };
}

type WideField = 'sendStride' | 'recvStride' | 'argument' | 'count' | 'grain' | 'grains' | 'chunk' | 'window';
type NarrowField = 'extra' | 'root' | 'rings' | 'stepCount';
type ListField = 'position' | 'roles' | 'parent' | 'place' | 'children' | 'steps';

/** Elements of a channel. */
interface Share {
  readonly first: Value<'u64'>;
  readonly count: Value<'u64'>;
}

export class ConnectorBlock {
  readonly team: Team;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
  readonly #work: Value<'ptr'>;
  readonly #fields: ConnectorWork;
  readonly #sizes: ConnectorSizes;
  #share: Share | undefined;

  /** `channel`: the channel of this block. */
  constructor(
    readonly k: KernelBuilder,
    work: Value<'ptr'>,
    { ranks, sizes }: ConnectorParameters,
    readonly channel: Value<'u32'>,
  ) {
    this.#work = work;
    this.#fields = connectorWork(ranks);
    this.#sizes = sizes.connectors;
    this.team = new Team(k, work, ranks, this.#fields, sizes);
    this.send = k.field(work, this.#fields, 'send');
    this.recv = k.field(work, this.#fields, 'recv');
  }

  wide(name: WideField): Value<'u64'> {
    return this.k.field(this.#work, this.#fields, name);
  }

  narrow(name: NarrowField): Value<'u32'> {
    return this.k.field(this.#work, this.#fields, name);
  }

  entry(name: ListField, index: Value<'u32'> | number): Value<'u32'> {
    return this.k.field(this.#work, this.#fields, name, index);
  }

  /** The ring of this channel: this rank's position, and the ranks behind it. */
  ring(): { readonly position: Value<'u32'>; after(distance: Value<'u32'> | number): Value<'u32'> } {
    const { k, team } = this;
    const { ranks } = team;
    if (ranks === 2) return { position: team.self, after: (distance) => team.after(distance) };
    const ring = this.channel.rem(this.narrow('rings'));
    const first = ring.mul(ranks);
    return {
      position: this.entry('position', ring),
      after: (distance) => k.field(this.#work, this.#fields, 'around', first.add(distance)),
    };
  }

  connectors(kind: ConnectorKind, protocol: ConnectionProtocol): Connectors {
    const layout = this.team.layout.connectors[kind];
    return new Connectors(this.k, layout, this.#sizes, protocol, this.team.own, this.channel);
  }

  /** The channel's elements: contiguous shares in whole grains, the first channels one grain more. */
  share(): Share {
    if (this.#share !== undefined) return this.#share;
    const { k } = this;
    const all = this.wide('count');
    const grain = this.wide('grain');
    const extra = this.narrow('extra');
    const before = this.wide('grains').mul(this.channel.cast('u64')).add(this.channel.min(extra).cast('u64'));
    const first = before.mul(grain).min(all);
    const more = k.select(this.channel.lt(extra), k.u64(1), 0n);
    const count = this.wide('grains').add(more).mul(grain).min(all.sub(first));
    return (this.#share = { first, count });
  }
}
