/**
 * `lspci`, brief or with -vvv: bridges with their buses, access control, widths and speeds of links.
 */
import type { PciDevice } from '../../model/machine.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const DEVICE = /^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([A-Z0-9][^:]{2,60}): (.+)$/i;
const BUS = /Bus: primary=([0-9a-f]+), secondary=([0-9a-f]+), subordinate=([0-9a-f]+)/i;
const ACS = /^\s+ACSCtl:\s+(.+)$/;
const CAPABLE = /LnkCap:.*Speed ([\d.]+) ?GT\/s.*?Width x(\d+)/;
const STATUS = /LnkSta:.*Speed ([\d.]+) ?GT\/s(?: \((\w+)\))?.*?Width x(\d+)(?: \((\w+)\))?/;

/** Devices that are kept of one file and host: large machines with virtual functions have some hundred. */
const MAX_DEVICES = 4096;

export function lspciReader(context: FileContext): LineReader {
  let device: PciDevice | undefined;
  const counts = new Map<string | undefined, number>();
  return (line) => {
    const found = DEVICE.exec(line.slice(0, 400));
    if (found !== null) {
      const count = (counts.get(context.host) ?? 0) + 1;
      counts.set(context.host, count);
      device = undefined;
      if (count > MAX_DEVICES) return kind(context, 'lspci');
      device = {
        host: context.host,
        at: here(context),
        id: found[1]!.toLowerCase().replace(/^0+:(?=[0-9a-f]{2}:)/, ''),
        text: `${found[2]}: ${found[3]}`,
        buses: undefined,
        acs: undefined,
        linkCapable: undefined,
        linkStatus: undefined,
      };
      context.job.pci.push(device);
      return kind(context, 'lspci');
    }
    if (device === undefined || !/^\s/.test(line)) return false;
    const text = line.slice(0, 400);
    const bus = BUS.exec(text);
    if (bus !== null) {
      const [primary, secondary, subordinate] = bus.slice(1).map((one) => Number.parseInt(one, 16)) as [
        number,
        number,
        number,
      ];
      device.buses = { primary, secondary, subordinate };
      return true;
    }
    const acs = ACS.exec(text);
    if (acs !== null) {
      const set = acs[1]!.split(/\s+/).flatMap((bit) => (bit.endsWith('+') ? bit.slice(0, -1) : []));
      device.acs = { set, at: here(context) };
      return true;
    }
    const capable = CAPABLE.exec(text);
    if (capable !== null) {
      device.linkCapable = { speed: Number(capable[1]), width: Number(capable[2]) };
      return true;
    }
    const status = STATUS.exec(text);
    if (status !== null) {
      device.linkStatus = {
        speed: Number(status[1]),
        width: Number(status[3]),
        isDegraded: status[2] === 'downgraded' || status[4] === 'downgraded',
        at: here(context),
      };
      return true;
    }
    return /^\s+(?:Capabilities|ACSCap|Control|Status|Region|Memory|Kernel|Subsystem|Flags|LnkC|LnkS|DevC|DevS)/.test(
      text,
    );
  };
}
