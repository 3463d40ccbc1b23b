/**
 * Completes topology files for virtual machines. Clouds ship them with the PCI tree alone; NCCL adds what the driver
 * and the network plugin tell where it runs. To describe such a machine elsewhere, the user tells it.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../../topology/c-integer.js';
import { countText, listText, netSpeedText } from '../../topology/report/quantities.js';
import { cloneElement, element, type XmlElement } from '../../topology/xml/element.js';

/** What the user knows about the machine of a template. */
export interface TemplateFacts {
  /** Compute capability times 10 of its GPUs. */
  readonly sm: number | undefined;
  /** NVLinks of each GPU to an NVSwitch. */
  readonly nvlinks: number | undefined;
  /** Mbit/s of its NICs. */
  readonly nicSpeed: number | undefined;
}

/** Options that tell facts which are given. */
export const templateOptions = ({ sm, nvlinks, nicSpeed }: TemplateFacts): string[] => [
  ...(sm === undefined ? [] : ['--sm']),
  ...(nvlinks === undefined ? [] : ['--nvlinks']),
  ...(nicSpeed === undefined ? [] : ['--nic-gbits']),
];

const isPci = (one: XmlElement, prefix: string): boolean =>
  one.name === 'pci' && (one.attributes.get('class') ?? '').startsWith(prefix);

const has = (one: XmlElement, name: string): boolean => one.children.some((child) => child.name === name);

/** Vendors that a GPU may have: NVIDIA, or none that a template would know. */
const GPU_VENDORS: readonly (string | undefined)[] = ['0x10de', '0x0000', undefined];

/** PCI devices of a display class for which no GPU is described; those of other vendors show consoles. */
const isBareGpu = (one: XmlElement): boolean =>
  isPci(one, '0x03') && !has(one, 'gpu') && GPU_VENDORS.includes(one.attributes.get('vendor')?.toLowerCase());

/** Network cards for which no port is described. */
const isBareNic = (one: XmlElement): boolean => isPci(one, '0x02') && !has(one, 'nic');

/** All elements below one for which something holds, in order. */
function all(root: XmlElement, holds: (one: XmlElement) => boolean): XmlElement[] {
  return root.children.flatMap((child) => [...(holds(child) ? [child] : []), ...all(child, holds)]);
}

/** The document with GPUs and NICs, and what the user should know. */
export function completed(
  document: XmlElement,
  file: string,
  facts: TemplateFacts,
): { document: XmlElement; notes: string[] } {
  const bareGpus = all(document, isBareGpu).length;
  const hasGpus = all(document, ({ name }) => name === 'gpu').length > 0;
  if (!hasGpus && (bareGpus === 0 || facts.sm === undefined)) throw noGpus(file, bareGpus);
  const copy = cloneElement(document);
  return { document: copy, notes: [...addGpus(copy, facts), ...addNics(copy, facts)] };
}

/** Adds the GPUs, with ranks after those that are there; says what was done or left out. */
function addGpus(document: XmlElement, facts: TemplateFacts): string[] {
  const bare = all(document, isBareGpu);
  if (bare.length === 0) {
    const ignored = templateOptions({ ...facts, nicSpeed: undefined });
    return ignored.length === 0 ? [] : [noEffect(ignored, 'GPU')];
  }
  const devices = countText(bare.length, 'display device');
  if (facts.sm === undefined) {
    return [`${devices} (PCI class 0x03) without <gpu> ${areLeftOut(bare.length)}; --sm NN would add them`];
  }
  const first = all(document, ({ name }) => name === 'gpu').length;
  // Ranks may have gaps, as in the dump of a node that is not the first.
  const ranks = all(document, ({ name }) => name === 'gpu').map((gpu) =>
    cInt(gpu.attributes.get('rank') ?? ''),
  );
  const firstRank = Math.max(first, ...ranks.map((rank) => rank + 1));
  for (const [at, pci] of bare.entries()) pci.children.push(gpuElement(first + at, firstRank + at, facts));
  const added = `added ${countText(bare.length, 'GPU')} with compute capability ${(facts.sm / 10).toFixed(1)}`;
  if (facts.nvlinks !== undefined) return [added];
  return [added, 'the file cannot tell NVLinks, which NCCL asks the driver for; --nvlinks N adds N per GPU'];
}

/** Adds the NICs; says what was done or left out. */
function addNics(document: XmlElement, { nicSpeed }: TemplateFacts): string[] {
  const bare = all(document, isBareNic);
  if (bare.length === 0) return nicSpeed === undefined ? [] : [noEffect(['--nic-gbits'], 'network card')];
  if (nicSpeed === undefined) {
    const cards = countText(bare.length, 'network card');
    return [`${cards} without <nic> ${areLeftOut(bare.length)}; --nic-gbits N would add them`];
  }
  const first = all(document, ({ name }) => name === 'net').length;
  for (const [at, pci] of bare.entries()) pci.children.push(nicElement(first + at, nicSpeed));
  return [`added ${countText(bare.length, 'NIC')} of ${netSpeedText(nicSpeed)} with GPUDirect RDMA`];
}

const noEffect = (options: readonly string[], what: string): string =>
  `${listText(options)} ${options.length > 1 ? 'have' : 'has'} no effect: the file describes every ${what} itself`;

const areLeftOut = (count: number): string => (count === 1 ? 'is left out' : 'are left out');

function noGpus(file: string, bareGpus: number): TuttiError {
  const remedy =
    bareGpus > 0
      ? `it is a template for a virtual machine with ${countText(bareGpus, 'display device')}, whose GPUs NCCL asks the driver for; ` +
        'give their compute capability with --sm (80 for A100, 90 for H100), and --nvlinks and --nic-gbits if they apply, or '
      : 'NCCL needs at least one; ';
  return new TuttiError(
    'invalidArgument',
    `${file} has no <gpu>: ${remedy}give the file that NCCL_TOPO_DUMP_FILE writes on the machine itself`,
  );
}

function gpuElement(number: number, rank: number, { sm, nvlinks }: TemplateFacts): XmlElement {
  const links =
    nvlinks === undefined
      ? []
      : [element('nvlink', { target: 'fffffff:ffff:ff', count: nvlinks, tclass: '0x068000' })];
  return element('gpu', { dev: number, sm: sm!, rank, gdr: 1 }, links);
}

/** Local identity of a NIC for which the file has none: only that they differ counts. */
const FIRST_GUID = 0x1000;

const nicElement = (number: number, speed: number): XmlElement =>
  element('nic', {}, [
    element('net', {
      name: `nic${number}`,
      dev: number,
      speed,
      port: 1,
      latency: '0.000000',
      guid: `0x${(FIRST_GUID + number).toString(16)}`,
      maxconn: 131072,
      gdr: 1,
    }),
  ]);
