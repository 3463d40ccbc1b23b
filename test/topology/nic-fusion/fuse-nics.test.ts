/** Joining NICs into virtual ones: distances, groups, what becomes of the members, places and widths. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import type { NetDevice } from '#src/topology/net-device.js';
import { Ancestry, meetingOf, PORT } from '#src/topology/nic-fusion/distance.js';
import { type FusedNic, fuseNics, mostMembers } from '#src/topology/nic-fusion/fuse-nics.js';
import { ibVirtualDevice } from '#src/topology/nic-fusion/ib-virtual-device.js';
import { nicFusionSettings } from '#src/topology/nic-fusion/settings.js';
import { PathType } from '#src/topology/system/path-type.js';
import { element, type XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';

const net = (name: string, attributes = {}) => element('net', { name, keep: 1, net: 1, ...attributes });
const nic = (...nets: XmlElement[]) => element('nic', {}, nets);
/** A PCI device or switch; its class is a NIC's unless it holds other PCI elements. */
const pci = (busid: string, width: number | string, ...children: XmlElement[]) => {
  const isSwitch = children.some(({ name }) => name === 'pci');
  return element('pci', { busid, class: isSwitch ? '0x060400' : '0x020000', link_width: width }, children);
};
const system = (...cpus: XmlElement[][]) =>
  element(
    'system',
    { version: 1 },
    cpus.map((children, numaid) => element('cpu', { numaid }, children)),
  );

const device = (name: string, more: Partial<NetDevice> = {}): NetDevice => ({
  name,
  speed: 100_000,
  port: 1,
  latency: 0,
  guid: 1n,
  maxConnections: 64,
  gdr: true,
  ...more,
});

interface Run {
  readonly env?: Record<string, string>;
  readonly limit?: number;
  readonly kind?: 'net' | 'gin' | 'coll';
  readonly refuse?: (names: readonly string[]) => boolean;
}

/** Fuses, and gives the groups as names, in the order in which they were made, refused ones marked. */
function run(
  root: XmlElement,
  devices: readonly NetDevice[],
  { env, limit = 8, kind = 'net', refuse }: Run = {},
) {
  const asked: string[] = [];
  const log: string[] = [];
  const fused = fuseNics(root, devices, {
    settings: nicFusionSettings(env, (level, subsystem, text) => log.push(`${level} ${subsystem} ${text}`)),
    kind,
    limit,
    make: (members) => {
      const chosen = members.map((member) => devices[member]!);
      const names = chosen.map(({ name }) => name);
      const isRefused = refuse?.(names) ?? false;
      asked.push(`${names.join('+')}${isRefused ? ' no' : ''}`);
      return isRefused ? undefined : ibVirtualDevice(chosen as [NetDevice, ...NetDevice[]], members);
    },
    log: (level, subsystem, text) => log.push(`${level} ${subsystem} ${text}`),
  });
  return { fused, asked, log, names: fused.map(({ device: { name } }) => name) };
}

function thrown(call: () => unknown): TuttiError {
  try {
    call();
  } catch (error) {
    expect(TuttiError.is(error)).toBe(true);
    return error as TuttiError;
  }
  throw new Error('nothing was thrown');
}

/**
 * Two sockets; on the first a switch of switches:
 * cpu 0: top( s1( a, b0 and b1 of one card ), s2( c ) ), d on a card of its own with e in one nic; cpu 1: f.
 */
const machine = () =>
  system(
    [
      pci(
        '0000:01:00.0',
        16,
        pci(
          '0000:02:00.0',
          16,
          pci('0000:03:00.0', 8, nic(net('a'))),
          pci('0000:04:00.0', 8, nic(net('b0'))),
          pci('0000:04:00.1', 8, nic(net('b1'))),
        ),
        pci('0000:05:00.0', 16, pci('0000:06:00.0', 8, nic(net('c')))),
      ),
      pci('0000:07:00.0', 16, nic(net('d'), net('e'))),
      nic(net('virtual')),
    ],
    [pci('0000:81:00.0', 16, nic(net('f')))],
  );

const NAMES = ['a', 'b0', 'b1', 'c', 'd', 'e', 'f', 'virtual'];
const distanceOf = (root: XmlElement, ...names: string[]) => {
  const ancestry = new Ancestry(root);
  return meetingOf(names.map((name) => ancestry.chain(ancestry.net(name)!))).distance;
};

describe('distance of NICs', () => {
  it.each([
    ['d', 'e', PORT], // one nic element
    ['a', 'a', PORT],
    ['b0', 'b1', PORT], // functions of one device
    ['a', 'b0', PathType.PIX],
    ['a', 'c', PathType.PXB],
    ['a', 'd', PathType.PHB],
    ['a', 'virtual', PathType.PHB],
    ['d', 'f', PathType.SYS],
  ])('of %s and %s is %i', (a, b, expected) => {
    expect(distanceOf(machine(), a, b)).toBe(expected);
    expect(distanceOf(machine(), b, a)).toBe(expected);
  });

  it('of several is that of where all meet', () => {
    expect(distanceOf(machine(), 'b0', 'b1', 'a')).toBe(PathType.PIX);
    expect(distanceOf(machine(), 'a', 'b0', 'c')).toBe(PathType.PXB);
    expect(distanceOf(machine(), 'd', 'e', 'f')).toBe(PathType.SYS);
  });

  it('is PXB where one hangs deeper than the switch or in the device itself', () => {
    const deeper = pci('t0', 16, pci('q0', 8, nic(net('b'))));
    const one = system([pci('s0', 16, pci('p0', 8, nic(net('a'))), deeper)]);
    expect(distanceOf(one, 'a', 'b')).toBe(PathType.PXB);
    const own = system([pci('s0', 16, pci('p0', 8, nic(net('a'))), nic(net('b')))]);
    expect(distanceOf(own, 'a', 'b')).toBe(PathType.PXB);
  });

  it('is PORT only for bus ids of one length that differ in the last character', () => {
    const pair = (a: string, b: string) =>
      distanceOf(system([pci(a, 8, nic(net('a'))), pci(b, 8, nic(net('b')))]), 'a', 'b');
    expect(pair('0000:04:00.0', '0000:04:00.7')).toBe(PORT);
    expect(pair('0000:04:00.0', '0000:04:01.0')).toBe(PathType.PHB);
    expect(pair('0000:04:00.0', '00000:04:00.')).toBe(PathType.PHB);
    expect(pair('0000:04:00.0', '0000:04:00.10')).toBe(PathType.PHB);
  });
});

describe('groups', () => {
  const devices = NAMES.map((name) => device(name));

  it('are the ports of one card by default', () => {
    expect(run(machine(), devices).names).toEqual(['b0+b1', 'd+e']);
  });

  it.each([
    ['LOC', []],
    ['PORT', ['b0+b1', 'd+e']],
    ['PIX', ['a+b0+b1', 'd+e']],
    ['PXB', ['a+b0+b1+c', 'd+e']],
    ['PHBx', ['a+b0+b1+c+d+e+virtual']],
    ['XYZ', []],
  ])('reach as far as NCCL_NET_MERGE_LEVEL=%s', (level, expected) => {
    expect(run(machine(), devices, { env: { NCCL_NET_MERGE_LEVEL: level } }).names).toEqual(expected);
  });

  it('log a level that is none, and a policy that is none', () => {
    const { log } = run(machine(), devices, {
      env: { NCCL_NET_MERGE_LEVEL: 'XYZ', NCCL_NET_MERGE_POLICY: 'rai' },
    });
    expect(log[0]).toBe(
      "INFO GRAPH KV Convert to int : could not find value of 'XYZ' in dictionary, falling back to 0",
    );
    expect(log).toContain("WARN NET NCCL_NET_MERGE_POLICY: unknown value 'rai', defaulting to ALL");
  });

  it('have at most as many members as the plugin can join', () => {
    const env = { NCCL_NET_MERGE_LEVEL: 'PHB' };
    expect(run(machine(), devices, { env, limit: 4 }).names).toEqual(['a+b0+b1+c', 'd+e+virtual']);
    expect(run(machine(), devices, { env, limit: 3 }).names).toEqual(['a+b0+b1', 'c+d+e']);
    expect([11, 12].map(mostMembers)).toEqual([4, 8]);
  });

  it('stay on one rail with policy RAIL; devices without a rail stay single', () => {
    const rails = NAMES.map((name, index) => device(name, index === 3 ? {} : { rail: index % 2 }));
    const env = { NCCL_NET_MERGE_LEVEL: 'PHB', NCCL_NET_MERGE_POLICY: 'rail' };
    expect(run(machine(), rails, { env }).names).toEqual(['a+b1+d', 'b0+e+virtual']);
    expect(run(machine(), devices, { env }).names).toEqual([]);
  });

  it('that the plugin refuses are taken apart, and the next begins with device 1', () => {
    const env = { NCCL_NET_MERGE_LEVEL: 'PIX' };
    const four = ['a', 'b0', 'b1'].map((name) => device(name));
    const { asked, names, log } = run(machine(), four, { env, refuse: (group) => group[0] === 'a' });
    expect(asked).toEqual(['a+b0+b1 no', 'b0+b1']);
    expect(names).toEqual(['b0+b1']);
    expect(log).toEqual(['INFO GRAPH TOPO/NET : The network plugin does not join a, b0, b1']);
  });

  it('end, whatever the plugin refuses, and hold each device once', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(NAMES, { minLength: 1 }),
        fc.constantFrom('PORT', 'PIX', 'PXB', 'PHB', 'SYS'),
        fc.integer({ min: 2, max: 8 }),
        fc.nat(),
        (names, level, limit, salt) => {
          const refuse = (group: readonly string[]) =>
            [...group.join()].reduce((hash, c) => (hash * 31 + c.charCodeAt(0)) | 0, salt) % 2 === 0;
          const { fused, asked } = run(
            // All on one host, so that any group has a place.
            system(machine().children.flatMap(({ children }) => children)),
            names.map((name) => device(name)),
            { env: { NCCL_NET_MERGE_LEVEL: level }, limit, refuse },
          );
          const members = fused.flatMap((one) => one.members);
          expect(new Set(members).size).toBe(members.length);
          for (const one of fused) {
            expect(one.members.length).toBeGreaterThanOrEqual(2);
            expect(one.members.length).toBeLessThanOrEqual(limit);
          }
          expect(new Set(asked).size).toBe(asked.length);
        },
      ),
    );
  });

  it('need devices that are in the document', () => {
    expect(
      run(machine(), [device('a'), device('missing')], { env: { NCCL_NET_MERGE_LEVEL: 'SYS' } }).names,
    ).toEqual([]);
  });
});

describe('groups that a user asks for', () => {
  const devices = NAMES.map((name) => device(name, { port: name === 'b1' ? 2 : 1 }));
  const force = (groups: string, more: Run = {}) =>
    run(machine(), devices, { ...more, env: { NCCL_NET_FORCE_MERGE: groups, ...more.env } });

  it('come first, in the order of the devices, and their members are in no other group', () => {
    expect(force('c,a;d:1,b1:2').names).toEqual(['a+c', 'b1+d']);
    expect(force('a,b0').names).toEqual(['a+b0', 'd+e']);
  });

  it('are made also when nothing else is', () => {
    expect(force('a,c', { env: { NCCL_NET_MERGE_LEVEL: 'LOC' } }).names).toEqual(['a+c']);
  });

  it.each([
    ['a,zz', 'Only matched 1 devices, 2 requested from a,zz'],
    ['a,b', 'Only matched 1 devices, 2 requested from a,b'],
    ['a:2,c', 'Only matched 1 devices, 2 requested from a:2,c'],
    ['a,c;a,d', 'Only matched 1 devices, 2 requested from a,d'],
  ])('must name devices exactly, each once: %s', (groups, message) => {
    const error = thrown(() => force(groups));
    expect(error.code).toBe('invalidUsage');
    expect(error.message).toContain(
      `TOPO/NET : ${message} (NCCL_NET_FORCE_MERGE); the devices are a:1, b0:1, b1:2`,
    );
  });

  it('must not be too large, nor refused by the plugin', () => {
    expect(thrown(() => force('a,b0,c', { limit: 2 })).message).toMatch(
      /a,b0,c names 3 devices, .* at most 2/,
    );
    const refused = thrown(() => force('a,b0', { refuse: () => true }));
    expect(refused.code).toBe('invalidUsage');
    expect(refused.message).toMatch(/the network plugin does not join a,b0/);
  });
});

describe('members of a virtual NIC', () => {
  it('are no longer used for its kind, and not kept if they are of no other use', () => {
    const root = system([pci('p', 8, nic(net('a'), net('b', { gin: 1 })))]);
    run(root, [device('a'), device('b')]);
    const [a, b] = root.children[0]!.children[0]!.children[0]!.children;
    expect([...a!.attributes]).toEqual([
      ['name', 'a'],
      ['keep', '0'],
      ['net', '0'],
    ]);
    expect([...b!.attributes]).toEqual([
      ['name', 'b'],
      ['keep', '1'],
      ['net', '0'],
      ['gin', '1'],
    ]);
    run(root, [device('a'), device('b')], { kind: 'gin' });
    expect([...b!.attributes]).toEqual([
      ['name', 'b'],
      ['keep', '0'],
      ['net', '0'],
      ['gin', '0'],
    ]);
  });
});

describe('place of a virtual NIC', () => {
  const place = (root: XmlElement, names: readonly string[]): FusedNic =>
    run(
      root,
      names.map((name) => device(name)),
      { env: { NCCL_NET_FORCE_MERGE: names.join() } },
    ).fused[0]!;
  const attributesOf = (one: XmlElement) => Object.fromEntries(one.attributes);

  it('is the device of ports that share a nic element', () => {
    const root = machine();
    const { parent } = place(root, ['d', 'e']);
    expect(parent).toBe(root.children[0]!.children[1]);
    const pcis = (one: XmlElement): number =>
      (one.name === 'pci' ? 1 : 0) + one.children.reduce((sum, child) => sum + pcis(child), 0);
    expect(pcis(root)).toBe(pcis(machine()));
  });

  it('below a switch is a new device like the first, with a free bus id and the widths of all', () => {
    const root = machine();
    const inner = root.children[0]!.children[0]!.children[0]!;
    const { parent } = place(root, ['a', 'b0']);
    expect(inner.children.at(-1)).toBe(parent);
    expect(parent!.children).toEqual([]);
    expect(attributesOf(parent!)).toEqual({ busid: '0000:03:00.1', class: '0x020000', link_width: '16' });
    expect([...parent!.attributes.keys()]).toEqual(['busid', 'class', 'link_width']);
  });

  it('for functions of one device has the width of the first, not of both', () => {
    const root = machine();
    const { parent } = place(root, ['b0', 'b1']);
    // .1 is taken.
    expect(attributesOf(parent!)).toEqual({ busid: '0000:04:00.2', class: '0x020000', link_width: '8' });
  });

  it('behind several switches has the width that passes each of them', () => {
    const narrow = system([
      pci(
        '0000:01:00.0',
        16,
        pci('0000:02:00.0', 4, pci('0000:03:00.0', 8, nic(net('a'))), pci('0000:04:00.0', 8, nic(net('b')))),
        pci('0000:05:00.0', 16, pci('0000:06:00.0', 8, nic(net('c')))),
      ),
    ]);
    expect(place(narrow, ['a', 'b', 'c']).parent!.attributes.get('link_width')).toBe('12');
  });

  it('at a CPU is a new device below it', () => {
    const root = machine();
    const { parent } = place(root, ['a', 'd']);
    expect(root.children[0]!.children.at(-1)).toBe(parent);
    // The switch to `a` lets 8 of 16 lanes be used, `d` has 16.
    expect(attributesOf(parent!)).toEqual({ busid: '0000:03:00.1', class: '0x020000', link_width: '24' });
  });

  it('keeps the width of the first where the widths are not known', () => {
    const root = system([pci('0000:01:00.0', '', nic(net('a'))), pci('0000:02:00.0', '', nic(net('b')))]);
    expect(place(root, ['a', 'b']).parent!.attributes.get('link_width')).toBe('');
  });

  it('is the CPU itself for devices that are not on the PCI bus', () => {
    const root = machine();
    expect(place(root, ['virtual', 'a']).parent).toBe(root.children[0]);
  });

  it('is an element of another class than a bridge itself', () => {
    const root = machine();
    const inner = root.children[0]!.children[0]!.children[0]!;
    inner.attributes.set('class', '0x080100');
    expect(place(root, ['a', 'b0']).parent).toBe(inner);
  });

  it('is not needed for a device that the document has', () => {
    const root = machine();
    root.children[1]!.children.push(nic(net('d+e')));
    expect(place(root, ['d', 'e']).parent).toBeUndefined();
  });

  it('cannot be between NUMA nodes', () => {
    const error = thrown(() => place(machine(), ['a', 'f']));
    expect(error.code).toBe('invalidArgument');
    expect(error.message).toMatch(
      /Fusing NET devices from different NUMA domains is not supported\. The devices are a, f/,
    );
  });

  it('needs a free bus id among the next hundred, which carry over to the next device', () => {
    const taken = (count: number) =>
      Array.from({ length: count }, (_, index) => {
        const number = (0x0300f + index + 1).toString(16).padStart(8, '0');
        return pci(`0000:${number.slice(3, 5)}:${number.slice(5, 7)}.${number.slice(7)}`, 8);
      });
    const withTaken = (count: number) =>
      system([pci('0000:03:00.f', 8, nic(net('a'))), pci('0000:09:00.0', 8, nic(net('b'))), ...taken(count)]);
    expect(place(withTaken(0), ['a', 'b']).parent!.attributes.get('busid')).toBe('0000:03:01.0');
    expect(place(withTaken(99), ['a', 'b']).parent!.attributes.get('busid')).toBe('0000:03:07.3');
    const error = thrown(() => place(withTaken(100), ['a', 'b']));
    expect(error.code).toBe('internalError');
  });

  it('of two such NICs is not the same', () => {
    const root = system([
      pci(
        '0000:01:00.0',
        16,
        ...['0000:02:00.0', '0000:03:00.0', '0000:04:00.0', '0000:05:00.0'].map((id, index) =>
          pci(id, 8, nic(net(`n${index}`))),
        ),
      ),
    ]);
    const devices = [0, 1, 2, 3].map((index) => device(`n${index}`));
    const { fused } = run(root, devices, { env: { NCCL_NET_MERGE_LEVEL: 'PIX' }, limit: 2 });
    expect(fused.map(({ parent }) => parent!.attributes.get('busid'))).toEqual([
      '0000:02:00.1',
      '0000:04:00.1',
    ]);
  });
});

describe('an InfiniBand virtual device', () => {
  it('has the names, speeds, rails and planes of all', () => {
    const a = device('a', { speed: 200_000, rail: 3, plane: 0, gdr: true, port: 1, guid: 5n });
    const b = device('b', { speed: 400_000, rail: 3, plane: 2, gdr: false, port: 2, guid: 6n });
    expect(ibVirtualDevice([a, b], [4, 7])).toEqual({
      ...device('a+b'),
      speed: 600_000,
      rail: 3,
      plane: 0x4005,
      gdr: false,
      guid: 5n,
      members: [4, 7],
    });
    expect(ibVirtualDevice([a, device('c', { rail: 2 })], [0, 1]).rail).toBeUndefined();
    expect('plane' in ibVirtualDevice([device('x'), device('y')], [0, 1])).toBe(false);
  });

  it('of the two ports of a golden machine is the one that NCCL has in a log of the same machine', () => {
    const read = (name: string) =>
      readXml(readFileSync(new URL(`../../golden/${name}/topo.xml`, import.meta.url), 'utf8'), {
        root: 'system',
      }).root;
    const single = read('a100-pcie-x2-2ports-unfused');
    const joined = new Ancestry(read('a100-pcie-x2-issue2397')).net('mlx5_0+mlx5_1')!;
    const devices = [device('mlx5_0', { port: 1 }), device('mlx5_1', { port: 2 })];
    const [fused, ...others] = run(single, devices).fused;
    expect(others).toEqual([]);
    expect(fused!.device.name).toBe('mlx5_0+mlx5_1');
    expect(String(fused!.device.speed)).toBe(joined.attributes.get('speed'));
    expect(fused!.parent!.attributes.get('busid')).toBe('0000:16:00.0');
  });
});
