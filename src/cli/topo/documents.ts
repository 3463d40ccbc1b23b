/**
 * Makes topology documents fit for a communicator: ranks without gaps, hosts of an NVLink domain joined in one
 * document, CollNet on all NICs.
 */
import { cInt } from '../../topology/c-integer.js';
import { cloneElement, element, type XmlElement } from '../../topology/xml/element.js';

/** All elements of a name in a document, in its order. */
export function elementsNamed(root: XmlElement, name: string): XmlElement[] {
  const found: XmlElement[] = [];
  const visit = (one: XmlElement) => {
    if (one.name === name) found.push(one);
    for (const child of one.children) visit(child);
  };
  visit(root);
  return found;
}

/** A copy of a document whose GPUs have the ranks 0, 1, 2, ..., and what had to be changed, for the user. */
export function withRanks(document: XmlElement): { document: XmlElement; notes: string[] } {
  const copy = cloneElement(document);
  const gpus = elementsNamed(copy, 'gpu');
  const rankOf = (gpu: XmlElement) => {
    const text = gpu.attributes.get('rank');
    return text === undefined ? undefined : cInt(text);
  };
  const ranked = gpus.filter((gpu) => rankOf(gpu) !== undefined);
  const notes: string[] = [];
  if (ranked.length === 0 && gpus.length > 0) {
    for (const [rank, gpu] of gpus.entries()) gpu.attributes.set('rank', `${rank}`);
    notes.push(`no GPU of the topology has a rank; they are counted in its order, 0 to ${gpus.length - 1}`);
    return { document: copy, notes };
  }
  if (gpus.length > ranked.length) {
    notes.push(`${gpus.length - ranked.length} of ${gpus.length} GPUs have no rank and are left out`);
  }
  // A dump of a node other than the first starts at a higher rank; doubled ones are left for the error to name.
  const sorted = ranked.toSorted((a, b) => rankOf(a)! - rankOf(b)!);
  const isCounted = sorted.every((gpu, at) => rankOf(gpu) === at);
  const isUnique = new Set(sorted.map(rankOf)).size === sorted.length;
  if (!isCounted && isUnique) {
    notes.push(
      `ranks ${rankOf(sorted[0]!)} to ${rankOf(sorted.at(-1)!)} of the topology are counted from 0, in their order`,
    );
    for (const [rank, gpu] of sorted.entries()) gpu.attributes.set('rank', `${rank}`);
  }
  return { document: copy, notes };
}

/** Hosts that a document describes. */
export const hostCount = (document: XmlElement): number =>
  new Set(
    document.children.filter(({ name }) => name === 'cpu').map((cpu) => cpu.attributes.get('host_hash')),
  ).size;

/** First hash of hosts that are told apart by a number only. */
const FIRST_HOST_HASH = 0x1000;

/** One document for hosts of one NVLink domain; ranks are counted through them. */
export function joinHosts(hosts: readonly XmlElement[]): XmlElement {
  const joined = element('system', { version: 1 });
  let ranks = 0;
  let hostNumber = 0;
  for (const host of hosts) {
    const copy = cloneElement(host);
    const gpus = elementsNamed(copy, 'gpu').filter((gpu) => gpu.attributes.has('rank'));
    for (const gpu of gpus) {
      gpu.attributes.set('rank', `${cInt(gpu.attributes.get('rank')!) + ranks}`);
    }
    ranks += gpus.length;
    const hashes = new Map<string | undefined, string>();
    for (const cpu of copy.children) {
      const hash = cpu.attributes.get('host_hash');
      if (!hashes.has(hash)) hashes.set(hash, `0x${(FIRST_HOST_HASH + hostNumber++).toString(16)}`);
      cpu.attributes.set('host_hash', hashes.get(hash)!);
    }
    joined.children.push(...copy.children);
  }
  return joined;
}

/** A copy in which every NIC can do CollNet. */
export function withCollnet(document: XmlElement): XmlElement {
  const copy = cloneElement(document);
  for (const net of elementsNamed(copy, 'net')) net.attributes.set('coll', '1');
  return copy;
}
