/**
 * How far NICs are from each other in the document, by the nearest element that holds them all. (NCCL 2.30.7, topo.cc.)
 */
import { PathType } from '../system/path-type.js';
import type { XmlElement } from '../xml/element.js';

/** Ports of one card; stands where NVLink does among the types of paths. */
export const PORT = 1;

/** A distance: a type of path, or `PORT`. */
export type NicDistance = PathType | typeof PORT;

/** The way from the root of the document down to an element. */
export type Chain = readonly XmlElement[];

/** Chains of all elements of a document. */
export class Ancestry {
  readonly #parents = new Map<XmlElement, XmlElement>();
  readonly #nets = new Map<string, XmlElement>();
  readonly root: XmlElement;

  constructor(root: XmlElement) {
    this.root = root;
    this.#add(root);
  }

  #add(one: XmlElement): void {
    const name = one.name === 'net' ? one.attributes.get('name') : undefined;
    if (name !== undefined && !this.#nets.has(name)) this.#nets.set(name, one);
    for (const child of one.children) {
      this.#parents.set(child, one);
      this.#add(child);
    }
  }

  parentOf(one: XmlElement): XmlElement | undefined {
    return this.#parents.get(one);
  }

  /** The first net element of this name. */
  net(name: string): XmlElement | undefined {
    return this.#nets.get(name);
  }

  chain(one: XmlElement): Chain {
    const chain = [one];
    for (let above = this.parentOf(one); above !== undefined; above = this.parentOf(above)) chain.push(above);
    return chain.reverse();
  }
}

/** The nearest element that holds them all, and what that means. */
export interface Meeting {
  readonly distance: NicDistance;
  readonly ancestor: XmlElement | undefined;
}

/** Where the chains of net elements meet. */
export function meetingOf(chains: readonly Chain[]): Meeting {
  const [first, ...rest] = chains;
  if (first === undefined) return { distance: PathType.DIS, ancestor: undefined };
  let depth = 0;
  while (depth < first.length && rest.every((chain) => chain[depth] === first[depth])) depth++;
  const ancestor = first[depth - 1];
  const parting = chains.map((chain) => chain[depth]);
  if (ancestor !== undefined && areFunctionsOfOneDevice(parting)) return { distance: PORT, ancestor };
  return { distance: distanceAt(ancestor, chains), ancestor };
}

/** Bus ids that differ in nothing but the last character, which is the number of the function. */
function areFunctionsOfOneDevice(elements: readonly (XmlElement | undefined)[]): boolean {
  const busIds = elements.map((one) => one?.attributes.get('busid'));
  const device = busIds[0]?.slice(0, -1);
  return (
    device !== undefined &&
    busIds.every((busId) => busId?.length === busIds[0]!.length && busId.startsWith(device))
  );
}

function distanceAt(ancestor: XmlElement | undefined, chains: readonly Chain[]): NicDistance {
  switch (ancestor?.name) {
    case 'system':
      return PathType.SYS;
    case 'cpu':
      return PathType.PHB;
    case 'nic':
    case 'net':
      return PORT;
    case 'pci':
      return chains.every((chain) => {
        const own = chain.findLastIndex(({ name }) => name === 'pci');
        return chain[own - 1] === ancestor;
      })
        ? PathType.PIX
        : PathType.PXB;
    default:
      return PathType.DIS;
  }
}
