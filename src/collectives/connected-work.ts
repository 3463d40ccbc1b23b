/**
 * Descriptors of programs whose ranks are joined by connections of an algorithm's own, and how such a program finds
 * its connections.
 *
 * The control structures and buffers of an algorithm's connections lie in a *pool*: memory that a rank takes from its
 * segment when it first uses the algorithm, and announces in its control block with release order. Where things lie in
 * a pool is a pure function (planning/connection-pool.ts), so a program needs nothing but the pools' addresses: it
 * waits for those of the peers it talks to. Nothing depends on ranks coming together, and nothing is exchanged.
 *
 * A work has one block per task of this rank that goes on by itself, for instance one per channel and direction. What
 * a block does is its *role*; a program holds the roles that its rank has, and no others.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { struct } from '../kernel/layout.js';
import type { Ends, ReceiveEnd, SendEnd } from './ends.js';
import { CONTROL_BYTES } from './ring-connection.js';

/** What a pool word of a control block says besides the offset, which is a multiple of 4096. */
export const POOL_STATE = {
  /** Nothing yet. */
  none: 0,
  /** The pool is there. */
  ready: 1,
  /** This rank could not get the memory: nobody uses the algorithm in this communicator. */
  refused: 2,
} as const;

export const ConnectedWork = struct('ConnectedWork', {
  /** Own control block: the doorbell that waits sleep on. */
  control: 'ptr',
  /** BlockWork per block. */
  blocks: 'ptr',
  /** Byte offset of the algorithm's pool word in every control block. */
  poolWord: 'u32',
  self: 'u32',
  ranks: 'u32',
  root: 'u32',
  send: 'ptr',
  recv: 'ptr',
  /** Bytes from one rank's block to the next. */
  sendStride: 'u64',
  recvStride: 'u64',
  /** Scalar of an average, see ArgumentRule. */
  argument: 'u64',
  /** Bytes of one slot of a connection. */
  slot: 'u64',
});

/** Elements of a block: where its share begins, how long it is, and how it is cut. */
export const BlockWork = struct('BlockWork', {
  /** Index in the program's list of roles. */
  role: 'u32',
  channel: 'u32',
  /** Link per connection into and out of this rank, in the order of the role. */
  receives: 'ptr',
  sends: 'ptr',
  receiveLinks: 'u32',
  sendLinks: 'u32',
  offset: 'u64',
  count: 'u64',
  /** Elements of one primitive call. */
  chunk: 'u64',
  /** Elements after which a program that alternates between directions turns round. */
  window: 'u64',
  /** What else the algorithm needs: a table of its own. */
  table: 'ptr',
  tableLength: 'u64',
  /** PortCounters of the switches that this block does the work of (switch-ports.ts). */
  ports: 'ptr',
});

export const Link = struct('Link', {
  /** Own control structure, in the own pool: a SenderControl to send, a ReceiverControl to receive. */
  own: 'ptr',
  /** The peer's control block and segment. */
  peerControl: 'ptr',
  peerSegment: 'ptr',
  /** Bytes from the beginning of the peer's pool to its control structure of this connection. */
  peerOffset: 'u64',
  /** The peer's control structure, where a program looks it up once for all (`resolveLinks`). */
  peer: 'ptr',
});

/**
 * What a program over connections of its own knows of its block: on the host from descriptors in memory, on GPUs from
 * what comes with the launch (gpu/connected-place.ts). Functions make code where they are called.
 */
export interface ConnectedPlace {
  readonly k: KernelBuilder;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
  argument(): Value<'u64'>;
  /** First element and number of elements of this block, and those after which it turns round. */
  offset(): Value<'u64'>;
  count(): Value<'u64'>;
  window(): Value<'u64'>;
  /** Does what the block's role is. */
  dispatch<R>(roles: readonly R[], act: (role: R) => void): void;
  /** The ends of the links `receives` and `sends` of this block, by their indices. */
  ends(receives: readonly number[], sends: readonly number[]): Ends;
  /** Walks a range of elements in chunks. */
  chunks(
    first: Value<'u64'>,
    end: Value<'u64'>,
    body: (element: Value<'u64'>, elements: Value<'u64'>) => void,
  ): void;
}

/** The own doorbell, and the block that this program shall do. */
export class ConnectedBlock implements ConnectedPlace {
  readonly block: Value<'ptr'>;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;

  constructor(
    readonly k: KernelBuilder,
    readonly work: Value<'ptr'>,
  ) {
    k.sleepOn(k.field(work, ConnectedWork, 'control'));
    this.block = k.field(work, ConnectedWork, 'blocks').offset(k.blockIndex.mul(BlockWork.size));
    this.send = k.field(work, ConnectedWork, 'send');
    this.recv = k.field(work, ConnectedWork, 'recv');
  }

  argument(): Value<'u64'> {
    return this.k.field(this.work, ConnectedWork, 'argument');
  }

  offset(): Value<'u64'> {
    return this.k.field(this.block, BlockWork, 'offset');
  }

  count(): Value<'u64'> {
    return this.k.field(this.block, BlockWork, 'count');
  }

  window(): Value<'u64'> {
    return this.k.field(this.block, BlockWork, 'window');
  }

  /** Finds the peer's side of every link of this block, for programs that choose links at run time. */
  resolveLinks(): void {
    const { k, block } = this;
    for (const [links, count] of [
      ['receives', 'receiveLinks'],
      ['sends', 'sendLinks'],
    ] as const) {
      const first = k.field(block, BlockWork, links);
      const end = first.offset(k.field(block, BlockWork, count).mul(Link.size));
      k.if(k.threadIndex.eq(0), () => {
        k.for(first, end, Link.size, (link) => {
          k.setField(link, Link, 'peer', this.#partner(link, k.field(link, Link, 'peerControl')));
        });
      });
    }
    k.barrier();
  }

  dispatch<R>(roles: readonly R[], act: (role: R) => void): void {
    if (roles.length === 1) {
      act(roles[0]!);
      return;
    }
    const { k } = this;
    const index = k.field(this.block, BlockWork, 'role');
    roles.forEach((role, i) => {
      k.if(index.eq(i), () => act(role));
    });
  }

  ends(receives: readonly number[], sends: readonly number[]): Ends {
    const { k, block } = this;
    const into = k.field(block, BlockWork, 'receives');
    const out = k.field(block, BlockWork, 'sends');
    return {
      receives: receives.map((i) => this.#receive(into.offset(i * Link.size))),
      sends: sends.map((i) => this.#send(out.offset(i * Link.size))),
      slot: k.field(this.work, ConnectedWork, 'slot'),
      buffers: k.u64(CONTROL_BYTES),
    };
  }

  /** Ends of links that are chosen at run time; `resolveLinks` must have come before. */
  endsOf(links: { readonly receive?: Value<'ptr'>; readonly send?: Value<'ptr'> }): Ends {
    const { k } = this;
    const { receive, send } = links;
    const own = (link: Value<'ptr'>) => k.field(link, Link, 'own');
    const peer = (link: Value<'ptr'>) => k.field(link, Link, 'peer');
    const doorbell = (link: Value<'ptr'>) => k.field(link, Link, 'peerControl');
    return {
      receives:
        receive === undefined
          ? []
          : [{ own: own(receive), sender: peer(receive), doorbell: doorbell(receive) }],
      sends: send === undefined ? [] : [{ own: own(send), receiver: peer(send), doorbell: doorbell(send) }],
      slot: k.field(this.work, ConnectedWork, 'slot'),
      buffers: k.u64(CONTROL_BYTES),
    };
  }

  #receive(link: Value<'ptr'>): ReceiveEnd {
    const { k } = this;
    const doorbell = k.field(link, Link, 'peerControl');
    return { own: k.field(link, Link, 'own'), sender: this.#partner(link, doorbell), doorbell };
  }

  #send(link: Value<'ptr'>): SendEnd {
    const { k } = this;
    const doorbell = k.field(link, Link, 'peerControl');
    return { own: k.field(link, Link, 'own'), receiver: this.#partner(link, doorbell), doorbell };
  }

  /** The peer's control structure of a link, once the peer has announced its pool. */
  #partner(link: Value<'ptr'>, control: Value<'ptr'>): Value<'ptr'> {
    const { k } = this;
    const word = control.offset(k.field(this.work, ConnectedWork, 'poolWord'));
    const read = () => k.load('u32', word, { order: 'acquire' });
    k.wait(() => read().ne(POOL_STATE.none));
    const pool = read().and(~(CONTROL_BYTES - 1) >>> 0);
    return k
      .field(link, Link, 'peerSegment')
      .offset(pool)
      .offset(k.field(link, Link, 'peerOffset'));
  }

  chunks(
    first: Value<'u64'>,
    end: Value<'u64'>,
    body: (element: Value<'u64'>, elements: Value<'u64'>) => void,
  ): void {
    const { k } = this;
    const chunk = k.field(this.block, BlockWork, 'chunk');
    k.for(first, end, chunk, (at) => body(at, chunk.min(end.sub(at))));
  }
}
