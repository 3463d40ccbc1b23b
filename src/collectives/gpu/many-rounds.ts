/**
 * All-reduce in many rounds of LL128 lines, for more data than one round takes: the link is busy all the time, because
 * no store has to be waited for, and each warp goes on when its counterparts have.
 *
 * Rounds are those of rounds.ts, but warps take them for themselves: a warp that has seen a peer's line of round e knows
 * that the peer's warp has taken out what was in its slot in round e - 1. So every warp sends all its lines in every
 * round, whether it has data for them or not.
 */

import { kernel, type Value, type Variable } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic } from '../arithmetic.js';
import { CHUNK128_DATA } from './area.js';
import { type LowLatencyParameters, Rounds } from './rounds.js';
import { WarpLines } from './warp-lines.js';
import { gpuWork } from './work.js';

/** The all-reduce in many rounds; its descriptor is GpuWork. Data must be less than 4 GB. */
export function manyRounds(traits: Traits, parameters: Omit<LowLatencyParameters, 'collective'>): Program {
  const { reduction, ranks } = parameters;
  return kernel('ll128_rounds_allReduce', traits, (k, work) => {
    const fields = gpuWork(ranks);
    const small = (name: 'bytes' | 'share' | 'send' | 'recv') =>
      k.load('u32', work, { offset: fields.fields[name].offset });
    k.awaitLaunch();
    k.releaseLaunch();
    const rounds = new Rounds(k, work, parameters, 'LL128');
    const { self, peers, block } = rounds.team;
    const share = small('share');
    const low = block.mul(share);
    const all = small('bytes');
    k.if(low.ge(all), () => k.return());
    const last = k.variable('u32', rounds.last());
    const send = k.field(work, fields, 'send').offset(low);
    const recv = k.field(work, fields, 'recv').offset(low);
    const bytes = all.sub(low).min(share);
    const each = k.threadCount.shr(5).mul(CHUNK128_DATA);
    const elementBytes = ELEMENT_TYPES[reduction.type].size;
    const linesAt = (at: Value<'u32'>) =>
      new WarpLines(k, elementBytes, bytes.sub(at), [small('send'), small('recv')], true);
    const combine = directArithmetic(k, reduction, () => k.field(work, fields, 'argument'));
    const isSelf = Array.from({ length: ranks }, (_, rank) => self.eq(rank));
    const valuesOf = (variables: readonly Variable<'packet'>[]) => variables.map(({ value }) => value);

    const first = linesAt(k.u32(0));
    const ahead = first.data();
    first.load(send, ahead);
    k.for(k.u32(0), bytes, each, (at) => {
      const lines = linesAt(at);
      const own = valuesOf(ahead);
      const number = rounds.begin(last.value);
      last.set(number);
      for (const peer of peers) lines.push(rounds.outbox(peer), own, number);
      const next = at.add(each);
      k.if(next.lt(bytes), () => linesAt(next).load(send.offset(next), ahead));
      const received = lines.receive(
        peers.map((peer) => rounds.inbox(peer)),
        number,
      );
      // The row of a rank is that of the peer so many places behind this one, or the own.
      const rows = isSelf.map((here, rank) =>
        own.map((value, u) => {
          let found = value;
          received.forEach((row, i) => {
            const distance = i + 1;
            const isHere = ranks === 2 ? here.not() : self.eq((rank - distance + ranks) % ranks);
            found = k.select(isHere, row[u]!, found);
          });
          return found;
        }),
      );
      lines.store(recv.offset(at), lines.combine(rows, combine));
      rounds.endOfWarp();
    });
    k.barrier();
    rounds.finish(last.value);
  });
}
