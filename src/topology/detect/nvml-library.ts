/**
 * Reads the facts about GPUs from the driver's management library (libnvidia-ml.so.1), through koffi.
 *
 * A machine without the library, without koffi or without a loaded driver simply has no facts. All facts are read at
 * once into plain data. Layouts of structures and numbers of fields are those of the library's public header (nvml.h of
 * CUDA 12 and 13), which keeps them compatible between versions.
 */
import { type NativeCall, openLibrary } from '../../system/native-library.js';
import type { NvmlC2cLink, NvmlDevice, NvmlFabric, NvmlFacts, NvmlLink, NvmlP2p } from './nvml-facts.js';

const LIBRARY = 'libnvidia-ml.so.1';

/** nvmlReturn_t. */
const SUCCESS = 0;

/** Fields of nvmlDeviceGetFieldValues. */
const FIELD = {
  nvlinkState: 165,
  c2cLinkCount: 170,
  c2cLinkStatus: 171,
  c2cLinkMaxBandwidth: 172,
} as const;

/** nvmlFieldValue_t: offsets of the members used, and its size. */
const FIELD_VALUE = { field: 0, scope: 4, result: 28, value: 32, bytes: 40 } as const;

/** nvmlPciInfo_t: the address with a domain of four digits comes first, the one with eight last. */
const PCI_INFO = { legacyBusId: [0, 16], deviceId: 28, subSystemId: 32, busId: [36, 32], bytes: 68 } as const;

/** nvmlGpuFabricInfo_v2_t; its version holds size and number. */
const FABRIC = {
  uuid: [4, 16],
  status: 20,
  clique: 24,
  state: 28,
  health: 32,
  bytes: 36,
  version: 2,
} as const;

/** nvmlPlatformInfo_v2_t. */
const PLATFORM = { serial: [20, 16], bytes: 44, version: 2 } as const;

/** nvmlGpuP2PCapsIndex_t. */
const P2P = { read: 0, write: 1 } as const;

/** NVML_P2P_STATUS_UNKNOWN: also for pairs that could not be asked. */
const P2P_UNKNOWN = 6;

/** NVML_NVLINK_CAP_P2P_SUPPORTED. */
const CAPABILITY_P2P = 0;

/** Links per GPU that NCCL asks for at most, and so the recorded ones (NVML_NVLINK_MAX_LINKS). */
const MAX_NVLINKS = 18;

/** Chip-to-chip links at most: known machines have up to ten. */
const MAX_C2C_LINKS = 64;

/** From this compute capability (times 10) on the state of links is a field, and there are chip-to-chip links. */
const HOPPER = 90;

export interface NvmlReading {
  readonly facts: NvmlFacts | undefined;
  /** Why there are no facts; empty when there are. */
  readonly problem: string;
}

/** Facts of all GPUs of this machine. `library` is the name or path to load, for tests. Never throws. */
export function readNvml(library: string = LIBRARY): NvmlReading {
  try {
    return { facts: new Library(library).facts(), problem: '' };
  } catch (error) {
    return { facts: undefined, problem: error instanceof Error ? error.message : String(error) };
  }
}

type Handle = bigint;
type Call = NativeCall;

/** C strings of fixed buffers. */
function textAt(buffer: Buffer, [start, length]: readonly [number, number]): string {
  const bytes = buffer.subarray(start, start + length);
  const end = bytes.indexOf(0);
  return bytes.subarray(0, end < 0 ? length : end).toString('latin1');
}

class Library {
  readonly #load: (definition: string) => Call;

  constructor(name: string) {
    this.#load = openLibrary(name, 'no NVIDIA driver is installed').func;
  }

  /** A function; one that the library lacks (an older driver) always fails. */
  #optional(definition: string): Call {
    try {
      return this.#load(definition);
    } catch {
      return () => -1;
    }
  }

  facts(): NvmlFacts {
    const result = this.#load('int nvmlInit_v2()')();
    if (result !== SUCCESS) {
      const text = this.#load('const char *nvmlErrorString(int result)') as unknown as (n: number) => string;
      throw new Error(`${LIBRARY} does not start: ${text(result)} (${result})`);
    }
    try {
      return this.#read();
    } finally {
      this.#load('int nvmlShutdown()')();
    }
  }

  #read(): NvmlFacts {
    const count = uintOf((out) => this.#load('int nvmlDeviceGetCount_v2(void *count)')(out)) ?? 0;
    const handleAt = this.#load('int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void *device)');
    const handles = Array.from({ length: count }, (_, index): Handle | undefined => {
      const out = Buffer.alloc(8);
      return handleAt(index, out) === SUCCESS ? out.readBigUInt64LE() : undefined;
    });
    const version = Buffer.alloc(80);
    const asked = this.#optional('int nvmlSystemGetDriverVersion(void *version, unsigned int length)');
    const hasVersion = asked(version, version.length) === SUCCESS;
    const read = this.#deviceReader();
    // A GPU that has fallen off the bus does not answer; the others keep their numbers.
    const devices = handles.flatMap((handle, index) => {
      const device = handle === undefined ? undefined : read(handle, index, handles);
      return device === undefined ? [] : [device];
    });
    return { ...(hasVersion ? { driverVersion: textAt(version, [0, version.length]) } : {}), devices };
  }

  /** Looks all functions up once, then reads one device per call. */
  #deviceReader() {
    const one = (name: string): ((device: Handle) => number | undefined) => {
      const call = this.#optional(`int ${name}(uintptr_t device, void *value)`);
      return (device) => uintOf((out) => call(device, out));
    };
    const pciInfo = this.#load('int nvmlDeviceGetPciInfo_v3(uintptr_t device, void *info)');
    const name = this.#optional('int nvmlDeviceGetName(uintptr_t device, void *name, unsigned int length)');
    const capability = this.#optional(
      'int nvmlDeviceGetCudaComputeCapability(uintptr_t device, void *major, void *minor)',
    );
    const generation = one('nvmlDeviceGetCurrPcieLinkGeneration');
    const width = one('nvmlDeviceGetCurrPcieLinkWidth');
    const links = this.#linkReader();
    const c2c = this.#c2cReader();
    const fabric = this.#fabricReader();
    const chassis = this.#chassisReader();
    const p2p = this.#p2pReader();
    return (device: Handle, index: number, all: readonly (Handle | undefined)[]): NvmlDevice | undefined => {
      const info = Buffer.alloc(2 * PCI_INFO.bytes);
      if (pciInfo(device, info) !== SUCCESS) return undefined;
      const label = Buffer.alloc(96);
      const [major, minor] = [Buffer.alloc(4), Buffer.alloc(4)];
      const hasCapability = capability(device, major, minor) === SUCCESS;
      const sm = hasCapability ? 10 * major.readInt32LE() + minor.readInt32LE() : 0;
      return defined({
        index,
        name: name(device, label, label.length) === SUCCESS ? textAt(label, [0, label.length]) : undefined,
        busId: textAt(info, PCI_INFO.busId) || textAt(info, PCI_INFO.legacyBusId),
        computeCapability: hasCapability
          ? { major: major.readInt32LE(), minor: minor.readInt32LE() }
          : undefined,
        pciDeviceId: info.readUInt32LE(PCI_INFO.deviceId),
        pciSubSystemId: info.readUInt32LE(PCI_INFO.subSystemId),
        pcieGeneration: generation(device),
        pcieWidth: width(device),
        nvlinks: links(device, sm),
        c2cLinks: sm >= HOPPER ? c2c(device) : [],
        fabric: fabric(device),
        chassisSerial: chassis(device),
        p2p: all.map((other) => p2p(device, other)),
      });
    };
  }

  /** One field of one link, or undefined. */
  #fieldReader(): (device: Handle, field: number, scope: number) => number | undefined {
    const call = this.#optional('int nvmlDeviceGetFieldValues(uintptr_t device, int count, void *values)');
    return (device, field, scope) => {
      const value = Buffer.alloc(FIELD_VALUE.bytes);
      value.writeUInt32LE(field, FIELD_VALUE.field);
      value.writeUInt32LE(scope, FIELD_VALUE.scope);
      if (call(device, 1, value) !== SUCCESS) return undefined;
      return value.readInt32LE(FIELD_VALUE.result) === SUCCESS
        ? value.readUInt32LE(FIELD_VALUE.value)
        : undefined;
    };
  }

  #linkReader(): (device: Handle, sm: number) => NvmlLink[] {
    const capability = this.#optional(
      'int nvmlDeviceGetNvLinkCapability(uintptr_t device, unsigned int link, int what, void *value)',
    );
    const state = this.#optional(
      'int nvmlDeviceGetNvLinkState(uintptr_t device, unsigned int link, void *state)',
    );
    const remote = this.#optional(
      'int nvmlDeviceGetNvLinkRemotePciInfo_v2(uintptr_t device, unsigned int link, void *info)',
    );
    const field = this.#fieldReader();
    return (device, sm) =>
      Array.from({ length: MAX_NVLINKS }, (_, link) => {
        const p2p = uintOf((out) => capability(device, link, CAPABILITY_P2P, out)) === 1;
        const active =
          sm >= HOPPER ? field(device, FIELD.nvlinkState, link) : uintOf((out) => state(device, link, out));
        const info = Buffer.alloc(2 * PCI_INFO.bytes);
        const seen = p2p && active === 1 && remote(device, link, info) === SUCCESS;
        return defined({
          p2p,
          active: active === 1,
          remoteBusId: seen ? textAt(info, PCI_INFO.legacyBusId) : undefined,
        });
      });
  }

  #c2cReader(): (device: Handle) => NvmlC2cLink[] {
    const field = this.#fieldReader();
    return (device) => {
      const count = Math.min(field(device, FIELD.c2cLinkCount, 0) ?? 0, MAX_C2C_LINKS);
      return Array.from({ length: count }, (_, link) =>
        defined({
          active: field(device, FIELD.c2cLinkStatus, link) === 1,
          bandwidth: field(device, FIELD.c2cLinkMaxBandwidth, link),
        }),
      );
    };
  }

  #fabricReader(): (device: Handle) => NvmlFabric | undefined {
    const call = this.#optional('int nvmlDeviceGetGpuFabricInfoV(uintptr_t device, void *info)');
    return (device) => {
      const info = Buffer.alloc(2 * FABRIC.bytes);
      info.writeUInt32LE(FABRIC.bytes | (FABRIC.version << 24));
      if (call(device, info) !== SUCCESS) return undefined;
      const [start, length] = FABRIC.uuid;
      return {
        state: info.readUInt8(FABRIC.state),
        status: info.readUInt32LE(FABRIC.status),
        clusterUuid: info.subarray(start, start + length).toString('hex'),
        cliqueId: info.readUInt32LE(FABRIC.clique),
        healthMask: info.readUInt32LE(FABRIC.health),
      };
    };
  }

  #chassisReader(): (device: Handle) => string | undefined {
    const call = this.#optional('int nvmlDeviceGetPlatformInfo(uintptr_t device, void *info)');
    return (device) => {
      const info = Buffer.alloc(2 * PLATFORM.bytes);
      info.writeUInt32LE(PLATFORM.bytes | (PLATFORM.version << 24));
      if (call(device, info) !== SUCCESS) return undefined;
      return textAt(info, PLATFORM.serial) || undefined;
    };
  }

  #p2pReader(): (device: Handle, other: Handle | undefined) => NvmlP2p {
    const call = this.#optional(
      'int nvmlDeviceGetP2PStatus(uintptr_t device, uintptr_t other, int what, void *status)',
    );
    return (device, other) => {
      const status = (what: number) =>
        other === undefined || other === device
          ? P2P_UNKNOWN
          : (uintOf((out) => call(device, other, what, out)) ?? P2P_UNKNOWN);
      return { read: status(P2P.read), write: status(P2P.write) };
    };
  }
}

/** The unsigned integer that a call writes, or undefined where it fails. */
function uintOf(call: (out: Buffer) => number): number | undefined {
  const out = Buffer.alloc(4);
  return call(out) === SUCCESS ? out.readUInt32LE() : undefined;
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** The object without members that are undefined, as JSON would have it. */
function defined<T extends object>(value: T): Defined<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Defined<T>;
}
