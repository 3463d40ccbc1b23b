/** `tutti kernel` as a user calls it. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

function kernel(...args: string[]) {
  return spawnSync(process.execPath, [MAIN, 'kernel', ...args], { encoding: 'utf8', timeout: 30_000 });
}

describe('tutti kernel', () => {
  it('lists every program with the options that matter to it', () => {
    const { status, stdout } = kernel('list');
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Ring\/allReduce +--type --op --protocol$/m);
    expect(stdout).toMatch(/^OneShot\/broadcast +--type --op --ranks$/m);
    expect(stdout).not.toContain('Ring/barrier');
  });

  it('shows the representation with places in the TypeScript source', () => {
    const { status, stdout } = kernel('show', 'twoshot/allreduce', '--type', 'bfloat16', '--op', 'MAX');
    expect(status).toBe(0);
    expect(stdout).toContain('; TwoShot/allReduce, bfloat16, max, 2 ranks');
    expect(stdout).toContain('kernel two_shot_allReduce (wasm, ');
    expect(stdout).toMatch(/= pk\.reduce bfloat16 max r\d+, r\d+ +; collectives\/[a-z-]+\.ts:\d+:\d+/);
    expect(stdout).toMatch(/^ +wait W0 \{ +; collectives\/direct\.ts:/m);
  });

  it('shows WebAssembly instructions with the same places', () => {
    const { status, stdout } = kernel('show', 'Ring/allReduce', '--target', 'wasm', '--type', 'float32');
    expect(status).toBe(0);
    expect(stdout).toMatch(/^;; \d+ bytes of WebAssembly$/m);
    expect(stdout).toMatch(/^ +f32x4\.add$/m);
    expect(stdout).toMatch(/;; collectives\/[a-z-]+\.ts:\d+:\d+$/m);
  });

  it('shows PTX for an architecture with the same places', () => {
    const { status, stdout } = kernel('show', 'TwoShot/allReduce', '--target', 'ptx', '--arch', 'sm_90');
    expect(status).toBe(0);
    expect(stdout).toContain('// TwoShot/allReduce, float32, sum, 2 ranks');
    expect(stdout).toContain('\n.target sm_90\n');
    expect(stdout).toMatch(/^ +add\.rn\.f32 %r\d+, %r\d+, %r\d+; +\/\/ collectives\/[a-z-]+\.ts:\d+:\d+$/m);
    expect(kernel('show', 'TwoShot/allReduce', '--target', 'ptx').stdout).toContain('\n.target sm_70\n');
  });

  it('shows a resumable build and its frame, and leaves places out on request', () => {
    const { stdout } = kernel(
      'show',
      'Ring/reduce',
      '--target',
      'wasm',
      '--resumable',
      '--no-places',
      '--protocol',
      'll',
    );
    expect(stdout).toMatch(/frame of \d+ bytes$/m);
    expect(stdout).toContain('(param i32 i32 i32 i32)');
    expect(stdout).not.toMatch(/\.ts:\d+/);
  });

  it('names what is wrong and what would be right', () => {
    const cases: [string[], string][] = [
      [['show', 'Ring/allreduced'], "There is no program 'Ring/allreduced'; choose from OneShot/barrier"],
      [['show', 'Ring/reduce', '--type', 'float'], "There is no element type 'float'; choose from int8"],
      [['show', 'Ring/reduce', '--target', 'sass'], "There is no target 'sass'; choose from ir, wasm, ptx"],
      [['show', 'Ring/reduce', '--target', 'ptx', '--arch', 'sm_60'], "'sm_60' is no GPU architecture"],
      [['show', 'Ring/reduce', '--target', 'ptx', '--traits', 'wasm'], 'generated with traits ptx, not wasm'],
      [['show', 'OneShot/reduce', '--ranks', 'two'], '--ranks two: an integer from 1 is needed'],
      [['show', 'OneShot/reduce', '--ranks', '9999'], 'direct programs need 1 to'],
      [['show', 'Ring/reduce', '--colour'], 'there is no option --colour'],
      [['show'], 'One PROGRAM is needed'],
      [['paint'], 'Usage: tutti kernel'],
    ];
    for (const [args, message] of cases) {
      const { status, stdout, stderr } = kernel(...args);
      expect([args, status, stdout]).toEqual([args, 2, '']);
      expect(stderr).toContain(message);
    }
  });

  it('explains itself', () => {
    for (const args of [['--help'], ['show', '--help']]) {
      const { status, stdout } = kernel(...args);
      expect(status).toBe(0);
      expect(stdout).toContain('--target ir|wasm|ptx');
    }
  });
});
