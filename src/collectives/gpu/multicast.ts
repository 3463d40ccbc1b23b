/**
 * NVLS: collectives over memory that a switch between the GPUs multicasts and reduces (capability 9.0, NVSwitch).
 *
 * Buffers are windows: at a multicast address they stand for the windows of all ranks. A rank reads a packet there and
 * gets the combination of all ranks' packets, or stores one to all of them, so that each element crosses a rank's link
 * once in each direction however many ranks there are:
 *
 * | collective    | what a rank does                                                    |
 * |---------------|---------------------------------------------------------------------|
 * | allReduce     | its part of the data: combined load, multicast store                |
 * | reduceScatter | its block: combined load, ordinary store                            |
 * | allGather     | its data: ordinary load, multicast store                            |
 * | broadcast     | the root alone: ordinary load, multicast store                      |
 * | reduce        | the root alone: combined load, ordinary store                       |
 *
 * Blocks of equal number meet before and after: each adds 1 to a counter at all ranks by way of the switch, and waits
 * for its own to show all. Sizes and strides are whole packets. The order in which a switch adds is its own, so results
 * are equal on all ranks but not always the bits of other programs.
 *
 * No launch chooses it: windows that are bound to multicast objects are not made yet.
 * Source: NCCL 2.30's symmetric kernels over NVLS (load-reduce and multicast store).
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { type KernelBuilder, kernel, type Value } from '../../kernel/builder.js';
import { canReduceInSwitch } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { array, struct } from '../../kernel/layout.js';
import type { Reduction } from '../arithmetic.js';

export type MulticastCollective = 'allReduce' | 'reduceScatter' | 'allGather' | 'broadcast' | 'reduce';

export const MULTICAST_COLLECTIVES: readonly MulticastCollective[] = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'broadcast',
  'reduce',
];

const PACKET = 16;

export const MulticastWork = struct('MulticastWork', {
  /** This rank's windows, and the multicast addresses of the same places. */
  send: 'ptr',
  recv: 'ptr',
  sendAll: 'ptr',
  recvAll: 'ptr',
  /** Meeting per block: this rank's, and its multicast address. */
  meetings: 'ptr',
  meetingsAll: 'ptr',
  /** Bytes: of a rank's block for reduce-scatter and all-gather, of all data otherwise; whole packets. */
  bytes: 'u64',
  self: 'u32',
  ranks: 'u32',
  root: 'u32',
});

/** What blocks of equal number know of each other; zeroed once. */
export const Meeting = struct(
  'Meeting',
  {
    /** Arrivals of all ranks so far. Written through the switch. */
    arrived: 'u32',
    gap: array('u8', 60),
    /** Meetings so far, private to the rank. */
    met: 'u32',
  },
  128,
);

export interface MulticastParameters {
  readonly collective: MulticastCollective;
  readonly reduction: Reduction;
}

/** Blocks of equal number of all ranks. */
class Meetings {
  readonly #k: KernelBuilder;
  readonly #work: Value<'ptr'>;
  readonly #own: Value<'ptr'>;
  readonly #all: Value<'ptr'>;
  readonly #met;

  constructor(k: KernelBuilder, work: Value<'ptr'>) {
    this.#k = k;
    this.#work = work;
    const at = k.blockIndex.mul(Meeting.size);
    this.#own = k.field(work, MulticastWork, 'meetings').offset(at);
    this.#all = k.field(work, MulticastWork, 'meetingsAll').offset(at);
    this.#met = k.variable('u32', k.field(this.#own, Meeting, 'met'));
  }

  /** Everything that any rank's block has done before is done for this one. */
  meet(): void {
    const k = this.#k;
    const next = this.#met.value.add(1);
    this.#met.set(next);
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      k.fence('aliases');
      k.multicastAdd(this.#all.offset(Meeting.fields.arrived.offset), 1);
      const due = next.mul(k.field(this.#work, MulticastWork, 'ranks'));
      k.wait(() =>
        k.field(this.#own, Meeting, 'arrived', 0, { order: 'acquire' }).sub(due).bitcast('i32').ge(0),
      );
      k.fence('aliases');
    });
    k.barrier();
  }

  /** Remembers the number of the last meeting. */
  finish(): void {
    const k = this.#k;
    k.if(k.threadIndex.eq(0), () => k.setField(this.#own, Meeting, 'met', this.#met.value));
  }
}

/** The NVLS program of a collective; its descriptor is MulticastWork. Throws for what no switch combines. */
export function multicast(traits: Traits, { collective, reduction }: MulticastParameters): Program {
  const { type, op } = reduction;
  const reduces = collective !== 'allGather' && collective !== 'broadcast';
  if (reduces && (op === 'avg' || !canReduceInSwitch(type, op))) {
    throw new TuttiError('invalidArgument', `no switch combines ${type} with ${op}`);
  }
  return kernel(`nvls_${collective}`, traits, (k, work) => {
    k.awaitLaunch();
    const pointer = (name: 'send' | 'recv' | 'sendAll' | 'recvAll') => k.field(work, MulticastWork, name);
    const bytes = k.field(work, MulticastWork, 'bytes');
    const self = k.field(work, MulticastWork, 'self');
    const isRoot = self.eq(k.field(work, MulticastWork, 'root'));
    const meetings = new Meetings(k, work);
    meetings.meet();
    /** All threads of all blocks take packets in turns. */
    const forPackets = (size: Value<'u64'>, body: (at: Value<'u64'>) => void) => {
      const first = k.blockIndex.mul(k.threadCount).add(k.threadIndex).cast('u64').mul(PACKET);
      k.for(first, size, k.blockCount.mul(k.threadCount).cast('u64').mul(PACKET), body);
    };
    const combined = (address: Value<'ptr'>) => k.multicastLoad(address, type, op === 'avg' ? 'sum' : op);
    const own = self.cast('u64').mul(bytes);
    switch (collective) {
      case 'allReduce': {
        const ranks = k.field(work, MulticastWork, 'ranks').cast('u64');
        const packets = bytes.div(PACKET);
        const part = packets.add(ranks).sub(1).div(ranks).mul(PACKET);
        const low = part.mul(self.cast('u64')).min(bytes);
        const [from, to] = [pointer('sendAll').offset(low), pointer('recvAll').offset(low)];
        forPackets(part.min(bytes.sub(low)), (at) =>
          k.multicastStore(to.offset(at), combined(from.offset(at))),
        );
        break;
      }
      case 'reduceScatter': {
        const [from, to] = [pointer('sendAll').offset(own), pointer('recv')];
        forPackets(bytes, (at) => k.store('packet', to.offset(at), combined(from.offset(at))));
        break;
      }
      case 'allGather': {
        const [from, to] = [pointer('send'), pointer('recvAll').offset(own)];
        forPackets(bytes, (at) => k.multicastStore(to.offset(at), k.load('packet', from.offset(at))));
        break;
      }
      case 'broadcast': {
        const [from, to] = [pointer('send'), pointer('recvAll')];
        k.if(isRoot, () => {
          forPackets(bytes, (at) => k.multicastStore(to.offset(at), k.load('packet', from.offset(at))));
        });
        break;
      }
      case 'reduce': {
        const [from, to] = [pointer('sendAll'), pointer('recv')];
        k.if(isRoot, () => {
          forPackets(bytes, (at) => k.store('packet', to.offset(at), combined(from.offset(at))));
        });
        break;
      }
    }
    meetings.meet();
    meetings.finish();
  });
}
