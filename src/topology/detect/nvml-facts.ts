/**
 * What the NVIDIA management library (NVML) knows about the GPUs, as plain data.
 *
 * The data is its own JSON form: it is read from the library once, or from a recording in its place, and detection
 * cannot tell the difference. Facts that the library could not give are absent. (NVML API reference, driver 580.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { ncclBusId } from './bus-id.js';

/** One NVLink of a GPU. Links that the GPU does not have are neither capable nor active. */
export interface NvmlLink {
  /** Peer-to-peer traffic is supported over this link. */
  readonly p2p: boolean;
  readonly active: boolean;
  /** PCI address of the other end as the library writes it; absent where it could not be asked. */
  readonly remoteBusId?: string;
}

/** One chip-to-chip link to the CPU. */
export interface NvmlC2cLink {
  readonly active: boolean;
  /** MB/s; absent where it could not be read. */
  readonly bandwidth?: number;
}

/** Membership in an NVLink domain that spans hosts. */
export interface NvmlFabric {
  /** 0 not supported, 1 not started, 2 in progress, 3 completed. */
  readonly state: number;
  /** Result of the registration, 0 for success. */
  readonly status: number;
  /** 32 hexadecimal digits in the order of the bytes; zeros if there is no domain. */
  readonly clusterUuid: string;
  readonly cliqueId: number;
  readonly healthMask: number;
}

/** Whether one GPU can read and write another's memory: 0 is yes, others say why not. */
export interface NvmlP2p {
  readonly read: number;
  readonly write: number;
}

export interface NvmlDevice {
  /** The library's number of the device. */
  readonly index: number;
  readonly name?: string;
  /** PCI address as the library writes it. */
  readonly busId: string;
  readonly computeCapability?: { readonly major: number; readonly minor: number };
  /** Vendor in the lower, device in the upper 16 bits. */
  readonly pciDeviceId?: number;
  readonly pciSubSystemId?: number;
  /** Current generation and lanes of its PCI Express link. */
  readonly pcieGeneration?: number;
  readonly pcieWidth?: number;
  /** By link number. */
  readonly nvlinks: readonly NvmlLink[];
  readonly c2cLinks: readonly NvmlC2cLink[];
  readonly fabric?: NvmlFabric;
  /** Serial number of the chassis, replaced in recordings. */
  readonly chassisSerial?: string;
  /** By device index; the own one says nothing. */
  readonly p2p: readonly NvmlP2p[];
}

export interface NvmlFacts {
  readonly driverVersion?: string;
  /** By ascending index; devices that do not answer are missing. */
  readonly devices: readonly NvmlDevice[];
}

/** Both directions of access work. */
const P2P_OK = 0;

/** The device at a PCI address, in whatever form the address is written. */
export function deviceAt(facts: NvmlFacts | undefined, busId: string): NvmlDevice | undefined {
  const wanted = ncclBusId(busId);
  return wanted === undefined || facts === undefined ? undefined : byBusId(facts).get(wanted);
}

/** Devices by address: every pair of GPUs is asked for. */
const indices = new WeakMap<NvmlFacts, ReadonlyMap<string, NvmlDevice>>();

function byBusId(facts: NvmlFacts): ReadonlyMap<string, NvmlDevice> {
  const known = indices.get(facts);
  if (known !== undefined) return known;
  const index = new Map<string, NvmlDevice>();
  for (const device of facts.devices) {
    const busId = ncclBusId(device.busId);
    // Of several at one address the first counts.
    if (busId !== undefined && !index.has(busId)) index.set(busId, device);
  }
  indices.set(facts, index);
  return index;
}

/** For `CommInfo.nvmlP2p`: true where NVML reports that `busIdA` can read and write `busIdB`. */
export function p2pWorks(facts: NvmlFacts | undefined, busIdA: string, busIdB: string): boolean {
  const a = deviceAt(facts, busIdA);
  const b = deviceAt(facts, busIdB);
  if (a === undefined || b === undefined) return false;
  const status = a.p2p[b.index];
  return status?.read === P2P_OK && status.write === P2P_OK;
}

/** Devices of a machine at most: far above any, so that a damaged record cannot ask for more. */
const MAX_DEVICES = 1024;

type Form = (value: unknown) => boolean;
const isInteger: Form = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isText: Form = (value) => typeof value === 'string' && value.length <= 253;
const isFlag: Form = (value) => typeof value === 'boolean';
const optional =
  (form: Form): Form =>
  (value) =>
    value === undefined || form(value);
const listOf =
  (form: Form): Form =>
  (value) =>
    Array.isArray(value) && value.length <= MAX_DEVICES && value.every(form);

function objectOf(fields: Readonly<Record<string, Form>>): Form {
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(fields).every(([name, form]) => form((value as Record<string, unknown>)[name]));
}

const DEVICE_FIELDS: Readonly<Record<keyof NvmlDevice, Form>> = {
  index: isInteger,
  name: optional(isText),
  busId: (value) => typeof value === 'string' && ncclBusId(value) !== undefined,
  computeCapability: optional(objectOf({ major: isInteger, minor: isInteger })),
  pciDeviceId: optional(isInteger),
  pciSubSystemId: optional(isInteger),
  pcieGeneration: optional(isInteger),
  pcieWidth: optional(isInteger),
  nvlinks: listOf(objectOf({ p2p: isFlag, active: isFlag, remoteBusId: optional(isText) })),
  c2cLinks: listOf(objectOf({ active: isFlag, bandwidth: optional(isInteger) })),
  fabric: optional(
    objectOf({
      state: isInteger,
      status: isInteger,
      clusterUuid: (value) => typeof value === 'string' && /^[0-9a-f]{32}$/.test(value),
      cliqueId: isInteger,
      healthMask: isInteger,
    }),
  ),
  chassisSerial: optional(isText),
  p2p: listOf(objectOf({ read: isInteger, write: isInteger })),
};

/**
 * Checks facts that came from a file.
 *
 * @throws TuttiError invalidArgument that names the first wrong field.
 */
export function checkNvmlFacts(value: unknown, file: string): NvmlFacts {
  const refuse = (what: string): never => {
    throw new TuttiError('invalidArgument', `the NVML facts in ${file} have no valid ${what}`);
  };
  if (!objectOf({ driverVersion: optional(isText) })(value)) refuse('form: an object is needed');
  const { devices } = value as { devices?: unknown };
  if (!Array.isArray(devices) || devices.length > MAX_DEVICES) return refuse('list of devices');
  devices.forEach((device: unknown, index) => {
    if (typeof device !== 'object' || device === null) refuse(`device ${index}`);
    for (const [field, isValid] of Object.entries(DEVICE_FIELDS)) {
      const found = (device as Record<string, unknown>)[field];
      if (!isValid(found)) refuse(`${field} of device ${index}: ${JSON.stringify(found)?.slice(0, 100)}`);
    }
    const { index: number } = device as NvmlDevice;
    if (index > 0 && number <= (devices[index - 1] as NvmlDevice).index) {
      refuse(`order of devices: index ${number} stands at position ${index}`);
    }
  });
  return value as NvmlFacts;
}
