/** Random programs: the compiled code must do what a plain evaluator of the representation does. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Program, STATUS } from '#src/kernel/ir.js';
import { frameBytes } from '#src/kernel/wasm/compile.js';
import { evaluate } from './evaluate.js';
import { instance, sharedMemory } from './instance.js';
import { COUNTER, randomProgram } from './random-program.js';

const BASE = 1024;
const FRAME = 64;
const SIZE = 65536;

const choices = fc.array(fc.nat(2 ** 31 - 1), { minLength: 40, maxLength: 700, size: 'max' });

/** Memory contents that differ from cell to cell. */
function fill(bytes: Uint8Array): void {
  for (let i = 0; i < 256; i++) bytes[BASE + i] = (i * 37 + 11) & 0xff;
}

function expected(program: Program, blocks: () => void = () => {}): { status: number; bytes: Uint8Array } {
  const bytes = new Uint8Array(SIZE);
  fill(bytes);
  const view = new DataView(bytes.buffer);
  const status = evaluate(program, {
    view,
    descriptor: BASE,
    block: 3,
    blocks: 5,
    blocked: () => {
      blocks();
      view.setUint32(BASE + COUNTER, view.getUint32(BASE + COUNTER, true) + 1, true);
    },
  });
  return { status, bytes };
}

describe('random programs', () => {
  it('do what the evaluator does', () => {
    fc.assert(
      fc.property(choices, (numbers) => {
        const program = randomProgram(numbers, { waits: false });
        const due = expected(program);
        const run = instance(program, { memory: sharedMemory(1) });
        fill(run.bytes);
        expect(run.entries.random!(BASE, 3, 5) >>> 0).toBe(due.status);
        expect(Buffer.compare(run.bytes.slice(BASE), due.bytes.slice(BASE))).toBe(0);
      }),
      { numRuns: 400 },
    );
  });

  it('that wait go on after relax as if nothing had happened', () => {
    let relaxed = 0;
    fc.assert(
      fc.property(choices, (numbers) => {
        const program = randomProgram(numbers, { waits: true });
        const due = expected(program);
        const run = instance(program, {
          memory: sharedMemory(1),
          spins: 1,
          relax: () => {
            relaxed++;
            run.view.setUint32(BASE + COUNTER, run.view.getUint32(BASE + COUNTER, true) + 1, true);
            return 0;
          },
        });
        fill(run.bytes);
        expect(run.entries.random!(BASE, 3, 5) >>> 0).toBe(due.status);
        expect(Buffer.compare(run.bytes.slice(BASE), due.bytes.slice(BASE))).toBe(0);
      }),
      { numRuns: 200 },
    );
    expect(relaxed).toBeGreaterThan(100);
  });

  it('resume at their waits with all that they knew', () => {
    let blocked = 0;
    fc.assert(
      fc.property(choices, (numbers) => {
        const program = randomProgram(numbers, { waits: true });
        const due = expected(program);
        const run = instance(program, { memory: sharedMemory(1), spins: 1, resumable: true });
        expect(frameBytes(program)).toBeLessThan(BASE - FRAME);
        fill(run.bytes);
        let status = run.entries.random!(BASE, 3, 5, FRAME);
        while (status === STATUS.blocked) {
          blocked++;
          run.view.setUint32(BASE + COUNTER, run.view.getUint32(BASE + COUNTER, true) + 1, true);
          status = run.entries.random!(BASE, 3, 5, FRAME);
        }
        expect(status >>> 0).toBe(due.status);
        expect(run.view.getUint32(FRAME, true)).toBe(0);
        expect(Buffer.compare(run.bytes.slice(BASE), due.bytes.slice(BASE))).toBe(0);
      }),
      { numRuns: 400 },
    );
    expect(blocked).toBeGreaterThan(200);
  });
});
