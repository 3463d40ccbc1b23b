/**
 * Adds the devices of a network plugin to the document. (NCCL 2.30.7, topo.cc.)
 *
 * A `net` element that a user's file already has under the same name is used as it stands, and its attributes win over
 * what the plugin says.
 */
import { cInt } from '../c-integer.js';
import type { NetDevice, NetPlugin } from '../net-device.js';
import { fuseNics, mostMembers } from '../nic-fusion/fuse-nics.js';
import type { NicFusionSettings } from '../nic-fusion/settings.js';
import type { XmlElement } from '../xml/element.js';
import { setIfAbsent } from './document.js';
import { climb, cpuElement, type Detection, pciElement } from './pci-tree.js';

/** Class of devices whose class is not set yet: network controllers. */
const NIC_CLASS = '0x02';

/** The version of NCCL's network plugin interface that tutti's devices are described by. */
const PLUGIN_VERSION = 12;

/** What the log prints for an attribute that is not there. */
const ABSENT = '(null)';

/** Adds the devices of a plugin; with `fusion`, also the virtual ones that join some of them. */
export function addNics(detection: Detection, plugin: NetPlugin, fusion?: NicFusionSettings): void {
  const { kind, devices, join } = plugin;
  for (const [number, device] of devices.entries()) addNic(detection, plugin, device, number);
  if (fusion === undefined || join === undefined || kind === 'rma') return;
  const { document, log } = detection;
  const fused = fuseNics(document.root, devices, {
    settings: fusion,
    kind,
    limit: mostMembers(PLUGIN_VERSION),
    make: join,
    append: (parent, name, attributes) => document.append(parent, name, attributes),
    log,
  });
  // Numbers of virtual devices follow those of the physical ones.
  for (const [index, { device, parent }] of fused.entries()) {
    addNic(detection, plugin, device, devices.length + index, parent);
  }
}

function addNic(
  detection: Detection,
  plugin: NetPlugin,
  device: NetDevice,
  number: number,
  forced?: XmlElement,
): void {
  const { document, log } = detection;
  const { name } = device;
  const net = document.find('net', { name }) ?? newNet(detection, device, forced);
  const { attributes } = net;
  attributes.set('keep', '1');
  const earlier = attributes.get('dev');
  if (earlier !== undefined && cInt(earlier) !== number) {
    log('INFO', 'GRAPH', `TOPO/NET : Changing ${plugin.name} dev index from ${cInt(earlier)} to ${number}`);
  }
  attributes.set('dev', String(number));
  setIfAbsent(net, 'latency', Math.trunc(device.latency));
  setIfAbsent(net, 'speed', device.speed);
  setIfAbsent(net, 'port', device.port);
  if (device.rail !== undefined) setIfAbsent(net, 'rail', device.rail);
  if (device.plane !== undefined) setIfAbsent(net, 'plane', device.plane);
  setIfAbsent(net, 'guid', `0x${device.guid.toString(16)}`);
  setIfAbsent(net, 'maxconn', device.maxConnections);
  setIfAbsent(net, 'gdr', device.gdr ? 1 : 0);
  if (plugin.kind === 'net') {
    attributes.set('net', '1');
  } else {
    setIfAbsent(net, 'net', 0);
    setIfAbsent(net, plugin.kind, 1);
  }
  const able = device.gdr ? 'Enabled' : 'Disabled';
  log('INFO', 'NET', `NET/${plugin.name} : GPU Direct RDMA ${able} for HCA ${number} '${name}'`);
  const shown = ['net', 'gin', 'rma', 'keep', 'coll'].map((key) => `${key}=${attributes.get(key) ?? ABSENT}`);
  const place = ['rail', 'plane'].map((key) => `${key}=${attributes.get(key) ?? UNDEFINED}`);
  log(
    'INFO',
    'GRAPH',
    `ncclTopoPopulateNics : Filled ${name} in topo with pciPath=${device.pciPath ?? ABSENT} ` +
      [...shown, ...place].join(' '),
  );
}

/** Rail and plane that are not defined. */
const UNDEFINED = -1;

function newNet(detection: Detection, device: NetDevice, forced: XmlElement | undefined): XmlElement {
  const { document } = detection;
  const parent = forced ?? pciParent(detection, device) ?? firstCpu(detection);
  const nic = document.childOf(parent, 'nic') ?? document.append(parent, 'nic');
  return document.append(nic, 'net', { name: device.name });
}

/** The climbed pci element of a device on the PCI bus. */
function pciParent(detection: Detection, { name, pciPath }: NetDevice): XmlElement | undefined {
  if (pciPath === undefined) return undefined;
  // The link says it; what it points to need not be there (parts of /sys are hidden in many containers).
  const subsystem = detection.files.linkTarget(`${pciPath}/subsystem`)?.split('/').at(-1) ?? '';
  if (subsystem !== 'pci') {
    detection.log(
      'INFO',
      'GRAPH',
      `Topology detection: network path (name = ${name}) ${pciPath} is not a PCI device (${subsystem}). ` +
        'Attaching to first CPU',
    );
    return undefined;
  }
  const pci = pciElement(detection, pciPath.split('/').at(-1)!, NIC_CLASS);
  climb(detection, pci);
  return pci;
}

const firstCpu = (detection: Detection): XmlElement =>
  detection.document.find('cpu') ?? cpuElement(detection, '0');
