/**
 * `ip addr`, `ip link`, `ip -br addr` and `ls -l /sys/class/net`: network interfaces with state, size of packets and
 * addresses.
 */
import type { NetworkInterface } from '../../model/machine.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const LINK = /^\d+: ([\w.-]+)(?:@[\w.-]+)?: <([A-Z0-9_,-]*)> mtu (\d+)/;
const ADDRESS = /^\s+inet6? ([0-9a-fA-F.:]+)\/\d+/;
const BRIEF = /^([\w.-]+)(?:@[\w.-]+)?\s+(UP|DOWN|UNKNOWN)\s+([0-9a-fA-F.:/\s]*)$/;

/** A line of `ls -l /sys/class/net`. */
const SYSFS = /^l\S+ .* ([\w.-]+) -> \S*devices\/\S*\/net\/\1$/;

export function interfaceReader(context: FileContext): LineReader {
  let current: NetworkInterface | undefined;
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
