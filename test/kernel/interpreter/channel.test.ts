import { describe, expect, it } from 'vitest';
import { explore, type Failure, findFailure } from '#src/kernel/interpreter/explore.js';
import { type FaultKind, MachineFault } from '#src/kernel/interpreter/fault.js';
import { type ChannelForm, channelScenario } from './channel.js';

/** The first failure of a form, which must also be found again from its seed alone. */
function failureOf(form: ChannelForm, memory: 'strong' | 'weak' | 'both', seeds = 200): Failure {
  const scenario = channelScenario(form);
  const failure = findFailure(scenario, { seeds, memory });
  if (failure === undefined) throw new Error('not found');
  const replay = findFailure(scenario, { seeds: 1, from: failure.seed, memory: failure.memory });
  expect(replay?.error).toEqual(failure.error);
  expect((replay!.error as Error).message).toBe((failure.error as Error).message);
  return failure;
}

function kindOf(failure: Failure): FaultKind | 'wrong data' {
  return failure.error instanceof MachineFault ? failure.error.kind : 'wrong data';
}

describe('a right channel passes', () => {
  it.each<[string, ChannelForm]>([
    ['with release and acquire', {}],
    ['with fences around relaxed flags', fences('relaxed')],
    ['with fences around volatile flags', fences('volatile')],
    ['with fences of both orders', { ...fences('relaxed'), publishFence: 'both', consumeFence: 'both' }],
  ])('%s', (_, form) => {
    expect(explore(channelScenario(form), { seeds: 600 })).toBe(1200);
  });
});

function fences(order: 'relaxed' | 'volatile'): ChannelForm {
  return { publish: order, consume: order, publishFence: 'release', consumeFence: 'acquire' };
}

describe('a wrong channel is found, and its seed shows it again', () => {
  const { publishFence: _, ...withoutPublishFence } = fences('relaxed');
  const { consumeFence: __, ...withoutConsumeFence } = fences('relaxed');

  it.each<[string, ChannelForm, RegExp]>([
    ['a flag stored relaxed', { publish: 'relaxed' }, /^unpublishedRead$/],
    ['a flag loaded relaxed', { consume: 'relaxed' }, /^unpublishedRead$/],
    ['a flag loaded volatile without a fence', { consume: 'volatile' }, /^unpublishedRead$/],
    ['only the fence of the sender', withoutConsumeFence, /^unpublishedRead$/],
    ['only the fence of the receiver', withoutPublishFence, /^unpublishedRead$/],
    ['a scope that does not reach the peer', { scope: 'device' }, /^unpublishedRead$/],
    ['a slot given back relaxed', { giveBack: 'relaxed' }, /^race$/],
    // The load may come first: then it is the store that finds the conflict.
    ['a flag stored plainly', { publish: 'weak' }, /^(unpublishedRead|race)$/],
    ['a flag loaded plainly', { consume: 'weak' }, /^(unpublishedRead|race)$/],
  ])('%s', (_, form, kind) => {
    for (const memory of ['strong', 'weak'] as const) {
      const failure = failureOf(form, memory);
      expect(kindOf(failure)).toMatch(kind);
      expect(failure.runs).toBeLessThan(20);
    }
  });

  it('no wait for credit: a slot is overwritten while it is read', () => {
    // A sender that is far ahead is ordered before the receiver, which then gets later data.
    expect(['race', 'unpublishedRead', 'wrong data']).toContain(kindOf(failureOf({ credit: false }, 'both')));
    expect(['race', 'wrong data']).toContain(kindOf(failureOf({ depth: 3 }, 'both')));
  });

  it('a step announced before its data', () => {
    expect(['unpublishedRead', 'uninitialized', 'race']).toContain(
      kindOf(failureOf({ announceFirst: true }, 'both')),
    );
  });

  it('a receiver that expects one step too many waits for ever: the report names it and its flag', () => {
    const failure = failureOf({ expectMore: 1 }, 'both');
    expect(failure.runs).toBe(1);
    const fault = failure.error as MachineFault;
    expect(fault.kind).toBe('deadlock');
    expect(fault.rank).toBe(1);
    expect(fault.message).toMatch(
      /rank 1 block 0 thread 0 waits at interpreter\/channel\.ts:\d+:\d+ of receive on flags\+0x80 = 7/,
    );
    expect(fault.message).not.toContain('rank 0 block 0 thread 0 waits');
  });
});

describe('the report of explore', () => {
  it('names seed, memory, source place, the other thread, and how to replay', () => {
    const run = () => explore(channelScenario({ publish: 'relaxed' }), { seeds: 50, from: 100 });
    expect(run).toThrow(/^seed 1\d\d with strong memory fails \(run \d+\): unpublishedRead in rank 1/);
    expect(run).toThrow(/at interpreter\/channel\.ts:\d+:\d+ of receive: load of slots\+0x/);
    expect(run).toThrow(/last \(plain\) store there, by rank 0 block 0 thread 0, does not happen before it/);
    expect(run).toThrow(
      /last events:\n(.*\n)+ {2}rank 0 block 0 thread 0: relaxed store flags\+0x80 = 0x00000001/,
    );
    expect(run).toThrow(/replay: explore\(scenario, \{ seeds: 1, from: 1\d\d, memory: 'strong' \}\)/);
  });
});
