/**
 * NVIDIA's assembler takes everything that is shipped. Skipped, with a notice, where there is no `ptxas`.
 *
 * Assemblers from CUDA 13 on have dropped sm_70; its text is assembled for the oldest architecture they know.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Program } from '#src/kernel/ir.js';
import { compilePtx, type PtxArchitecture, type PtxOptions } from '#src/kernel/ptx/compile.js';
import { randomProgram } from '../wasm/random-program.js';
import {
  connectorPrograms,
  gpuPrograms,
  multicastPrograms,
  reducingPrograms,
  shippedPrograms,
} from './shipped.js';

const found = spawnSync('ptxas', ['--version'], { encoding: 'utf8' });
const missing = found.error !== undefined || found.status !== 0;
if (missing) console.log('ptxas is not here: PTX is not assembled in this run');

const folder = mkdtempSync(join(tmpdir(), 'tutti-ptx-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** What the assembler can assemble text of an architecture for: itself, or the oldest later one it knows. */
const assembledAs = new Map<PtxArchitecture, string>();

function knows(arch: string): boolean {
  const file = join(folder, 'empty.ptx');
  writeFileSync(file, '.version 6.0\n.target sm_70\n.address_size 64\n');
  const out = join(folder, 'empty.cubin');
  return spawnSync('ptxas', [`-arch=${arch}`, file, '-o', out]).status === 0;
}

/** Assembles programs: what the assembler says of each function's registers. Its complaints are the error. */
function assemble(
  programs: readonly Program[],
  arch: PtxArchitecture,
  options: Omit<PtxOptions, 'arch'> = {},
): string[] {
  const input = join(folder, `${arch}.ptx`);
  writeFileSync(input, compilePtx(programs, { arch, ...options }));
  const target = assembledAs.get(arch) ?? arch;
  const { status, stderr } = spawnSync(
    'ptxas',
    ['-v', `-arch=${target}`, input, '-o', join(folder, 'out.cubin')],
    { encoding: 'utf8', maxBuffer: 1 << 26 },
  );
  if (status !== 0) throw new Error(stderr);
  const lines = stderr.split('\n').filter((line) => line.includes('bytes spill stores'));
  expect(lines).toHaveLength(programs.length);
  return lines.map((line) => line.trim());
}

/** Registers are enough for a full block: nothing goes to memory and back. */
const NOTHING_SPILLED = '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads';

const ONE_SHOT = { algorithm: 'OneShot', collective: 'allReduce', protocol: 'Simple', ranks: 2 } as const;

/** The assembler is slow, and slower where other tests run beside it. */
const SLOW_MS = 240_000;

describe.skipIf(missing)('ptxas', { timeout: SLOW_MS }, () => {
  beforeAll(() => {
    if (knows('sm_70')) return;
    console.log('this ptxas has dropped sm_70: its text is assembled for sm_75');
    assembledAs.set('sm_70', 'sm_75');
  });

  it.each(['sm_70', 'sm_80', 'sm_90', 'sm_100'] as const)(
    'assembles every shipped program for %s without spilling registers',
    (arch) => {
      const programs = shippedPrograms('bfloat16', 'avg');
      expect(programs.length).toBeGreaterThan(25);
      assemble(programs, arch);
    },
  );

  it.each(['sm_90'] as const)('assembles reductions of all types and operators for %s', (arch) => {
    const programs = reducingPrograms(ONE_SHOT);
    expect(programs).toHaveLength(60);
    expect(new Set(assemble(programs, arch))).toEqual(new Set([NOTHING_SPILLED]));
  });

  it.each([
    ['sm_70', 2],
    ['sm_90', 2],
    ['sm_100', 4],
  ] as const)(
    'assembles the programs for GPUs for %s and %d ranks without spilling registers',
    (arch, ranks) => {
      const programs = gpuPrograms('float32', 'sum', ranks);
      expect(programs).toHaveLength(ranks === 2 ? 38 : 37);
      // Modules of one set of options: blocks of direct programs leave half of a multiprocessor to others.
      const byOptions = new Map<string, typeof programs>();
      for (const entry of programs) {
        const key = JSON.stringify(entry.options);
        byOptions.set(key, [...(byOptions.get(key) ?? []), entry]);
      }
      for (const group of byOptions.values()) {
        const list = group.map(({ program }) => program);
        expect(new Set(assemble(list, arch, group[0]!.options))).toEqual(new Set([NOTHING_SPILLED]));
      }
    },
  );

  it.each([
    ['sm_70', 3, false],
    ['sm_75', 3, false],
    ['sm_80', 8, false],
    ['sm_90', 8, true],
    ['sm_100', 2, false],
  ] as const)(
    'assembles rings, trees and PAT for %s and %d ranks without spilling registers',
    (arch, ranks, all) => {
      const programs = connectorPrograms(ranks, all);
      expect(programs).toHaveLength(all ? 26 : 9);
      const list = programs.map(({ program }) => program);
      expect(new Set(assemble(list, arch, programs[0]!.options))).toEqual(new Set([NOTHING_SPILLED]));
    },
  );

  it.each(['sm_90', 'sm_100'] as const)('assembles programs over multicast addresses for %s', (arch) => {
    const programs = multicastPrograms();
    expect(programs.length).toBeGreaterThan(20);
    expect(new Set(assemble(programs, arch))).toEqual(new Set([NOTHING_SPILLED]));
  });

  // Only these are compiled differently for other architectures.
  it.each(['sm_70', 'sm_89'] as const)('assembles reductions of narrow floats for %s', (arch) => {
    const programs = reducingPrograms(ONE_SHOT).filter(({ name }) =>
      /_(float16|bfloat16|float8e...)_/.test(name),
    );
    expect(programs).toHaveLength(20);
    expect(new Set(assemble(programs, arch))).toEqual(new Set([NOTHING_SPILLED]));
  });

  it('assembles random programs', () => {
    let state = 7;
    const number = () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) >>> 1;
    const programs = Array.from({ length: 30 }, (_, i) => {
      const choices = Array.from({ length: 300 }, number);
      return { ...randomProgram(choices, { waits: true }), name: `random_${i}` };
    });
    assemble(programs, 'sm_70');
  });

  it('refuses what is no PTX, so that passing means something', () => {
    const input = join(folder, 'wrong.ptx');
    writeFileSync(
      input,
      compilePtx(shippedPrograms('float32', 'sum'), { arch: 'sm_80' }).replace('add.s64', 'add.q64'),
    );
    expect(spawnSync('ptxas', ['-arch=sm_80', input, '-o', join(folder, 'out.cubin')]).status).not.toBe(0);
  });
});
