/** Machines that nobody has, and documents with something missing or wrong: a description, or an error that names it. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { describeCluster } from '#src/topology/cluster.js';
import { cloneElement, element, type XmlElement } from '#src/topology/xml/element.js';
import { channelText, cluster, firstDomain } from './described.js';
import { ARM, cpu, gpu, gpuElement, MILAN, nic, nvswitch, pci, pciSwitch, system } from './machine-xml.js';
import { randomMachine } from './random-machine.js';

function refusal(run: () => unknown): TuttiError {
  try {
    run();
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return error;
  }
  throw new Error('accepted');
}

describe('small machines', () => {
  it('one GPU, with and without a NIC, alone', () => {
    for (const more of [[], [nic('12:00.0', 0)]]) {
      const { domains, comm } = cluster(system(cpu(ARM, gpu('11:00.0', 0), ...more)), 1);
      expect(domains.map(({ ranks }) => ranks)).toEqual([[0]]);
      expect(channelText(domains[0]!.graphs.ring, 0)).toBe('0');
      expect([...comm.ringOf(0)]).toEqual([0]);
    }
  });

  it('one GPU on each of two hosts: by their NICs, or an error that asks for one', () => {
    const box = (...more: XmlElement[]) => system(cpu(ARM, gpu('11:00.0', 0), ...more));
    const { domains } = cluster(box(nic('12:00.0', 0)), 2);
    expect(channelText(domains[0]!.graphs.ring, 0)).toBe('NET0 0 NET0');
    const { code, message } = refusal(() => cluster(box(), 2));
    expect(code).toBe('internalError');
    expect(message).toMatch(/gpu GPU\/0-11000 to net.*add a <net>/);
  });

  it('two hosts of which one has no NIC: an error that names the GPU without one', () => {
    const apart = system(
      cpu(ARM, gpu('11:00.0', 0)),
      cpu({ ...ARM, host_hash: '0x2000' }, gpu('11:00.0', 0, { rank: 1 }), nic('12:00.0', 0)),
    );
    expect(refusal(() => cluster(apart, 1)).message).toMatch(/GPU\/0-11000/);
  });

  it('a GPU below a device that is no switch is not seen, and its rank is missed', () => {
    const hidden = system(cpu(ARM, pci('10:00.0', '0x068000', {}, gpu('11:00.0', 0)), gpu('12:00.0', 1)));
    const { code, message, rank } = refusal(() => cluster(hidden, 1));
    expect([code, rank]).toEqual(['internalError', 0]);
    expect(message).toMatch(/rank 0/);
  });

  it('a class that nobody knows is a switch', () => {
    const xml = system(cpu(ARM, pci('10:00.0', '0x999999', {}, gpu('11:00.0', 0), gpu('12:00.0', 1))));
    const { system: machine } = firstDomain(xml, 1);
    expect(machine.nodes.PCI.length).toBe(1);
    // A GPU element right inside it is none of its children that are devices.
    const wrong = system(cpu(ARM, pci('10:00.0', '0x120000', {}, gpuElement(0))));
    expect(refusal(() => cluster(wrong, 1)).message).toMatch(
      /^<gpu>: attribute busid is missing: .* a switch by its class 0x120000; a GPU has class 0x030200/,
    );
  });
});

describe('ranks', () => {
  const box = (...ranks: number[]) =>
    system(cpu(ARM, ...ranks.map((rank, dev) => gpu(`${dev + 1}1:00.0`, dev, { rank })), nic('0f:00.0', 0)));

  it('are 0 to one less than their number, each once', () => {
    expect(cluster(box(1, 0), 1).domains[0]!.ranks).toEqual([1, 0]);
    expect(refusal(() => cluster(box(0, 0), 1)).message).toMatch(/<gpu>: rank 0 is there twice/);
    expect(refusal(() => cluster(box(0, -1), 1)).message).toMatch(/<gpu>: rank -1 is negative/);
    expect(refusal(() => cluster(box(0, 2), 1)).message).toMatch(/no GPU has rank 1 although one has rank 2/);
    expect(refusal(() => cluster(box(), 1)).message).toMatch(/no <gpu> with a rank/);
    expect(refusal(() => describeCluster({ nodes: [] })).message).toMatch(/no machine was described/);
  });

  it('far beyond the number of GPUs are refused at once', () => {
    expect(refusal(() => cluster(box(0, 2_000_000_000), 1)).code).toBe('invalidArgument');
  });

  it('of a shared GPU count up to the first that has none', () => {
    const shared = (ranked: 0 | 1) => {
      const both = pci('11:00.0', '0x030200', {}, gpuElement(0, { rank: 0 }), gpuElement(0, { rank: 0 }));
      both.children[1 - ranked]!.attributes.delete('rank');
      return system(cpu(ARM, both));
    };
    expect(firstDomain(shared(0), 1).ranks).toEqual([0]);
    const { code, message, rank } = refusal(() => cluster(shared(1), 1));
    expect([code, rank]).toEqual(['internalError', 0]);
    expect(message).toMatch(/the <pci> above it holds another GPU without a rank/);
  });
});

describe('several hosts in one document', () => {
  const host = (hash: string, rank: number) =>
    cpu(
      { ...MILAN, host_hash: hash },
      pciSwitch('10:00.0', gpu('11:00.0', 0, { rank, links: [nvswitch(18)] }), nic('12:00.0', 0)),
    );

  it('are one domain as an NVLink clique, and apart otherwise', () => {
    const xml = system(host('0x1', 0), host('0x2', 1));
    expect(cluster(xml, 1, { mnnvl: true }).domains.map(({ ranks }) => ranks)).toEqual([[0, 1]]);
    expect(cluster(xml, 1).domains.map(({ ranks }) => ranks)).toEqual([[0], [1]]);
  });
});

/** Texts that stand where others should. */
const TEXTS = [
  '',
  'x',
  '-1',
  '0',
  '3',
  '0x068000',
  '0x060400',
  '99999999999999999999',
  '4294967295',
  '0000:11:00.0',
];

/** Changes one thing about a document; the number decides which. */
function damage(root: XmlElement, seed: number): string {
  let state = (seed * 2654435761) >>> 0;
  const pick = <T>(values: readonly T[]): T => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return values[(state >>> 8) % values.length]!;
  };
  const elements: { one: XmlElement; parent: XmlElement }[] = [];
  const visit = (parent: XmlElement) => {
    for (const one of parent.children) {
      elements.push({ one, parent });
      visit(one);
    }
  };
  visit(root);
  const { one, parent } = pick(elements);
  const name = pick([...one.attributes.keys(), 'none']);
  switch (pick(['delete', 'delete', 'text', 'text', 'remove', 'twice', 'move', 'empty'])) {
    case 'delete':
      one.attributes.delete(name);
      return `<${one.name}> without ${name}`;
    case 'text': {
      const text = pick(TEXTS);
      one.attributes.set(name, text);
      return `<${one.name}> with ${name}="${text}"`;
    }
    case 'remove':
      parent.children.splice(parent.children.indexOf(one), 1);
      return `no <${one.name}>`;
    case 'twice':
      parent.children.push(cloneElement(one));
      return `two <${one.name}>`;
    case 'move':
      parent.children.splice(parent.children.indexOf(one), 1);
      root.children[0]?.children.unshift(one);
      return `<${one.name}> elsewhere`;
    default:
      one.children.push(element(pick(['pci', 'nic', 'gpu', 'net', 'cpu', 'nvlink', 'other'])));
      return `an empty element in <${one.name}>`;
  }
}

describe('damaged documents', () => {
  it('are described, or refused by an error that names an element or a device', () => {
    let refused = 0;
    let described = 0;
    for (let seed = 0; seed < 400; seed++) {
      const machine = randomMachine(1000 + (seed % 40));
      // Small ones: the point is the document, not the search.
      if (machine.nRanks > 4) continue;
      const xml = cloneElement(machine.xml);
      const what = `${damage(xml, seed)}, in ${machine.text}`;
      try {
        const { domains, nRanks } = cluster(xml, 1);
        const ranks = domains.flatMap((domain) => domain.ranks).sort((a, b) => a - b);
        expect(ranks, what).toEqual(Array.from({ length: nRanks }, (_, rank) => rank));
        described += 1;
      } catch (error) {
        if (!TuttiError.is(error)) throw new Error(`${what}: ${error}`, { cause: error });
        expect(error.message, what).toMatch(/<\w+>|GPU\/|PCI\/|DEV\/|NIC\/|rank \d|host/);
        refused += 1;
      }
    }
    expect(described).toBeGreaterThan(50);
    expect(refused).toBeGreaterThan(20);
  });
});
