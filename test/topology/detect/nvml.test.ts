/** Facts of NVML: reading them out of a library, and checking those that come from a file. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { ncclBusId } from '#src/topology/detect/bus-id.js';
import { fabricInfoOf } from '#src/topology/detect/fabric-info.js';
import { checkNvmlFacts, deviceAt, p2pWorks } from '#src/topology/detect/nvml-facts.js';
import { readNvml } from '#src/topology/detect/nvml-library.js';
import { gpuFacts } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-nvml-'));
afterAll(() => rmSync(folder, { recursive: true }));

function hasCompiler(): boolean {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return process.platform === 'linux';
  } catch {
    return false;
  }
}

/** Compiles the made-up library. */
function library(name: string, ...flags: string[]): string {
  const path = join(folder, `lib${name}.so`);
  const source = new URL('fake-nvml.c', import.meta.url).pathname;
  execFileSync('cc', ['-shared', '-fPIC', ...flags, '-o', path, source]);
  return path;
}

describe.skipIf(!hasCompiler())('a library', () => {
  test('is read completely, each fact from the place where the library puts it', () => {
    const { facts, problem } = readNvml(library('nvml'));
    expect(problem).toBe('');
    const none = { p2p: false, active: false };
    expect(facts).toEqual({
      driverVersion: '580.1.2',
      devices: [
        {
          index: 0,
          name: 'Fake 0',
          busId: '00000000:A0:00.0',
          computeCapability: { major: 9, minor: 0 },
          pciDeviceId: 0x233510de,
          pciSubSystemId: 0x18bf10de,
          pcieGeneration: 5,
          pcieWidth: 8,
          // Link 1 carries no peer traffic, 0 and 3 are active.
          nvlinks: [
            { p2p: true, active: true, remoteBusId: '00AB:00:00.0' },
            none,
            { p2p: true, active: false },
            { p2p: true, active: true, remoteBusId: '00AB:03:00.0' },
            ...Array(14).fill(none),
          ],
          c2cLinks: [{ active: true, bandwidth: 1000 }, { active: false, bandwidth: 1001 }, { active: true }],
          fabric: {
            state: 3,
            status: 0,
            clusterUuid: '000102030405060708090a0b0c0d0e0f',
            cliqueId: 7,
            healthMask: 5,
          },
          chassisSerial: '1820000000000123',
          p2p: [
            { read: 6, write: 6 },
            { read: 0, write: 1 },
          ],
        },
        {
          index: 1,
          name: 'Fake 1',
          busId: '00000001:A1:00.0',
          computeCapability: { major: 8, minor: 0 },
          pciDeviceId: 0x233510de,
          pciSubSystemId: 0x18c010de,
          pcieWidth: 9,
          // The older way of asking; the far end of link 2 cannot be read.
          nvlinks: [
            { p2p: true, active: true, remoteBusId: '00AB:00:00.0' },
            none,
            { p2p: true, active: true },
            { p2p: true, active: false },
            ...Array(14).fill(none),
          ],
          c2cLinks: [],
          chassisSerial: '1820000000000123',
          p2p: [
            { read: 10, write: 11 },
            { read: 6, write: 6 },
          ],
        },
      ],
    });
    // The JSON form is the same thing.
    expect(checkNvmlFacts(JSON.parse(JSON.stringify(facts)), 'x')).toEqual(facts);
  });

  test('that lacks newer functions gives the other facts', () => {
    const { facts } = readNvml(library('old', '-DOLD'));
    expect(facts?.devices[0]).not.toHaveProperty('chassisSerial');
    expect(facts?.devices[0]).toHaveProperty('fabric');
  });

  test('that does not start says why', () => {
    const { facts, problem } = readNvml(library('fails', '-DFAILS'));
    expect(facts).toBeUndefined();
    expect(problem).toContain('Driver Not Loaded (9)');
  });
});

test('no library is no facts and no error', () => {
  const { facts, problem } = readNvml('libtutti-absent.so.1');
  expect(facts).toBeUndefined();
  expect(problem).toMatch(/libtutti-absent\.so\.1|Linux only|koffi|TUTTI_NO_FFI/);
});

describe('facts', () => {
  const facts = gpuFacts(['0000:08:00.0', '00ab:88:1f.7']);

  test('are found by address in any form', () => {
    for (const busId of ['0000:08:00.0', '00000000:08:00.0', '0:8:0.0']) {
      expect(deviceAt(facts, busId)?.index).toBe(0);
    }
    for (const busId of ['00ab:88:1f.7', '000000AB:88:1F.7']) expect(deviceAt(facts, busId)?.index).toBe(1);
    for (const busId of ['', '0000:08:00.1', 'nonsense', '0000:08:00']) {
      expect(deviceAt(facts, busId)).toBeUndefined();
    }
    expect(deviceAt(undefined, '0000:08:00.0')).toBeUndefined();
  });

  test('let two devices be peers when both reading and writing work, as seen from the first', () => {
    const [a, b] = ['0000:08:00.0', '00ab:88:1f.7'];
    expect(p2pWorks(facts, a!, b!)).toBe(true);
    for (const status of [
      { read: 5, write: 0 },
      { read: 0, write: 5 },
    ]) {
      const one = gpuFacts([a!, b!]);
      const devices = [{ ...one.devices[0]!, p2p: [status, status] }, one.devices[1]!];
      expect(p2pWorks({ devices }, a!, b!)).toBe(false);
      expect(p2pWorks({ devices }, b!, a!)).toBe(true);
    }
    expect(p2pWorks(facts, a!, '0000:99:00.0')).toBe(false);
  });

  test('with a wrong member are refused, and the message names it', () => {
    const good = facts.devices[0]!;
    const wrong: readonly [unknown, RegExp][] = [
      [undefined, /form/],
      ['text', /form/],
      [{}, /list of devices/],
      [{ devices: [null] }, /device 0/],
      [{ devices: [{ ...good, busId: 'x' }] }, /busId of device 0: "x"/],
      [{ devices: [{ ...good, index: -1 }] }, /index of device 0/],
      [{ devices: [good, good] }, /order of devices/],
      [{ devices: [{ ...good, nvlinks: [{ p2p: 1, active: true }] }] }, /nvlinks of device 0/],
      [{ devices: [{ ...good, p2p: undefined }] }, /p2p of device 0/],
      [{ devices: [{ ...good, fabric: { state: 3 } }] }, /fabric of device 0/],
      [{ devices: [{ ...good, pcieGeneration: 1.5 }] }, /pcieGeneration of device 0: 1\.5/],
    ];
    for (const [value, message] of wrong) {
      expect(() => checkNvmlFacts(value, 'f.json')).toThrow(
        expect.objectContaining({ code: 'invalidArgument', message: expect.stringMatching(message) }),
      );
    }
  });

  test('of any shape give facts or a TuttiError', () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (devices, member) => {
        for (const value of [devices, { devices }, { devices: [{ ...facts.devices[0], nvlinks: member }] }]) {
          try {
            checkNvmlFacts(value, 'f.json');
          } catch (error) {
            expect(error).toMatchObject({ name: 'TuttiError', code: 'invalidArgument' });
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});

test('addresses are written as NCCL does: lower case, at least four digits of domain', () => {
  expect(ncclBusId('00000001:3B:00.0')).toBe('0001:3b:00.0');
  expect(ncclBusId('00010000:3B:00.0')).toBe('10000:3b:00.0');
  expect(ncclBusId('3b:00.0')).toBeUndefined();
});

test('the fabric of a GPU is compared by both halves of its UUID, as numbers', () => {
  const fabric = {
    state: 3,
    status: 0,
    clusterUuid: '0102030405060708000000000000ff00',
    cliqueId: 9,
    healthMask: 0,
  };
  const [device] = gpuFacts(['0000:08:00.0'], { fabric, chassisSerial: '18' }).devices;
  expect(fabricInfoOf(device, 5n)).toEqual({
    hostHash: 5n,
    completed: true,
    clusterUuid: [0x0807060504030201n, 0x00ff000000000000n],
    cliqueId: 9,
    chassisSerial: '18',
  });
  const none = { hostHash: 5n, completed: false, clusterUuid: [0n, 0n], cliqueId: 0, chassisSerial: '' };
  expect(fabricInfoOf(gpuFacts(['0000:08:00.0']).devices[0], 5n)).toEqual(none);
  expect(fabricInfoOf(undefined, 5n)).toEqual(none);
});
