/** Whether V8 has to throw code away when operations of another kind come: it tells what it does. */
import { expect, it } from 'vitest';
import { tuttiRun } from './tutti-run.js';

const FUNCTIONS = /<JSFunction (run|copyIn|copyOut|before|after|#takeOut) /;

// Again where a collection of garbage came between: V8 forgets then what it has met.
it('operations of another kind meet code that knows them', { retry: 2 }, async () => {
  const { code, stdout, stderr } = await tuttiRun(2, 'many-kinds.mjs', []);
  expect(code, stderr).toBe(0);
  const lines = stdout.split('\n').filter((line) => FUNCTIONS.test(line));
  const compiled = lines.filter((line) => /optimiz/.test(line) && /copyIn|run/.test(line));
  expect(compiled.length).toBeGreaterThan(0);
  expect(lines.filter((line) => line.includes('Insufficient type feedback'))).toEqual([]);
});
