/** Files of constants: read as they are written, filled up with the standard ones, and refused with the place of a fault. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { candidateName, candidatesFor, DATA_COLLECTIVES } from '#src/tuning/host/candidates.js';
import { constantsText, parseConstants, STANDARD_CONSTANTS } from '#src/tuning/host/constants.js';

const file = (change: object) => JSON.stringify({ format: 'tutti host constants', version: 1, ...change });

const ONE = {
  alone: { start: 1, step: 2 },
  crowded: { start: 3, step: 4 },
  bandwidth: [5, 6, 7],
} as const;

describe('constants of the host', () => {
  it('are there for every candidate of every collective, all above zero', () => {
    for (const collective of DATA_COLLECTIVES) {
      for (const candidate of candidatesFor(collective)) {
        const name = candidateName(candidate);
        const { alone, crowded, bandwidth } = STANDARD_CONSTANTS.window[collective][name]!;
        for (const value of [...Object.values(alone), ...Object.values(crowded), ...bandwidth]) {
          expect(value, `${collective} ${name}`).toBeGreaterThan(0);
        }
      }
      expect(STANDARD_CONSTANTS.socket[collective]['Ring Simple']).toBeDefined();
    }
  });

  it('come back from their text', () => {
    const text = constantsText(STANDARD_CONSTANTS, { cpu: 'some', cores: 2 });
    expect(parseConstants(text)).toEqual(STANDARD_CONSTANTS);
    // A line for each candidate.
    expect(text.split('\n').filter((line) => line.includes('"alone"'))).toHaveLength(
      text.split('"bandwidth"').length - 1,
    );
  });

  it('that a file leaves out are the standard ones', () => {
    const { window, socket } = parseConstants(file({ window: { reduce: { 'Ring LL': ONE } } }));
    expect(window.reduce['Ring LL']).toEqual(ONE);
    expect({ ...window, reduce: { ...window.reduce, 'Ring LL': 0 } }).toEqual({
      ...STANDARD_CONSTANTS.window,
      reduce: { ...STANDARD_CONSTANTS.window.reduce, 'Ring LL': 0 },
    });
    expect(socket).toEqual(STANDARD_CONSTANTS.socket);
  });

  it.each([
    ['{', /^it is no JSON/],
    ['[]', 'the file is []; it must be an object'],
    ['{}', '"format" is missing, not "tutti host constants"'],
    [file({ version: 2 }), '"version" is 2; this tutti reads 1'],
    [file({ window: { alReduce: {} } }), 'window.alReduce is unknown (did you mean allReduce?)'],
    [
      file({ window: { reduce: { 'Ring L': ONE } } }),
      'window.reduce.Ring L is unknown (did you mean Ring LL?)',
    ],
    [file({ window: { reduce: { 'Ring LL': 3 } } }), 'window.reduce.Ring LL is 3; it must be an object'],
    [
      file({ socket: { reduce: { 'Ring Simple': { ...ONE, bandwidth: [1, 2] } } } }),
      'socket.reduce.Ring Simple.bandwidth is [1,2]; it must be three numbers',
    ],
    [
      file({ window: { reduce: { TwoShot: { ...ONE, alone: { start: 1, step: -1 } } } } }),
      'window.reduce.TwoShot.alone.step is -1; it must be a number from ',
    ],
    [
      file({ window: { reduce: { TwoShot: { ...ONE, bandwidth: [1, 0, 1] } } } }),
      'window.reduce.TwoShot.bandwidth[1] is 0',
    ],
  ])('%s is refused', (text, message) => {
    let error: unknown;
    try {
      parseConstants(text);
    } catch (caught) {
      error = caught;
    }
    expect(TuttiError.is(error) && error.code).toBe('invalidUsage');
    const { message: got } = error as TuttiError;
    if (typeof message === 'string') expect(got).toContain(message);
    else expect(got).toMatch(message);
  });
});
