/** Processors: numbers as NCCL computes them from CPUID, from what the kernel prints. */
import { describe, expect, test } from 'vitest';
import { cpuFactsWithoutProc, ncclFamily, readCpuFacts } from '#src/topology/detect/cpu-facts.js';
import { SyntheticMachine } from './synthetic-machine.js';

const facts = (cpuinfo: string, arch?: string) =>
  readCpuFacts(new SyntheticMachine().raw('/proc/cpuinfo', cpuinfo).machine().files, arch);

/** How Linux forms the number that it prints from a CPUID signature. */
const kernelFamily = (base: number, extended: number) => (base === 15 ? base + extended : base);

describe('family', () => {
  test.each([
    ['Skylake, Sapphire Rapids and all other Intel', 6, 0, 6],
    ['Zen 2', 15, 8, 143],
    ['Zen 3 and 4', 15, 10, 175],
    ['Zen 5', 15, 11, 191],
    ['Hygon', 15, 9, 159],
    ['Pentium 4', 15, 0, 15],
    ['Zhaoxin', 7, 0, 7],
  ])('%s: base %i, extended %i is %i', (_name, base, extended, expected) => {
    expect(base + (extended << 4)).toBe(expected);
    expect(ncclFamily(kernelFamily(base, extended))).toBe(expected);
  });
});

describe('/proc/cpuinfo', () => {
  test('of an AMD server', () => {
    const text =
      'processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\nmodel name\t: AMD EPYC 7742\n';
    expect(facts(text, 'x64')).toEqual({
      arch: 'x86_64',
      vendor: 'AuthenticAMD',
      family: 143,
      model: 49,
      name: 'AMD EPYC 7742',
    });
  });

  test('of a Zhaoxin processor keeps the blanks of its vendor', () => {
    const text = 'processor\t: 0\nvendor_id\t:   Shanghai  \ncpu family\t: 7\nmodel\t\t: 91\n';
    expect(facts(text, 'x64')).toEqual({ arch: 'x86_64', vendor: '  Shanghai  ', family: 7, model: 91 });
  });

  test('of arm64 and POWER has an architecture and nothing else that counts', () => {
    const arm = 'processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n';
    const power = 'processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n';
    expect(facts(arm, 'arm64')).toEqual({ arch: 'arm64' });
    expect(facts(power, 'ppc64')).toEqual({ arch: 'ppc64', name: 'POWER9, altivec supported' });
    // A recording without other facts: the file alone tells.
    expect(facts(arm)?.arch).toBe('arm64');
    expect(facts(power)?.arch).toBe('ppc64');
    expect(facts('vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\n')?.arch).toBe('x86_64');
  });

  test('that says nothing gives nothing, or the architecture where that is known', () => {
    expect(facts('')).toBeUndefined();
    expect(facts('garbage: 1\n')).toBeUndefined();
    expect(facts('cpu family\t: six\nmodel\t\t: -1\n', 'x64')).toEqual({ arch: 'x86_64' });
    expect(facts('', 'riscv64')).toEqual({ arch: 'riscv64' });
  });
});

describe('systems without /proc', () => {
  test('Windows tells family, model and vendor in a variable', () => {
    const env = { PROCESSOR_IDENTIFIER: 'AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD' };
    expect(cpuFactsWithoutProc('x64', 'AMD Ryzen 9', env)).toEqual({
      arch: 'x86_64',
      vendor: 'AuthenticAMD',
      family: 175,
      model: 97,
      name: 'AMD Ryzen 9',
    });
  });

  test('macOS tells the product', () => {
    expect(cpuFactsWithoutProc('arm64', 'Apple M3', {})).toEqual({ arch: 'arm64', name: 'Apple M3' });
    expect(cpuFactsWithoutProc('x64', 'Intel(R) Core(TM) i7', {})).toMatchObject({ vendor: 'GenuineIntel' });
    expect(cpuFactsWithoutProc('arm64', undefined, {})).toEqual({ arch: 'arm64' });
  });
});
