/** The file of constants that communicators read: where it is looked for, what faults do, and that ranks agree. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { constantsPath, readHostModel } from '#src/communicator/host-constants-file.js';
import { constantsText, STANDARD_CONSTANTS } from '#src/tuning/host/constants.js';
import { tuttiRun } from './tutti-run.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-tuning-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A file with which an all-reduce takes the algorithm. */
function fileFor(algorithm: string): string {
  const fast = { ...{ alone: { start: 1e-6, step: 1e-6 }, crowded: { start: 1e-6, step: 1e-6 } } };
  const allReduce = {
    ...STANDARD_CONSTANTS.window.allReduce,
    [algorithm]: { ...fast, bandwidth: [1e6, 1e6, 1e6] as const },
  };
  const window = { ...STANDARD_CONSTANTS.window, allReduce };
  const path = join(folder, `${algorithm}.json`);
  writeFileSync(path, constantsText({ ...STANDARD_CONSTANTS, window }, {}));
  return path;
}

const warned: string[] = [];
const read = (env: Record<string, string>) => readHostModel(env, (text) => warned.push(text));

describe('the file of constants', () => {
  it('is looked for where TUTTI_TUNING_FILE says, else in the folder of settings', () => {
    expect(constantsPath({ TUTTI_TUNING_FILE: '/a/b' })).toEqual({ path: '/a/b', isNamed: true });
    expect(constantsPath({ XDG_CONFIG_HOME: '/c' })).toEqual({
      path: '/c/tutti/host-tuning.json',
      isNamed: false,
    });
    expect(constantsPath({}).path).toMatch(/\.config\/tutti\/host-tuning\.json$/);
    expect(constantsPath({ TUTTI_TUNING_FILE: 'none' }).path).toBeUndefined();
  });

  it('that nobody has named may be missing, and is left out with a warning where it is broken', () => {
    const standard = { constants: STANDARD_CONSTANTS, source: undefined };
    expect(read({ XDG_CONFIG_HOME: join(folder, 'nothing') })).toMatchObject(standard);
    expect(warned).toEqual([]);
    mkdirSync(join(folder, 'tutti'));
    const path = join(folder, 'tutti', 'host-tuning.json');
    for (const [text, why] of [
      ['{"format":', 'it is no JSON'],
      ['{}', '"format" is missing'],
      ['x'.repeat(2 ** 20 + 1), 'it has 1048577 bytes'],
    ] as const) {
      writeFileSync(path, text);
      expect(read({ XDG_CONFIG_HOME: folder })).toMatchObject(standard);
      expect(warned.pop()).toMatch(new RegExp(`${path}: ${why}.*tutti tune --fit`));
    }
    writeFileSync(path, constantsText(STANDARD_CONSTANTS, {}));
    expect(read({ XDG_CONFIG_HOME: folder })).toMatchObject({ source: path });
    expect(warned).toEqual([]);
  });

  it('that a variable names must be there and right', () => {
    const missing = join(folder, 'missing.json');
    expect(() => read({ TUTTI_TUNING_FILE: missing })).toThrow(`${missing}: there is no such file`);
    expect(() => read({ TUTTI_TUNING_FILE: folder })).toThrow(/EISDIR.*unset TUTTI_TUNING_FILE/);
    const path = fileFor('Tree LL');
    expect(read({ TUTTI_TUNING_FILE: path }).source).toBe(path);
  });
});

describe('ranks with different files', () => {
  const run = async (...files: string[]) => {
    const { stdout, code } = await tuttiRun(files.length, 'tuned-rank.mjs', files);
    expect(code).toBe(0);
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.replace(/^\[\d\] /, ''));
  };

  it('all choose by that of rank 0', async () => {
    const [tree, ring] = [fileFor('Tree LL'), fileFor('Ring Simple')];
    for (const [files, name] of [
      [[tree, ring, 'none'], 'Tree LL'],
      [[ring, tree, tree], 'Ring Simple'],
    ] as const) {
      const lines = await run(...files);
      expect(lines).toHaveLength(3);
      for (const line of lines) expect(line).toContain(`${name}: `);
    }
  });

  it('all fail with the same error where that of rank 0 is broken, and do not mind any other', async () => {
    const missing = join(folder, 'missing.json');
    for (const line of await run(missing, 'none')) {
      expect(line).toContain(
        `invalidUsage: constants of the host's cost model: ${missing}: there is no such file`,
      );
    }
    for (const line of await run('none', missing)) expect(line).toMatch(/Shot: .* predicted/);
  });
});
