/** What is said of the values of tuning variables against what the tables are computed with. */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { valueNotes } from '#src/topology/variable-values.js';
import { parseCtaPolicy } from '#src/tuning/cta-policy.js';
import { maxThreads } from '#src/tuning/max-threads.js';
import { cellOf } from '#src/tuning/names.js';
import { tuningSettings } from '#src/tuning/settings.js';
import { threadThresholds } from '#src/tuning/thread-thresholds.js';
import { TUNING_READINGS } from '#src/tuning/variable-readings.js';

const noteOf = (name: string, text: string): string | undefined =>
  valueNotes({ [name]: text }, TUNING_READINGS)[0];

const RING = { bwIntra: 20, nChannels: 8 };

describe('notes on tuning variables', () => {
  test.each([
    ['NCCL_NTHREADS', cellOf('Ring', 'LL')],
    ['NCCL_LL128_NTHREADS', cellOf('Tree', 'LL128')],
  ])('%s: a number has a note exactly if another one is used', (name, cell) => {
    fc.assert(
      fc.property(fc.integer({ min: -100, max: 1000 }), (asked) => {
        const used = maxThreads(tuningSettings({ [name]: String(asked) }), RING)[cell];
        const note = noteOf(name, String(asked));
        if (asked === -2) expect(note).toBeUndefined();
        else expect(note === undefined, `${asked} ${note}`).toBe(used === asked);
        const [, said] = /takes (\d+)$/.exec(note ?? '') ?? [];
        if (said !== undefined) expect(used).toBe(Number(said));
      }),
    );
  });

  it('NCCL_CTA_POLICY: names that are ignored have a note', () => {
    expect(noteOf('NCCL_CTA_POLICY', 'EFFICIENCY|ZERO')).toBeUndefined();
    expect(noteOf('NCCL_CTA_POLICY', '2')).toBeUndefined();
    for (const text of ['9', '3x', 'efficiency', 'ZERO|EFFICENCY', 'x']) {
      expect(noteOf('NCCL_CTA_POLICY', text), text).toMatch(/ignore/);
    }
    expect(noteOf('NCCL_CTA_POLICY', 'EFFICENCY')).toContain('(did you mean EFFICIENCY?)');
    expect(parseCtaPolicy('ZERO|EFFICENCY')).toBe(parseCtaPolicy('ZERO'));
  });

  it('NCCL_THREAD_THRESHOLDS: words that are not read have a note', () => {
    expect(noteOf('NCCL_THREAD_THRESHOLDS', ' 1 -2 +3 4 5 6 ')).toBeUndefined();
    expect(noteOf('NCCL_THREAD_THRESHOLDS', '1 2,3')).toContain("has '2,3'");
    expect(threadThresholds(8, '1 x 3')).toEqual(threadThresholds(8, '1'));
    expect(noteOf('NCCL_THREAD_THRESHOLDS', '1 2 3 4 5 6 7')).toContain('has 7 numbers; NCCL reads 6');
    expect(threadThresholds(8, '1 2 3 4 5 6 7')).toEqual(threadThresholds(8, '1 2 3 4 5 6'));
  });

  it('NCCL_SYM_KERNEL: an unknown name has a note and a suggestion', () => {
    expect(noteOf('NCCL_SYM_KERNEL', 'AllGather_ST')).toBeUndefined();
    expect(noteOf('NCCL_SYM_KERNEL', '^')).toBeUndefined();
    expect(noteOf('NCCL_SYM_KERNEL', 'allgather_st')).toContain('(did you mean AllGather_ST?)');
  });
});
