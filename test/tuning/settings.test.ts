/** Variables of tuning and the sizes of buffers. */
import { describe, expect, it } from 'vitest';
import { bufferSizes, p2pChunkSize } from '#src/tuning/buffer-sizes.js';
import { NCCL_ALGORITHMS } from '#src/tuning/names.js';
import { nearestName } from '#src/tuning/nearest-name.js';
import { tuningSettings } from '#src/tuning/settings.js';

describe('variables', () => {
  it('have NCCL defaults', () => {
    expect(tuningSettings()).toEqual({
      algo: undefined,
      proto: undefined,
      nThreads: undefined,
      ll128Threads: undefined,
      threadThresholds: undefined,
      patEnable: 2,
      netOverhead: undefined,
      ll128C2c: true,
      ctaPolicy: undefined,
      simpleBuffer: undefined,
      llBuffer: undefined,
      ll128Buffer: undefined,
      p2pNetChunk: 131072,
      p2pNvlinkChunk: 524288,
      p2pPciChunk: 131072,
      graphRegister: true,
      singleProcessRegister: false,
      symKernel: undefined,
      symCtas: 0,
      symGin: true,
      symTma: false,
      symNoWindow: false,
      symGinChunk: -1,
      symCopyEngineElements: 8388608,
    });
  });

  it.each([
    ['NCCL_PAT_ENABLE', '0x1', { patEnable: 1 }],
    ['NCCL_PAT_ENABLE', 'on', { patEnable: 0 }],
    ['NCCL_PAT_ENABLE', '', { patEnable: 2 }],
    ['NCCL_NTHREADS', '0100', { nThreads: 64 }],
    ['NCCL_NTHREADS', '-2', { nThreads: undefined }],
    ['NCCL_NET_OVERHEAD', '1500ns', { netOverhead: 1500 }],
    ['NCCL_LL128_C2C', '0', { ll128C2c: false }],
    ['NCCL_SYM_CTAS', '99999999999999999999', { symCtas: 0 }],
    ['NCCL_SYM_TMA_ENABLE', '1', { symTma: true }],
    ['NCCL_CTA_POLICY', 'ZERO', { ctaPolicy: 2 }],
    ['NCCL_ALGO', '', { algo: '' }],
  ])('%s=%s', (name, text, wanted) => {
    expect(tuningSettings({ [name]: text })).toMatchObject(wanted);
  });

  it('that are set are logged', () => {
    const lines: string[] = [];
    const log = (...line: string[]) => lines.push(line.join(' '));
    tuningSettings({ NCCL_ALGO: 'ring', NCCL_PAT_ENABLE: '1', NCCL_SYM_CTAS: '99999999999999999999' }, log);
    expect(lines).toEqual([
      'INFO ENV NCCL_ALGO set by environment to ring',
      'INFO ENV NCCL_PAT_ENABLE set by environment to 1.',
      'INFO ENV Invalid value 99999999999999999999 for NCCL_SYM_CTAS, using default 0.',
    ]);
  });
});

describe('buffers', () => {
  const sizes = (env: Record<string, string> = {}) => bufferSizes(tuningSettings(env));
  it('have NCCL sizes, or those that are asked for, however odd', () => {
    expect(sizes()).toEqual({ LL: 524288, LL128: 4915200, Simple: 4194304 });
    const asked = { NCCL_BUFFSIZE: '8388609', NCCL_LL_BUFFSIZE: '1000', NCCL_LL128_BUFFSIZE: '16384' };
    expect(sizes(asked)).toEqual({ LL: 1000, LL128: 16384, Simple: 8388609 });
  });

  it.each([
    ['NCCL_BUFFSIZE', '4095', 4096],
    ['NCCL_LL_BUFFSIZE', '0', 256],
    ['NCCL_LL128_BUFFSIZE', '-1', 16384],
  ])('%s=%s is refused: nothing would fit', (name, text, least) => {
    expect(() => sizes({ [name]: text })).toThrow(`${name}=${text} leaves no room`);
    expect(() => sizes({ [name]: text })).toThrow(`use ${least} or more`);
    expect(Object.values(sizes({ [name]: `${least}` }))).toContain(least);
  });

  it.each([
    ['NVLink', { isAllNvlink: true }, {}, 524288],
    ['PCI', {}, {}, 131072],
    ['several nodes', { nNodes: 2, isAllNvlink: true }, {}, 131072],
    ['several Blackwell nodes with ARM', { nNodes: 2, cpuArch: 3, minSm: 100 }, {}, 262144],
    ['several Hopper nodes with ARM', { nNodes: 2, cpuArch: 3 }, {}, 131072],
    ['a child', { isAllNvlink: true, parent: 65536 }, {}, 65536],
    ['a child of a larger one', { parent: 524288 }, {}, 131072],
    ['small buffers', { isAllNvlink: true, simpleBuffer: 1 << 20 }, {}, 131072],
    ['asked for', { isAllNvlink: true }, { NCCL_P2P_NVL_CHUNKSIZE: '4096' }, 4096],
    ['asked for on PCI', {}, { NCCL_P2P_PCI_CHUNKSIZE: '8192' }, 8192],
    ['asked for over nodes', { nNodes: 2, cpuArch: 3, minSm: 100 }, { NCCL_P2P_NET_CHUNKSIZE: '1024' }, 2048],
  ])('sends go in steps of a size that fits the way: %s', (_, change, env, bytes) => {
    const facts = { nNodes: 1, isAllNvlink: false, cpuArch: 1, minSm: 90, simpleBuffer: 4194304, ...change };
    expect(p2pChunkSize(facts, tuningSettings(env as Record<string, string>))).toBe(bytes);
  });
});

describe('the nearest name', () => {
  it.each([
    ['rong', 'Ring'],
    ['nvlstre', 'NVLSTree'],
    ['nvls', 'NVLS'],
    ['NVLS_TREE', 'NVLSTree'],
    ['collnet-chian', 'CollNetChain'],
    ['collnet', 'CollNetDirect'],
    ['apt', 'PAT'],
    ['quicksort', undefined],
    ['_', undefined],
  ])('to %s is %s', (text, name) => {
    expect(nearestName(text, NCCL_ALGORITHMS)).toBe(name);
  });
});
