/** The text of programs. */
import { describe, expect, it } from 'vitest';
import { kernel, withPlaces } from '#src/kernel/builder.js';
import { PTX_TRAITS, WASM_TRAITS } from '#src/kernel/ir.js';
import { printProgram } from '#src/kernel/print.js';
import { wasmText } from '#src/kernel/wasm/compile.js';

describe('printProgram', () => {
  it('writes every statement once, nested as in the source', () => {
    const program = kernel('all', PTX_TRAITS, (k, base) => {
      const index = k.threadIndex;
      const word = k.load('u32', base, { offset: 4, order: 'acquire', scope: 'device' });
      const byte = k.load('u8', base, { offset: -1 });
      k.store('u32', base, index.add(word), { order: 'release' });
      const packet = k.load('packet', base, { align: 8, cache: 'stream' });
      const low = packet.half(0);
      k.if(
        byte.lt(3),
        () => k.return(17),
        () => k.fence('both', 'block'),
      );
      k.for(k.u32(0), 5, 1, (i, loop) => k.if(i.eq(word), () => loop.break()));
      k.wait(() => k.load('u64', base, { order: 'relaxed' }).ge(low));
      k.storePart(base, k.loadPart(base, byte, 2), 6, 2);
      k.copy(base, base.offset(64), low);
      k.atomic('max', 'u32', base, 9, { offset: 8 });
      k.compareExchange('u64', base, 1, 2, { scope: 'block' });
      k.barrier(1, 64);
      k.shuffle(word, 3);
      k.vote('any', byte.eq(0));
      k.warpBarrier();
      k.storeLine(base, packet, byte.eq(0));
      k.wake(base);
      k.store(
        'packet',
        base,
        k.narrow('bfloat16', [k.widen('bfloat16', packet, 0), k.widen('bfloat16', packet, 1)]),
      );
    });
    expect(printProgram(program)).toBe(`kernel all (ptx, 27 registers, 1 waits)
descriptor r0: ptr
r1: u32 = threadIndex
r2: u32 = load [r0 + 4] acquire device
r3: u32 = load.u8 [r0 - 1]
r4: u32 = add r1, r2
store.u32 [r0], r4 release
r5: packet = load [r0] stream align 8
r6: u64 = pk.half low r5
r7: pred = lt.u32 r3, 3
if r7 {
  return 17
} else {
  fence both block
}
r8: u32 := 0
loop L0 {
  r9: u32 := r8
  r10: pred = ge.u32 r9, 5
  if r10 {
    break L0
  }
  r11: pred = eq.u32 r9, r2
  if r11 {
    break L0
  }
} step {
  r12: u32 := r8
  r13: u32 = add r12, 1
  r8: u32 := r13
}
wait W0 {
  r14: u64 = load [r0] relaxed
  r15: pred = ge.u64 r14, r6
} until r15
r16: packet = loadPart [r0], r3 align 2
storePart [r0], r16, 6 align 2
r17: ptr = offset r0, 64
copy [r0], [r17], r6
r18: u32 = atomic max [r0 + 8], 9
r19: u64 = compareExchange [r0], 1, 2 block
barrier 1 of 64
r20: u32 = shuffle r2 from 3
r21: pred = eq.u32 r3, 0
r22: pred = vote any r21
warpBarrier
r23: pred = eq.u32 r3, 0
storeLine [r0], r5 if r23
wake [r0]
r24: packet = pk.widen bfloat16 part 0 r5
r25: packet = pk.widen bfloat16 part 1 r5
r26: packet = pk.narrow bfloat16 r24, r25
store.packet [r0], r26
`);
  });

  it('puts the source place behind a statement where it was recorded', () => {
    const build = () =>
      kernel('p', WASM_TRAITS, (k, base) => k.store('u32', base, k.load('u32', base).add(1)));
    expect(printProgram(build())).not.toContain('print.test.ts');
    const text = printProgram(withPlaces(build));
    expect(text).toMatch(/^r1: u32 = load \[r0\] +; kernel\/print\.test\.ts:\d+:\d+$/m);
    expect(wasmText(withPlaces(build))).toMatch(/;; kernel\/print\.test\.ts:\d+:\d+$/m);
  });
});
