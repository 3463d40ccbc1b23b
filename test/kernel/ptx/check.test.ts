/** Whatever program is compiled, the text keeps the rules of PTX as check.ts states them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PTX_ARCHITECTURES } from '#src/kernel/ptx/architecture.js';
import { compilePtx } from '#src/kernel/ptx/compile.js';
import { randomProgram } from '../wasm/random-program.js';
import { checkPtx } from './check.js';
import { reducingPrograms, shippedPrograms } from './shipped.js';

const ARCHES = ['sm_70', 'sm_80', 'sm_89', 'sm_90', 'sm_100'];

describe('the text of compiled programs', () => {
  it('keeps the rules for random programs on every architecture', () => {
    let instructions = 0;
    const choices = fc.array(fc.nat(2 ** 31 - 1), { minLength: 40, maxLength: 700, size: 'max' });
    fc.assert(
      fc.property(choices, fc.constantFrom(...PTX_ARCHITECTURES), (numbers, arch) => {
        instructions += checkPtx(compilePtx(randomProgram(numbers, { waits: true }), { arch }));
      }),
      { numRuns: 400 },
    );
    expect(instructions).toBeGreaterThan(40_000);
  });

  it.each(ARCHES)('keeps the rules for all shipped programs on %s', (arch) => {
    expect(checkPtx(compilePtx(shippedPrograms('float32', 'sum'), { arch }))).toBeGreaterThan(5000);
  });

  it.each(ARCHES)('keeps the rules for all types and operators on %s', (arch) => {
    const programs = reducingPrograms({
      algorithm: 'OneShot',
      collective: 'allReduce',
      protocol: 'Simple',
      ranks: 2,
    });
    expect(programs).toHaveLength(60);
    expect(checkPtx(compilePtx(programs, { arch }))).toBeGreaterThan(10_000);
  });

  it('finds every kind of broken text', () => {
    const text = compilePtx(randomProgram([1, 2, 3], { waits: false }), { arch: 'sm_70' });
    const body = (lines: string) => text.replace(/\{\n[\s\S]*\n\}/, `{\n${lines}\n  ret;\n}`);
    const cases: [string, string][] = [
      ['  .reg .b32 %r<1>;\n  add.u32 %r0, %r0, 1;', '%r0 is read before anything is written to it'],
      ['  .reg .b32 %r<1>;\n  mov.b32 %r1, 1;', '%r1 is not declared'],
      ['  .reg .b32 %r<2>;\n  mov.b32 %r0, 1;', 'nothing is written to %r1'],
      ['  .reg .f32 %f<1>;\n  mov.b32 %f0, 1;\n  add.s32 %f0, %f0, 1;', '%f0 is no s32'],
      [
        '  .reg .b32 %r<1>;\n  .reg .b64 %rd<1>;\n  mov.b64 %rd0, 1;\n  add.u32 %r0, %rd0, 1;',
        '%rd0 is no u32',
      ],
      ['  bra $L7;', 'there is no label $L7'],
      ['  .reg .b32 %r<1>;\n  .reg .b32 %r<1>;', '%r0 is declared twice'],
      ['$L1:\n  ret;\n$L1:', 'label $L1 stands twice'],
      ['  .reg .b32 %r<1>;\n  prmt.b32 %r0, 1, 2;', '3 operands'],
      ['  .reg .b32 %r<1>;\n  sin.f32 %r0, 1;', 'unknown instruction sin.f32'],
      ['  .reg .b32 %r<1>;\n  ld.param.b32 %r0, [nobody];', 'there is no parameter nobody'],
    ];
    expect(checkPtx(body(''.padEnd(2)).replace('{\n  \n', '{\n'))).toBe(1);
    for (const [lines, message] of cases) expect(() => checkPtx(body(lines))).toThrow(message);
  });
});
