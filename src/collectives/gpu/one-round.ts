/**
 * LL and LL128 programs for data that fit in one round with one or a few lines per thread: the fastest there is.
 *
 * What takes time here is one thing after the other: loads of the block's state and of the data, the way over the link,
 * the look for the peers' lines. So loads are under way together before the first is used, nothing is loaded twice, and
 * the code has no loops.
 */

import { type KernelBuilder, kernel, type Value, type Variable } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic } from '../arithmetic.js';
import { LamportLines } from './lamport-lines.js';
import type { RoundLines } from './round-lines.js';
import { type LineProtocol, type LowLatencyParameters, Rounds } from './rounds.js';
import { ThreadLines } from './thread-lines.js';
import { WarpLines } from './warp-lines.js';
import { gpuWork } from './work.js';

export interface OneRoundParameters extends LowLatencyParameters {
  /**
   * LL lines of a thread, one LL128 chunk of a warp, or Lamport packets of a thread. The slots of the areas hold them for
   * all threads of a block.
   */
  readonly lines: number | 'LL128' | { readonly packets: number };
}

/** The program of a collective in one round of lines; its descriptor is GpuWork. Not for barriers, which have no data. */
export function oneRound(traits: Traits, parameters: OneRoundParameters): Program {
  const { lines } = parameters;
  if (lines === 'LL128') {
    return program(traits, parameters, 'LL128', 'll128', (...of) => new WarpLines(...of));
  }
  if (typeof lines === 'number') {
    return program(traits, parameters, 'LL', `ll${lines}`, (k, ...of) => new ThreadLines(k, lines, ...of));
  }
  const { packets } = lines;
  return program(
    traits,
    parameters,
    'Lamport',
    `lamport${packets}`,
    (k, ...of) => new LamportLines(k, packets, ...of),
  );
}

/** Makes the lines of a thread, as the constructors of the two do. */
type MakeLines<T extends 'u64' | 'packet'> = (
  k: KernelBuilder,
  elementBytes: number,
  bytes: Value<'u32'>,
  pointers: readonly Value<'u32'>[],
) => RoundLines<T>;

function program<T extends 'u64' | 'packet'>(
  traits: Traits,
  { collective, reduction, ranks, ...parameters }: OneRoundParameters,
  protocol: LineProtocol,
  name: string,
  makeLines: MakeLines<T>,
): Program {
  return kernel(`${name}_${collective}`, traits, (k, work) => {
    const fields = gpuWork(ranks);
    /** The low half of a 64-bit field: sizes are small here. */
    const small = (name: 'bytes' | 'share' | 'sendStride' | 'recvStride' | 'send' | 'recv') =>
      k.load('u32', work, { offset: fields.fields[name].offset });
    k.awaitLaunch();
    k.releaseLaunch();
    const rounds = new Rounds(k, work, { ...parameters, ranks }, protocol);
    const { team } = rounds;
    const { self, peers, block } = team;
    const share = small('share');
    const low = block.mul(share);
    const all = small('bytes');
    k.if(low.ge(all), () => k.return());
    const last = rounds.last();
    const send = k.field(work, fields, 'send').offset(low);
    const recv = k.field(work, fields, 'recv').offset(low);
    const root = k.field(work, fields, 'root');
    const isRoot = self.eq(root);
    const pointers = [small('send'), small('recv'), small('sendStride'), small('recvStride')];
    const elementBytes = ELEMENT_TYPES[reduction.type].size;
    const round = makeLines(k, elementBytes, all.sub(low).min(share), pointers);
    const sendTo = (rank: Value<'u32'>) => send.offset(small('sendStride').mul(rank));
    const recvFrom = (rank: Value<'u32'>) => recv.offset(small('recvStride').mul(rank));
    const valuesOf = (variables: readonly Variable<T>[]) => {
      const values = variables.map(({ value }) => value);
      return round.sendable?.(values) ?? values;
    };

    const mine = round.data();
    const theirs = peers.map(() => round.data());
    const begin = () => rounds.begin(last);
    const loadAll = () => round.load(send, mine);
    const loadBlocks = () => {
      peers.forEach(({ rank }, i) => {
        round.load(sendTo(rank), theirs[i]!);
      });
      round.load(sendTo(self), mine);
    };
    const pushAll = () => {
      for (const peer of peers) round.push(rounds.outbox(peer), valuesOf(mine), rounds.number);
    };
    const pushBlocks = () => {
      peers.forEach((peer, i) => {
        round.push(rounds.outbox(peer), valuesOf(theirs[i]!), rounds.number);
      });
    };
    const spread = () => {
      const inboxes = peers.map((peer) => rounds.inbox(peer));
      round.receive(inboxes, rounds.number).forEach((data, i) => {
        round.store(recvFrom(peers[i]!.rank), data);
      });
    };
    const keep = (to: Value<'ptr'>) => round.store(to, valuesOf(mine));

    const reduce = () => {
      const combine = directArithmetic(k, reduction, () => k.field(work, fields, 'argument'));
      const own = valuesOf(mine);
      const isSelf = Array.from({ length: ranks }, (_, rank) => self.eq(rank));
      // Two ranks need no look at the own place; more ranks look at all places, and their own counts as the next one's.
      const inboxes =
        ranks > 2
          ? isSelf.map((here, rank) => k.select(here, rounds.inbox(peers[0]!), rounds.inbox(rank)))
          : peers.map((peer) => rounds.inbox(peer));
      const select = (here: Value<'pred'>, a: readonly Value<T>[], b: readonly Value<T>[]) =>
        a.map((value, u) => k.select(here, value, b[u]!));
      let rows = round.receive(inboxes, rounds.number);
      if (ranks === 1) rows = [own];
      else if (ranks === 2) {
        const other = rows[0]!;
        rows = [select(isSelf[0]!, own, other), select(isSelf[0]!, other, own)];
      } else rows = rows.map((other, rank) => select(isSelf[rank]!, own, other));
      round.store(recv, round.combine(rows, combine));
    };

    switch (collective) {
      case 'allReduce':
        loadAll();
        begin();
        pushAll();
        reduce();
        break;
      case 'reduceScatter':
        loadBlocks();
        begin();
        pushBlocks();
        reduce();
        break;
      case 'allGather':
        loadAll();
        begin();
        pushAll();
        keep(recvFrom(self));
        spread();
        break;
      case 'allToAll':
        loadBlocks();
        begin();
        pushBlocks();
        keep(recvFrom(self));
        spread();
        break;
      case 'broadcast':
      case 'scatter':
        k.if(isRoot, collective === 'broadcast' ? loadAll : loadBlocks);
        begin();
        k.if(isRoot, collective === 'broadcast' ? pushAll : pushBlocks);
        rounds.sendTokens(() => isRoot);
        k.if(
          isRoot,
          () => keep(recv),
          () => round.store(recv, round.receive([rounds.inbox(root)], rounds.number)[0]!),
        );
        rounds.awaitTokens((rank) => rank.eq(root));
        break;
      case 'reduce':
      case 'gather': {
        loadAll();
        begin();
        const outbox = () => rounds.outbox({ rank: root, area: team.areaOf(root) });
        k.if(isRoot.not(), () => round.push(outbox(), valuesOf(mine), rounds.number));
        rounds.sendTokens((rank) => rank.eq(root));
        k.if(isRoot, () => {
          if (collective === 'reduce') reduce();
          else {
            keep(recvFrom(self));
            spread();
          }
        });
        rounds.awaitTokens(() => isRoot);
        break;
      }
      case 'barrier':
        break;
    }
    rounds.end();
    rounds.finish(rounds.number);
  });
}
