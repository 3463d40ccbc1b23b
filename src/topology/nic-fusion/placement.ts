/**
 * Where a virtual NIC hangs in the document: where its members meet, behind a PCI device of its own if they meet at a
 * switch or a CPU, with the width that the ways to all members have together. (NCCL 2.30.7, topo.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../c-integer.js';
import type { LogSink } from '../log.js';
import { busIdNumber } from '../system/build.js';
import { PathType } from '../system/path-type.js';
import type { XmlElement } from '../xml/element.js';
import { type Ancestry, type Chain, type Meeting, meetingOf } from './distance.js';

/** Makes a new last child of an element. */
export type AppendElement = (
  parent: XmlElement,
  name: string,
  attributes: Readonly<Record<string, string>>,
) => XmlElement;

/** Class of PCI bridges; the text must be the same. */
const BRIDGE_CLASS = '0x060400';

/** Bus ids that are tried for a new PCI device. */
const BUS_ID_TRIES = 100;

/** Distances at which the members have ways of their own, whose widths add up. */
const OWN_WAYS: ReadonlySet<number> = new Set([PathType.PIX, PathType.PXB, PathType.PHB]);

/**
 * The element under which the virtual NIC of these net elements belongs. A new `pci` element is appended if it needs one.
 *
 * @throws TuttiError invalidArgument for members that have only the system in common, internalError without a free bus id.
 */
export function placeVirtualNic(
  ancestry: Ancestry,
  members: readonly XmlElement[],
  append: AppendElement,
  log: LogSink,
): XmlElement {
  const chains = members.map((member) => ancestry.chain(member));
  const meeting = meetingOf(chains);
  const { ancestor } = meeting;
  if (ancestor === undefined || ancestor.name === 'system') {
    const names = members.map((member) => member.attributes.get('name') ?? '?').join(', ');
    const text = 'Fusing NET devices from different NUMA domains is not supported.';
    log('WARN', 'GRAPH', text);
    throw new TuttiError(
      'invalidArgument',
      `${text} The devices are ${names}; set NCCL_NET_MERGE_LEVEL or NCCL_NET_FORCE_MERGE so that they stay apart`,
    );
  }
  // What holds the nic element finds it again as its own.
  if (ancestor.name === 'net' || ancestor.name === 'nic') return holderOf(ancestry, ancestor);
  const needsDevice = ancestor.name === 'cpu' || ancestor.attributes.get('class') === BRIDGE_CLASS;
  const model = chains[0]!.findLast(({ name }) => name === 'pci');
  // A NIC that is no PCI device has no attributes that a new one could take over.
  if (!needsDevice || model === undefined || model === ancestor) return ancestor;
  const attributes = Object.fromEntries(model.attributes);
  attributes.busid = freeBusId(ancestry.root, attributes.busid ?? '');
  const width = commonWidth(meeting, chains);
  if (width > 0) attributes.link_width = String(width);
  return append(ancestor, 'pci', attributes);
}

function holderOf(ancestry: Ancestry, one: XmlElement): XmlElement {
  let holder = one;
  while (holder.name === 'net' || holder.name === 'nic') {
    const above = ancestry.parentOf(holder);
    if (above === undefined) break;
    holder = above;
  }
  return holder;
}

/** Lanes that the ways from where the members meet to all of them have together; 0 if unknown or not of interest. */
function commonWidth({ distance, ancestor }: Meeting, chains: readonly Chain[]): number {
  if (!OWN_WAYS.has(distance)) return 0;
  const onTheWay = new Set(chains.flat());
  const devices = new Set(chains.map((chain) => chain.findLast(({ name }) => name === 'pci')));
  const below = (one: XmlElement): number =>
    one.children.filter((child) => onTheWay.has(child)).reduce((sum, child) => sum + width(child), 0);
  const width = (one: XmlElement): number => {
    const own = cInt(one.attributes.get('link_width') ?? '');
    if (devices.has(one)) return own;
    return one.name === 'pci' ? Math.min(own, below(one)) : below(one);
  };
  return below(ancestor!);
}

/** The next bus id after this one that no PCI device has. */
function freeBusId(root: XmlElement, busId: string): string {
  const taken = new Set<string | undefined>();
  const collect = (one: XmlElement): void => {
    if (one.name === 'pci') taken.add(one.attributes.get('busid'));
    one.children.forEach(collect);
  };
  collect(root);
  let number = busIdNumber(busId);
  for (let tries = 0; tries < BUS_ID_TRIES; tries++) {
    const next = busIdText(++number);
    if (!taken.has(next)) return next;
  }
  throw new TuttiError(
    'internalError',
    `the ${BUS_ID_TRIES} bus ids after ${busId} are all taken; a virtual NIC needs a free one`,
  );
}

/** Domain, bus, device and function of a bus id number. */
function busIdText(number: bigint): string {
  const part = (shift: bigint, bits: bigint, digits: number) =>
    BigInt.asUintN(Number(bits), number >> shift)
      .toString(16)
      .padStart(digits, '0');
  return `${part(20n, 44n, 4)}:${part(12n, 8n, 2)}:${part(4n, 8n, 2)}.${part(0n, 4n, 1)}`;
}
