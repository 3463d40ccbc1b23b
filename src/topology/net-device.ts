/**
 * Network devices as a network plugin describes them: the facts that become `net` elements of the topology.
 *
 * A plain list, so that detection, recorded machines and tests feed the same code. (NCCL 2.30.7: properties of the
 * network plugin interface, version 12.)
 */

/** One physical port, or several joined into a virtual device. */
export interface NetDevice {
  /** Key in the topology: an element of this name in a user's file takes the device's place. */
  readonly name: string;
  /** Real path of the device in sysfs; absent for devices that have none. */
  readonly pciPath?: string;
  /** Mbit/s. */
  readonly speed: number;
  readonly port: number;
  /** Microseconds. */
  readonly latency: number;
  /** Identity of the physical card: equal for the ports of one card. */
  readonly guid: bigint;
  readonly maxConnections: number;
  /** Can read and write GPU memory. */
  readonly gdr: boolean;
  /** Numbers of the rail and of the plane that the device is cabled to, where known. */
  readonly rail?: number;
  readonly plane?: number;
  /** Device numbers of the physical ports that a virtual device joins. */
  readonly members?: readonly number[];
}

/** What a plugin's devices may be used for; also the order in which plugins are asked. */
export const NET_KINDS = ['gin', 'rma', 'coll', 'net'] as const;
export type NetKind = (typeof NET_KINDS)[number];

/** A network plugin with its devices; a device's number is its position. */
export interface NetPlugin {
  readonly kind: NetKind;
  /** As it appears in log lines: `IB`, `Socket`. */
  readonly name: string;
  /** Physical devices. */
  readonly devices: readonly NetDevice[];
  /**
   * Makes the virtual device that joins the devices with these numbers; undefined where the plugin refuses them. Absent
   * where it joins none.
   */
  readonly join?: (members: readonly number[]) => NetDevice | undefined;
}
