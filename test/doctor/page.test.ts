/** The page of the doctor is the one that its rules make. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { rulesPage } from '#src/doctor/report/rules-page.js';
import { RULES } from '#src/doctor/rules/registry.js';

describe('docs/doctor.md', () => {
  const page = readFileSync(new URL('../../docs/doctor.md', import.meta.url), 'utf8');

  it('is what node scripts/doctor-page.js writes', async () => {
    expect(page).toBe(await rulesPage());
  });

  it('has a section with an example for every rule', () => {
    for (const { id } of RULES)
      expect(page).toMatch(new RegExp(`^### ${id}\\n\\nLooks for [^]*?\\n\`\`\`text\\n`, 'm'));
  });
});
