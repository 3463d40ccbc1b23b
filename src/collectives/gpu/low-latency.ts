/**
 * Small data: every rank pushes what the others need into their areas as LL lines, and computes alone from what it
 * finds in its own. One way over the link is all it takes.
 *
 * Work goes in rounds, counted per block in the area. A round's lines lie in the bank of its parity. Rules that make
 * two banks enough, whatever the collectives are that follow each other:
 * 1. In each round every rank sends at least one line to every other: data, or a token where it has none for it.
 * 2. A block ends a round when it has seen something of every rank, and read all data that are for it.
 * So a rank that pushes round e + 1 knows that everybody has begun round e, has therefore finished round e - 1, and
 * that the bank is free. Line i is handled by thread i modulo the number of threads, on both sides of a round, so that
 * buffers may be the same (in place).
 *
 * Numbers of rounds wrap after 2^32. Before a line of long ago could pass for a new one, each rank clears its banks, in
 * the last two rounds before the wrap.
 * Source: NCCL 2.30's LL kernels over symmetric memory; here for all collectives, with tokens.
 */

import { type KernelBuilder, kernel, type Value } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { type DirectArithmetic, directArithmetic, type Reduction } from '../arithmetic.js';
import { type AreaSizes, BlockState, LINE_BYTES, LINE_DATA } from './area.js';
import type { GpuCollective } from './call.js';
import { awaitLines, flagOf, type LinePlace, storeLine } from './line.js';
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

/** Numbers of rounds after the wrap begin with this: 0 is what zeroed memory holds, and the parity must go on. */
const FIRST_AFTER_WRAP = 2;

/** Where a phase finds or leaves the data of one peer (or of this rank itself). */
type Place = Value<'ptr'>;

class LowLatencyBlock {
  readonly #k: KernelBuilder;
  readonly #team: Team;
  readonly #elementBytes: number;
  readonly #lastRound: number;
  /** The state of this block. */
  readonly #state: Value<'ptr'>;
  readonly #combine: DirectArithmetic | undefined;
  /** Of the present round. */
  #round!: Value<'u32'>;
  #flag!: Value<'u64'>;
  /** Bytes from the beginning of an area to the lines and tokens of this block and bank. */
  #lines!: Value<'u64'>;
  #tokens!: Value<'u64'>;
  #bytes!: Value<'u32'>;

  constructor(k: KernelBuilder, work: Value<'ptr'>, parameters: LowLatencyParameters) {
    const { collective, reduction, ranks } = parameters;
    this.#k = k;
    this.#team = new Team(k, work, ranks, gpuWork(ranks), parameters.sizes);
    this.#elementBytes = ELEMENT_TYPES[reduction.type].size;
    this.#lastRound = parameters.lastRound ?? 0xffffffff;
    const team = this.#team;
    this.#state = team.own.offset(team.layout.states).offset(team.block.mul(BlockState.size));
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    this.#combine = reduces
      ? directArithmetic(k, reduction, () => k.field(work, gpuWork(ranks), 'argument'))
      : undefined;
  }

  get team(): Team {
    return this.#team;
  }

  lastRoundDone(): Value<'u32'> {
    return this.#k.field(this.#state, BlockState, 'round');
  }

  /** Begins the round after `last` with so many bytes of each rank, and returns its number. */
  begin(last: Value<'u32'>, bytes: Value<'u32'>): Value<'u32'> {
    const k = this.#k;
    const { layout, ranks, block } = this.#team;
    const next = last.add(1);
    const round = k.select(last.eq(this.#lastRound), k.u32(FIRST_AFTER_WRAP), next);
    const bank = block.mul(2).add(round.and(1)).mul(ranks).cast('u64');
    this.#round = round;
    this.#flag = flagOf(round);
    this.#lines = bank.mul(layout.slotBytes).add(layout.lines);
    this.#tokens = bank.mul(LINE_BYTES).add(layout.tokens);
    this.#bytes = bytes;
    return round;
  }

  /** Ends the round: nobody in this block reads or writes its bank any more. */
  end(): void {
    const k = this.#k;
    k.barrier();
    k.if(this.#round.ge(this.#lastRound - 1), () => {
      const { layout, ranks, own } = this.#team;
      const zero = k.packet(0n, 0n);
      const clear = (offset: Value<'u64'>, bytes: number) => {
        k.for(k.threadIndex, bytes / LINE_BYTES, k.threadCount, (i) => {
          k.store('packet', own.offset(offset).offset(i.mul(LINE_BYTES)), zero, { order: 'volatile' });
        });
      };
      clear(this.#lines, ranks * layout.slotBytes);
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
  #outbox({ area }: Peer): Value<'ptr'> {
    const { self, layout } = this.#team;
    return area.offset(this.#lines).offset(self.mul(layout.slotBytes));
  }

  /** Where a rank's lines of the round begin in the own area. */
  #inbox(rank: Value<'u32'> | number): Value<'ptr'> {
    const { own, layout } = this.#team;
    const base = own.offset(this.#lines);
    return base.offset(typeof rank === 'number' ? rank * layout.slotBytes : rank.mul(layout.slotBytes));
  }

  /**
   * Runs `body` for all lines of the round that are this thread's, some at a time: their numbers, and the bytes of data
   * in each where that is not 8. `pointers` are those that the body accesses in user memory.
   */
  #forLines(
    pointers: readonly Place[],
    body: (lines: readonly Value<'u32'>[], part?: Value<'u32'>) => void,
  ): void {
    const k = this.#k;
    const threads = k.threadCount;
    const whole = this.#bytes.shr(3);
    const rest = this.#bytes.and(LINE_DATA - 1);
    const index = k.variable('u32', k.threadIndex);
    let bits = k.u64(0);
    for (const pointer of pointers) bits = bits.or(pointer.cast('u64'));
    const aligned = bits.and(BigInt(LINE_DATA - 1)).eq(0n);
    const oneByOne = (): void => {
      k.while(
        () => index.value.lt(whole),
        () => {
          body([index.value], k.u32(LINE_DATA));
          index.set(index.value.add(threads));
        },
      );
    };
    if (this.#elementBytes === LINE_DATA) this.#wholeLines(index, whole, body);
    else k.if(aligned, () => this.#wholeLines(index, whole, body), oneByOne);
    // Whoever's turn it is takes the short line at the end.
    k.if(index.value.eq(whole).and(rest.ne(0)), () => body([index.value], rest));
  }

  /** Two lines at a time make a packet, then a single one. */
  #wholeLines(
    index: { value: Value<'u32'>; set(value: Value<'u32'>): void },
    whole: Value<'u32'>,
    body: (lines: readonly Value<'u32'>[]) => void,
  ): void {
    const k = this.#k;
    const threads = k.threadCount;
    k.while(
      () => index.value.add(threads).lt(whole),
      () => {
        const first = index.value;
        const second = first.add(threads);
        body([first, second]);
        index.set(second.add(threads));
      },
    );
    k.if(index.value.lt(whole), () => {
      body([index.value]);
      index.set(index.value.add(threads));
    });
  }

  #load(from: Place, line: Value<'u32'>, part: Value<'u32'> | undefined): Value<'u64'> {
    const k = this.#k;
    const address = from.offset(line.mul(LINE_DATA));
    return part === undefined
      ? k.load('u64', address)
      : k.loadPart(address, part, this.#elementBytes).half(0);
  }

  #store(to: Place, line: Value<'u32'>, data: Value<'u64'>, part: Value<'u32'> | undefined): void {
    const k = this.#k;
    const address = to.offset(line.mul(LINE_DATA));
    if (part === undefined) k.store('u64', address, data);
    else k.storePart(address, k.packet(data, 0n), part, this.#elementBytes);
  }

  /** Pushes the data at `from(peer)` to the peers; where all get the same, they are read once. */
  push(peers: readonly Peer[], from: Place | ((peer: Peer) => Place)): void {
    const k = this.#k;
    const outboxes = peers.map((peer) => this.#outbox(peer));
    const sources = typeof from === 'function' ? peers.map(from) : [from];
    if (peers.length === 0) return;
    this.#forLines(sources, (lines, part) => {
      const data = sources.map((source) => lines.map((line) => this.#load(source, line, part)));
      outboxes.forEach((outbox, i) => {
        lines.forEach((line, l) => {
          const value = (data[i] ?? data[0]!)[l]!;
          storeLine(k, outbox.offset(line.mul(LINE_BYTES)), value, this.#flag);
        });
      });
    });
  }

  /** Copies what ranks have pushed to where it belongs. */
  receive(from: readonly { rank: Value<'u32'>; to: Place }[]): void {
    const k = this.#k;
    if (from.length === 0) return;
    const inboxes = from.map(({ rank }) => this.#inbox(rank));
    this.#forLines(
      from.map(({ to }) => to),
      (lines, part) => {
        const places = inboxes.flatMap((inbox) => this.#places(inbox, lines));
        const data = awaitLines(k, places, this.#round);
        from.forEach(({ to }, i) => {
          lines.forEach((line, l) => {
            this.#store(to, line, data[i * lines.length + l]!, part);
          });
        });
      },
    );
  }

  #places(inbox: Value<'ptr'>, lines: readonly Value<'u32'>[]): LinePlace[] {
    return lines.map((line) => ({ address: inbox.offset(line.mul(LINE_BYTES)) }));
  }

  /** Combines what all ranks have pushed, in rank order, with the own data in their place. */
  combine(own: Place, to: Place): void {
    const k = this.#k;
    const { ranks, self, peers } = this.#team;
    const isFirst = self.eq(0);
    const isSelf = Array.from({ length: ranks }, (_, rank) => self.eq(rank));
    // Two ranks need no look at the own place; more ranks look at all places, and their own counts as there.
    const inboxes =
      ranks === 2
        ? peers.map(({ rank }) => this.#inbox(rank))
        : Array.from({ length: ranks === 1 ? 0 : ranks }, (_, rank) => {
            return k.select(isSelf[rank]!, this.#inbox(this.#team.after(1)), this.#inbox(rank));
          });
    this.#forLines([own, to], (lines, part) => {
      const mine = lines.map((line) => this.#load(own, line, part));
      const data = awaitLines(
        k,
        inboxes.flatMap((inbox) => this.#places(inbox, lines)),
        this.#round,
      );
      const packet = (values: readonly Value<'u64'>[]) => k.packet(values[0]!, values[1] ?? 0n);
      const received = inboxes.map((_, i) => packet(data.slice(i * lines.length, (i + 1) * lines.length)));
      const ownPacket = packet(mine);
      let contributions: Value<'packet'>[];
      if (ranks === 1) contributions = [ownPacket];
      else if (ranks === 2) {
        const other = received[0]!;
        contributions = [k.select(isFirst, ownPacket, other), k.select(isFirst, other, ownPacket)];
      } else contributions = received.map((other, rank) => k.select(isSelf[rank]!, ownPacket, other));
      const result = this.#combine!(contributions);
      lines.forEach((line, l) => {
        this.#store(to, line, result.half(l === 0 ? 0 : 1), part);
      });
    });
  }

  /** Copies own data to their place in the own result. */
  copy(from: Place, to: Place): void {
    this.#k.if(from.ne(to), () => {
      this.#forLines([from, to], (lines, part) => {
        const data = lines.map((line) => this.#load(from, line, part));
        lines.forEach((line, l) => {
          this.#store(to, line, data[l]!, part);
        });
      });
    });
  }

  /** Tells every peer that gets no data from this rank in this round that the round has begun. */
  sendTokens(sendsDataTo: (rank: Value<'u32'>) => Value<'pred'>): void {
    const k = this.#k;
    const { self } = this.#team;
    this.#forPeers((rank) => {
      k.if(sendsDataTo(rank).not(), () => {
        const token = this.#team.areaOf(rank).offset(this.#tokens).offset(self.mul(LINE_BYTES));
        storeLine(k, token, k.u64(0), this.#flag);
      });
    });
  }

  /** Waits for the tokens of peers that send no data to this rank. */
  awaitTokens(receivesDataFrom: (rank: Value<'u32'>) => Value<'pred'>): void {
    const k = this.#k;
    this.#forPeers((rank) => {
      k.if(receivesDataFrom(rank).not(), () => {
        const token = this.#team.own.offset(this.#tokens).offset(rank.mul(LINE_BYTES));
        awaitLines(k, [{ address: token }], this.#round);
      });
    });
  }

  /** Each peer by one thread. */
  #forPeers(body: (rank: Value<'u32'>) => void): void {
    const k = this.#k;
    const { ranks, self } = this.#team;
    k.for(k.threadIndex, ranks - 1, k.threadCount, (i) => {
      const sum = self.add(i).add(1);
      body(k.select(sum.ge(ranks), sum.sub(ranks), sum));
    });
  }
}

/** The LL program of a collective; its descriptor is GpuWork. */
export function lowLatency(traits: Traits, parameters: LowLatencyParameters): Program {
  const { collective, ranks } = parameters;
  return kernel(`ll_${collective}`, traits, (k, work) => {
    const fields = gpuWork(ranks);
    const block = new LowLatencyBlock(k, work, parameters);
    const { team } = block;
    const { self, peers } = team;
    if (collective === 'barrier') {
      k.if(team.block.ne(0), () => k.return());
      const only = block.begin(block.lastRoundDone(), k.u32(0));
      block.sendTokens(() => k.bool(false));
      block.awaitTokens(() => k.bool(false));
      block.end();
      block.finish(only);
      return;
    }
    const send = k.field(work, fields, 'send');
    const recv = k.field(work, fields, 'recv');
    const bytes = k.field(work, fields, 'bytes');
    const share = k.field(work, fields, 'share');
    const sendStride = k.field(work, fields, 'sendStride');
    const recvStride = k.field(work, fields, 'recvStride');
    const root = k.field(work, fields, 'root');
    const isRoot = self.eq(root);
    const low = team.block.cast('u64').mul(share);
    const high = low.add(share).min(bytes);
    k.if(low.ge(high), () => k.return());
    const round = k.variable('u32', block.lastRoundDone());
    const most = team.layout.slotBytes / 2;
    k.for(low, high, most, (at) => {
      round.set(block.begin(round.value, high.sub(at).min(most).cast('u32')));
      const blockOf = (buffer: Value<'ptr'>, stride: Value<'u64'>, rank: Value<'u32'>) =>
        buffer.offset(stride.mul(rank.cast('u64'))).offset(at);
      const sendTo = (rank: Value<'u32'>) => blockOf(send, sendStride, rank);
      const recvFrom = (rank: Value<'u32'>) => blockOf(recv, recvStride, rank);
      const sendAll = send.offset(at);
      const recvAll = recv.offset(at);
      const onlyRoot = { rank: root, area: team.areaOf(root) };
      const fromAll = (): { rank: Value<'u32'>; to: Value<'ptr'> }[] =>
        peers.map(({ rank }) => ({ rank, to: recvFrom(rank) }));
      switch (collective) {
        case 'allReduce':
          block.push(peers, sendAll);
          block.combine(sendAll, recvAll);
          break;
        case 'reduceScatter':
          block.push(peers, ({ rank }) => sendTo(rank));
          block.combine(sendTo(self), recvAll);
          break;
        case 'allGather':
          block.push(peers, sendAll);
          block.copy(sendAll, recvFrom(self));
          block.receive(fromAll());
          break;
        case 'allToAll':
          block.push(peers, ({ rank }) => sendTo(rank));
          block.copy(sendTo(self), recvFrom(self));
          block.receive(fromAll());
          break;
        case 'broadcast':
        case 'scatter': {
          block.sendTokens(() => isRoot);
          const mine = collective === 'broadcast' ? sendAll : sendTo(self);
          k.if(
            isRoot,
            () => {
              block.push(peers, collective === 'broadcast' ? sendAll : ({ rank }) => sendTo(rank));
              block.copy(mine, recvAll);
            },
            () => block.receive([{ rank: root, to: recvAll }]),
          );
          block.awaitTokens((rank) => rank.eq(root));
          break;
        }
        case 'reduce':
        case 'gather':
          block.sendTokens((rank) => rank.eq(root));
          k.if(
            isRoot,
            () => {
              if (collective === 'reduce') block.combine(sendAll, recvAll);
              else {
                block.copy(sendAll, recvFrom(self));
                block.receive(fromAll());
              }
            },
            () => block.push([onlyRoot], sendAll),
          );
          block.awaitTokens(() => isRoot);
          break;
      }
      block.end();
    });
    block.finish(round.value);
  });
}
