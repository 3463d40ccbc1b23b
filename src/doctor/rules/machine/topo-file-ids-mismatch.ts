/** A topology file that was written for another machine names devices that are not there. */
import type { XmlElement } from '../../../topology/xml/element.js';
import type { Job, TopologyDocument } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

interface FileDevice {
  readonly id: string;
  readonly at: Place;
}

/** PCI classes of GPUs: 3D controllers and graphics adapters. */
const GPU_CLASS = /^0x0?30[02]/;

function gpusOf({ root, file }: TopologyDocument): FileDevice[] {
  const found: FileDevice[] = [];
  const visit = (element: XmlElement): void => {
    const id = element.attributes.get('busid');
    const isGpu =
      GPU_CLASS.test(element.attributes.get('class') ?? '') ||
      element.children.some(({ name }) => name === 'gpu');
    if (element.name === 'pci' && id !== undefined && isGpu && element.line !== undefined) {
      found.push({ id: shortId(id), at: { file, line: element.line } });
    }
    for (const child of element.children) visit(child);
  };
  visit(root);
  return found;
}

/** `0001:8a:00.0` and `8a000` in one form: hexadecimal digits without leading zeros. */
const shortId = (id: string): string =>
  id
    .toLowerCase()
    .replace(/[:.]/g, '')
    .replace(/^0+(?=.)/, '');

interface Real {
  readonly ids: Set<string>;
  readonly at: Place[];
}

/** Bus ids of GPUs that the machine has, by its logs and lspci. */
function realGpus(job: Job): Real {
  const ids = new Set<string>();
  const at: Place[] = [];
  for (const process of job.processes) {
    for (const { busId } of process.members) if (busId !== undefined) ids.add(shortId(busId));
    for (const device of process.tree?.devices ?? []) {
      if (device.kind === 'GPU') {
        ids.add(shortId(device.id));
        at.push(device.at);
      }
    }
  }
  for (const device of job.pci) {
    if (/NVIDIA/i.test(device.text) && /^(?:3D|VGA)/.test(device.text)) {
      ids.add(shortId(device.id));
      at.push(device.at);
    }
  }
  return { ids, at };
}

/** Processes that were told to use a topology file. */
const users = (job: Job) =>
  job.processes.flatMap((process) =>
    process.topologyFile === undefined ? [] : [{ process, ...process.topologyFile }],
  );

export const topoFileIdsMismatch: Rule = {
  id: 'topo-file-ids-mismatch',
  causes: ['slows'],
  looksFor: 'NCCL_TOPO_FILE with bus ids that the machine does not have',
  example: [
    example(
      'topo.xml',
      '<system version="1">',
      '  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">',
      '    <pci busid="0001:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>',
      '  </cpu>',
      '</system>',
    ),
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 8a000 commId 0x3f - Init START',
      'n1:10:11 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/nccl/topo.xml',
    ),
  ],
  references: ['NCCL user guide: NCCL_TOPO_FILE'],
  find(job) {
    const [user] = users(job);
    if (user === undefined) return [];
    const name = user.value.replace(/^.*\//, '');
    const files = job.topologies.filter(({ kind }) => kind === 'system');
    const file = files.find((one) => one.file.endsWith(name)) ?? (files.length === 1 ? files[0] : undefined);
    const real = realGpus(job);
    if (file === undefined || real.ids.size === 0) return [];
    const told = gpusOf(file);
    if (told.length === 0 || told.some(({ id }) => real.ids.has(id))) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${user.value} was written for another machine: none of its ${told.length} GPUs is at a bus id that ${user.process.host} has`,
        culprit: { variable: 'NCCL_TOPO_FILE', file: user.value, host: user.process.host },
        evidence: distinctPlaces([user.at, ...some(told.map(({ at }) => at)), ...some(real.at, 24)]),
        repair:
          'Write the file for this machine, with the bus ids that lspci shows (tutti topo makes one), or remove the variable.',
        workaround: null,
      },
    ];
  },
};
