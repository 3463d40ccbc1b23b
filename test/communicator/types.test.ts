import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const CONFIG = fileURLToPath(new URL('../../tsconfig.test.json', import.meta.url));
const FILE = fileURLToPath(new URL('./types/same-class.ts', import.meta.url));

describe('the types of the collectives', () => {
  it('let arrays of one class through, whatever their memory, and refuse two classes', () => {
    const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} };
    const parsed = ts.getParsedCommandLineOfConfigFile(CONFIG, {}, host)!;
    const program = ts.createProgram([FILE], parsed.options);
    const messages = ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
      const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start ?? 0).line + 1;
      return `${file?.fileName}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
    });
    expect(program.getSourceFile(FILE)).toBeDefined();
    expect(messages).toEqual([]);
  });
});
