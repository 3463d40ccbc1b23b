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

export type PatField = Exclude<keyof typeof PatStep.fields, 'gap'>;

export type PatCollective = 'allGather' | 'reduceScatter';

export interface PatParameters {
  readonly collective: PatCollective;
  readonly reduction: Reduction;
}

/** A connection of a dimension. */
export interface PatLink {
  /** Own control structure. */
  readonly own: Value<'ptr'>;
  /** The peer's, where code asks for it. */
  peer(): Value<'ptr'>;
  /** What the peer's waits sleep on. */
  doorbell(): Value<'ptr'>;
}

/**
 * What a program of PAT knows of its block: on the host from descriptors in memory, on GPUs from what comes with the
 * launch (gpu/pat.ts). Functions make code where they are called.
 */
export interface PatPlace {
  readonly k: KernelBuilder;
  readonly self: Value<'u32'>;
  readonly ranks: Value<'u32'>;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
  sendStride(): Value<'u64'>;
  recvStride(): Value<'u64'>;
  argument(): Value<'u64'>;
  /** Bytes of a slot, and from a ReceiverControl to the slots. */
  readonly slot: Value<'u64'>;
  readonly buffers: number;
  receiveLink(dimension: Value<'u32'>): PatLink;
  sendLink(dimension: Value<'u32'>): PatLink;
  /** Walks the block's elements in chunks. */
  forChunks(body: (at: Value<'u64'>, elements: Value<'u64'>) => void): void;
  /** Walks the steps of the schedule. */
  forSteps(body: (field: (name: PatField) => Value<'u32'>) => void): void;
}

/** One step's values. */
interface Step {
  readonly field: (name: PatField) => Value<'u32'>;
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
  readonly link: PatLink;
  readonly step: Value<'u64'>;
  readonly data: Value<'ptr'>;
}

/** PAT on host memory: its descriptor is ConnectedWork, and the table of a block holds PatSteps. */
function hostPlace(k: KernelBuilder, work: Value<'ptr'>): PatPlace {
  const connected = new ConnectedBlock(k, work);
  connected.resolveLinks();
  const { block } = connected;
  const links = {
    receives: k.field(block, BlockWork, 'receives'),
    sends: k.field(block, BlockWork, 'sends'),
  };
  const linkOf = (side: keyof typeof links, dimension: Value<'u32'>): PatLink => {
    const link = links[side].offset(dimension.mul(Link.size));
    return {
      own: k.field(link, Link, 'own'),
      peer: () => k.field(link, Link, 'peer'),
      doorbell: () => k.field(link, Link, 'peerControl'),
    };
  };
  const table = k.field(block, BlockWork, 'table');
  const end = table.offset(k.field(block, BlockWork, 'tableLength').mul(4));
  return {
    k,
    self: k.field(work, ConnectedWork, 'self'),
    ranks: k.field(work, ConnectedWork, 'ranks'),
    send: connected.send,
    recv: connected.recv,
    sendStride: () => k.field(work, ConnectedWork, 'sendStride'),
    recvStride: () => k.field(work, ConnectedWork, 'recvStride'),
    argument: () => connected.argument(),
    slot: k.field(work, ConnectedWork, 'slot'),
    buffers: CONTROL_BYTES,
    receiveLink: (dimension) => linkOf('receives', dimension),
    sendLink: (dimension) => linkOf('sends', dimension),
    forChunks: (body) => {
      const first = connected.offset();
      connected.chunks(first, first.add(connected.count()), body);
    },
    forSteps: (body) => {
      k.for(table, end, PatStep.size, (entry) => body((name) => k.field(entry, PatStep, name)));
    },
  };
}

export function pat(traits: Traits, parameters: PatParameters): Program {
  return kernel(`pat_${parameters.collective}`, traits, (k, work) => {
    followSchedule(hostPlace(k, work), parameters);
  });
}

/** What one block of a rank does. */
export function followSchedule(place: PatPlace, { collective, reduction }: PatParameters): void {
  const size = ELEMENT_TYPES[reduction.type].size;
  const machine = new PatMachine(place);
  const { self, ranks } = place;
  place.forChunks((at, elements) => {
    place.forSteps((field) => {
      const step: Step = {
        field,
        flags: field('flags'),
        rank: self.add(field('distance')).rem(ranks).cast('u64'),
        ahead: field('ahead').cast('u64'),
        bytes: elements.mul(size),
        at: at.mul(size),
      };
      if (collective === 'reduceScatter') reduceStep(machine, place, step, reduction);
      else gatherStep(machine, place, step, size);
    });
  });
}

/** Slots by run-time dimension. */
class PatMachine {
  readonly k: KernelBuilder;
  readonly #place: PatPlace;
  readonly first: Value<'pred'>;

  constructor(place: PatPlace) {
    this.k = place.k;
    this.#place = place;
    this.first = this.k.threadIndex.eq(0);
  }

  is(flags: Value<'u32'>, flag: keyof typeof PAT_FLAG): Value<'pred'> {
    return flags.and(PAT_FLAG[flag]).ne(0);
  }

  /** Waits until the slot `ahead` of the present one is filled. */
  receive({ field, bytes }: Step, ahead: Value<'u64'>): Slot {
    const { k } = this;
    const link = this.#place.receiveLink(field('from'));
    const { own } = link;
    const step = k.field(own, ReceiverControl, 'step');
    const at = step.add(ahead);
    k.if(this.first, () => {
      k.wait(() => k.field(own, ReceiverControl, 'tail', 0, { order: 'acquire' }).gt(at));
    });
    return { link, step, data: this.#slot(own, at, field('fromIndex'), bytes) };
  }

  /** Waits until the slot `ahead` of the present one may be written. */
  send({ field, bytes }: Step, ahead: Value<'u64'>): Slot {
    const { k } = this;
    const link = this.#place.sendLink(field('to'));
    const { own } = link;
    const step = k.field(own, SenderControl, 'step');
    const at = step.add(ahead);
    k.if(this.first, () => {
      k.wait(() => k.field(own, SenderControl, 'head', 0, { order: 'acquire' }).add(STEPS).gt(at));
    });
    return { link, step, data: this.#slot(link.peer(), at, field('toIndex'), bytes) };
  }

  #slot(receiver: Value<'ptr'>, step: Value<'u64'>, index: Value<'u32'>, bytes: Value<'u64'>): Value<'ptr'> {
    const { buffers, slot } = this.#place;
    return receiver
      .offset(buffers)
      .offset(step.and(STEPS - 1).mul(slot))
      .offset(index.cast('u64').mul(bytes));
  }

  /** Gives the slot back where the step says so. */
  release({ link, step }: Slot, flags: Value<'u32'>): void {
    const { k } = this;
    k.if(this.first.and(this.is(flags, 'release')), () => {
      const next = step.add(1);
      k.setField(link.own, ReceiverControl, 'step', next);
      k.setField(link.peer(), SenderControl, 'head', next, { order: 'release' });
      k.wake(link.doorbell());
    });
  }

  /** Announces the slot where the step says that it is complete. */
  publish({ link, step }: Slot, flags: Value<'u32'>): void {
    const { k } = this;
    k.if(this.first.and(this.is(flags, 'publish')), () => {
      const next = step.add(1);
      k.setField(link.own, SenderControl, 'step', next);
      k.setField(link.peer(), ReceiverControl, 'tail', next, { order: 'release' });
      k.wake(link.doorbell());
    });
  }
}

/** target = received, combined with the own contribution or with what the target holds. */
function reduceStep(machine: PatMachine, place: PatPlace, step: Step, reduction: Reduction): void {
  const { k } = machine;
  const { send, recv } = place;
  const { flags, rank, ahead, bytes, at } = step;
  const { combine } = stepArithmetic(k, reduction, () => place.argument());
  const elementBytes = ELEMENT_TYPES[reduction.type].size;
  const stride = place.sendStride();
  const input = send.offset(rank.mul(stride)).offset(at);
  const output = recv.offset(at);
  /** `publish` comes before credits are returned: somebody waits for it. */
  const run = (target: Value<'ptr'>, publish?: () => void) => {
    const second = k.select(machine.is(flags, 'again'), target, input);
    k.if(
      machine.is(flags, 'receives'),
      () => {
        const source = machine.receive(step, k.u64(0));
        k.barrier();
        reduceCopy(k, {
          sources: [source.data, second],
          targets: [target],
          bytes,
          elementBytes,
          combine: ([received, other]) => combine(received!, other!),
        });
        k.barrier();
        publish?.();
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
        publish?.();
      },
    );
  };
  k.if(
    machine.is(flags, 'sends'),
    () => {
      const target = machine.send(step, ahead);
      run(target.data, () => machine.publish(target, flags));
    },
    () => run(output),
  );
  k.barrier();
}

/** The received or own block to the next rank, and to its place in the output unless it is there already. */
function gatherStep(machine: PatMachine, place: PatPlace, step: Step, elementBytes: number): void {
  const { k } = machine;
  const { send, recv } = place;
  const { flags, rank, ahead, bytes, at } = step;
  const output = recv.offset(rank.mul(place.recvStride())).offset(at);
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
        const target = machine.send(step, k.u64(0));
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
      const source = machine.receive(step, ahead);
      run(source.data);
      machine.release(source, flags);
    },
    () => run(send.offset(at)),
  );
  k.barrier();
}
