/** The gpu element: NVLinks, chip-to-chip links, and what a topology file says about it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { detectTopology } from '#src/topology/detect/detect.js';
import type { LocalGpu } from '#src/topology/detect/gpu-element.js';
import type { NvmlDevice, NvmlLink } from '#src/topology/detect/nvml-facts.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-detect-'));
afterAll(() => rmSync(folder, { recursive: true }));

const BUS_ID = '0000:08:00.0';
const small = () =>
  new SyntheticMachine()
    .raw('/proc/cpuinfo', SKYLAKE)
    .pci([BUS_ID], { class: '0x030200' })
    .pci(['0000:09:00.0'], { class: '0x030000' })
    .pci(['0000:0a:00.0'], { class: '0x068000' });

/** The gpu element's lines for a GPU with these facts. */
function gpuLines(facts: Partial<NvmlDevice>, gpu: Partial<LocalGpu> = {}, file?: string): string[] {
  const env: Record<string, string> = {};
  if (file !== undefined) {
    env.NCCL_TOPO_FILE = join(folder, 'file.xml');
    writeFileSync(env.NCCL_TOPO_FILE, file);
  }
  const xml = detectTopology({
    machine: small().machine({ nvml: gpuFacts([BUS_ID], facts) }),
    gpus: [{ rank: 0, busId: BUS_ID, ...gpu }],
    plugins: [],
    env,
  });
  const lines = writeXml(xml)
    .split('\n')
    .map((line) => line.trim());
  const start = lines.findIndex((line) => line.startsWith('<gpu'));
  const end = lines.findIndex((line) => line === '</gpu>' || /^<gpu.*\/>$/.test(line));
  return lines.slice(start, end + 1).filter((line) => line !== '</gpu>');
}

const link = (remoteBusId?: string, more: Partial<NvmlLink> = {}): NvmlLink => ({
  p2p: true,
  active: true,
  ...(remoteBusId === undefined ? {} : { remoteBusId }),
  ...more,
});
const capability = (sm: number) => ({ major: Math.floor(sm / 10), minor: sm % 10 });

describe('NVLinks', () => {
  test('are counted per target, in the order in which targets appear, with the class of the target', () => {
    const nvlinks = ['0000:09:00.0', '0000:0A:00.0', '0000:09:00.0', '0000:0B:00.0'].map((id) => link(id));
    expect(gpuLines({ nvlinks })).toEqual([
      '<gpu dev="0" sm="80" rank="0" gdr="1" mlopart="-1">',
      '<nvlink target="0000:09:00.0" count="2" tclass="0x030000"/>',
      '<nvlink target="0000:0a:00.0" count="1" tclass="0x068000"/>',
      '<nvlink target="0000:0b:00.0" count="1" tclass="0x068000"/>',
    ]);
  });

  test('count only when they carry peer traffic, are active and show their other end', () => {
    const nvlinks = [
      link('0000:09:00.0', { p2p: false }),
      link('0000:09:00.0', { active: false }),
      link(),
      link('0000:09:00.0'),
    ];
    expect(gpuLines({ nvlinks }).slice(1)).toEqual([
      '<nvlink target="0000:09:00.0" count="1" tclass="0x030000"/>',
    ]);
  });

  test.each([
    [35, 0],
    [60, 4],
    [61, 4],
    [70, 6],
    [75, 6],
    [80, 12],
    [89, 12],
    [90, 18],
    [120, 18],
  ])('capability %i: the first %i links are looked at', (sm, count) => {
    const nvlinks = Array.from({ length: 18 }, () => link('0000:09:00.0'));
    const lines = gpuLines({ nvlinks, computeCapability: capability(sm) });
    expect(lines.slice(1)).toEqual(
      count === 0 ? [] : [`<nvlink target="0000:09:00.0" count="${count}" tclass="0x030000"/>`],
    );
  });

  test('to an end without a printable address lead to a switch', () => {
    const nvlinks = [link(''), link('\u0001\u0002'), link('FFFFFFF:FF:FF.0')];
    expect(gpuLines({ nvlinks }).slice(1)).toEqual([
      '<nvlink target="fffffff:ffff:ff" count="2" tclass="0x068000"/>',
      '<nvlink target="fffffff:ff:ff.0" count="1" tclass="0x068000"/>',
    ]);
  });
});

describe('chip-to-chip links', () => {
  const c2cLinks = [
    { active: true, bandwidth: 40000 },
    { active: false, bandwidth: 1 },
    { active: true },
    { active: true, bandwidth: 44712 },
  ];
  test('are counted where active and readable; the last one gives the bandwidth', () => {
    expect(gpuLines({ c2cLinks, computeCapability: capability(90) }).slice(1)).toEqual([
      '<c2c bw="44712" count="2"/>',
    ]);
  });

  test('are asked for from capability 9.0 on', () => {
    expect(gpuLines({ c2cLinks, computeCapability: capability(89) })).toHaveLength(1);
  });

  test('leave no element when none works', () => {
    expect(gpuLines({ c2cLinks: [{ active: true }], computeCapability: capability(90) })).toHaveLength(1);
  });
});

describe('what the caller and a file say', () => {
  const fileWith = (gpu: string) =>
    `<system version="1">\n<cpu host_hash="0x1" numaid="0"><pci busid="${BUS_ID}">${gpu}</pci></cpu></system>`;

  test('partition and GPUDirect RDMA come from the caller', () => {
    expect(gpuLines({}, { gdr: false, mloPart: 1, rank: 5 })).toEqual([
      '<gpu dev="0" sm="80" rank="5" gdr="0" mlopart="1"/>',
    ]);
  });

  test('a file keeps dev, sm, gdr and its links; rank and partition are overwritten', () => {
    const file = fileWith(
      '<gpu dev="3" sm="70" rank="9" gdr="0" mlopart="7"><nvlink target="0000:09:00.0" count="6"/></gpu>',
    );
    expect(gpuLines({ nvlinks: [link('0000:0a:00.0')] }, {}, file)).toEqual([
      '<gpu dev="3" sm="70" rank="0" gdr="0" mlopart="-1">',
      '<nvlink target="0000:09:00.0" count="6" tclass="0x030000"/>',
    ]);
  });

  test('a file can take a GPU out: dev -1 leaves nothing of it', () => {
    expect(gpuLines({}, {}, fileWith('<gpu dev="-1" sm="80"/>'))).toEqual([]);
  });

  test('a GPU that neither NVML nor a file knows is an error that names rank, place and remedy', () => {
    const machine = small().machine();
    const gpus = [{ rank: 2, busId: BUS_ID }];
    expect(() => detectTopology({ machine, gpus, plugins: [] })).toThrow(
      expect.objectContaining({
        code: 'systemError',
        rank: 2,
        message: expect.stringMatching(/rank 2 at 0000:08:00\.0.*libnvidia-ml\.so\.1.*NCCL_TOPO_FILE/),
      }),
    );
  });
});
