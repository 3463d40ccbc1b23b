/** Colours and width of the output. */
import { describe, expect, it } from 'vitest';
import { terminalStyle } from '#src/cli/topo/terminal.js';

/** A stream as Node's, as far as the style looks at it. */
const stream = (isTTY: boolean, columns: number, hasColors: boolean) =>
  ({ isTTY, columns, hasColors: () => hasColors }) as unknown as NodeJS.WriteStream;

describe('the style of the output', () => {
  it('has the width of the terminal, at least what a table needs', () => {
    expect(terminalStyle(stream(true, 93, true), {}).width).toBe(93);
    expect(terminalStyle(stream(true, 5, true), {}).width).toBe(40);
  });

  it('has a fixed width and no colours in a file', () => {
    const style = terminalStyle(stream(false, 93, true), {});
    expect(style.width).toBe(120);
    expect(style.gpu('GPU 0')).toBe('GPU 0');
  });

  it('has colours on a terminal that shows them only', () => {
    expect(terminalStyle(stream(true, 93, true), {}).gpu('GPU 0')).toBe('\u001b[32mGPU 0\u001b[39m');
    expect(terminalStyle(stream(true, 93, false), {}).gpu('GPU 0')).toBe('GPU 0');
  });

  it('has the width that COLUMNS says, wherever it goes', () => {
    for (const isTTY of [true, false]) {
      expect(terminalStyle(stream(isTTY, 93, true), { COLUMNS: '60' }).width).toBe(60);
      expect(terminalStyle(stream(isTTY, 93, true), { COLUMNS: '200' }).width).toBe(200);
      expect(terminalStyle(stream(isTTY, 93, true), { COLUMNS: '5' }).width).toBe(40);
      for (const COLUMNS of ['', '0', 'many', '-3']) {
        expect(terminalStyle(stream(isTTY, 93, true), { COLUMNS }).width).toBe(isTTY ? 93 : 120);
      }
    }
  });

  it('has colours in a file if FORCE_COLOR asks for them, none if it forbids them', () => {
    const painted = (isTTY: boolean, FORCE_COLOR: string) =>
      terminalStyle(stream(isTTY, 93, isTTY), { FORCE_COLOR }).gpu('GPU 0') !== 'GPU 0';
    expect(['1', '', 'true', '3'].map((value) => painted(false, value))).toEqual([true, true, true, true]);
    expect(['0', 'false'].map((value) => painted(true, value))).toEqual([false, false]);
  });
});
