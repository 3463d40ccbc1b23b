/** When copy engines do a collective. */
import { describe, expect, it } from 'vitest';
import { type CopyEngineCall, type CopyEngineFacts, copyEngineChoice } from '#src/tuning/copy-engine.js';
import { CtaPolicy } from '#src/tuning/cta-policy.js';
import { tuningSettings } from '#src/tuning/settings.js';

const node: CopyEngineFacts = {
  driver: 12050,
  nRanks: 8,
  nNodes: 1,
  localRanks: 8,
  lsaRanks: 8,
  symmetric: true,
  rmaContexts: 0,
  minSm: 90,
  allDirectNvlink: true,
  ctaPolicy: CtaPolicy.ZERO,
  settings: tuningSettings(),
};
const nodes: CopyEngineFacts = { ...node, nRanks: 32, nNodes: 4, rmaContexts: 1 };
const blackwell: CopyEngineFacts = { ...node, minSm: 100, ctaPolicy: CtaPolicy.DEFAULT };

const gather: CopyEngineCall = { function: 'AllGather', count: 1, registration: 'both', hostMemory: false };
const large: CopyEngineCall = { ...gather, count: 8388609 };

describe('copy engines', () => {
  it.each([
    ['the ZERO policy', node, gather, 'lsa'],
    ['scatter', node, { ...gather, function: 'Scatter' }, 'lsa'],
    ['gather', node, { ...gather, function: 'Gather' }, 'lsa'],
    ['all-to-all', node, { ...gather, function: 'AlltoAll' }, 'lsa'],
    ['nothing that reduces', node, { ...gather, function: 'AllReduce' }, undefined],
    ['only the receive buffer registered', node, { ...gather, registration: 'receive' }, 'lsa'],
    ['only the send buffer registered', node, { ...gather, registration: 'send' }, undefined],
    ['nothing registered', node, { ...gather, registration: 'none' }, undefined],
    ['memory on the host', node, { ...gather, hostMemory: true }, undefined],
    ['another policy', { ...node, ctaPolicy: CtaPolicy.EFFICIENCY }, gather, undefined],
    ['an older driver', { ...node, driver: 12040 }, gather, undefined],
    ['no symmetric memory', { ...node, symmetric: false }, gather, undefined],
    ['one rank', { ...node, nRanks: 1, lsaRanks: 1 }, gather, undefined],
    ['several nodes', nodes, gather, 'hierarchical'],
    ['all-to-all over nodes', nodes, { ...gather, function: 'AlltoAll' }, 'hierarchical'],
    ['scatter over nodes', nodes, { ...gather, function: 'Scatter' }, undefined],
    ['one buffer registered over nodes', nodes, { ...gather, registration: 'receive' }, undefined],
    ['no remote copies', { ...nodes, rmaContexts: 0 }, gather, undefined],
    ['a team smaller than the node', { ...nodes, lsaRanks: 4 }, gather, undefined],
    ['several nodes in one team', { ...nodes, lsaRanks: 32 }, gather, 'lsa'],
    ['a large all-gather on Blackwell', blackwell, large, 'lsa'],
    ['as many elements as the threshold', blackwell, { ...large, count: 8388608 }, undefined],
    ['a large all-gather on Hopper', { ...blackwell, minSm: 90 }, large, undefined],
    ['a large all-to-all', blackwell, { ...large, function: 'AlltoAll' }, undefined],
    ['a large all-gather, links not direct', { ...blackwell, allDirectNvlink: false }, large, undefined],
    ['a large all-gather from the host', blackwell, { ...large, hostMemory: true }, 'lsa'],
    [
      'a large all-gather over nodes',
      { ...blackwell, nRanks: 32, nNodes: 4, rmaContexts: 1 },
      large,
      undefined,
    ],
    [
      'another threshold',
      { ...blackwell, settings: tuningSettings({ NCCL_SYM_CE_THRESHOLD: '10' }) },
      { ...gather, count: 11 },
      'lsa',
    ],
  ] as [string, CopyEngineFacts, CopyEngineCall, string | undefined][])('%s', (_, facts, call, method) => {
    const choice = copyEngineChoice(facts, call);
    expect(choice?.method).toBe(method);
    if (choice !== undefined) expect(choice.reason).not.toBe('');
  });
});
