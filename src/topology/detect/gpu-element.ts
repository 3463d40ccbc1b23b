/**
 * Adds a GPU with its NVLinks and chip-to-chip links to the document. (NCCL 2.30.7, xml.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../c-integer.js';
import type { XmlElement } from '../xml/element.js';
import { setIfAbsent } from './document.js';
import { deviceAt, type NvmlDevice } from './nvml-facts.js';
import { climb, type Detection, pciElement, pciPath } from './pci-tree.js';
import { sysfsText } from './sysfs-text.js';

/** A GPU that a rank of this host uses. */
export interface LocalGpu {
  readonly rank: number;
  /** PCI address as NCCL writes it, lower case. */
  readonly busId: string;
  /** The GPU supports GPUDirect RDMA; true by default. */
  readonly gdr?: boolean;
  /** Number of the partition of a divided GPU; -1, the default, for a whole one. */
  readonly mloPart?: number;
}

/** Class of devices whose class is not set yet: display controllers. */
const GPU_CLASS = '0x03';

/** Class of an NVSwitch: bridge, other. */
const SWITCH_CLASS = '0x068000';

/** Target of links to a device that the library does not show. */
const HIDDEN = 'fffffff:ffff:ff';

/** NVLinks of a GPU: from a compute capability (times 10) on, so many. */
const LINKS_BY_CAPABILITY = [
  [90, 18],
  [80, 12],
  [70, 6],
  [60, 4],
] as const;

/** From this compute capability (times 10) on GPUs may have chip-to-chip links. */
const FIRST_WITH_C2C = 90;

/** `dev` of a GPU that the management library does not number. */
const NO_DEVICE = -1;

/** Detects the GPU of one rank and marks it to be kept. */
export function addGpu(detection: Detection, { rank, busId, gdr = true, mloPart = -1 }: LocalGpu): void {
  const pci = pciElement(detection, busId, GPU_CLASS);
  climb(detection, pci);
  const { document } = detection;
  const gpu = document.childOf(pci, 'gpu') ?? document.append(pci, 'gpu');
  const device = deviceAt(detection.nvml, busId);
  if (device === undefined && !(gpu.attributes.has('dev') && gpu.attributes.has('sm'))) {
    throw new TuttiError(
      'systemError',
      `the GPU of rank ${rank} at ${busId} is unknown to the NVIDIA management library (NVML); its driver must be ` +
        'loaded and its library libnvidia-ml.so.1 found, or a topology file (NCCL_TOPO_FILE) must give dev and sm',
      { rank },
    );
  }
  describeGpu(detection, gpu, device);
  if (cInt(gpu.attributes.get('dev')!) === NO_DEVICE) return;
  gpu.attributes.set('keep', '1');
  gpu.attributes.set('rank', String(rank));
  setIfAbsent(gpu, 'gdr', gdr ? 1 : 0);
  gpu.attributes.set('mlopart', String(mloPart));
}

function describeGpu(detection: Detection, gpu: XmlElement, device: NvmlDevice | undefined): void {
  if (device !== undefined) setIfAbsent(gpu, 'dev', device.index);
  if (cInt(gpu.attributes.get('dev')!) === NO_DEVICE) return;
  const { major = 0, minor = 0 } = device?.computeCapability ?? {};
  if (device !== undefined) setIfAbsent(gpu, 'sm', 10 * major + minor);
  const sm = cInt(gpu.attributes.get('sm')!);
  if (device !== undefined) {
    if (detection.document.childOf(gpu, 'nvlink') === undefined) addNvLinks(detection, gpu, device, sm);
    if (sm >= FIRST_WITH_C2C && detection.document.childOf(gpu, 'c2c') === undefined) {
      addC2c(detection, gpu, device);
    }
  }
  for (const link of gpu.children) if (link.name === 'nvlink') setTargetClass(detection, link);
}

function addNvLinks({ document }: Detection, gpu: XmlElement, device: NvmlDevice, sm: number): void {
  const count = LINKS_BY_CAPABILITY.find(([first]) => sm >= first)?.[1] ?? 0;
  for (const { p2p, active, remoteBusId } of device.nvlinks.slice(0, count)) {
    if (!p2p || !active || remoteBusId === undefined) continue;
    const target = /^[!#-~]+$/.test(remoteBusId) ? remoteBusId.toLowerCase() : HIDDEN;
    const link = document.childOf(gpu, 'nvlink', { target });
    if (link === undefined) document.append(gpu, 'nvlink', { target, count: 1 });
    else link.attributes.set('count', String(cInt(link.attributes.get('count') ?? '') + 1));
  }
}

function addC2c({ document }: Detection, gpu: XmlElement, device: NvmlDevice): void {
  const links = device.c2cLinks.filter(({ active, bandwidth }) => active && bandwidth !== undefined);
  const last = links.at(-1)?.bandwidth;
  if (last !== undefined) document.append(gpu, 'c2c', { bw: last, count: links.length });
}

function setTargetClass(detection: Detection, link: XmlElement): void {
  if (link.attributes.has('tclass')) return;
  const target = link.attributes.get('target') ?? '';
  const { files, log } = detection;
  if (target === HIDDEN) {
    log('INFO', 'GRAPH', `NVLink target ${target} not visible, assuming NVSwitch`);
    link.attributes.set('tclass', SWITCH_CLASS);
    return;
  }
  const path = pciPath(detection, target);
  const found = path === undefined ? '' : sysfsText(files, path, 'class', log);
  if (found === '') {
    log('INFO', 'GRAPH', `Could not get device class for NVLink target ${target}, assuming NVSwitch`);
  }
  link.attributes.set('tclass', found || SWITCH_CLASS);
}
