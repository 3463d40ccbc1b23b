/**
 * PAT: all-gather and reduce-scatter after a schedule that the host has worked out (planning/pat-schedule.ts). The
 * program knows nothing of trees: for every chunk it goes through a table of steps, each of which takes a block from a
 * received slot or the own input, combines it or not, and puts it into a slot for another rank or into the result.
 *
 * Blocks of several ranks lie in one slot behind each other, and slots are filled and emptied out of order within the
 * eight that a connection has; so step counters move only where the table says that a slot is complete or free.
 * Simple protocol. Averages and their scalars have no place in the schedule and are refused by the selection.
 * Source: NCCL 2.30.7, PAT kernels.
 */

import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { struct } from '../kernel/layout.js';
import { type Reduction, stepArithmetic } from './arithmetic.js';
import { BlockWork, ConnectedBlock, ConnectedWork, Link } from './connected-work.js';
import { reduceCopy } from './reduce-copy.js';
import { CONTROL_BYTES, ReceiverControl, SenderControl, STEPS } from './ring-connection.js';

/** Bits of PatStep.flags. */
export const PAT_FLAG = { receives: 1, sends: 2, release: 4, publish: 8, again: 16 } as const;

/** A step as the program reads it; see PatEntry. */
export const PatStep = struct('PatStep', {
  flags: 'u32',
  distance: 'u32',
  from: 'u32',
  fromIndex: 'u32',
  to: 'u32',
  toIndex: 'u32',
  ahead: 'u32',
  gap: 'u32',
});

export type PatCollective = 'allGather' | 'reduceScatter';

export interface PatParameters {
  readonly collective: PatCollective;
  readonly reduction: Reduction;
}

/** One step's values. */
interface Step {
  readonly flags: Value<'u32'>;
  /** Number of the rank whose block this is. */
  readonly rank: Value<'u64'>;
  readonly ahead: Value<'u64'>;
  /** Bytes of a block. */
  readonly bytes: Value<'u64'>;
  /** Bytes from the beginning of a rank's block to this chunk. */
  readonly at: Value<'u64'>;
}

/** A slot in use. */
interface Slot {
  readonly link: Value<'ptr'>;
  readonly own: Value<'ptr'>;
  readonly step: Value<'u64'>;
  readonly data: Value<'ptr'>;
}

export function pat(traits: Traits, { collective, reduction }: PatParameters): Program {
  const size = ELEMENT_TYPES[reduction.type].size;
  return kernel(`pat_${collective}`, traits, (k, work) => {
    const connected = new ConnectedBlock(k, work);
    connected.resolveLinks();
    const { block } = connected;
    const machine = new PatMachine(k, work, block);
    const self = k.field(work, ConnectedWork, 'self');
    const ranks = k.field(work, ConnectedWork, 'ranks');
    const table = k.field(block, BlockWork, 'table');
    const end = table.offset(k.field(block, BlockWork, 'tableLength').mul(4));
    const first = k.field(block, BlockWork, 'offset');
    const last = first.add(k.field(block, BlockWork, 'count'));
    connected.chunks(first, last, (at, elements) => {
      k.for(table, end, PatStep.size, (entry) => {
        const rank = self
          .add(k.field(entry, PatStep, 'distance'))
          .rem(ranks)
          .cast('u64');
        const step: Step = {
          flags: k.field(entry, PatStep, 'flags'),
          rank,
          ahead: k.field(entry, PatStep, 'ahead').cast('u64'),
          bytes: elements.mul(size),
          at: at.mul(size),
        };
        if (collective === 'reduceScatter') reduceStep(machine, connected, entry, step, reduction);
        else gatherStep(machine, connected, entry, step, size);
      });
    });
  });
}

/** Slots by run-time dimension. */
class PatMachine {
  readonly #receives: Value<'ptr'>;
  readonly #sends: Value<'ptr'>;
  readonly #slotBytes: Value<'u64'>;
  readonly first: Value<'pred'>;

  constructor(
    readonly k: KernelBuilder,
    work: Value<'ptr'>,
    block: Value<'ptr'>,
  ) {
    this.#receives = k.field(block, BlockWork, 'receives');
    this.#sends = k.field(block, BlockWork, 'sends');
    this.#slotBytes = k.field(work, ConnectedWork, 'slot');
    this.first = k.threadIndex.eq(0);
  }

  is(flags: Value<'u32'>, flag: keyof typeof PAT_FLAG): Value<'pred'> {
    return flags.and(PAT_FLAG[flag]).ne(0);
  }

  /** Waits until the slot `ahead` of the present one is filled. */
  receive(entry: Value<'ptr'>, bytes: Value<'u64'>, ahead: Value<'u64'>): Slot {
    const { k } = this;
    const link = this.#receives.offset(k.field(entry, PatStep, 'from').mul(Link.size));
    const own = k.field(link, Link, 'own');
    const step = k.field(own, ReceiverControl, 'step');
    const at = step.add(ahead);
    k.if(this.first, () => {
      k.wait(() => k.field(own, ReceiverControl, 'tail', 0, { order: 'acquire' }).gt(at));
    });
    return { link, own, step, data: this.#place(own, at, k.field(entry, PatStep, 'fromIndex'), bytes) };
  }

  /** Waits until the slot `ahead` of the present one may be written. */
  send(entry: Value<'ptr'>, bytes: Value<'u64'>, ahead: Value<'u64'>): Slot {
    const { k } = this;
    const link = this.#sends.offset(k.field(entry, PatStep, 'to').mul(Link.size));
    const own = k.field(link, Link, 'own');
    const step = k.field(own, SenderControl, 'step');
    const at = step.add(ahead);
    k.if(this.first, () => {
      k.wait(() => k.field(own, SenderControl, 'head', 0, { order: 'acquire' }).add(STEPS).gt(at));
    });
    const receiver = k.field(link, Link, 'peer');
    return { link, own, step, data: this.#place(receiver, at, k.field(entry, PatStep, 'toIndex'), bytes) };
  }

  #place(receiver: Value<'ptr'>, step: Value<'u64'>, index: Value<'u32'>, bytes: Value<'u64'>): Value<'ptr'> {
    return receiver
      .offset(CONTROL_BYTES)
      .offset(step.and(STEPS - 1).mul(this.#slotBytes))
      .offset(index.cast('u64').mul(bytes));
  }

  /** Gives the slot back where the step says so. */
  release({ link, own, step }: Slot, flags: Value<'u32'>): void {
    const { k } = this;
    k.if(this.first.and(this.is(flags, 'release')), () => {
      const next = step.add(1);
      k.setField(own, ReceiverControl, 'step', next);
      k.setField(k.field(link, Link, 'peer'), SenderControl, 'head', next, { order: 'release' });
      k.wake(k.field(link, Link, 'peerControl'));
    });
  }

  /** Announces the slot where the step says that it is complete. */
  publish({ link, own, step }: Slot, flags: Value<'u32'>): void {
    const { k } = this;
    k.if(this.first.and(this.is(flags, 'publish')), () => {
      const next = step.add(1);
      k.setField(own, SenderControl, 'step', next);
      k.setField(k.field(link, Link, 'peer'), ReceiverControl, 'tail', next, { order: 'release' });
      k.wake(k.field(link, Link, 'peerControl'));
    });
  }
}

/** target = received, combined with the own contribution or with what the target holds. */
function reduceStep(
  machine: PatMachine,
  { work, send, recv }: ConnectedBlock,
  entry: Value<'ptr'>,
  { flags, rank, ahead, bytes, at }: Step,
  reduction: Reduction,
): void {
  const { k } = machine;
  const { combine } = stepArithmetic(k, reduction, () => k.field(work, ConnectedWork, 'argument'));
  const elementBytes = ELEMENT_TYPES[reduction.type].size;
  const stride = k.field(work, ConnectedWork, 'sendStride');
  const input = send.offset(rank.mul(stride)).offset(at);
  const output = recv.offset(at);
  const run = (target: Value<'ptr'>) => {
    const second = k.select(machine.is(flags, 'again'), target, input);
    k.if(
      machine.is(flags, 'receives'),
      () => {
        const source = machine.receive(entry, bytes, k.u64(0));
        k.barrier();
        reduceCopy(k, {
          sources: [source.data, second],
          targets: [target],
          bytes,
          elementBytes,
          combine: ([received, other]) => combine(received!, other!),
        });
        k.barrier();
        machine.release(source, flags);
      },
      () => {
        k.barrier();
        reduceCopy(k, {
          sources: [second],
          targets: [target],
          bytes,
          elementBytes,
          combine: ([packet]) => packet!,
        });
        k.barrier();
      },
    );
  };
  k.if(
    machine.is(flags, 'sends'),
    () => {
      const target = machine.send(entry, bytes, ahead);
      run(target.data);
      machine.publish(target, flags);
    },
    () => run(output),
  );
  k.barrier();
}

/** The received or own block to the next rank, and to its place in the output unless it is there already. */
function gatherStep(
  machine: PatMachine,
  { work, send, recv }: ConnectedBlock,
  entry: Value<'ptr'>,
  { flags, rank, ahead, bytes, at }: Step,
  elementBytes: number,
): void {
  const { k } = machine;
  const output = recv.offset(rank.mul(k.field(work, ConnectedWork, 'recvStride'))).offset(at);
  const run = (source: Value<'ptr'>) => {
    const copy = (targets: Value<'ptr'>[]) => {
      k.barrier();
      reduceCopy(k, { sources: [source], targets, bytes, elementBytes, combine: ([packet]) => packet! });
      k.barrier();
    };
    const isThere = machine.is(flags, 'again').or(source.eq(output));
    k.if(
      machine.is(flags, 'sends'),
      () => {
        const target = machine.send(entry, bytes, k.u64(0));
        k.if(
          isThere,
          () => copy([target.data]),
          () => copy([output, target.data]),
        );
        machine.publish(target, flags);
      },
      () => {
        k.barrier();
        k.if(isThere.not(), () => copy([output]));
      },
    );
  };
  k.if(
    machine.is(flags, 'receives'),
    () => {
      const source = machine.receive(entry, bytes, ahead);
      run(source.data);
      machine.release(source, flags);
    },
    () => run(send.offset(at)),
  );
  k.barrier();
}
