/** Detection on a recorded machine must give the documents that NCCL gave on the live one. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { detectForRank, detectTopology } from '#src/topology/detect/detect.js';
import type { Machine } from '#src/topology/detect/machine.js';
import { checkNvmlFacts } from '#src/topology/detect/nvml-facts.js';
import { recordedMachine } from '#src/topology/detect/recorded-machine.js';
import { fuseTopologies } from '#src/topology/xml/fuse.js';
import { writeXml } from '#src/topology/xml/write.js';

const FOLDER = new URL('../../golden/real-2xH200/', import.meta.url);
const golden = (file: string) => readFileSync(new URL(file, FOLDER), 'utf8');

const folder = mkdtempSync(join(tmpdir(), 'tutti-detect-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The copy of /sys lacks what is no file of it: GPUs, processor (as in the dump), host. */
function realMachine(): Machine {
  const recorded = recordedMachine(new URL('sysfs.tgz', FOLDER).pathname);
  const nvml = JSON.parse(readFileSync(new URL('real-2xH200-nvml.json', import.meta.url), 'utf8'));
  return {
    ...recorded,
    nvml: checkNvmlFacts(nvml, 'real-2xH200-nvml.json'),
    cpu: { arch: 'x86_64', vendor: 'GenuineIntel', family: 6, model: 207 },
    hostHash: 0x780c5f406e2840an,
  };
}

/**
 * NCCL 2.28.9 made the dumps. 2.30.7, whose rules are ours, differs in three attributes: it takes the width of a GPU's
 * link from NVML (2.28.9 took the least of two files of sysfs, one of which is hidden here and counts 0), notes the
 * partition of the GPU, and what a device is used for.
 */
function asNewerNccl(xml: string): string {
  return xml
    .replaceAll('link_width="0"', 'link_width="16"')
    .replaceAll('gdr="1">', 'gdr="1" mlopart="-1">')
    .replaceAll('gdr="0"/>', 'gdr="0" net="1"/>');
}

describe('a virtual machine with two H200', () => {
  test('has the document that NCCL dumped, with both GPUs, with one, and rank by rank [C04-02]', () => {
    const machine = realMachine();
    expect(writeXml(detectTopology({ machine }))).toBe(asNewerNccl(golden('topo-2.xml')));
    const gpus = [
      { rank: 0, busId: '0000:00:06.0' },
      { rank: 1, busId: '0000:00:07.0' },
    ];
    expect(writeXml(detectTopology({ machine, gpus: [gpus[0]!] }))).toBe(asNewerNccl(golden('topo-1.xml')));
    const fused = fuseTopologies(gpus.map((gpu) => detectForRank({ machine }, gpu)));
    expect(writeXml(fused)).toBe(asNewerNccl(golden('topo-2.xml')));
  });

  test('takes what NVML does not tell from a topology file, and the width 0 of the dump from sysfs', () => {
    const file = join(folder, 'topology.xml');
    writeFileSync(
      file,
      `<system version="1">
  <cpu host_hash="0x1" numaid="-1">
    <pci busid="0000:00:06.0">
      <gpu dev="0" sm="90"><nvlink target="fffffff:ff:ff.0" count="18"/></gpu>
    </pci>
  </cpu>
</system>`,
    );
    const machine = { ...realMachine(), nvml: undefined };
    const gpus = [{ rank: 0, busId: '0000:00:06.0' }];
    const found = writeXml(detectTopology({ machine, gpus, env: { NCCL_TOPO_FILE: file } }));
    expect(found).toBe(asNewerNccl(golden('topo-1.xml')).replace('link_width="16"', 'link_width="0"'));
  });

  test('logs what NCCL logged, in the same order', () => {
    const lines: string[] = [];
    detectForRank(
      { machine: realMachine(), log: (_level, _subsystem, text) => lines.push(text) },
      { rank: 0, busId: '0000:00:06.0' },
    );
    // One pass of rank 0 (its lines carry [0]); 2.30.7 no longer reads max_link_* of a GPU, and says more at the end.
    const theirs = golden('log-2.txt')
      .split('\n')
      .filter((line) => line.startsWith('vm:609:655 [0] NCCL INFO '))
      .map((line) => line.slice('vm:609:655 [0] NCCL INFO '.length));
    const start = theirs.findIndex((line) => line.startsWith('Topology detection :'));
    const end = theirs.findIndex((line) => line.startsWith('NCCL_TOPO_DUMP_FILE'));
    const expected = theirs
      .slice(start, end)
      .filter(
        (line) => !/max_link_|Importing network plugins|Could not get speed|ncclTopoPopulateNics/.test(line),
      );
    expect(expected).toHaveLength(4);
    expect(lines.filter((line) => expected.includes(line))).toEqual(expected);
    expect(lines).toContain(
      'ncclTopoPopulateNics : Filled eth0 in topo with pciPath=/sys/devices/pci0000:00/0000:00:03.0/virtio2 ' +
        'net=1 gin=(null) rma=(null) keep=1 coll=(null) rail=-1 plane=-1',
    );
  });
});
