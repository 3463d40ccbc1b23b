/**
 * `ip addr`, `ip link`, `ip -br addr`, `ethtool` and `ls -l /sys/class/net`: network interfaces with state, size of
 * packets, speed and addresses.
 */
import type { NetworkInterface } from '../../model/machine.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const LINK = /^\d+: ([\w.-]+)(?:@[\w.-]+)?: <([A-Z0-9_,-]*)> mtu (\d+)/;
const ADDRESS = /^\s+inet6? ([0-9a-fA-F.:]+)\/\d+/;
const BRIEF = /^([\w.-]+)(?:@[\w.-]+)?\s+(UP|DOWN|UNKNOWN)\s+([0-9a-fA-F.:/\s]*)$/;

/** A line of `ls -l /sys/class/net`. */
const SYSFS = /^l\S+ .* ([\w.-]+) -> \S*devices\/\S*\/net\/\1$/;

/** `ethtool eth0`. */
const SETTINGS = /^Settings for ([\w.-]+):$/;
const SPEED = /^\s+Speed: (\d+)Mb\/s/;

export function interfaceReader(context: FileContext): LineReader {
  let current: NetworkInterface | undefined;
  let settingsOf: string | undefined;
  const add = (
    name: string,
    isUp: boolean | undefined,
    mtu: number | undefined,
    addresses: string[],
  ): true => {
    current = { host: context.host, at: here(context), name, isUp, mtu, addresses };
    context.job.interfaces.push(current);
    return kind(context, 'interfaces');
  };
  return (line) => {
    if (line.length > 500) return false;
    if (line.startsWith('Settings for ')) {
      settingsOf = SETTINGS.exec(line)?.[1];
      return settingsOf !== undefined && kind(context, 'interfaces');
    }
    const speed = settingsOf === undefined ? null : SPEED.exec(line);
    if (speed !== null) {
      context.job.interfaces.push({
        host: context.host,
        at: here(context),
        name: settingsOf!,
        isUp: undefined,
        mtu: undefined,
        speedMbps: Number(speed[1]),
        addresses: [],
      });
      settingsOf = undefined;
      return true;
    }
    const link = LINK.exec(line);
    if (link !== null) return add(link[1]!, link[2]!.split(',').includes('UP'), Number(link[3]), []);
    if (current !== undefined && line.startsWith(' ')) {
      const address = ADDRESS.exec(line);
      if (address === null) return false;
      current.addresses.push(address[1]!);
      return true;
    }
    const linked = line.startsWith('l') && line.includes('/net/') ? SYSFS.exec(line) : null;
    if (linked !== null) return add(linked[1]!, undefined, undefined, []);
    const brief = BRIEF.exec(line);
    if (brief === null) return false;
    const addresses = brief[3]!.trim().split(/\s+/).filter(Boolean);
    return add(
      brief[1]!,
      brief[2] === 'UNKNOWN' ? undefined : brief[2] === 'UP',
      undefined,
      addresses.map((one) => one.replace(/\/\d+$/, '')),
    );
  };
}
