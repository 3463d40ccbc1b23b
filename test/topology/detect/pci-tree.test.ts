/** The climb from a device to its processor, on made-up trees. */
import { describe, expect, test } from 'vitest';
import { allGpus, detectTopology } from '#src/topology/detect/detect.js';
import type { LocalGpu } from '#src/topology/detect/gpu-element.js';
import type { Machine } from '#src/topology/detect/machine.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, type PciValues, SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const GPU: PciValues = { class: '0x030200', vendor: '0x10de', device: '0x20b0' };

/** Lines of the document, without the indentation, without NICs. */
function document(machine: Machine, gpus?: readonly LocalGpu[]): string[] {
  const xml = detectTopology({ machine, plugins: [], ...(gpus === undefined ? {} : { gpus }) });
  return writeXml(xml).trim().split('\n');
}

const small = () =>
  new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, '0000ffff').node(1, 'ffff0000');

/** Root port, upstream port, downstream port, device. */
const BEHIND_SWITCH = ['0000:00:01.0', '0000:06:00.0', '0000:07:04.0', '0000:08:00.0'];

function behindSwitch(values: PciValues = GPU): SyntheticMachine {
  const machine = small();
  for (let length = 1; length < BEHIND_SWITCH.length; length++) machine.pci(BEHIND_SWITCH.slice(0, length));
  return machine.pci(BEHIND_SWITCH, values);
}

const nvml = gpuFacts(['0000:08:00.0']);

describe('the way up from a GPU', () => {
  test('names a switch by its upstream port and leaves out downstream and root ports', () => {
    expect(document(behindSwitch().machine({ nvml }))).toEqual([
      '<system version="1">',
      '  <cpu host_hash="0xabc" numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">',
      '    <pci busid="0000:06:00.0" class="0x060400" vendor="0x10b5" device="0x8747" subsystem_vendor="0x10b5" subsystem_device="0x8747" link_speed="8.0 GT/s PCIe" link_width="16">',
      '      <pci busid="0000:08:00.0" class="0x030200" vendor="0x10de" device="0x20b0" subsystem_vendor="0x10de" subsystem_device="0x134f" link_speed="16.0 GT/s PCIe" link_width="16">',
      '        <gpu dev="0" sm="80" rank="0" gdr="1" mlopart="-1"/>',
      '      </pci>',
      '    </pci>',
      '  </cpu>',
      '</system>',
    ]);
  });

  test('goes to the processor directly from a device at a root port, and from one without a port', () => {
    const atPort = small().pci(['0000:00:01.0']).pci(['0000:00:01.0', '0000:08:00.0'], GPU);
    const bare = small().pci(['0000:08:00.0'], GPU);
    for (const machine of [atPort, bare]) {
      const lines = document(machine.machine({ nvml }));
      expect(lines).toHaveLength(7);
      expect(lines[2]).toContain('<pci busid="0000:08:00.0"');
    }
  });

  test('puts two switches above each other, and a device behind both, in one chain', () => {
    const chain = [...BEHIND_SWITCH.slice(0, 3), '0000:10:00.0', '0000:11:08.0', '0000:12:00.0'];
    const machine = behindSwitch();
    machine.pci(chain.slice(0, 4)).pci(chain.slice(0, 5)).pci(chain, GPU);
    const lines = document(machine.machine({ nvml: gpuFacts(['0000:12:00.0']) }));
    expect(
      lines.filter((line) => line.includes('<pci ')).map((line) => /busid="([^"]*)/.exec(line)![1]),
    ).toEqual(['0000:06:00.0', '0000:10:00.0', '0000:12:00.0']);
  });

  test('orders what hangs below one element by bus id as text, whatever the order of ranks', () => {
    const machine = behindSwitch().pci([...BEHIND_SWITCH.slice(0, 2), '0000:07:00.0']);
    machine.pci([...BEHIND_SWITCH.slice(0, 2), '0000:07:00.0', '0000:09:00.0'], GPU);
    machine.pci([...BEHIND_SWITCH.slice(0, 2), '0000:07:00.0', '0000:0a:00.0'], {
      class: '0x020000',
      vendor: '0x15b3',
    });
    const folder = '/sys/devices/pci0000:00/0000:00:01.0/0000:06:00.0/0000:07:00.0/0000:0a:00.0';
    machine.interface('eth0', folder, '100000');
    const facts = gpuFacts(['0000:09:00.0', '0000:08:00.0']);
    const xml = writeXml(detectTopology({ machine: machine.machine({ nvml: facts }) }));
    // Rank 0's document has its GPU and the NIC in order of bus ids; fusion appends rank 1's GPU behind both.
    expect([...xml.matchAll(/busid="([^"]*)/g)].map(([, id]) => id)).toEqual([
      '0000:06:00.0',
      '0000:09:00.0',
      '0000:0a:00.0',
      '0000:08:00.0',
    ]);
  });

  test('takes the NUMA node of the uppermost device, and makes one processor per node', () => {
    const machine = small();
    machine.pci(['0000:08:00.0'], GPU).pci(['0000:88:00.0'], { ...GPU, numa_node: '1' });
    const lines = document(machine.machine({ nvml: gpuFacts(['0000:88:00.0', '0000:08:00.0']) }));
    expect(lines.filter((line) => line.includes('<cpu'))).toEqual([
      expect.stringContaining('numaid="1" affinity="ffff0000"'),
      expect.stringContaining('numaid="0" affinity="0000ffff"'),
    ]);
  });

  test('keeps the text of a missing numa_node, and a processor without mask', () => {
    const lines = document(
      small()
        .pci(['0000:08:00.0'], { ...GPU, numa_node: undefined })
        .machine({ nvml }),
    );
    expect(lines[1]).toBe(
      '  <cpu host_hash="0xabc" numaid="" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">',
    );
  });

  test('cuts a text at the length that NCCL has room for, and takes what no kernel writes for nothing', () => {
    const mask = (text: string) => {
      const machine = small().pci(['0000:08:00.0'], GPU).node(0, text);
      return /affinity="([^"]*)"/.exec(document(machine.machine({ nvml }))[1]!)?.[1];
    };
    // 255 bytes are read; the last one, usually the line's end, is dropped.
    expect(mask('f'.repeat(253))).toBe('f'.repeat(253));
    expect(mask('f'.repeat(254))).toBe('f'.repeat(254));
    expect(mask('f'.repeat(300))).toBe('f'.repeat(254));
    for (const text of ['', 'ff"/><cpu numaid="9', 'f\tf', 'f\nf', 'f\u0000f', '\u00ff']) {
      expect(mask(text)).toBeUndefined();
    }
  });

  test('hangs a device that sysfs does not show below processor -1, with what NVML knows of it', () => {
    const lines = document(small().machine({ nvml }));
    expect(lines.slice(1, 3)).toEqual([
      '  <cpu host_hash="0xabc" numaid="-1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">',
      '    <pci busid="0000:08:00.0" class="0x03" vendor="0x10de" device="0x20b0" subsystem_vendor="0x10de" subsystem_device="0x134f" link_speed="16.0 GT/s PCIe" link_width="16">',
    ]);
  });

  test('takes a domain of more than four digits for no device: it ends at a processor', () => {
    const chain = ['10000:00:01.0', '10000:06:00.0', '10000:07:04.0', '10000:08:00.0'];
    const machine = small();
    for (let length = 1; length < chain.length; length++) machine.pci(chain.slice(0, length));
    machine.pci(chain, GPU);
    const facts = gpuFacts(['0000:08:00.0'], { busId: '00010000:08:00.0' });
    expect(allGpus(facts)).toEqual([{ rank: 0, busId: '10000:08:00.0' }]);
    const found = document(machine.machine({ nvml: facts }));
    expect(found.slice(1, 4)).toEqual([
      expect.stringContaining('numaid="-1"'),
      expect.stringContaining('<pci busid="10000:08:00.0" class="0x03"'),
      expect.stringContaining('<gpu dev="0"'),
    ]);
  });

  test('takes a device of four digits below one of five for a child of the processor', () => {
    // A port of a controller with its own domain has a kernel name that is no device name for NCCL.
    const machine = small().pci(['0000:08:00.0'], GPU);
    const port = '/sys/devices/pci0000:00/10000:e0:06.0';
    const moved = `${port}/0000:08:00.0`;
    machine.without('/sys/devices/pci0000:08').directory(`${port}/pci_bus/0000:08`);
    machine.link('/sys/class/pci_bus/0000:08', `../..${port.slice('/sys'.length)}/pci_bus/0000:08`);
    for (const [file, text] of [
      ['class', '0x030200'],
      ['numa_node', '1'],
    ] as const) {
      machine.file(`${moved}/${file}`, text);
    }
    const lines = document(machine.machine({ nvml }));
    expect(lines[1]).toContain('numaid="1"');
    expect(lines[2]).toContain('<pci busid="0000:08:00.0"');
  });

  test('notes which ports of a Broadcom switch belong to one fabric, once each, if they exist', () => {
    const broadcom = { vendor: '0x1000', device: '0xc010' };
    const machine = small();
    for (const [port, gpu] of [
      ['0000:06:00.0', '0000:08:00.0'],
      ['0000:26:00.0', '0000:28:00.0'],
    ] as const) {
      const bus = port.slice(5, 7);
      const down = `0000:${(Number.parseInt(bus, 16) + 1).toString(16).padStart(2, '0')}:00.0`;
      machine.pci([port], broadcom).pci([port, down]).pci([port, down, gpu], GPU);
    }
    // The chains start at the switches: no root port above them, as on machines where it is hidden.
    const links = '/sys/kernel/pci_switch_link/virtual_switch_links';
    machine.file(`${links}/0000:06:00.0/0000:26:00.0`, '1').file(`${links}/0000:06:00.0/0000:77:00.0`, '1');
    machine.file(`${links}/0000:06:00.0/notadevice00`, '1').file(`${links}/0000:06:00.0/short`, '1');
    const facts = gpuFacts(['0000:08:00.0', '0000:28:00.0']);
    const lines = document(machine.machine({ nvml: facts }));
    expect(lines.filter((line) => line.includes('pcilink'))).toEqual([
      '      <pcilink target="0000:26:00.0"/>',
    ]);
  });
});

describe('speed and width', () => {
  const linkOf = (machine: SyntheticMachine, facts = gpuFacts([])): string[] => {
    // The switch of a GPU that NVML knows: its own values come from sysfs.
    const lines = document(machine.machine({ nvml: { devices: [...facts.devices, ...nvml.devices] } }));
    return lines
      .filter((line) => line.includes('<pci '))
      .map((line) => /link_speed="[^"]*"(?: link_width="[^"]*")?/.exec(line)?.[0] ?? line);
  };
  const withSwitch = (port: PciValues, root: PciValues = {}) => {
    const machine = small().pci(BEHIND_SWITCH.slice(0, 1), root).pci(BEHIND_SWITCH.slice(0, 2), port);
    return machine.pci(BEHIND_SWITCH.slice(0, 3)).pci(BEHIND_SWITCH, GPU);
  };

  test.each([
    ['the slower of device and port', '16.0 GT/s PCIe', '8.0 GT/s PCIe', '8.0 GT/s PCIe'],
    ['the device when the port is faster', '8.0 GT/s PCIe', '16.0 GT/s PCIe', '8.0 GT/s PCIe'],
    ['the device when both are equal', '8.0 GT/s PCIe', '8 GT/s', '8.0 GT/s PCIe'],
    ['the device when the port says nothing', '8.0 GT/s PCIe', undefined, '8.0 GT/s PCIe'],
    ['the port when the device says nothing', undefined, '5.0 GT/s PCIe', '5.0 GT/s PCIe'],
    ['the device when neither is a speed', 'Unknown speed', 'Unknown', 'Unknown speed'],
    ['nothing when there is nothing', undefined, undefined, ''],
  ])('sysfs: %s', (_title, device, port, expected) => {
    const [found] = linkOf(withSwitch({ max_link_speed: device }, { max_link_speed: port }));
    expect(found).toBe(`link_speed="${expected}" link_width="16"`);
  });

  test.each([
    ['8', '16', '8'],
    ['16', '8', '8'],
    ['16', undefined, '0'],
    [undefined, undefined, '0'],
    ['0x10', '255', '16'],
    ['wide', '4', '0'],
  ])('sysfs: width %s at a port of %s is %s', (device, port, expected) => {
    const [found] = linkOf(withSwitch({ max_link_width: device }, { max_link_width: port }));
    expect(found).toBe(`link_speed="8.0 GT/s PCIe" link_width="${expected}"`);
  });

  test.each([
    [1, 'link_speed="2.5 GT/s PCIe"'],
    [2, 'link_speed="5.0 GT/s PCIe"'],
    [3, 'link_speed="8.0 GT/s PCIe"'],
    [4, 'link_speed="16.0 GT/s PCIe"'],
    [5, 'link_speed="32.0 GT/s PCIe"'],
    [6, 'link_speed="64.0 GT/s PCIe"'],
    [0, 'link_speed="16.0 GT/s"'],
  ])('NVML: generation %i is %s, in spite of sysfs', (pcieGeneration, expected) => {
    const lines = document(
      small()
        .pci(['0000:08:00.0'], GPU)
        .machine({ nvml: gpuFacts(['0000:08:00.0'], { pcieGeneration, pcieWidth: 0 }) }),
    );
    expect(lines[2]).toContain(`${expected} link_width="16"`);
  });

  test('NVML: no speed at all for a generation that nobody knows yet', () => {
    const lines = document(
      small()
        .pci(['0000:08:00.0'], GPU)
        .machine({ nvml: gpuFacts(['0000:08:00.0'], { pcieGeneration: 7 }) }),
    );
    expect(lines[2]).not.toContain('link_speed');
  });

  test('NVML is not asked about a device that shows another class than that of displays', () => {
    const machine = small().pci(['0000:08:00.0'], { ...GPU, class: '0x120000', max_link_width: '4' });
    const [, , line] = document(machine.machine({ nvml: gpuFacts(['0000:08:00.0']) }));
    expect(line).toContain('class="0x120000" vendor="0x10de"');
    expect(line).toContain('link_speed="8.0 GT/s PCIe" link_width="0"');
  });
});
