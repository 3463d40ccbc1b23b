/** From the parameters of a golden file to the input of our own computation. */
import { cloneElement, element, type XmlElement } from '#src/topology/xml/element.js';
import type { Oracle } from './format.js';

/** What is described: hosts or NVLink cliques, and what their drivers can do. */
export interface GoldenInputs {
  readonly env: Readonly<Record<string, string>>;
  /** One per host, or per clique; all the same object, as all are equal but for their ranks, unless the last differs. */
  readonly nodes: readonly GoldenNodeInput[];
  readonly nvls: boolean;
  readonly collnet: boolean;
  readonly mnnvl: boolean;
  readonly nvmlP2p: (busIdA: string, busIdB: string) => boolean;
}

export interface GoldenNodeInput {
  readonly xml: XmlElement;
  readonly nvmlP2p?: GoldenInputs['nvmlP2p'];
}

/** Hash of host 0; host k has k more. */
const FIRST_HOST_HASH = 0x1000;

/**
 * Inputs for a file with these parameters of the machine that `topology` describes. The last host (tray) is the one that
 * `lastTopology` describes if the file says that it differs.
 */
export function goldenInputs(topology: XmlElement, oracle: Oracle, lastTopology?: XmlElement): GoldenInputs {
  const { traysPerClique, nodes } = oracle;
  if (nodes % traysPerClique !== 0) {
    throw new Error(`${nodes} trays cannot form cliques of ${traysPerClique}`);
  }
  const node = { xml: nodeOf(Array<XmlElement>(traysPerClique).fill(topology), oracle) };
  const all: GoldenNodeInput[] = Array.from({ length: nodes / traysPerClique }, () => node);
  if (oracle.lastNodeDiffers !== 0) {
    if (lastTopology === undefined) throw new Error('the last node differs, but nothing describes it');
    const trays = [...Array<XmlElement>(traysPerClique - 1).fill(topology), lastTopology];
    // NVML is asked on the first host of a clique.
    all.splice(-1, 1, { xml: nodeOf(trays, oracle), nvmlP2p: workingPairs(trays[0]!, oracle) });
  }
  return {
    env: effectiveEnvironment(oracle),
    nodes: all,
    nvls: oracle.nvls === 1,
    collnet: oracle.collnet === 1,
    mnnvl: oracle.mnnvl === 1,
    nvmlP2p: workingPairs(topology, oracle),
  };
}

/** One host, or several in one document. */
function nodeOf(topologies: readonly XmlElement[], { gpusPerNode, collnet }: Oracle): XmlElement {
  const trays = topologies.map((topology, tray) =>
    hostCopy(topology, tray, tray * gpusPerNode, collnet === 1),
  );
  if (trays.length === 1) return trays[0]!;
  const joined = element('system', { version: 1 });
  joined.children = trays.flatMap((tray) => tray.children);
  return joined;
}

/** What NVML reports about pairs of GPUs of a host. */
function workingPairs(topology: XmlElement, { nop2p }: Oracle): GoldenInputs['nvmlP2p'] {
  return nop2p === 1 ? nvlinkPairs(topology) : () => true;
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
