/** Queue pairs of InfiniBand devices: read out of the verbs library, kept by recordings, and put into the topology. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { openLibrary } from '#src/system/native-library.js';
import { detectTopology } from '#src/topology/detect/detect.js';
import { readQueuePairs } from '#src/topology/detect/ib-library.js';
import { machineRecord } from '#src/topology/detect/record-machine.js';
import { recordedMachine } from '#src/topology/detect/recorded-machine.js';
import { writeXml } from '#src/topology/xml/write.js';
import { SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-ib-'));
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
  const source = new URL('fake-ibverbs.c', import.meta.url).pathname;
  execFileSync('cc', ['-shared', '-fPIC', ...flags, '-o', path, source]);
  return path;
}

describe.skipIf(!hasCompiler())('the verbs library', () => {
  test('tells them for the devices that can be opened and answer, and all is closed again', () => {
    const path = library('ibverbs');
    expect(readQueuePairs(path)).toEqual(new Map([['mlx5_0', 262_144]]));
    expect(openLibrary(path, 'it is absent').func('int open_things()')()).toBe(0);
  });

  test('tells nothing where it has no list of devices', () => {
    expect(readQueuePairs(library('broken', '-DBROKEN'))).toEqual(new Map());
  });
});

test('without the library nothing is known', () => {
  expect(readQueuePairs('libtutti-absent.so.1')).toEqual(new Map());
});

describe('the connections of a network device', () => {
  const files = new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, 'f');
  for (const [number, id] of ['0000:3b:00.0', '0000:5e:00.0'].entries()) {
    files.pci([id], { class: '0x020700' });
    files.infiniband(`mlx5_${number}`, `/sys/devices/pci${id.slice(0, 7)}/${id}`, [{}]);
  }
  const machine = files.machine({ queuePairs: new Map([['mlx5_1', 262_144]]) });
  const connections = (xml: string) =>
    [...xml.matchAll(/maxconn="(\d+)"/g)].map(([, number]) => Number(number));

  test('are the queue pairs that its device can have, where they are known', () => {
    expect(connections(writeXml(detectTopology({ machine })))).toEqual([131_072, 262_144]);
  });

  test('are kept by a recording', () => {
    const path = join(folder, 'machine.tgz');
    writeFileSync(path, machineRecord(machine));
    const copy = recordedMachine(path);
    expect(copy.queuePairs).toEqual(machine.queuePairs);
    expect(connections(writeXml(detectTopology({ machine: copy })))).toEqual([131_072, 262_144]);
  });
});
