/** Clusters of golden and random machines for tests of reports. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Cluster, type ClusterOptions, describeCluster } from '#src/topology/cluster.js';
import { cloneElement, element, type XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';

const GOLDEN = fileURLToPath(new URL('../../golden/', import.meta.url));

/** Names of the golden machines; generated ones (`random-0001`) left out. */
export const GOLDEN_MACHINES: readonly string[] = readdirSync(GOLDEN, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !/^(?:random-|real-)/.test(entry.name))
  .map(({ name }) => name)
  .sort();

export const goldenPath = (name: string): string => `${GOLDEN}${name}`;

/** The document of a golden machine (or of a file below its folder). */
export function goldenDocument(name: string, file = 'topo.xml'): XmlElement {
  return readXml(readFileSync(goldenPath(`${name}/${file}`), 'latin1'), { root: 'system' }).root;
}

export interface MadeCluster {
  readonly cluster: Cluster;
  readonly documents: readonly XmlElement[];
}

/** A cluster of equal nodes. */
export function clusterOf(
  document: XmlElement,
  nodes = 1,
  more: Omit<ClusterOptions, 'nodes'> = {},
): MadeCluster {
  const documents = Array.from({ length: nodes }, () => document);
  return { cluster: describeCluster({ nodes: documents.map((xml) => ({ xml })), ...more }), documents };
}

/** One document for several hosts like this one, as an NVLink clique. */
export function cliqueOf(document: XmlElement, hosts: number): XmlElement {
  const joined = element('system', { version: 1 });
  let ranks = 0;
  for (let host = 0; host < hosts; host++) {
    const copy = cloneElement(document);
    let own = 0;
    const visit = (one: XmlElement): void => {
      if (one.name === 'cpu') one.attributes.set('host_hash', `0x${(0x1000 + host).toString(16)}`);
      if (one.name === 'gpu') {
        one.attributes.set('rank', `${Number(one.attributes.get('rank')) + ranks}`);
        own += 1;
      }
      for (const child of one.children) visit(child);
    };
    visit(copy);
    ranks += own;
    joined.children.push(...copy.children);
  }
  return joined;
}
