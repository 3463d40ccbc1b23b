/**
 * LL programs for data that fit in one round with one or a few lines per thread: the fastest there is.
 *
 * What takes time here is one thing after the other: loads of the block's state and of the data, the way over the link,
 * the look for the peers' lines. So loads are under way together before the first is used, nothing is loaded twice, and
 * the code has no loops. Line u of thread t is line t + u x threads.
 */

import { kernel, type Value, type Variable } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic } from '../arithmetic.js';
import { type LowLatencyParameters, Rounds } from './rounds.js';
import { ThreadLines } from './thread-lines.js';
import { gpuWork } from './work.js';

export interface OneRoundParameters extends LowLatencyParameters {
  /** Lines of a thread. The slots of the areas hold them for all threads of a block. */
  readonly lines: number;
}

/** The LL program of a collective in one round; its descriptor is GpuWork. Not for barriers, which have no data. */
export function oneRound(traits: Traits, parameters: OneRoundParameters): Program {
  const { collective, reduction, ranks, lines } = parameters;
  return kernel(`ll${lines}_${collective}`, traits, (k, work) => {
    const fields = gpuWork(ranks);
    /** The low half of a 64-bit field: sizes are small here. */
    const small = (name: 'bytes' | 'share' | 'sendStride' | 'recvStride' | 'send' | 'recv') =>
      k.load('u32', work, { offset: fields.fields[name].offset });
    k.awaitLaunch();
    k.releaseLaunch();
    const rounds = new Rounds(k, work, parameters);
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
    const round = new ThreadLines(k, lines, elementBytes, all.sub(low).min(share), pointers);
    const sendTo = (rank: Value<'u32'>) => send.offset(small('sendStride').mul(rank));
    const recvFrom = (rank: Value<'u32'>) => recv.offset(small('recvStride').mul(rank));
    const valuesOf = (variables: readonly Variable<'u64'>[]) => variables.map(({ value }) => value);

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
      for (const peer of peers) round.push(rounds.outbox(peer), valuesOf(mine), rounds.flag);
    };
    const pushBlocks = () => {
      peers.forEach((peer, i) => {
        round.push(rounds.outbox(peer), valuesOf(theirs[i]!), rounds.flag);
      });
    };
    /** Lines of the peers, in the order of `peers`. */
    const receivePeers = () =>
      round.receive(
        peers.map(({ rank }) => rounds.inbox(rank)),
        rounds.number,
      );
    const spread = () => {
      receivePeers().forEach((data, i) => {
        round.store(recvFrom(peers[i]!.rank), data);
      });
    };
    const keep = (to: Value<'ptr'>) => round.store(to, valuesOf(mine));

    const reduce = () => {
      const combine = directArithmetic(k, reduction, () => k.field(work, fields, 'argument'));
      const own = valuesOf(mine);
      const isSelf = Array.from({ length: ranks }, (_, rank) => self.eq(rank));
      // Two ranks need no look at the own place; more ranks look at all places, and their own counts as the next one's.
      const inboxes = Array.from({ length: ranks > 2 ? ranks : 0 }, (_, rank) =>
        k.select(isSelf[rank]!, rounds.inbox(team.after(1)), rounds.inbox(rank)),
      );
      const received = ranks > 2 ? round.receive(inboxes, rounds.number) : receivePeers();
      const results: Value<'u64'>[] = [];
      for (let u = 0; u < lines; u += 2) {
        const packet = (data: readonly Value<'u64'>[]) => k.packet(data[u]!, data[u + 1] ?? 0n);
        const ownPacket = packet(own);
        let contributions = received.map(packet);
        if (ranks === 1) contributions = [ownPacket];
        else if (ranks === 2) {
          const other = contributions[0]!;
          const isFirst = isSelf[0]!;
          contributions = [k.select(isFirst, ownPacket, other), k.select(isFirst, other, ownPacket)];
        } else contributions = contributions.map((other, rank) => k.select(isSelf[rank]!, ownPacket, other));
        const result = combine(contributions);
        results.push(result.half(0), result.half(1));
      }
      round.store(recv, results);
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
        k.if(isRoot.not(), () => round.push(outbox(), valuesOf(mine), rounds.flag));
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
