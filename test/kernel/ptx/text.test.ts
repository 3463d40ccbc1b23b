/** The text of PTX modules: form, versions, order and scope of accesses, and what is refused. */
import { describe, expect, it } from 'vitest';
import { type KernelBuilder, kernel, type Value, withPlaces } from '#src/kernel/builder.js';
import type { Program } from '#src/kernel/ir.js';
import { architectureFor, compilePtx, PTX_ARCHITECTURES, type PtxOptions } from '#src/kernel/ptx/compile.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';
import { parsePtx } from './parse.js';
import { shippedPrograms } from './shipped.js';

function program(define: (k: KernelBuilder, base: Value<'ptr'>) => void, name = 'p'): Program {
  return kernel(name, ptxTraits(), define);
}

/** The instructions of one program, without the head, parameters and declarations. */
function instructions(
  define: (k: KernelBuilder, base: Value<'ptr'>) => void,
  options: PtxOptions = { arch: 'sm_70' },
): string[] {
  const text = compilePtx(program(define), options);
  return text
    .slice(text.indexOf('{') + 2, -2)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('.reg'));
}

function versionOf(define: (k: KernelBuilder, base: Value<'ptr'>) => void, arch: string): string {
  return parsePtx(compilePtx(program(define), { arch })).version;
}

describe('compilePtx', () => {
  it('writes a module with an entry function per program', () => {
    const fill = program((k, base) => {
      const value = k.load('u32', base, { offset: 8, order: 'acquire' });
      k.for(k.threadIndex, value, k.threadCount, (i) => {
        k.store('packet', base.offset(i.mul(16)), k.packet(value.cast('u64'), 7), { cache: 'stream' });
      });
      k.if(value.eq(3), () => k.return(17));
    }, 'fill');
    expect(compilePtx(fill, { arch: 'sm_70', threads: 640, blocksPerMultiprocessor: 2 })).toBe(`.version 6.0
.target sm_70
.address_size 64

.visible .entry fill(
  .param .u64 fill_descriptor,
  .param .u64 fill_abort,
  .param .u64 fill_status
)
.maxntid 640, 1, 1
.minnctapersm 2
{
  .reg .pred %p<2>;
  .reg .b32 %r<13>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd0, [fill_descriptor];
  ld.acquire.sys.global.b32 %r3, [%rd0+8];
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %ntid.x;
  mov.b32 %r0, %r4;
$L0:
  mov.b32 %r1, %r0;
  setp.ge.u32 %p0, %r1, %r3;
  @%p0 bra $L1;
  mul.lo.u32 %r6, %r1, 16;
  cvt.u64.u32 %rd1, %r6;
  add.s64 %rd2, %rd0, %rd1;
  cvt.u64.u32 %rd3, %r3;
  mov.b64 {%r7, %r8}, %rd3;
  mov.b64 %rd4, 7;
  mov.b64 {%r9, %r10}, %rd4;
  st.global.cs.v4.b32 [%rd2], {%r7, %r8, %r9, %r10};
$L2:
  mov.b32 %r2, %r0;
  add.u32 %r11, %r2, %r5;
  mov.b32 %r0, %r11;
  bra $L0;
$L1:
  setp.eq.u32 %p1, %r3, 3;
  @!%p1 bra $L3;
  ld.param.u64 %rd5, [fill_status];
  mov.u32 %r12, %ctaid.x;
  mul.wide.u32 %rd6, %r12, 4;
  add.s64 %rd7, %rd5, %rd6;
  st.relaxed.sys.global.b32 [%rd7], 17;
  ret;
$L3:
  ret;
}
`);
  });

  it('takes the descriptor by value where its size is given, and loads fields and cells from it', () => {
    const define = (k: KernelBuilder, work: Value<'ptr'>) => {
      const target = k.load('ptr', work);
      const cell = k.load('u32', work.offset(k.blockIndex.mul(4)), { offset: 16 });
      k.store('u32', target, cell.add(k.load('u32', work, { offset: 8 })));
    };
    const options = { arch: 'sm_70', descriptorBytes: 48 };
    expect(compilePtx(program(define), options)).toContain(`
.visible .entry p(
  .param .align 16 .b8 p_descriptor[48],
  .param .u64 p_abort,
`);
    expect(instructions(define, options)).toEqual([
      'ld.param.b64 %rd0, [p_descriptor];',
      'mov.u32 %r0, %ctaid.x;',
      'mul.lo.u32 %r1, %r0, 4;',
      'mov.b64 %rd1, p_descriptor;',
      'cvt.u64.u32 %rd2, %r1;',
      'add.s64 %rd3, %rd1, %rd2;',
      'ld.param.b32 %r2, [%rd3+16];',
      'ld.param.b32 %r3, [p_descriptor+8];',
      'add.u32 %r4, %r2, %r3;',
      'st.global.b32 [%rd0], %r4;',
      'ret;',
    ]);
  });

  it('refuses to do anything but load with a descriptor by value', () => {
    const compile = (define: (k: KernelBuilder, work: Value<'ptr'>) => void, descriptorBytes = 16) => {
      return () => compilePtx(program(define), { arch: 'sm_70', descriptorBytes });
    };
    const stores = compile((k, work) => k.store('u32', work.offset(k.threadIndex), 1));
    expect(stores).toThrow('more with its descriptor than load from it');
    const passes = compile((k, work) => k.store('ptr', k.load('ptr', work), work));
    expect(passes).toThrow('more with its descriptor than load from it');
    expect(compile(() => {}, 5000)).toThrow('descriptorBytes 5000: a whole number from 1 to 4000 is needed');
  });

  it('gives the same text for the same programs', () => {
    const text = () => compilePtx(shippedPrograms('float16', 'sum'), { arch: 'sm_90' });
    expect(text()).toBe(text());
  });

  it('names the source place of a node behind its first instruction', () => {
    const build = () => program((k, base) => k.store('u32', base, k.load('u32', base).add(1)));
    const text = compilePtx(withPlaces(build), { arch: 'sm_70' });
    expect(text).toMatch(/^ {2}ld\.global\.b32 %r0, \[%rd0\]; +\/\/ ptx\/text\.test\.ts:\d+:\d+$/m);
    const bare = compilePtx(build(), { arch: 'sm_70' });
    expect(text.replaceAll(/ +\/\/.*/g, '')).toBe(bare);
  });

  it('asks for the lowest version that carries a program', () => {
    const nothing = () => {};
    const versions = PTX_ARCHITECTURES.map((arch) => versionOf(nothing, arch));
    expect(versions).toEqual('6.0 6.1 6.3 7.0 7.1 7.4 7.8 7.8 8.6 8.8 8.7 8.8'.split(' '));
    const wait = (k: KernelBuilder, base: Value<'ptr'>) => k.wait(() => k.load('u32', base).eq(1));
    expect(versionOf(wait, 'sm_70')).toBe('6.3'); // nanosleep
    const fp8 = (k: KernelBuilder, base: Value<'ptr'>) =>
      k.store('packet', base, k.widen('float8e4m3', k.load('packet', base), 0));
    expect(['sm_70', 'sm_80', 'sm_89', 'sm_90'].map((arch) => versionOf(fp8, arch))).toEqual([
      '6.0',
      '7.0',
      '8.1', // sm_89 has had the conversion only since then
      '7.8',
    ]);
  });

  it('writes order, scope and cache of accesses', () => {
    const lines = instructions((k, base) => {
      k.load('u8', base);
      k.load('i16', base, { order: 'relaxed', scope: 'block' });
      k.load('f64', base, { order: 'acquire', scope: 'device' });
      k.load('packet', base, { order: 'volatile', offset: -16 });
      k.load('ptr', base, { cache: 'stream' });
      k.store('u16', base, 1, { order: 'release', scope: 'system' });
      k.store('packet', base, k.packet(1, 2), { order: 'relaxed', scope: 'device' });
      k.fence('both', 'device');
      k.atomic('add', 'u64', base, 1, { scope: 'block' });
      k.compareExchange('u32', base, 1, 2, { offset: 4 });
      k.barrier();
      k.barrier(3, 64);
      k.wake(base);
    });
    expect(lines.filter((line) => !line.startsWith('mov') && !line.startsWith('ld.param'))).toEqual([
      'ld.global.u8 %r0, [%rd0];',
      'ld.relaxed.cta.global.s16 %r1, [%rd0];',
      'ld.acquire.gpu.global.f64 %fd0, [%rd0];',
      'ld.volatile.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd0+-16];',
      'ld.global.cs.b64 %rd1, [%rd0];',
      'st.release.sys.global.b16 [%rd0], %r6;',
      'st.relaxed.gpu.global.v4.b32 [%rd0], {%r7, %r8, %r9, %r10};',
      'fence.acq_rel.gpu;',
      'atom.acq_rel.cta.global.add.u64 %rd5, [%rd0], %rd4;',
      'atom.acq_rel.sys.global.cas.b32 %r13, [%rd0+4], %r11, %r12;',
      'barrier.sync 0;',
      'barrier.sync 3, 64;',
      'ret;',
    ]);
  });

  it('brings the lanes of a warp together before they store a line', () => {
    const lines = instructions((k, base) => {
      const packet = k.load('packet', base);
      k.warpBarrier();
      k.storeLine(base, packet, k.threadIndex.lt(8));
      k.storeLine(base, packet, k.bool(true));
    });
    expect(lines.filter((line) => /bar|\bst\./.test(line))).toEqual([
      'bar.warp.sync 0xffffffff;',
      'bar.warp.sync 0xffffffff;',
      '@%p0 st.volatile.global.v4.b32 [%rd0], {%r0, %r1, %r2, %r3};',
      'bar.warp.sync 0xffffffff;',
      'st.volatile.global.v4.b32 [%rd0], {%r0, %r1, %r2, %r3};',
    ]);
  });

  it('loads all packets of a round before it stores one', () => {
    const text = compilePtx(
      shippedPrograms('float32', 'sum').filter((p) => p.name.includes('Ring_allGather_Simple')),
      { arch: 'sm_80' },
    );
    const moves = text.split('\n').filter((line) => /\.v4\.b32/.test(line));
    const order = moves.map((line) => (line.includes('ld.') ? 'L' : 'S')).join('');
    expect(order).toContain('LLLLSSSS');
    expect(ptxTraits({ unroll: 8 }).unroll).toBe(8);
  });

  it('lets an aborted thread go on where threads that are gone would be waited for', () => {
    const wait = (threads?: number) => (k: KernelBuilder, base: Value<'ptr'>) => {
      k.wait(() => k.load('u32', base).eq(1));
      k.barrier(1, threads);
    };
    const plain = instructions(wait());
    const at = plain.findIndex((line) => line.startsWith('st.relaxed.sys'));
    expect(plain[at + 1]).toBe('ret;');
    const counted = instructions(wait(64));
    const report = counted.findIndex((line) => line.startsWith('st.relaxed.sys'));
    expect(counted[report + 1]).toMatch(/^setp\.eq\.u32 (%p\d+), 0, 0;$/);
    expect(counted.filter((line) => line === 'ret;')).toHaveLength(1);
  });

  it('says what is wrong with what cannot be compiled', () => {
    const empty = program(() => {});
    const cases: [() => unknown, string][] = [
      [
        () => compilePtx(empty, { arch: 'sm_60' }),
        "'sm_60' is no GPU architecture of the ptx target; choose from sm_70",
      ],
      [() => compilePtx(empty, { arch: 'toString' }), "'toString' is no GPU architecture"],
      [
        () => compilePtx(empty, { arch: 'sm_80', threads: 1025 }),
        'threads 1025: a whole number from 32 to 1024',
      ],
      [() => compilePtx(empty, { arch: 'sm_80', threads: 64.5 }), 'threads 64.5'],
      [() => compilePtx(empty, { arch: 'sm_80', blocksPerMultiprocessor: 0 }), 'blocksPerMultiprocessor 0'],
      [() => compilePtx([empty, empty], { arch: 'sm_80' }), 'two programs of one module are called p'],
      [
        () =>
          compilePtx(
            program(() => {}, 'a-b'),
            { arch: 'sm_80' },
          ),
        "'a-b' is no name for a PTX function",
      ],
      [
        () => instructions((k, base) => k.load('u32', base, { order: 'acquire', align: 2 })),
        'an acquire access of u32 needs alignment 4, not 2',
      ],
      [
        () => instructions((k, base) => k.load('u32', base, { order: 'release' })),
        'a load cannot be a release',
      ],
      [
        () => instructions((k, base) => k.store('u32', base, 1, { order: 'acquire' })),
        'a store cannot be an acquire',
      ],
      [() => instructions((k) => k.f32(1).and(2)), 'the ptx target has no and of type f32'],
    ];
    for (const [run, message] of cases) expect(run).toThrow(message);
  });

  it('finds the architecture for a GPU', () => {
    const cases = {
      sm_70: [7, 0],
      sm_75: [7, 5],
      sm_80: [8, 0],
      sm_90: [9, 0],
      sm_100: [10, 1],
      sm_121: [13, 0],
    };
    for (const [arch, [major, minor]] of Object.entries(cases))
      expect(architectureFor(major!, minor!)).toBe(arch);
    expect(() => architectureFor(6, 1)).toThrow('compute capability 6.1 is too old: 7.0');
  });
});
