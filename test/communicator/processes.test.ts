/**
 * All collectives between ranks that are processes: all ranks make the same random calls (awaited, synchronous,
 * prepared, in changing order) and verify every element against a plain reference of their own.
 */
import { describe, expect, it } from 'vitest';
import { effort } from '../effort.js';
import { SEED } from './random.js';
import { tuttiRun } from './tutti-run.js';

/** Small rings, so that a few thousand elements go round several times. */
const BUFFERS = { NCCL_LL_BUFFSIZE: '8192', NCCL_BUFFSIZE: '32768' };

/** More ranks make each round slower and no better. */
const roundsFor = (ranks: number) => Math.max(15, Math.ceil(120 / ranks));

async function battery(ranks: number, options: object = {}, env: object = {}): Promise<void> {
  const rounds = roundsFor(ranks);
  const args = [`${SEED + ranks}`, `${rounds}`, JSON.stringify(options)];
  const outcome = await tuttiRun(ranks, 'random-rank.mjs', args, { ...BUFFERS, ...env });
  const lines = outcome.stdout.trimEnd().split('\n').sort();
  expect({ ...outcome, stdout: lines }, `TUTTI_SEED=${SEED}`).toEqual({
    code: 0,
    stderr: '',
    stdout: Array.from({ length: ranks }, (_, rank) => `[${rank}] ${rounds} rounds`),
  });
}

describe(`collectives between processes agree with the plain reference bit for bit (TUTTI_SEED=${SEED})`, () => {
  for (const ranks of effort([1, 2, 3, 5, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9])) {
    it(`${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`, () => battery(ranks));
  }
  it('one-shot, 3 ranks', () => battery(3, { algorithm: 'OneShot' }));
  it('two-shot, 4 ranks', () => battery(4, { algorithm: 'TwoShot' }));
  it('ring LL, 3 ranks, 2 channels', () => battery(3, { algorithm: 'Ring', protocol: 'LL', channels: 2 }));
  it('ring Simple, 5 ranks, 3 channels', () =>
    battery(5, { algorithm: 'Ring', protocol: 'Simple', channels: 3 }));
  it('ring with calls compared first, 2 ranks', () =>
    battery(2, { algorithm: 'Ring', protocol: 'Simple', check: true }));
  it('a heap that is too small for the arrays, 3 ranks', () =>
    battery(3, {}, { TUTTI_HEAP_BYTES: `${8 << 20}` }));
});

describe('synchronous calls behind asynchronous ones', () => {
  it.each([
    ['direct', {}],
    ['ring', { algorithm: 'Ring', protocol: 'Simple' }],
    ['ring with calls compared first', { algorithm: 'Ring', check: true }],
  ])('keep the order or are refused, %s', async (_, options) => {
    const { code, stdout, stderr } = await tuttiRun(3, 'mixed-forms.mjs', [JSON.stringify(options)]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.match(/right/g)).toHaveLength(3);
  });
});
