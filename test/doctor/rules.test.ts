/** Every rule speaks on its own example, and cites lines of it. */
import { describe, expect, it } from 'vitest';
import { RULES } from '#src/doctor/rules/registry.js';
import { examine } from './case-files.js';
import { COUNTER_EXAMPLES } from './counter-examples.js';

describe('rules', () => {
  it('have names of their own', () => {
    expect(new Set(RULES.map(({ id }) => id)).size).toBe(RULES.length);
  });

  it('name only rules that exist as causes', () => {
    const ids = RULES.map(({ id }) => id);
    const unknown = RULES.flatMap(({ id, explainedBy = [] }) =>
      ('effects' in explainedBy ? (explainedBy.also ?? []) : explainedBy)
        .filter((one) => !ids.includes(one))
        .map((one) => `${id}: ${one}`),
    );
    expect(unknown).toEqual([]);
  });

  for (const { id, example } of RULES) {
    it(`${id} is found in its example`, async () => {
      const { verdicts } = await examine(example.map(({ name, text }) => [name, text] as const));
      const found = verdicts.flatMap((one) => [one, ...one.consequences]).filter((one) => one.id === id);
      expect(found.length, `only ${verdicts.map((one) => one.id)}`).toBeGreaterThan(0);
      for (const { evidence } of found) {
        expect(evidence.length).toBeGreaterThan(0);
        for (const { file } of evidence) expect(example.map(({ name }) => name)).toContain(file);
      }
    });
  }

  it('each have counter-examples, and only they have', () => {
    expect(Object.keys(COUNTER_EXAMPLES).sort()).toEqual(RULES.map(({ id }) => id).sort());
    for (const [id, list] of Object.entries(COUNTER_EXAMPLES)) expect(list.length, id).toBeGreaterThan(0);
  });

  for (const [id, list] of Object.entries(COUNTER_EXAMPLES)) {
    it(`${id} is not found where it only seems so`, async () => {
      for (const { why, files } of list) {
        const { job, verdicts } = await examine(files);
        const understood = job.files.some(({ kinds, problems }) => kinds.size > 0 || problems.length > 0);
        expect(understood, why).toBe(true);
        const found = verdicts.flatMap((one) => [one, ...one.consequences]).map((one) => one.id);
        expect(found, why).not.toContain(id);
      }
    });
  }
});
