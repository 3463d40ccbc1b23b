/**
 * Names of network devices in a recording: those that the kernel or udev makes from type and place stay, because they
 * help to understand the machine; all others may name their owner, and those made of an address do. They get numbers.
 *
 * (Predictable names: systemd.net-naming-scheme(7); names of RDMA devices: rdma-core's rdma_rename.)
 */
import {
  type InterfaceFilterItem,
  MAX_IB_FILTER_ITEMS,
  parseInterfaceFilter,
} from '../../system/interface-filter.js';
import { cInt } from '../c-integer.js';

/** Names that say what a device is and where it is plugged in. */
const TELLING_NAMES = [
  // Drivers of the kernel that count their devices.
  /^(?:lo|(?:eth|ib|docker|virbr|bond|team|br|dummy|tunl?|tap|sit|gre|gretap|erspan|ip6tnl|usb|wlan|cni|hsn)\d{1,4}(?:\.\d{1,4})?)$/,
  // Places on the board, in a slot, on a bus: eno1, ens5f0, enP2p1s0f1np1, ibp23s0. Not enx..., which has an address.
  /^(?:en|ib|wl|ww|rdma|roce|iw)(?:(?:np|[oPspfndv])\d{1,6})+$/,
  // Drivers of RDMA devices that count.
  /^(?:mlx4|mlx5|mlx5_bond|mlx5_ib|mlx5_an|hfi1|qib|efa|irdma|bnxt_re|hns|rxe|siw|erdma|mana|qedr|cxgb4|vmw_pvrdma)_?\d{1,4}$/,
];

/** Beginnings by which sockets choose interfaces; other names must keep them. */
const CHOSEN_BY = /^(?:ib|docker|lo|virbr)?/;

/** Folders of sysfs whose entries are devices. */
const DEVICE_FOLDERS = new Set(['net', 'infiniband']);

/** Matches no device: the kernel's names have at most 15 characters. */
const NO_DEVICE = 'no-device-has-this-name';

export class DeviceNames {
  readonly #known = new Map<string, string>();
  readonly #interfaces: ReadonlySet<string>;

  /** Names that are there; their numbers follow their order, which NCCL's own of RDMA devices goes by. */
  constructor(interfaces: readonly string[], infiniband: readonly string[]) {
    this.#interfaces = new Set(interfaces);
    const inOrder = [...interfaces, ...infiniband].sort((a, b) =>
      a.localeCompare(b, 'en', { numeric: true }),
    );
    for (const name of inOrder) this.of(name);
  }

  /** The name in the recording, the same for each use. */
  of(name: string): string {
    if (name === '' || TELLING_NAMES.some((form) => form.test(name))) return name;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    // Fixed digits, so that none is the beginning of another.
    const start = this.#interfaces.has(name) ? CHOSEN_BY.exec(name)![0] : '';
    const made = `${start}net${`${this.#known.size}`.padStart(4, '0')}`;
    this.#known.set(name, made);
    return made;
  }

  /** A path or the target of a link: entries of device folders are replaced. */
  path(path: string): string {
    const parts = path.split('/');
    return parts.map((part, at) => (DEVICE_FOLDERS.has(parts[at - 1]!) ? this.of(part) : part)).join('/');
  }

  /**
   * A filter (NCCL_SOCKET_IFNAME, NCCL_IB_HCA) that lets the same devices through.
   *
   * @param present names of the devices that the filter is for
   */
  filter(text: string, present: readonly string[]): string {
    const { exclude, exact, items } = parseInterfaceFilter(text, MAX_IB_FILTER_ITEMS);
    const said = items.flatMap((item) =>
      this.#matches(item, exact, present).map((name) => itemText(name, item)),
    );
    return `${exclude ? '^' : ''}${exact ? '=' : ''}${said.join(',')}`;
  }

  /** Names that stand for one item of a filter. */
  #matches({ name }: InterfaceFilterItem, exact: boolean, present: readonly string[]): string[] {
    const matched = present.filter((one) => (exact ? one === name : one.startsWith(name)));
    if (matched.length === 0) return [NO_DEVICE];
    return matched.every((one) => this.of(one) === one) ? [name] : matched.map((one) => this.of(one));
  }

  /** Groups of devices: `mlx5_0,mlx5_1:1;...` (NCCL_NET_FORCE_MERGE). */
  groups(text: string, present: readonly string[]): string {
    const masked = (item: string) => {
      const [name = '', port] = item.split(':');
      const own = present.includes(name) ? this.of(name) : NO_DEVICE;
      return port === undefined ? own : `${own}:${cInt(port)}`;
    };
    const groups = text.split(';').filter(Boolean);
    return groups.map((group) => group.split(',').filter(Boolean).map(masked).join(',')).join(';');
  }
}

function itemText(name: string, { port, rail, plane }: InterfaceFilterItem): string {
  const numbers = [port, rail, plane].map((number) => (number === undefined ? '' : `${number}`));
  return [name, ...numbers].join(':').replace(/:+$/, '');
}
