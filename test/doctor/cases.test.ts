/** The collected cases: each gets exactly its verdicts, with culprit and evidence, and nothing else. */
import { describe, expect, it } from 'vitest';
import { CASES, differences, examine } from './case-files.js';

describe('cases', () => {
  for (const { name, files, expected } of CASES) {
    it(`${name}: ${expected.title}`, async () => {
      const { job, verdicts } = await examine(files);
      expect(differences(verdicts, expected)).toEqual([]);
      expect(job.files.filter(({ kinds, problems }) => kinds.size === 0 || problems.length > 0)).toEqual([]);
      for (const { id } of expected.mustNot) {
        const [fault = '', culprit] = id.split(/:(.*)/);
        const reported = verdicts.filter((one) => one.id === fault);
        if (culprit === undefined) expect(reported).toEqual([]);
        else
          expect(reported.flatMap((one) => Object.values(one.culprit).flat().map(String))).not.toContain(
            culprit,
          );
      }
    });
  }
});
