/** Detection over files of any content: a document or a TuttiError comes out, and the document can be read again. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { detectTopology } from '#src/topology/detect/detect.js';
import { machineRecord } from '#src/topology/detect/record-machine.js';
import { readXml } from '#src/topology/xml/read.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, SyntheticMachine } from './synthetic-machine.js';

const IDS = ['0000:01:00.0', '0000:02:00.0', '0000:03:00.0', '0000:04:00.0', '10000:05:00.0'];

/** Contents that belong, nearly belong, and do not belong there. */
const content = fc.oneof(
  fc.constantFrom('0x030200', '0x020000', '0x060400', '0x1000', '0x15b3', '-1', '0', '1', '16', '4: ACTIVE'),
  fc.constantFrom(
    '16.0 GT/s PCIe',
    'GT/s',
    '',
    '\n',
    '"',
    '"/><cpu ',
    '<',
    '&',
    '\u0000',
    'ff,ff',
    '999999999999999999999',
  ),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);
const deviceFile = fc.constantFrom(
  ...['class', 'vendor', 'device', 'numa_node', 'max_link_speed', 'max_link_width', 'subsystem_vendor'],
);
const id = fc.constantFrom(...IDS);
const chain = fc.array(id, { minLength: 1, maxLength: 4 });

type Step = (machine: SyntheticMachine) => void;
const folderOf = (ids: readonly string[]) => `/sys/devices/pci0000:00/${ids.join('/')}`;
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ chain, file: deviceFile, content }).map(
    ({ chain, file, content }): Step =>
      (machine) =>
        machine.raw(`${folderOf(chain)}/${file}`, content),
  ),
  // Buses that hang anywhere, also below devices of their own.
  fc.record({ chain, id }).map(
    ({ chain, id }): Step =>
      (machine) => {
        machine
          .directory(`${folderOf(chain)}/${id}`)
          .directory(`${folderOf(chain)}/pci_bus/${id.slice(0, 7)}`);
        machine.link(
          `/sys/class/pci_bus/${id.slice(0, 7)}`,
          `../..${folderOf(chain).slice(4)}/pci_bus/${id.slice(0, 7)}`,
        );
      },
  ),
  fc
    .record({ chain, target: fc.constantFrom('../bus/pci', 'subsystem', '/', '../../..', 'x'.repeat(5000)) })
    .map(
      ({ chain, target }): Step =>
        (machine) =>
          machine.link(`${folderOf(chain)}/subsystem`, target),
    ),
  fc.record({ chain, name: fc.constantFrom('eth0', 'eth1'), speed: content }).map(
    ({ chain, name, speed }): Step =>
      (machine) =>
        machine.interface(name, folderOf(chain)).raw(`${folderOf(chain)}/net/${name}/speed`, speed),
  ),
  fc.record({ chain, state: content, rate: content, guid: content }).map(
    ({ chain, state, rate, guid }): Step =>
      (machine) =>
        machine.infiniband('mlx5_0', folderOf(chain), [{ state, rate }, {}], guid),
  ),
  fc.record({ node: fc.nat(3), mask: content }).map(
    ({ node, mask }): Step =>
      (machine) =>
        machine.raw(`/sys/devices/system/node/node${node}/cpumap`, mask),
  ),
  fc.record({ id, other: id }).map(
    ({ id, other }): Step =>
      (machine) =>
        machine.file(`/sys/kernel/pci_switch_link/virtual_switch_links/${id}/${other}`, ''),
  ),
  content.map(
    (text): Step =>
      (machine) =>
        machine.raw('/proc/cpuinfo', text),
  ),
  content.map(
    (text): Step =>
      (machine) =>
        machine.raw('/proc/sys/kernel/random/boot_id', text),
  ),
);

const machines = fc.array(steps, { maxLength: 40 }).map((list) => {
  const machine = new SyntheticMachine();
  for (const step of list) step(machine);
  return machine;
});

describe('any content of the files', () => {
  const property = (withGpus: boolean) =>
    fc.property(machines, (made) => {
      const machine = made.machine({ nvml: withGpus ? gpuFacts(IDS.slice(0, 2)) : undefined });
      let xml: string;
      try {
        xml = writeXml(detectTopology({ machine, env: {} }));
      } catch (error) {
        expect(error).toMatchObject({ name: 'TuttiError' });
        return;
      }
      const { root } = readXml(xml, { root: 'system' });
      expect(writeXml(root)).toBe(xml);
      if (withGpus) expect(xml.match(/<gpu /g)).toHaveLength(2);
    });

  test('gives a document that can be read again, with both GPUs', () => {
    fc.assert(property(true), { numRuns: 300 });
  });

  test('gives a document that can be read again, without GPUs', () => {
    fc.assert(property(false), { numRuns: 300 });
  });

  test('can be recorded', () => {
    fc.assert(
      fc.property(machines, (made) => {
        const machine = made.machine({ nvml: gpuFacts(IDS.slice(0, 2)) });
        expect(machineRecord(machine).length).toBeGreaterThan(0);
      }),
      { numRuns: 50 },
    );
  });
});

test('buses that hang below each other in a circle end at a processor', () => {
  const machine = new SyntheticMachine();
  const [a, b, c, d] = IDS as [string, string, string, string];
  // a hangs two levels below b, b two levels below a.
  for (const [ids, bus] of [
    [[b, c, a], a],
    [[a, d, b], b],
  ] as const) {
    const above = folderOf(ids.slice(0, -1));
    machine.file(`${folderOf(ids)}/class`, '0x060400').directory(`${above}/pci_bus/${bus.slice(0, 7)}`);
    machine.link(
      `/sys/class/pci_bus/${bus.slice(0, 7)}`,
      `../..${above.slice(4)}/pci_bus/${bus.slice(0, 7)}`,
    );
  }
  const log: string[] = [];
  const xml = writeXml(
    detectTopology({
      machine: machine.machine({ nvml: gpuFacts([a]) }),
      plugins: [],
      log: (_level, _subsystem, text) => log.push(text),
    }),
  );
  expect(xml).toMatch(
    /<cpu [^>]*numaid="-1"[^>]*>\s*<pci busid="0000:02:00.0"[^>]*>\s*<pci busid="0000:01:00.0"[^>]*>\s*<gpu/,
  );
  expect(log.some((line) => line.includes('lies below itself'))).toBe(true);
});
