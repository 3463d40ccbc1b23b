/**
 * LL programs for any amount of data: in as many rounds (rounds.ts) as the slots need, each with many lines per thread.
 *
 * Line i of a round is handled by thread i modulo the number of threads, on both sides of the round, so that buffers may
 * be the same (in place).
 */

import { type KernelBuilder, kernel, type Value } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { type DirectArithmetic, directArithmetic } from '../arithmetic.js';
import { LINE_BYTES, LINE_DATA } from './area.js';
import { awaitLines, type LinePlace, storeLine } from './line.js';
import { type LowLatencyParameters, Rounds } from './rounds.js';
import type { Peer } from './team.js';
import { gpuWork } from './work.js';

/** Where a phase finds or leaves the data of one peer (or of this rank itself). */
type Place = Value<'ptr'>;

/** Moves the lines of one round. */
class Lines {
  readonly #k: KernelBuilder;
  readonly #rounds: Rounds;
  readonly #elementBytes: number;
  readonly #combine: DirectArithmetic | undefined;
  /** Bytes of each rank in the present round. */
  #bytes!: Value<'u32'>;

  constructor(k: KernelBuilder, rounds: Rounds, elementBytes: number, combine: DirectArithmetic | undefined) {
    this.#k = k;
    this.#rounds = rounds;
    this.#elementBytes = elementBytes;
    this.#combine = combine;
  }

  set bytes(bytes: Value<'u32'>) {
    this.#bytes = bytes;
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
    const outboxes = peers.map((peer) => this.#rounds.outbox(peer));
    const sources = typeof from === 'function' ? peers.map(from) : [from];
    if (peers.length === 0) return;
    this.#forLines(sources, (lines, part) => {
      const data = sources.map((source) => lines.map((line) => this.#load(source, line, part)));
      outboxes.forEach((outbox, i) => {
        lines.forEach((line, l) => {
          const value = (data[i] ?? data[0]!)[l]!;
          storeLine(k, outbox.offset(line.mul(LINE_BYTES)), value, this.#rounds.flag);
        });
      });
    });
  }

  /** Copies what ranks have pushed to where it belongs. */
  receive(from: readonly { rank: Value<'u32'>; to: Place }[]): void {
    const k = this.#k;
    if (from.length === 0) return;
    const inboxes = from.map(({ rank }) => this.#rounds.inbox(rank));
    this.#forLines(
      from.map(({ to }) => to),
      (lines, part) => {
        const places = inboxes.flatMap((inbox) => this.#places(inbox, lines));
        const data = awaitLines(k, places, this.#rounds.number);
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
    const { ranks, self, peers } = this.#rounds.team;
    const isFirst = self.eq(0);
    const isSelf = Array.from({ length: ranks }, (_, rank) => self.eq(rank));
    // Two ranks need no look at the own place; more ranks look at all places, and their own counts as there.
    const inboxes =
      ranks === 2
        ? peers.map(({ rank }) => this.#rounds.inbox(rank))
        : Array.from({ length: ranks === 1 ? 0 : ranks }, (_, rank) => {
            return k.select(
              isSelf[rank]!,
              this.#rounds.inbox(this.#rounds.team.after(1)),
              this.#rounds.inbox(rank),
            );
          });
    this.#forLines([own, to], (lines, part) => {
      const mine = lines.map((line) => this.#load(own, line, part));
      const data = awaitLines(
        k,
        inboxes.flatMap((inbox) => this.#places(inbox, lines)),
        this.#rounds.number,
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
}

/** The LL program of a collective in many rounds; its descriptor is GpuWork. */
export function lowLatency(traits: Traits, parameters: LowLatencyParameters): Program {
  const { collective, reduction, ranks } = parameters;
  return kernel(`ll_${collective}`, traits, (k, work) => {
    const fields = gpuWork(ranks);
    const rounds = new Rounds(k, work, parameters);
    const { team } = rounds;
    k.awaitLaunch();
    k.releaseLaunch();
    const { self, peers } = team;
    if (collective === 'barrier') {
      k.if(team.block.ne(0), () => k.return());
      const only = rounds.begin(rounds.last());
      rounds.sendTokens(() => k.bool(false));
      rounds.awaitTokens(() => k.bool(false));
      rounds.end();
      rounds.finish(only);
      return;
    }
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    const combine = reduces
      ? directArithmetic(k, reduction, () => k.field(work, fields, 'argument'))
      : undefined;
    const block = new Lines(k, rounds, ELEMENT_TYPES[reduction.type].size, combine);
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
    const round = k.variable('u32', rounds.last());
    const most = team.layout.slotBytes / 2;
    k.for(low, high, most, (at) => {
      round.set(rounds.begin(round.value));
      block.bytes = high.sub(at).min(most).cast('u32');
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
          rounds.sendTokens(() => isRoot);
          const mine = collective === 'broadcast' ? sendAll : sendTo(self);
          k.if(
            isRoot,
            () => {
              block.push(peers, collective === 'broadcast' ? sendAll : ({ rank }) => sendTo(rank));
              block.copy(mine, recvAll);
            },
            () => block.receive([{ rank: root, to: recvAll }]),
          );
          rounds.awaitTokens((rank) => rank.eq(root));
          break;
        }
        case 'reduce':
        case 'gather':
          rounds.sendTokens((rank) => rank.eq(root));
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
          rounds.awaitTokens(() => isRoot);
          break;
      }
      rounds.end();
    });
    rounds.finish(round.value);
  });
}
