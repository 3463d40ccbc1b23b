import { describe, expect, it } from 'vitest';
import { describeTrouble } from '#src/communicator/diagnosis.js';
import { decodeTrouble, encodeTrouble, type TroubleKind } from '#src/communicator/team.js';

const KINDS: TroubleKind[] = [
  'aborted',
  'peerDied',
  'timeout',
  'mismatch',
  'corrupt',
  'left',
  'outOfMemory',
  'stalled',
];

describe('trouble', () => {
  it('survives being a word of memory, which is never 0', () => {
    for (const kind of KINDS) {
      for (const culprit of [0, 1, 255, 65535]) {
        const word = encodeTrouble({ kind, culprit });
        expect(word).not.toBe(0);
        expect(decodeTrouble(word)).toEqual({ kind, culprit });
      }
    }
  });

  it('is not read from words that nobody wrote', () => {
    for (const word of [0, 256, KINDS.length + 1, 255]) expect(decodeTrouble(word)).toBeUndefined();
  });

  it('becomes an error that names the culprit and the detail', () => {
    for (const kind of KINDS) {
      const error = describeTrouble({ kind, culprit: 3 }, 0, 'it sent a frame for channel 9 of 1');
      expect(error.code).toBe(kind === 'mismatch' ? 'invalidUsage' : 'remoteError');
      expect(error.rank).toBe(3);
      expect(error.message).toContain('rank 3');
      expect(error.message).toContain('channel 9 of 1');
    }
  });
});
