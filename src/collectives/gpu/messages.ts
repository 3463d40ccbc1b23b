/**
 * Sends and receives on GPUs: batches of messages between pairs of ranks, all under way at the same time.
 *
 * A pair of ranks has channels, each with a state of its own in both areas (Pair). All messages from one rank to another
 * go in the order in which they were called, over as many channels as their size is worth, from channel 0 on; each
 * channel counts its rounds, and the two ends of it agree without a word, whatever the batches on both sides.
 *
 * - Small messages are pushed as LL or LL128 lines into the receiver's inbox, whose two banks take turns. The receiver returns
 *   the number of each round that it has taken out (credit), and the sender is never more than two ahead.
 * - Large ones: the receiver tells the sender the name of its buffer, the sender writes into it and says so.
 * - A receive buffer that the sender cannot reach has the name STAGED: then data go as lines, too.
 *
 * The number in a line is twice the round plus 1, so that zeroed memory never matches; a receiver clears its banks
 * before numbers come again.
 */

import { type KernelBuilder, kernel, type Value, type Variable } from '../../kernel/builder.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { CHUNK128_BYTES, CHUNK128_DATA } from '../warp-chunk.js';
import { type AreaSizes, LINE_BYTES, LINE_DATA, Pair } from './area.js';
import { awaitLines, flagOf, storeLine } from './line.js';
import { moveBytes } from './move.js';
import { type Addressing, resolveName, STAGED } from './names.js';
import type { RoundLines } from './round-lines.js';
import type { LineProtocol } from './rounds.js';
import { Team } from './team.js';
import { ThreadLines } from './thread-lines.js';
import { WarpLines } from './warp-lines.js';
import { type MessageWork, messageWork } from './work.js';

export interface MessageParameters {
  readonly ranks: number;
  readonly addressing: Addressing;
  /** Threads of a block; a round of LL lines has one line for each, or fewer where a bank is smaller. */
  readonly threads: number;
  /** Packets that a thread has under way. */
  readonly unroll: number;
  /** Most bytes of a message that goes as LL lines, and as LL128 lines where there are any. */
  readonly mostLowLatency: number;
  readonly mostLowLatency128: number;
  /** Lines of 128 bytes arrive whole. */
  readonly wholeLines: boolean;
  readonly sizes?: AreaSizes;
  /** Rounds are counted modulo this plus 1, a power of two, in lines; tests make it small. */
  readonly roundMask?: number;
}

/** Half of all numbers, so that twice a round plus 1 fits 32 bits. */
const ROUND_MASK = 0x7fffffff;

/** A message as one of its channels sees it. */
interface Part {
  readonly address: Value<'ptr'>;
  readonly name: Value<'u64'>;
  readonly all: Value<'u64'>;
  readonly channels: Value<'u32'>;
  /** The piece of this channel, where the message goes in pieces. */
  readonly low: Value<'u64'>;
  readonly bytes: Value<'u64'>;
}

/** A protocol, and how the lines of a thread are made. */
interface LineKind<T extends 'u64' | 'packet'> {
  readonly protocol: LineProtocol;
  make(k: KernelBuilder, bytes: Value<'u32'>, pointer: Value<'ptr'>): RoundLines<T>;
}

const LL: LineKind<'u64'> = {
  protocol: 'LL',
  make: (k, bytes, pointer) => new ThreadLines(k, 1, 1, bytes, [pointer.cast('u64').cast('u32')]),
};

const LL128: LineKind<'packet'> = {
  protocol: 'LL128',
  make: (k, bytes, pointer) => new WarpLines(k, 1, bytes, [pointer.cast('u64').cast('u32')]),
};

const WARP = 32;

class Channel {
  readonly #k: KernelBuilder;
  readonly #parameters: MessageParameters;
  readonly #team: Team;
  readonly #work: Value<'ptr'>;
  readonly #fields: MessageWork;
  readonly #peer: Value<'u32'>;
  readonly #channel: Value<'u32'>;
  /** The state of this channel in the own area and in the peer's. */
  readonly own: Value<'ptr'>;
  readonly remote: Value<'ptr'>;
  readonly #mask: number;

  constructor(
    k: KernelBuilder,
    work: Value<'ptr'>,
    team: Team,
    parameters: MessageParameters,
    peer: Value<'u32'>,
    channel: Value<'u32'>,
  ) {
    this.#k = k;
    this.#parameters = parameters;
    this.#team = team;
    this.#work = work;
    this.#fields = messageWork(team.ranks);
    this.#peer = peer;
    this.#channel = channel;
    this.#mask = parameters.roundMask ?? ROUND_MASK;
    const { pairs, pairStride } = team.layout;
    const { ranks, self } = team;
    /** What a rank keeps for another, by the distance of that one. */
    const pair = (area: Value<'ptr'>, owner: Value<'u32'>, other: Value<'u32'>) => {
      const distance = k.select(other.ge(owner), other.sub(owner), other.add(ranks).sub(owner));
      const slot = channel.mul(ranks - 1).add(distance.sub(1));
      return area.offset(slot.mul(pairStride)).offset(pairs);
    };
    this.own = pair(team.own, self, peer);
    this.remote = pair(team.areaOf(peer), peer, self);
  }

  /** Bytes of one round. */
  #most(protocol: LineProtocol): number {
    const { pairBankBytes, pairBank128Bytes } = this.#team.layout.sizes;
    const { threads } = this.#parameters;
    return protocol === 'LL'
      ? Math.min(threads, pairBankBytes / LINE_BYTES) * LINE_DATA
      : Math.min(threads / WARP, pairBank128Bytes / CHUNK128_BYTES) * CHUNK128_DATA;
  }

  /** The number in the lines of a round. */
  #number(round: Value<'u32'>): Value<'u32'> {
    return round.and(this.#mask).shl(1).or(1);
  }

  #bank(pair: Value<'ptr'>, round: Value<'u32'>, protocol: LineProtocol): Value<'ptr'> {
    const { pairBankBytes, pairBank128Bytes } = this.#team.layout.sizes;
    return protocol === 'LL'
      ? pair.offset(round.and(1).mul(pairBankBytes)).offset(Pair.size)
      : pair.offset(round.and(1).mul(pairBank128Bytes)).offset(Pair.size + 2 * pairBankBytes);
  }

  /** Before numbers come again: nothing of this round's bank may match. */
  #clear(round: Value<'u32'>): void {
    const k = this.#k;
    const { pairBankBytes, pairBank128Bytes } = this.#team.layout.sizes;
    k.if(round.and(this.#mask).ge(this.#mask - 1), () => {
      const zero = k.packet(0n, 0n);
      const fill = (bank: Value<'ptr'>, bytes: number) => {
        k.for(k.threadIndex, bytes / LINE_BYTES, k.threadCount, (i) => {
          k.store('packet', bank.offset(i.mul(LINE_BYTES)), zero, { order: 'volatile' });
        });
      };
      fill(this.#bank(this.own, round, 'LL'), pairBankBytes);
      fill(this.#bank(this.own, round, 'LL128'), pairBank128Bytes);
      k.fence('both');
      k.barrier();
    });
  }

  #only(body: () => void): void {
    this.#k.if(this.#k.threadIndex.eq(0), body);
  }

  /** Calls `body` for each round of so many bytes, after it has counted the round. */
  #rounds(
    counter: Variable<'u32'>,
    bytes: Value<'u64'>,
    most: number,
    body: (at: Value<'u64'>, size: Value<'u32'>, round: Value<'u32'>) => void,
  ): void {
    const k = this.#k;
    k.for(k.u64(0), bytes, most, (at) => {
      const round = counter.value.add(1);
      counter.set(round);
      body(at, bytes.sub(at).min(most).cast('u32'), round);
    });
  }

  /** A rank sends lines of one protocol to another: `make` makes those of a thread. */
  #sendLines<T extends 'u64' | 'packet'>(
    counter: Variable<'u32'>,
    from: Value<'ptr'>,
    bytes: Value<'u64'>,
    { protocol, make }: LineKind<T>,
  ): void {
    const k = this.#k;
    this.#rounds(counter, bytes, this.#most(protocol), (at, size, round) => {
      const source = from.offset(at);
      const lines = make(k, size, source);
      const data = lines.data();
      lines.load(source, data);
      // A thread that has nothing to send may be far behind the others.
      k.wait(() =>
        k.field(this.own, Pair, 'credit', 0, { order: 'volatile' }).add(2).sub(round).bitcast('i32').ge(0),
      );
      const values = data.map(({ value }) => value);
      lines.push(this.#bank(this.remote, round, protocol), values, this.#number(round));
    });
  }

  #receiveLines<T extends 'u64' | 'packet'>(
    counter: Variable<'u32'>,
    to: Value<'ptr'>,
    bytes: Value<'u64'>,
    { protocol, make }: LineKind<T>,
  ): void {
    const k = this.#k;
    this.#rounds(counter, bytes, this.#most(protocol), (at, size, round) => {
      const target = to.offset(at);
      const lines = make(k, size, target);
      const [data] = lines.receive([this.#bank(this.own, round, protocol)], this.#number(round));
      lines.store(target, data!);
      k.barrier();
      this.#clear(round);
      this.#giveCredit(round);
    });
  }

  /** Runs `body` with the kind of lines in which a message of so many bytes goes; nothing where it goes directly. */
  #asLines(all: Value<'u64'>, body: (kind: LineKind<'u64'> | LineKind<'packet'>) => void): void {
    const k = this.#k;
    const { mostLowLatency, wholeLines } = this.#parameters;
    if (!wholeLines) body(LL);
    else
      k.if(
        all.le(BigInt(mostLowLatency)),
        () => body(LL),
        () => body(LL128),
      );
  }

  #giveCredit(round: Value<'u32'>): void {
    this.#only(() => this.#k.setField(this.remote, Pair, 'credit', round, { order: 'volatile' }));
  }

  /** Sends the part of a message that is this channel's: its share of the hunks, or as LL lines a piece of its own. */
  send(counter: Variable<'u32'>, part: Part): void {
    const k = this.#k;
    const { addressing, threads, unroll } = this.#parameters;
    const round = counter.value.add(1);
    counter.set(round);
    const [name] = awaitLines(
      k,
      [{ address: this.own, offset: Pair.fields.target.offset }],
      this.#number(round),
      'acquire',
    );
    k.if(
      name!.eq(STAGED),
      () => this.sendSmall(counter, part),
      () => {
        const maps = () => k.field(this.#work, this.#fields, 'maps');
        const target = resolveName(k, addressing, name!, this.#peer, maps);
        moveBytes(
          k,
          { threads, unroll, block: this.#channel, blocks: part.channels },
          {
            sources: [part.address],
            targets: [target],
            bytes: part.all,
            elementBytes: 1,
            combine: ([packet]) => packet!,
          },
        );
        k.barrier();
        this.#only(() => {
          // So that it does not match again when numbers come again.
          const line = this.own.offset(Pair.fields.target.offset);
          k.store('packet', line, k.packet(0n, 0n), { order: 'volatile' });
          k.setField(this.remote, Pair, 'done', round, { order: 'release' });
        });
      },
    );
  }

  receive(counter: Variable<'u32'>, part: Part): void {
    const k = this.#k;
    const { name } = part;
    const round = counter.value.add(1);
    counter.set(round);
    this.#only(() => {
      // What earlier launches did with the buffer is over for the sender, too.
      k.fence('release');
      storeLine(k, this.remote, name, flagOf(this.#number(round)), Pair.fields.target.offset);
    });
    k.if(
      name.eq(STAGED),
      () => {
        this.#giveCredit(round);
        this.receiveSmall(counter, part);
      },
      () => {
        this.#only(() => {
          k.wait(() =>
            k.field(this.own, Pair, 'done', 0, { order: 'acquire' }).sub(round).bitcast('i32').ge(0),
          );
        });
        k.barrier();
        this.#clear(round);
        this.#giveCredit(round);
      },
    );
  }

  /** Sends the channel's part of a message as lines. */
  sendSmall(counter: Variable<'u32'>, { address, low, bytes, all }: Part): void {
    this.#asLines(all, (kind) =>
      this.#sendLines(counter, address.offset(low), bytes, kind as LineKind<'u64'>),
    );
  }

  receiveSmall(counter: Variable<'u32'>, { address, low, bytes, all }: Part): void {
    this.#asLines(all, (kind) =>
      this.#receiveLines(counter, address.offset(low), bytes, kind as LineKind<'u64'>),
    );
  }
}

/** The program of batches of sends and receives; its descriptor is MessageWork. */
export function messages(traits: Traits, parameters: MessageParameters): Program {
  const { ranks, threads, unroll, mostLowLatency, mostLowLatency128, wholeLines, sizes } = parameters;
  const mostLines = wholeLines ? mostLowLatency128 : mostLowLatency;
  return kernel('messages', traits, (k, work) => {
    k.awaitLaunch();
    k.releaseLaunch();
    const fields = messageWork(ranks);
    const team = new Team(k, work, ranks, fields, sizes);
    const { block } = team;
    const group = k.variable('u32', 0);
    k.while(
      () => k.field(work, fields, 'firstBlock', group.value.add(1)).le(block),
      () => group.set(group.value.add(1)),
    );
    const mine = group.value;
    const who = k.field(work, fields, 'who', mine);
    const peer = who.shr(1);
    const receives = who.and(1).eq(1);
    const first = k.field(work, fields, 'firstBlock', mine);
    const channel = block.sub(first);
    const end = k.field(work, fields, 'firstMessage', mine.add(1));
    const forMessages = (body: (part: Part, isSmall: Value<'pred'>) => void) => {
      k.for(k.field(work, fields, 'firstMessage', mine), end, 1, (message) => {
        const all = k.field(work, fields, 'bytes', message);
        const share = k.field(work, fields, 'share', message);
        const channels = k.field(work, fields, 'channels', message);
        k.if(channel.lt(channels), () => {
          const low = share.mul(channel.cast('u64'));
          const address = k.field(work, fields, 'address', message).cast('ptr');
          const name = k.field(work, fields, 'name', message);
          const bytes = share.min(all.sub(low));
          body({ address, name, all, channels, low, bytes }, all.le(BigInt(mostLines)));
        });
      });
    };

    k.if(peer.eq(team.self), () => {
      forMessages(({ address, name, all, channels }) => {
        moveBytes(
          k,
          { threads, unroll, block: channel, blocks: channels },
          {
            sources: [address],
            targets: [name.cast('ptr')],
            bytes: all,
            elementBytes: 1,
            combine: ([packet]) => packet!,
          },
        );
      });
      k.return();
    });

    const line = new Channel(k, work, team, parameters, peer, channel);
    const countingOn = (field: 'sent' | 'received', body: (counter: Variable<'u32'>) => void) => {
      const counter = k.variable('u32', k.field(line.own, Pair, field));
      body(counter);
      k.barrier();
      k.if(k.threadIndex.eq(0), () => k.setField(line.own, Pair, field, counter.value));
    };
    k.if(
      receives,
      () =>
        countingOn('received', (counter) => {
          forMessages((part, isSmall) => {
            k.if(
              isSmall,
              () => line.receiveSmall(counter, part),
              () => line.receive(counter, part),
            );
          });
        }),
      () =>
        countingOn('sent', (counter) => {
          forMessages((part, isSmall) => {
            k.if(
              isSmall,
              () => line.sendSmall(counter, part),
              () => line.send(counter, part),
            );
          });
        }),
    );
  });
}
