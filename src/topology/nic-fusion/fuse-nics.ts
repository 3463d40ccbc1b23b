/**
 * Joins NICs that are close to each other into virtual ones, so that one channel uses several ports.
 *
 * First the groups that a user asks for, then, from the first device on, each with the later ones that are near enough.
 * The plugin has the last word about each group. (NCCL 2.30.7, topo.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../c-integer.js';
import { type LogSink, SILENT } from '../log.js';
import type { NetDevice } from '../net-device.js';
import { PathType } from '../system/path-type.js';
import { element, type XmlElement } from '../xml/element.js';
import { Ancestry, meetingOf, type NicDistance } from './distance.js';
import { type AppendElement, placeVirtualNic } from './placement.js';
import type { ForcedGroup, NicFusionSettings } from './settings.js';

/** Most NICs in one virtual NIC, by the version of the network plugin interface. */
export const mostMembers = (pluginVersion: number): number => (pluginVersion >= 12 ? 8 : 4);

export interface NicFusionOptions {
  readonly settings: NicFusionSettings;
  /** What the plugin is for: the attribute that single members lose. */
  readonly kind: 'net' | 'gin' | 'coll';
  /** Most members of a group. */
  readonly limit: number;
  /** Makes the virtual device of these devices (their numbers, the one that the group began with first); undefined: refused. */
  readonly make: (members: readonly number[]) => NetDevice | undefined;
  /** Appends an element to the document; by default to the children alone. */
  readonly append?: AppendElement;
  readonly log?: LogSink;
}

/** A virtual NIC that was made. */
export interface FusedNic {
  readonly device: NetDevice;
  /** Numbers of the physical devices. */
  readonly members: readonly number[];
  /** The element below which its `nic` element belongs; undefined if the document has the device already. */
  readonly parent: XmlElement | undefined;
}

/**
 * Makes virtual NICs of the devices of a plugin and prepares the document for them: single members are no longer used,
 * and each virtual NIC has a place.
 *
 * @param root The document; has a `net` element for each device, found by its name.
 * @throws TuttiError invalidUsage for a group that a user asks for and that cannot be, invalidArgument for members of
 *   different NUMA nodes.
 */
export function fuseNics(
  root: XmlElement,
  devices: readonly NetDevice[],
  options: NicFusionOptions,
): FusedNic[] {
  const { kind, append = appendChild, log = SILENT } = options;
  const ancestry = new Ancestry(root);
  const nets = devices.map(({ name }) => ancestry.net(name));
  const made = new Groups(devices, distances(ancestry, nets), options, log).make();
  for (const { members } of made) {
    for (const member of members) {
      const net = nets[member];
      if (net !== undefined) leaveOut(net, kind);
    }
  }
  return made.map(({ device, members }) => {
    const present = members.flatMap((member) => nets[member] ?? []);
    const parent =
      ancestry.net(device.name) === undefined ? placeVirtualNic(ancestry, present, append, log) : undefined;
    return { device, members, parent };
  });
}

const appendChild: AppendElement = (parent, name, attributes) => {
  const made = element(name, attributes);
  parent.children.push(made);
  return made;
};

/** Distance of each device to each; devices that are not in the document are near to none. */
function distances(ancestry: Ancestry, nets: readonly (XmlElement | undefined)[]): NicDistance[][] {
  const chains = nets.map((net) => (net === undefined ? undefined : ancestry.chain(net)));
  return chains.map((a) =>
    chains.map((b) => (a === undefined || b === undefined ? PathType.DIS : meetingOf([a, b]).distance)),
  );
}

/** Uses a net element no more for one kind; it is not kept if it is of no use at all. */
function leaveOut({ attributes }: XmlElement, kind: string): void {
  attributes.set(kind, '0');
  const isUsed = ['net', 'gin', 'coll'].some((key) => cInt(attributes.get(key) ?? '0') !== 0);
  if (!isUsed) attributes.set('keep', '0');
}

interface Made {
  readonly device: NetDevice;
  readonly members: readonly number[];
}

/** Finds the groups of devices, asking the plugin for each. */
class Groups {
  readonly #devices: readonly NetDevice[];
  readonly #distances: NicDistance[][];
  readonly #options: NicFusionOptions;
  readonly #log: LogSink;
  readonly #placed = new Set<number>();
  readonly #made: Made[] = [];

  constructor(
    devices: readonly NetDevice[],
    distances: NicDistance[][],
    options: NicFusionOptions,
    log: LogSink,
  ) {
    this.#devices = devices;
    this.#distances = distances;
    this.#options = options;
    this.#log = log;
  }

  make(): readonly Made[] {
    const { forced, level } = this.#options.settings;
    for (const group of forced) this.#makeForced(group);
    if (level !== PathType.LOC) this.#makeNear();
    return this.#made;
  }

  #makeForced({ text, nics }: ForcedGroup): void {
    const { limit, make } = this.#options;
    const members = [...this.#devices.keys()].filter((index) => {
      const { name, port } = this.#devices[index]!;
      return (
        !this.#placed.has(index) &&
        nics.some((nic) => nic.name === name && (nic.port === undefined || nic.port === port))
      );
    });
    if (members.length !== nics.length) {
      const line = `TOPO/NET : Only matched ${members.length} devices, ${nics.length} requested from ${text}`;
      this.#log('WARN', 'NET', line);
      const names = this.#devices.map(({ name, port }) => `${name}:${port}`).join(', ');
      throw new TuttiError(
        'invalidUsage',
        `${line} (NCCL_NET_FORCE_MERGE); the devices are ${names || 'none'}, each can be in one group`,
      );
    }
    if (members.length > limit) {
      throw new TuttiError(
        'invalidUsage',
        `NCCL_NET_FORCE_MERGE: ${text} names ${members.length} devices, but a virtual device joins at most ${limit}`,
      );
    }
    const device = make(members);
    if (device === undefined) {
      throw new TuttiError(
        'invalidUsage',
        `NCCL_NET_FORCE_MERGE: the network plugin does not join ${text}; leave the group out`,
      );
    }
    this.#accept(device, members);
  }

  #makeNear(): void {
    const { make } = this.#options;
    for (let root = 0; root < this.#devices.length; root++) {
      if (this.#placed.has(root)) continue;
      const members = this.#groupOf(root);
      if (members.length === 1) continue;
      const device = make(members);
      if (device !== undefined) {
        this.#accept(device, members);
        continue;
      }
      const names = members.map((member) => this.#devices[member]!.name).join(', ');
      this.#log('INFO', 'GRAPH', `TOPO/NET : The network plugin does not join ${names}`);
      for (const member of members.slice(1)) {
        this.#distances[root]![member] = PathType.DIS;
        this.#distances[member]![root] = PathType.DIS;
      }
      // NCCL starts again, and goes on with device 1.
      root = 0;
    }
  }

  /** A device and those near it that are free. */
  #groupOf(root: number): number[] {
    const { settings, limit } = this.#options;
    const { rail } = this.#devices[root]!;
    const members = [root];
    for (let other = 0; other < this.#devices.length && members.length < limit; other++) {
      if (other === root || this.#placed.has(other)) continue;
      if (this.#distances[root]![other]! > settings.level) continue;
      const isOnRail = rail !== undefined && rail === this.#devices[other]!.rail;
      if (settings.policy !== 'RAIL' || isOnRail) members.push(other);
    }
    return members;
  }

  #accept(device: NetDevice, members: readonly number[]): void {
    for (const member of members) this.#placed.add(member);
    this.#made.push({ device, members });
  }
}
