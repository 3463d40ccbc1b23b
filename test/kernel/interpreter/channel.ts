/**
 * A channel of two slots between two ranks, in the forms that the protocols of a collective library have, with
 * the mistakes that people make. The interpreter must pass the right ones and find the wrong ones.
 */
import { type KernelBuilder, kernel, type Value, withPlaces } from '#src/kernel/builder.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Order, Program, Scope } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';

const SLOTS = 2;
/** Packets per step. */
const PACKETS = 2;
const STEP_BYTES = PACKETS * 16;

export interface ChannelForm {
  /** Order of the store that announces a step, and of the load that waits for it. */
  publish?: Order;
  consume?: Order;
  /** Orders with a fence of their own before the store or after the wait. */
  publishFence?: 'release' | 'both';
  consumeFence?: 'acquire' | 'both';
  scope?: Scope;
  /** The sender waits until a slot is free. */
  credit?: boolean;
  /** Order of the store that gives a slot back. */
  giveBack?: Order;
  /** Steps that the sender believes the receiver has room for. */
  depth?: number;
  /** Steps that the receiver waits for beyond those that are sent. */
  expectMore?: number;
  /** The sender announces the step before its data. */
  announceFirst?: boolean;
}

const Work = struct('Work', { data: 'ptr', slots: 'ptr', head: 'ptr', tail: 'ptr', steps: 'u32' });
const TRAITS = interpreterTraits({ threads: 'one' });

function fields(k: KernelBuilder, work: Value<'ptr'>) {
  return {
    data: k.field(work, Work, 'data'),
    slots: k.field(work, Work, 'slots'),
    head: k.field(work, Work, 'head'),
    tail: k.field(work, Work, 'tail'),
    steps: k.field(work, Work, 'steps'),
  };
}

export function channelPrograms(form: ChannelForm): { send: Program; receive: Program } {
  const { publish = 'release', consume = 'acquire', credit = true, giveBack = 'release' } = form;
  const { scope = 'system', depth = SLOTS, expectMore = 0 } = form;
  const move = (k: KernelBuilder, to: Value<'ptr'>, from: Value<'ptr'>) => {
    for (let p = 0; p < PACKETS; p++) {
      k.store('packet', to, k.load('packet', from, { offset: p * 16 }), { offset: p * 16 });
    }
  };
  const slotOf = (slots: Value<'ptr'>, step: Value<'u32'>) => slots.offset(step.rem(SLOTS).mul(STEP_BYTES));

  const send = kernel('send', TRAITS, (k, work) => {
    const { data, slots, head, tail, steps } = fields(k, work);
    k.for(k.u32(0), steps, 1, (step) => {
      if (credit) k.wait(() => k.load('u32', head, { order: 'acquire', scope }).add(depth).gt(step));
      const announce = () => {
        if (form.publishFence !== undefined) k.fence(form.publishFence, scope);
        k.store('u32', tail, step.add(1), { order: publish, scope });
      };
      if (form.announceFirst) announce();
      move(k, slotOf(slots, step), data.offset(step.mul(STEP_BYTES)));
      if (!form.announceFirst) announce();
    });
  });
  const receive = kernel('receive', TRAITS, (k, work) => {
    const { data, slots, head, tail, steps } = fields(k, work);
    k.for(k.u32(0), steps.add(expectMore), 1, (step) => {
      k.wait(() => k.load('u32', tail, { order: consume, scope }).gt(step));
      if (form.consumeFence !== undefined) k.fence(form.consumeFence, scope);
      move(k, data.offset(step.mul(STEP_BYTES)), slotOf(slots, step));
      k.store('u32', head, step.add(1), { order: giveBack, scope });
    });
  });
  return { send, receive };
}

/** A scenario that sends some steps through a channel of this form and checks what arrives. */
export function channelScenario(form: ChannelForm, steps = 7): (options: MachineOptions) => void {
  const { send, receive } = withPlaces(() => channelPrograms(form));
  return (options) => {
    const machine = new Machine(options);
    const words = (steps * STEP_BYTES) / 4;
    const content = Uint32Array.from({ length: words }, (_, i) => i * 3 + 1);
    const source = machine.region('source', steps * STEP_BYTES, 0, { readOnly: true });
    machine.writeArray(source, content);
    const target = machine.region('target', steps * STEP_BYTES, 1);
    const slots = machine.region('slots', SLOTS * STEP_BYTES, 1);
    const flags = machine.region('flags', 256, 1, { zeroed: true });
    const shared = { slots, head: flags, tail: flags + 128, steps };
    const work0 = machine.struct(Work, 0, { ...shared, data: source }, 'work', { readOnly: true });
    const work1 = machine.struct(Work, 1, { ...shared, data: target });
    machine.launch(send, { rank: 0, descriptor: work0 });
    machine.launch(receive, { rank: 1, descriptor: work1 });
    machine.run();
    const got = machine.readArray(target, Uint32Array, words);
    if (got.join() !== content.join()) throw new Error(`received ${got.join()}`);
  };
}
