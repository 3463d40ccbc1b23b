/** A machine without GPUs: what it has, and why there is nothing to decide. */
import { describe, expect, it } from 'vitest';
import { machineOnlyJson } from '#src/topology/report/json.js';
import { machineOnly, machineOnlyReport } from '#src/topology/report/machine-only.js';
import { plainStyle } from '#src/topology/report/style.js';
import { readXml } from '#src/topology/xml/read.js';

const TEXT = `<system version="1">
  <cpu numaid="0" affinity="000000ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:16:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="1" gdr="0"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>
</system>
`;

describe('a machine without GPUs', () => {
  const machine = machineOnly(readXml(TEXT, { root: 'system' }).root, 'no driver is installed');

  it('is summed up with the reason', () => {
    expect(machine.summary).toBe(
      'No GPUs: no driver is installed. 2 NUMA nodes, 1 NIC; NCCL would have no ranks here',
    );
  });

  it('is shown with its processors and NICs', () => {
    const lines = machineOnlyReport(machine, plainStyle(120));
    expect(lines.slice(0, 3)).toEqual([machine.summary, '', 'Machine']);
    expect(lines[3]).toMatch(/^CPU 0 +Intel Sapphire Rapids, NUMA 0, cores 0-7, 22 GB\/s to CPU 1$/);
    expect(lines[4]).toMatch(/^└─ NIC mlx5_0 +16:00\.0 +Gen4 x16 24 GB\/s +200 Gbit\/s, no GPUDirect$/);
    expect(lines[5]).toMatch(/^CPU 1 /);
    expect(lines).toHaveLength(6);
  });

  it('has no ranks, nodes and paths in JSON', () => {
    const json = machineOnlyJson(machine.summary, machine.facts);
    expect(json).toMatchObject({ nRanks: 0, nNodes: 0, nodes: [], channels: [], nvls: null, p2p: null });
    expect(json).toMatchObject({ machines: [{ hosts: [{ cpus: [{ numaId: 0 }, { numaId: 1 }] }] }] });
    expect(JSON.stringify(json)).not.toContain('paths');
  });
});
