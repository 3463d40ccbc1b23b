/** The same faults in other words keep their verdicts. */
import { describe, expect, it } from 'vitest';
import { CASES, differences, examine } from './case-files.js';
import { MUTATIONS } from './mutations.js';

describe('cases', () => {
  for (const [name, mutate] of Object.entries(MUTATIONS)) {
    it(`${name} get the same verdicts`, async () => {
      const wrong: Record<string, string[]> = {};
      for (const one of CASES) {
        const { files, expected } = mutate(one);
        const found = differences((await examine(files)).verdicts, expected);
        if (found.length > 0) wrong[one.name] = found;
      }
      expect(wrong).toEqual({});
    });
  }
});
