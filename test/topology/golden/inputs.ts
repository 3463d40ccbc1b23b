/** From the parameters of a golden file to the input of our own computation. */
import { cloneElement, element, type XmlElement } from '#src/topology/xml/element.js';
import type { Oracle } from './format.js';

/** What is described: hosts or NVLink cliques, and what their drivers can do. */
export interface GoldenInputs {
  readonly env: Readonly<Record<string, string>>;
  /** One per host, or per clique; all the same object, as all are equal but for their ranks. */
  readonly nodes: readonly { readonly xml: XmlElement }[];
  readonly nvls: boolean;
  readonly collnet: boolean;
  readonly mnnvl: boolean;
  readonly nvmlP2p: (busIdA: string, busIdB: string) => boolean;
}

/** Hash of host 0; host k has k more. */
const FIRST_HOST_HASH = 0x1000;

/** Inputs for a file with these parameters of the machine that `topology` describes. */
export function goldenInputs(topology: XmlElement, oracle: Oracle): GoldenInputs {
  const { gpusPerNode, traysPerClique, nodes } = oracle;
  if (oracle.lastNodeDiffers !== 0) throw new Error('a last node that differs is not supported');
  if (nodes % traysPerClique !== 0) {
    throw new Error(`${nodes} trays cannot form cliques of ${traysPerClique}`);
  }
  const trays = Array.from({ length: traysPerClique }, (_, tray) =>
    hostCopy(topology, tray, tray * gpusPerNode, oracle.collnet === 1),
  );
  const xml = element('system', { version: 1 });
  xml.children = trays.flatMap((tray) => tray.children);
  const node = { xml: traysPerClique === 1 ? trays[0]! : xml };
  const joined = oracle.nop2p === 1 ? nvlinkPairs(topology) : undefined;
  return {
    env: effectiveEnvironment(oracle),
    nodes: Array.from({ length: nodes / traysPerClique }, () => node),
    nvls: oracle.nvls === 1,
    collnet: oracle.collnet === 1,
    mnnvl: oracle.mnnvl === 1,
    nvmlP2p: (a, b) => joined === undefined || joined(a, b),
  };
}

/**
 * The variables that the data were made with and that had an effect there: the program that made them skips NCCL's step
 * that copies variables into a communicator's configuration.
 */
export function effectiveEnvironment({ env }: Oracle): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !CONFIGURATION.has(name)));
}

/** Variables that NCCL reads through the configuration only. */
const CONFIGURATION = new Set([
  'NCCL_MIN_CTAS',
  'NCCL_MAX_CTAS',
  'NCCL_NVLS_NCHANNELS',
  'NCCL_NCHANNELS_PER_NET_PEER',
  'NCCL_P2P_MAX_PEERS',
]);

/** One host of the cluster: a copy of the file with its hash and its ranks. */
function hostCopy(topology: XmlElement, host: number, rankOffset: number, collnet: boolean): XmlElement {
  const copy = cloneElement(topology);
  const visit = ({ name, attributes, children }: XmlElement): void => {
    if (name === 'cpu') attributes.set('host_hash', `0x${(FIRST_HOST_HASH + host).toString(16)}`);
    if (name === 'gpu' && attributes.has('rank')) {
      attributes.set('rank', String(Number(attributes.get('rank')) + rankOffset));
    }
    if (name === 'net' && collnet) attributes.set('coll', '1');
    for (const child of children) visit(child);
  };
  visit(copy);
  return copy;
}

/** Whether two devices have an NVLink between them, or both one to the NVSwitch. */
function nvlinkPairs(topology: XmlElement): (busIdA: string, busIdB: string) => boolean {
  const direct = new Set<string>();
  const switched = new Set<string>();
  const visit = (parent: XmlElement): void => {
    for (const child of parent.children) {
      if (child.name === 'nvlink' && parent.name === 'gpu') continue;
      if (child.name === 'gpu') {
        const own = parent.attributes.get('busid')?.toLowerCase() ?? '';
        for (const link of child.children) {
          if (link.name !== 'nvlink') continue;
          const peerClass = link.attributes.get('tclass') ?? '';
          const target = link.attributes.get('target')?.toLowerCase() ?? '';
          if (peerClass.startsWith('0x03')) direct.add(`${own} ${target}`);
          else if (!peerClass.startsWith('0x068001')) switched.add(own);
        }
      }
      visit(child);
    }
  };
  visit(topology);
  return (busIdA, busIdB) => {
    const [a, b] = [busIdA.toLowerCase(), busIdB.toLowerCase()];
    return direct.has(`${a} ${b}`) || direct.has(`${b} ${a}`) || (switched.has(a) && switched.has(b));
  };
}
