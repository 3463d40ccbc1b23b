/** Adding and removing nodes and links. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import {
  addLink,
  addNode,
  connect,
  emptySystem,
  findNode,
  MAX_LINKS,
  MAX_NODES,
  nodeName,
  removeNode,
  typeName,
} from '#src/topology/system/edit.js';
import { hostOf, localIdOf, type PciNode, type TopoSystem } from '#src/topology/system/node.js';
import { LinkType } from '#src/topology/system/path-type.js';
import { linkTexts } from '../described.js';

const pciNode = (machine: TopoSystem, id: bigint): PciNode =>
  addNode(machine, { type: 'PCI', id, device: 0n, busId: '' });

/** A system of so many PCI nodes with the ids 0, 1, ... */
function nodesOf(count: number): { machine: TopoSystem; nodes: PciNode[] } {
  const machine = emptySystem();
  return { machine, nodes: Array.from({ length: count }, (_, id) => pciNode(machine, BigInt(id))) };
}

describe('links', () => {
  it('of one type to one node are one link with the bandwidth of all, in 32 bits [C04-06]', () => {
    const { nodes } = nodesOf(3);
    const [a, b, c] = nodes;
    for (let i = 0; i < 4; i++) addLink(a!, b!, LinkType.NVL, 25);
    addLink(a!, b!, LinkType.PCI, 12);
    addLink(a!, c!, LinkType.NVL, 50);
    expect(linkTexts(a!)).toEqual(['NVL 100 PCI1', 'NVL 50 PCI2', 'PCI 12 PCI1']);
    expect(b!.links).toEqual([]);
    addLink(b!, c!, LinkType.NVL, 20.6);
    addLink(b!, c!, LinkType.NVL, 20.6);
    const one = Math.fround(20.6);
    expect(b!.links[0]!.bandwidth).toBe(Math.fround(one + one));
  });

  it('stand by decreasing bandwidth, equal ones as they came, also when one grows [C04-06]', () => {
    const { nodes } = nodesOf(5);
    const [a, ...others] = nodes;
    for (const [at, bandwidth] of [10, 30, 30, 20].entries())
      addLink(a!, others[at]!, LinkType.PCI, bandwidth);
    expect(linkTexts(a!)).toEqual(['PCI 30 PCI2', 'PCI 30 PCI3', 'PCI 20 PCI4', 'PCI 10 PCI1']);
    addLink(a!, others[0]!, LinkType.PCI, 20);
    expect(linkTexts(a!)).toEqual(['PCI 30 PCI2', 'PCI 30 PCI3', 'PCI 30 PCI1', 'PCI 20 PCI4']);
    addLink(a!, others[0]!, LinkType.PCI, 1);
    expect(linkTexts(a!)[0]).toBe('PCI 31 PCI1');
  });

  it('in any order of adding are sorted and complete', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(5), fc.integer({ min: 1, max: 50 })), { maxLength: 40 }),
        (added) => {
          const { nodes } = nodesOf(7);
          const sums = new Map<number, number>();
          for (const [to, bandwidth] of added) {
            addLink(nodes[6]!, nodes[to]!, LinkType.PCI, bandwidth);
            sums.set(to, (sums.get(to) ?? 0) + bandwidth);
          }
          const { links } = nodes[6]!;
          expect(new Map(links.map(({ to, bandwidth }) => [to.index, bandwidth]))).toEqual(sums);
          expect(links.length).toBe(sums.size);
          for (let i = 1; i < links.length; i++)
            expect(links[i - 1]!.bandwidth).toBeGreaterThanOrEqual(links[i]!.bandwidth);
        },
      ),
    );
  });
});

describe('limits [C04-04]', () => {
  it('640 nodes of a type', () => {
    const { machine } = nodesOf(640);
    expect(MAX_NODES).toBe(640);
    const error = refusal(() => pciNode(machine, 640n));
    expect([error.code, error.message]).toEqual([
      'internalError',
      expect.stringContaining('tried to create too many nodes of type PCI'),
    ]);
    expect(machine.nodes.PCI.length).toBe(640);
    // Other types count on their own.
    expect(addNode(machine, { type: 'NVS', id: 0n }).index).toBe(0);
  });

  it('576 links of a node', () => {
    const { nodes } = nodesOf(578);
    expect(MAX_LINKS).toBe(576);
    for (let to = 1; to <= 576; to++) addLink(nodes[0]!, nodes[to]!, LinkType.PCI, 1);
    const error = refusal(() => addLink(nodes[0]!, nodes[577]!, LinkType.PCI, 1));
    expect([error.code, error.message]).toEqual([
      'internalError',
      expect.stringMatching(/too many links \(577\) at PCI\/0: .* at most 576/),
    ]);
    // More bandwidth for one that is there is no new link.
    addLink(nodes[0]!, nodes[1]!, LinkType.PCI, 1);
    expect(nodes[0]!.links.length).toBe(576);
  });
});

function refusal(run: () => unknown): TuttiError {
  try {
    run();
  } catch (error) {
    expect(TuttiError.is(error)).toBe(true);
    return error as TuttiError;
  }
  throw new Error('accepted');
}

describe('removing a node', () => {
  // NCCL does not refuse to remove a node that has paths, contrary to what is told of it; paths are computed anew.
  it('leaves all links between the others as they were [C04-11]', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(6), fc.nat(6), fc.constantFrom(1, 2, 3)), { maxLength: 30 }),
        fc.nat(6),
        (pairs, removed) => {
          const { machine, nodes } = nodesOf(7);
          for (const [a, b, bandwidth] of pairs)
            if (a !== b) connect(nodes[a]!, nodes[b]!, LinkType.PCI, bandwidth);
          const gone = nodes[removed]!;
          const rest = nodes.filter((one) => one !== gone);
          const named = ({ links }: PciNode) => links.map(({ to, bandwidth }) => `${to.id} ${bandwidth}`);
          const expected = rest.map((one) =>
            named({ ...one, links: one.links.filter(({ to }) => to !== gone) }),
          );
          removeNode(machine, gone);
          expect(machine.nodes.PCI).toEqual(rest);
          expect(machine.nodes.PCI.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
          expect(rest.map(named)).toEqual(expected);
          expect(findNode(machine, 'PCI', gone.id)).toBeUndefined();
        },
      ),
    );
  });
});

describe('names', () => {
  it('show host and local id in hexadecimal', () => {
    expect(nodeName({ type: 'GPU', id: (3n << 56n) | 0x1b000n })).toBe('GPU/3-1b000');
    expect(nodeName({ type: 'CPU', id: (1n << 56n) - 1n })).toBe('CPU/0-ffffffffffffff');
    const id = (255n << 56n) | 5n;
    expect([hostOf({ id }), localIdOf({ id })]).toEqual([255, 5n]);
    expect([typeName(7), typeName(12)]).toEqual(['PXN', '12']);
  });
});
