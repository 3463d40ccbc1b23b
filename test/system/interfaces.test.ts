/** The interface choice against the worked examples of NCCL's behaviour. */
import { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { matchesInterfaceFilter, parseInterfaceFilter } from '#src/system/interface-filter.js';
import {
  bindableAddress,
  chooseBootstrapInterface,
  chooseSocketInterfaces,
  listNetworkInterfaces,
  type NetworkInterface,
} from '#src/system/interfaces.js';

function ipv4(name: string, address: string, prefixLength = 24): NetworkInterface {
  return { name, address, family: 'IPv4', prefixLength, internal: name === 'lo' };
}

function ipv6(name: string, address: string, prefixLength = 64): NetworkInterface {
  return { name, address, family: 'IPv6', prefixLength, internal: name === 'lo' };
}

const MACHINE = [
  ipv4('lo', '127.0.0.1', 8),
  ipv4('docker0', '172.17.0.1', 16),
  ipv4('eth0', '10.0.0.5'),
  ipv4('eth1', '10.0.1.5'),
];

function names(interfaces: readonly NetworkInterface[], env: Record<string, string> = {}, commId?: string) {
  return chooseSocketInterfaces(interfaces, env, commId).map(({ name }) => name);
}

describe('NCCL_SOCKET_IFNAME on a machine with lo, docker0, eth0, eth1', () => {
  test.each([
    [undefined, ['eth0', 'eth1']],
    ['eth', ['eth0', 'eth1']],
    ['=eth', []],
    ['^eth', ['lo', 'docker0']],
    ['^=eth0', ['lo', 'docker0', 'eth1']],
    ['=eth1', ['eth1']],
    ['eth1,lo', ['lo', 'eth1']],
    ['^=', []],
    ['^', ['eth0', 'eth1']],
    ['ib', []],
  ])('%s selects %j', (ifname, expected) => {
    expect(names(MACHINE, ifname === undefined ? {} : { NCCL_SOCKET_IFNAME: ifname })).toEqual(expected);
  });

  test('a filter that matches nothing is final: the bootstrap reports it with the interfaces there are', () => {
    expect(() => chooseBootstrapInterface(MACHINE, { NCCL_SOCKET_IFNAME: 'ib' })).toThrow(
      /NCCL_SOCKET_IFNAME=ib matches no running interface; running interfaces: lo, docker0, eth0, eth1/,
    );
    expect(() => chooseBootstrapInterface([], {})).toThrow(/running interfaces: none/);
  });
});

describe('without NCCL_SOCKET_IFNAME', () => {
  test('ib comes before everything, then the subnet of NCCL_COMM_ID, then ordinary interfaces', () => {
    const withIb = [...MACHINE, ipv4('ib0', '10.1.0.5'), ipv4('ibs1', '10.2.0.5')];
    expect(names(withIb, {}, '10.0.1.99')).toEqual(['ib0', 'ibs1']);
    expect(names(MACHINE, {}, '10.0.1.99')).toEqual(['eth1']);
    expect(names(MACHINE, {}, '127.0.0.1')).toEqual(['lo']);
    expect(names(MACHINE, {}, '192.168.77.1')).toEqual(['eth0', 'eth1']);
  });

  test('docker, lo and virbr are the last resorts in this order', () => {
    const virbr = ipv4('virbr0', '192.168.122.1');
    const [lo, docker] = MACHINE as [NetworkInterface, NetworkInterface];
    expect(names([virbr, lo, docker])).toEqual(['docker0']);
    expect(names([virbr, lo])).toEqual(['lo']);
    expect(names([virbr])).toEqual(['virbr0']);
  });

  test('at most 16 interfaces are used', () => {
    const many = Array.from({ length: 20 }, (_, index) => ipv4(`eth${index}`, `10.3.${index}.1`));
    expect(names(many)).toHaveLength(16);
    expect(chooseBootstrapInterface(many, {}).name).toBe('eth0');
  });
});

test('with NCCL_COMM_ID the bootstrap uses its subnet only, whatever NCCL_SOCKET_IFNAME says', () => {
  const env = { NCCL_SOCKET_IFNAME: 'eth0' };
  expect(chooseBootstrapInterface(MACHINE, env, '10.0.1.99').name).toBe('eth1');
  expect(() => chooseBootstrapInterface(MACHINE, env, '192.168.77.1')).toThrow(/subnet of NCCL_COMM_ID/);
});

test('only the first address of a name counts, IPv6 loop-back never, and NCCL_SOCKET_FAMILY restricts', () => {
  const both = [
    ipv6('lo', '::1', 128),
    ipv4('eth0', '10.0.0.5'),
    ipv6('eth0', 'fd00::5'),
    ipv6('eth1', 'fe80::1'),
  ];
  const addresses = (env: Record<string, string>) => chooseSocketInterfaces(both, env).map(bindableAddress);
  expect(addresses({})).toEqual(['10.0.0.5', 'fe80::1%eth1']);
  expect(addresses({ NCCL_SOCKET_FAMILY: 'AF_INET' })).toEqual(['10.0.0.5']);
  expect(addresses({ NCCL_SOCKET_FAMILY: 'AF_INET6' })).toEqual(['fd00::5', 'fe80::1%eth1']);
  expect(addresses({ NCCL_SOCKET_FAMILY: 'inet6' })).toEqual(['10.0.0.5', 'fe80::1%eth1']);
  expect(addresses({ NCCL_SOCKET_IFNAME: 'lo' })).toEqual([]);
});

describe('the filter grammar', () => {
  test('^ comes before =, and =^eth0 looks for a name that starts with ^', () => {
    expect(parseInterfaceFilter('=^eth0')).toMatchObject({ exclude: false, exact: true });
    expect(matchesInterfaceFilter(parseInterfaceFilter('=^eth0'), 'eth0')).toBe(false);
    expect(matchesInterfaceFilter(parseInterfaceFilter('=^eth0'), '^eth0')).toBe(true);
  });

  test('items carry port, rail and plane; an item without port matches any port', () => {
    const filter = parseInterfaceFilter('mlx5_0:1,mlx5_1:2:3:4,mlx5_2', 32);
    expect(filter.items[1]).toEqual({ name: 'mlx5_1', port: 2, rail: 3, plane: 4 });
    expect(matchesInterfaceFilter(filter, 'mlx5_0', 1)).toBe(true);
    expect(matchesInterfaceFilter(filter, 'mlx5_0', 2)).toBe(false);
    expect(matchesInterfaceFilter(filter, 'mlx5_2', 7)).toBe(true);
    expect(matchesInterfaceFilter(parseInterfaceFilter('^mlx5_0:1'), 'mlx5_0', 1)).toBe(false);
    expect(matchesInterfaceFilter(parseInterfaceFilter('^mlx5_0:1'), 'mlx5_0', 2)).toBe(true);
  });

  test('an empty list matches everything, and items beyond the limit are ignored', () => {
    expect(matchesInterfaceFilter(parseInterfaceFilter(''), 'any')).toBe(true);
    const text = Array.from({ length: 20 }, (_, index) => `n${index}x`).join(',');
    expect(parseInterfaceFilter(text).items).toHaveLength(16);
    expect(parseInterfaceFilter(text, 32).items).toHaveLength(20);
  });
});

test('the list of this machine is what the system says', () => {
  const listed = listNetworkInterfaces();
  const count = Object.values(networkInterfaces()).flat().length;
  expect(listed).toHaveLength(count);
  expect(listed.find(({ address }) => address === '127.0.0.1')).toMatchObject({
    family: 'IPv4',
    prefixLength: 8,
    internal: true,
  });
});
