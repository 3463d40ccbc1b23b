/** The tables of bandwidths, GB/s. */
import { describe, expect, it } from 'vitest';
import {
  interCpuBandwidth,
  LOCAL_BANDWIDTH,
  netBandwidth,
  nvlinkBandwidth,
  PARTITION_BANDWIDTH,
  pciBandwidth,
} from '#src/topology/system/bandwidth.js';
import { CpuArch, type CpuModel, type CpuNode, CpuVendor } from '#src/topology/system/node.js';

describe('bandwidth', () => {
  it('of one NVLink goes by compute capability; 86 alone is slow, 87 and 89 are as 80', () => {
    const expected: readonly (readonly [number, number])[] = [
      [120, 40.1],
      [100, 40.1],
      [99, 20.6],
      [90, 20.6],
      [89, 20],
      [87, 20],
      [86, 12],
      [80, 20],
      [75, 20],
      [70, 20],
      [69, 18],
      [60, 18],
      [59, 20],
      [0, 20],
    ];
    for (const [sm, value] of expected) expect(nvlinkBandwidth(sm), `sm ${sm}`).toBe(Math.fround(value));
  });

  it('between sockets goes by architecture, vendor and model', () => {
    const between = (arch: CpuArch, vendor: CpuVendor, model: CpuModel) =>
      interCpuBandwidth({ arch, vendor, model } as CpuNode);
    const { INTEL, AMD, ZHAOXIN, UNKNOWN, UNDEFINED } = CpuVendor;
    expect(([4, 3, 2, 1, -1] as const).map((model) => between(CpuArch.X86, INTEL, model))).toEqual([
      40, 22, 10, 6, 6,
    ]);
    expect(between(CpuArch.X86, AMD, -1)).toBe(16);
    expect([between(CpuArch.X86, ZHAOXIN, 1), between(CpuArch.X86, ZHAOXIN, -1)]).toEqual([9, 6]);
    expect(between(CpuArch.POWER, UNDEFINED, -1)).toBe(32);
    expect(between(CpuArch.ARM, UNDEFINED, -1)).toBe(6);
    expect(between(CpuArch.X86, UNKNOWN, -1)).toBe(5000);
    expect(between(CpuArch.UNKNOWN, UNDEFINED, -1)).toBe(5000);
    expect([LOCAL_BANDWIDTH, PARTITION_BANDWIDTH]).toEqual([5000, 2618]);
  });

  it('of PCI is lanes times the code of the speed text, by 80', () => {
    const x16 = (speed: string) => pciBandwidth(speed, 16);
    const gens = [
      '2.5 GT/s PCIe',
      '5.0 GT/s PCIe',
      '8.0 GT/s PCIe',
      '16.0 GT/s PCIe',
      '32.0 GT/s PCIe',
      '64.0 GT/s PCIe',
    ];
    expect(gens.map(x16)).toEqual([3, 6, 12, 24, 48, 96]);
    expect(['2.5 GT/s', '5 GT/s', '8 GT/s', '16 GT/s', '32 GT/s', '32 GT/s PCIe'].map(x16)).toEqual([
      3, 6, 12, 24, 48, 48,
    ]);
    // Texts that are not known, although they look as if: third generation.
    expect(['16.0 GT/s', '64 GT/s', '5.0 GT/s', 'Unknown', ' 16.0 GT/s PCIe', ''].map(x16)).toEqual(
      Array(6).fill(12),
    );
    expect(pciBandwidth('2.5 GT/s PCIe', 1)).toBe(0.1875);
    expect(pciBandwidth('16.0 GT/s PCIe', 8)).toBe(12);
    expect(pciBandwidth('32.0 GT/s PCIe', 0)).toBe(48);
    const lines: string[] = [];
    // Without `PCIe` NCCL does not know it, and takes the third generation.
    expect(pciBandwidth('16.0 GT/s', 16, (_level, _subsystem, text) => lines.push(text))).toBe(12);
    expect(lines[0]).toBe(
      "KV Convert to int : could not find value of '16.0 GT/s' in dictionary, falling back to 60",
    );
  });

  it('of a NIC is its speed by 8000, 10 Gbit/s if unknown [C04-07]', () => {
    expect([200_000, 400_000, 100, 1].map(netBandwidth)).toEqual([25, 50, 0.0125, 0.000125].map(Math.fround));
    expect([-1, 0, -7].map(netBandwidth)).toEqual([1.25, 1.25, 1.25]);
  });
});
