/** Arrays larger than the heap: moved in pieces, with the same result; what cannot be had is refused clearly. */
import { describe, expect, it } from 'vitest';
import { sample } from '../effort.js';
import { tuttiRun } from './tutti-run.js';

/** Room for the rings and little more. */
const SMALL = { TUTTI_HEAP_BYTES: `${6 << 20}`, NCCL_BUFFSIZE: '262144', NCCL_LL_BUFFSIZE: '65536' };

async function expectRight(ranks: number, args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await tuttiRun(ranks, 'large-arrays.mjs', args, SMALL);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.match(/right/g)).toHaveLength(ranks);
}

describe('ordinary arrays that are larger than the heap', () => {
  it.each(
    sample(
      [
        ['meeting directly', {}],
        ['by ring Simple', { algorithm: 'Ring', protocol: 'Simple' }],
        ['by ring LL, two channels', { algorithm: 'Ring', protocol: 'LL', channels: 2 }],
        ['one-shot', { algorithm: 'OneShot' }],
      ],
      2,
    ),
  )('have the right result between processes, %s', async (_, options) => {
    await expectRight(3, [JSON.stringify({ ...options, timeoutMs: 30_000 })]);
  });

  it('have the right result between threads', async () => {
    await expectRight(1, [JSON.stringify({ timeoutMs: 30_000 }), '3']);
    await expectRight(1, [JSON.stringify({ algorithm: 'Ring', timeoutMs: 30_000 }), '2']);
  });
});
