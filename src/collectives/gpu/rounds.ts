/**
 * Rounds of LL programs: every rank pushes what the others need into their areas as LL lines, and computes alone from
 * what it finds in its own. One way over the link is all it takes.
 *
 * Rounds are counted per block in the area. A round's lines lie in the bank of its parity. Rules that make two banks
 * enough, whatever the collectives are that follow each other:
 * 1. In each round every rank sends at least one line to every other: data, or a token where it has none for it.
 * 2. A block ends a round when it has seen something of every rank, and read all data that are for it.
 * So a rank that pushes round e + 1 knows that everybody has begun round e, has therefore finished round e - 1, and
 * that the bank is free.
 *
 * LL, LL128 and Lamport programs share the rounds and tokens; each has banks of its own, because a number of a round
 * could stand among the data of another.
 *
 * Numbers of rounds wrap after 2^32. Before a line of long ago could pass for a new one, each rank clears its banks, in
 * the last two rounds before the wrap.
 * Source: NCCL 2.30's LL kernels over symmetric memory; here for all collectives, with tokens.
 */

import { type KernelBuilder, Value } from '../../kernel/builder.js';
import type { Reduction } from '../arithmetic.js';
import { type AreaSizes, BlockState, LINE_BYTES } from './area.js';
import type { GpuCollective } from './call.js';
import { awaitLines, flagOf, storeLine } from './line.js';
import { type Peer, Team } from './team.js';
import { gpuWork } from './work.js';

export interface LowLatencyParameters {
  readonly collective: GpuCollective;
  readonly reduction: Reduction;
  readonly ranks: number;
  /** Number of the last round before the numbers wrap; tests make it small. */
  readonly lastRound?: number;
  /** Sizes of the areas; those of GPUs by default. */
  readonly sizes?: AreaSizes;
}

/** In which lines the data of a program travel. */
export type LineProtocol = 'LL' | 'LL128' | 'Lamport';

/** Numbers of rounds after the wrap begin with this: 0 is what zeroed memory holds, and the parity must go on. */
const FIRST_AFTER_WRAP = 2;

/** The rounds of one block. */
export class Rounds {
  readonly team: Team;
  readonly #k: KernelBuilder;
  readonly #lastRound: number;
  /** The state of this block. */
  readonly #state: Value<'ptr'>;
  /** The present round. */
  number!: Value<'u32'>;
  flag!: Value<'u64'>;
  /** Bytes from the beginning of an area to the lines and tokens of this block and bank. */
  #lines!: Value<'u32'>;
  #lines128!: Value<'u32'>;
  #lamport!: Value<'u32'>;
  #tokens!: Value<'u32'>;
  readonly #protocol: LineProtocol;

  constructor(
    k: KernelBuilder,
    work: Value<'ptr'>,
    parameters: Pick<LowLatencyParameters, 'ranks' | 'sizes' | 'lastRound'>,
    protocol: LineProtocol = 'LL',
  ) {
    const { ranks, sizes, lastRound = 0xffffffff } = parameters;
    this.#k = k;
    this.#protocol = protocol;
    this.team = new Team(k, work, ranks, gpuWork(ranks), sizes);
    this.#lastRound = lastRound;
    const { own, layout, block } = this.team;
    this.#state = own.offset(block.mul(BlockState.size)).offset(layout.states);
  }

  /** Number of the last round that this block has done. */
  last(): Value<'u32'> {
    return this.#k.field(this.#state, BlockState, 'round');
  }

  /** Begins the round after `last` and returns its number. */
  begin(last: Value<'u32'>): Value<'u32'> {
    const k = this.#k;
    const { layout, ranks, block } = this.team;
    const next = last.add(1);
    this.number = k.select(last.eq(this.#lastRound), k.u32(FIRST_AFTER_WRAP), next);
    this.flag = flagOf(this.number);
    const bank = block.mul(2).add(this.number.and(1));
    const peers = Math.max(1, ranks - 1);
    this.#lines = bank.mul(peers * layout.slotBytes).add(layout.lines);
    this.#lines128 = bank.mul(peers * layout.slot128Bytes).add(layout.lines128);
    this.#lamport = bank.mul(peers * layout.slotLamportBytes).add(layout.lamport);
    this.#tokens = bank.mul(ranks * LINE_BYTES).add(layout.tokens);
    return this.number;
  }

  /** Ends the round: nobody in this block reads or writes its bank any more. */
  end(): void {
    const k = this.#k;
    k.barrier();
    k.if(this.number.ge(this.#lastRound - 1), () => {
      const { layout, ranks, own } = this.team;
      const zero = k.packet(0n, 0n);
      const clear = (offset: Value<'u32'>, bytes: number) => {
        k.for(k.threadIndex, bytes / LINE_BYTES, k.threadCount, (i) => {
          k.store('packet', own.offset(offset.add(i.mul(LINE_BYTES))), zero, { order: 'volatile' });
        });
      };
      clear(this.#lines, (ranks - 1) * layout.slotBytes);
      clear(this.#lines128, (ranks - 1) * layout.slot128Bytes);
      clear(this.#tokens, ranks * LINE_BYTES);
      k.fence('both');
      k.barrier();
    });
  }

  /** Remembers the last round; each thread has passed the barrier behind its own look at the state. */
  finish(last: Value<'u32'>): void {
    const k = this.#k;
    k.if(k.threadIndex.eq(0), () => k.setField(this.#state, BlockState, 'round', last));
  }

  /** Where this rank's lines of the round begin in the area of a peer. */
  outbox({ rank, area, distance }: Peer): Value<'ptr'> {
    const { self, ranks } = this.team;
    const slot = distance === undefined ? this.#slot(rank, self) : this.#k.u32(ranks - 1 - distance);
    return area.offset(this.#slotStart(slot));
  }

  /** Where the lines of the round of a peer, or of another rank, begin in the own area. */
  inbox(from: Peer | Value<'u32'> | number): Value<'ptr'> {
    const { own, self } = this.team;
    const k = this.#k;
    if (typeof from === 'number') return this.inbox(k.u32(from));
    if (from instanceof Value) return own.offset(this.#slotStart(this.#slot(self, from)));
    return own.offset(
      this.#slotStart(from.distance === undefined ? this.#slot(self, from.rank) : k.u32(from.distance - 1)),
    );
  }

  /** The slot of one rank in the area of another. Of a rank with itself there is none, and the result nonsense. */
  #slot(owner: Value<'u32'>, sender: Value<'u32'>): Value<'u32'> {
    const { ranks } = this.team;
    if (ranks === 2) return this.#k.u32(0);
    return this.#k.select(sender.ge(owner), sender.sub(owner), sender.add(ranks).sub(owner)).sub(1);
  }

  #slotStart(slot: Value<'u32'>): Value<'u32'> {
    const { slotBytes, slot128Bytes, slotLamportBytes } = this.team.layout;
    switch (this.#protocol) {
      case 'LL':
        return this.#lines.add(slot.mul(slotBytes));
      case 'LL128':
        return this.#lines128.add(slot.mul(slot128Bytes));
      case 'Lamport':
        return this.#lamport.add(slot.mul(slotLamportBytes));
    }
  }

  /** Tells every peer that gets no data from this rank in this round that the round has begun. */
  sendTokens(sendsDataTo: (rank: Value<'u32'>) => Value<'pred'>): void {
    const k = this.#k;
    this.#forPeers((rank) => {
      k.if(sendsDataTo(rank).not(), () => {
        const at = this.#tokens.add(this.team.self.mul(LINE_BYTES));
        storeLine(k, this.team.areaOf(rank).offset(at), k.u64(0), this.flag);
      });
    });
  }

  /** Waits for the tokens of peers that send no data to this rank. */
  awaitTokens(receivesDataFrom: (rank: Value<'u32'>) => Value<'pred'>): void {
    const k = this.#k;
    this.#forPeers((rank) => {
      k.if(receivesDataFrom(rank).not(), () => {
        const at = this.#tokens.add(rank.mul(LINE_BYTES));
        awaitLines(k, [{ address: this.team.own.offset(at) }], this.number);
      });
    });
  }

  /** Each peer by one thread. */
  #forPeers(body: (rank: Value<'u32'>) => void): void {
    const k = this.#k;
    const { ranks, self } = this.team;
    k.for(k.threadIndex, ranks - 1, k.threadCount, (i) => {
      const sum = self.add(i).add(1);
      body(k.select(sum.ge(ranks), sum.sub(ranks), sum));
    });
  }
}
