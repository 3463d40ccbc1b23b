/**
 * Completes topology files for virtual machines. Clouds ship them with the PCI tree alone; NCCL adds what the driver
 * and the network plugin tell where it runs. To describe such a machine elsewhere, the user tells it.
 */
import { TuttiError } from '../../errors/tutti-error.js';
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

const isPci = (one: XmlElement, prefix: string): boolean =>
  one.name === 'pci' && (one.attributes.get('class') ?? '').startsWith(prefix);

const has = (one: XmlElement, name: string): boolean => one.children.some((child) => child.name === name);

/** PCI devices of a display class for which no GPU is described. */
const isBareGpu = (one: XmlElement): boolean => isPci(one, '0x03') && !has(one, 'gpu');

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
  const notes: string[] = [];
  const gpuCount = all(document, ({ name }) => name === 'gpu').length;
  const bareGpus = all(document, isBareGpu).length;
  if (gpuCount === 0 && (bareGpus === 0 || facts.sm === undefined)) throw noGpus(file, bareGpus);
  const copy = cloneElement(document);
  if (bareGpus > 0) {
    if (facts.sm === undefined) {
      notes.push(
        `${bareGpus} display devices (PCI class 0x03) have no <gpu> and are left out; --sm NN would add them`,
      );
    } else {
      for (const [at, pci] of all(copy, isBareGpu).entries())
        pci.children.push(gpuElement(gpuCount + at, facts));
      notes.push(`added ${bareGpus} GPUs with compute capability ${(facts.sm / 10).toFixed(1)}`);
      if (facts.nvlinks === undefined) {
        notes.push(
          'the file cannot tell NVLinks, which NCCL asks the driver for; --nvlinks N adds N per GPU',
        );
      }
    }
  }
  const bareNics = all(copy, isBareNic);
  if (bareNics.length > 0) {
    if (facts.nicSpeed === undefined) {
      notes.push(
        `${bareNics.length} network cards have no <nic> and are left out; --nic-gbits N would add them`,
      );
    } else {
      const first = all(copy, ({ name }) => name === 'net').length;
      for (const [at, pci] of bareNics.entries()) pci.children.push(nicElement(first + at, facts.nicSpeed));
      notes.push(`added ${bareNics.length} NICs of ${facts.nicSpeed / 1000} Gbit/s with GPUDirect RDMA`);
    }
  }
  return { document: copy, notes };
}

function noGpus(file: string, bareGpus: number): TuttiError {
  const remedy =
    bareGpus > 0
      ? `it is a template for a virtual machine with ${bareGpus} display devices, whose GPUs NCCL asks the driver for; ` +
        'give their compute capability with --sm (80 for A100, 90 for H100), and --nvlinks and --nic-gbits if they apply, or '
      : 'NCCL needs at least one; ';
  return new TuttiError(
    'invalidArgument',
    `${file} has no <gpu>: ${remedy}give the file that NCCL_TOPO_DUMP_FILE writes on the machine itself`,
  );
}

function gpuElement(number: number, { sm, nvlinks }: TemplateFacts): XmlElement {
  const links =
    nvlinks === undefined
      ? []
      : [element('nvlink', { target: 'fffffff:ffff:ff', count: nvlinks, tclass: '0x068000' })];
  return element('gpu', { dev: number, sm: sm!, rank: number, gdr: 1 }, links);
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
