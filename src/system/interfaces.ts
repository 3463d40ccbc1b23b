/**
 * Which network interface control and socket traffic use.
 *
 * The choice is a pure function of the list of interfaces and of four variables, so that it can be tested and
 * explained without a network. Order of attempts (the first that finds something wins): NCCL_SOCKET_IFNAME,
 * which is final; names starting with `ib`; the subnet of NCCL_COMM_ID (socket transport only); anything but
 * docker, lo and virbr; docker; lo; virbr. For the bootstrap NCCL_COMM_ID comes before everything and is
 * final too. Source: behaviour of NCCL 2.30 (interface discovery).
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { TuttiError } from '../errors/tutti-error.js';
import { type InterfaceFilter, matchesInterfaceFilter, parseInterfaceFilter } from './interface-filter.js';

export interface NetworkInterface {
  name: string;
  /** Text form without zone. */
  address: string;
  family: 'IPv4' | 'IPv6';
  /** Length of the subnet prefix in bits. */
  prefixLength: number;
  /** True for loop-back interfaces. */
  internal: boolean;
}

/** Variables that take part in the choice; other names of a full environment are ignored. */
export interface InterfaceEnvironment {
  readonly [name: string]: string | undefined;
}

/** Most interfaces that the socket transport uses, as in NCCL. */
export const MAX_SOCKET_INTERFACES = 16;

/** Fallback attempts after NCCL_SOCKET_IFNAME; `subnet` stands for the subnet of NCCL_COMM_ID. */
const ATTEMPTS = ['ib', 'subnet', '^docker,lo,virbr', 'docker', 'lo', 'virbr'] as const;

/** Interfaces that are up and running, in system order (Node lists only those). */
export function listNetworkInterfaces(): NetworkInterface[] {
  const found: NetworkInterface[] = [];
  for (const [name, addresses] of Object.entries(networkInterfaces())) {
    for (const entry of addresses ?? []) {
      found.push({
        name,
        address: entry.address,
        family: entry.family,
        prefixLength: Number(entry.cidr?.split('/')[1] ?? (entry.family === 'IPv4' ? 32 : 128)),
        internal: entry.internal,
      });
    }
  }
  return found;
}

/** Text to bind to or to connect to: a link-local IPv6 address is only meaningful with its interface. */
export function bindableAddress(chosen: NetworkInterface): string {
  return /^fe[89ab]/i.test(chosen.address) ? `${chosen.address}%${chosen.name}` : chosen.address;
}

function byFilter(
  interfaces: readonly NetworkInterface[],
  filter: InterfaceFilter,
  family: NetworkInterface['family'] | undefined,
): NetworkInterface[] {
  const names = new Set<string>();
  const addresses = new Set<string>();
  return interfaces.filter((candidate) => {
    if (family !== undefined && candidate.family !== family) return false;
    if (candidate.family === 'IPv6' && candidate.internal) return false;
    if (!matchesInterfaceFilter(filter, candidate.name)) return false;
    if (names.has(candidate.name) || addresses.has(candidate.address)) return false;
    names.add(candidate.name);
    addresses.add(candidate.address);
    return true;
  });
}

function bySubnet(interfaces: readonly NetworkInterface[], host: string): NetworkInterface[] {
  const bare = host.split('%')[0]!;
  const family = isIPv4(bare) ? 'IPv4' : isIPv6(bare) ? 'IPv6' : undefined;
  if (family === undefined) return [];
  const found = interfaces.find((candidate) => {
    if (candidate.family !== family) return false;
    const subnet = new BlockList();
    const type = family === 'IPv4' ? 'ipv4' : 'ipv6';
    subnet.addSubnet(candidate.address, candidate.prefixLength, type);
    return subnet.check(bare, type);
  });
  return found === undefined ? [] : [found];
}

function requestedFamily(env: InterfaceEnvironment): NetworkInterface['family'] | undefined {
  if (env.NCCL_SOCKET_FAMILY === 'AF_INET') return 'IPv4';
  if (env.NCCL_SOCKET_FAMILY === 'AF_INET6') return 'IPv6';
  return undefined;
}

/** One character ("^") is what NCCL takes for unset. */
function socketIfname(env: InterfaceEnvironment): string | undefined {
  const value = env.NCCL_SOCKET_IFNAME;
  return value !== undefined && value.length > 1 ? value : undefined;
}

/**
 * Interfaces of the socket transport, at most `MAX_SOCKET_INTERFACES`; empty when none fits.
 * `commIdHost` is the numeric host of NCCL_COMM_ID where that is set.
 */
export function chooseSocketInterfaces(
  interfaces: readonly NetworkInterface[],
  env: InterfaceEnvironment,
  commIdHost?: string,
): NetworkInterface[] {
  const family = requestedFamily(env);
  const ifname = socketIfname(env);
  if (ifname !== undefined) {
    return byFilter(interfaces, parseInterfaceFilter(ifname), family).slice(0, MAX_SOCKET_INTERFACES);
  }
  for (const attempt of ATTEMPTS) {
    const found =
      attempt === 'subnet'
        ? commIdHost === undefined
          ? []
          : bySubnet(interfaces, commIdHost)
        : byFilter(interfaces, parseInterfaceFilter(attempt), family);
    if (found.length > 0) return found.slice(0, MAX_SOCKET_INTERFACES);
  }
  return [];
}

/**
 * The one interface of the bootstrap. With `commIdHost` (NCCL_COMM_ID is set) only its subnet counts and
 * NCCL_SOCKET_IFNAME is not consulted, as in NCCL.
 *
 * @throws TuttiError systemError when no interface lies in that subnet, invalidUsage when the filter or the
 * machine leaves none.
 */
export function chooseBootstrapInterface(
  interfaces: readonly NetworkInterface[],
  env: InterfaceEnvironment,
  commIdHost?: string,
): NetworkInterface {
  const names = [...new Set(interfaces.map((candidate) => candidate.name))].join(', ') || 'none';
  if (commIdHost !== undefined) {
    const [found] = bySubnet(interfaces, commIdHost);
    if (found !== undefined) return found;
    throw new TuttiError(
      'systemError',
      `No network interface lies in the subnet of NCCL_COMM_ID (${commIdHost}); running interfaces: ${names}.`,
    );
  }
  const [found] = chooseSocketInterfaces(interfaces, env);
  if (found !== undefined) return found;
  const filter = socketIfname(env);
  throw new TuttiError(
    'invalidUsage',
    filter === undefined
      ? `No network interface is usable for the bootstrap; running interfaces: ${names}.`
      : `NCCL_SOCKET_IFNAME=${filter} matches no running interface; running interfaces: ${names}. Unset it or name one of them.`,
  );
}
