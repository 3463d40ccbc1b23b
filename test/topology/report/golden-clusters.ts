/** Clusters of the golden machines, described as a user would, for tests that look at many of them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Cluster, type ClusterOptions, describeCluster } from '#src/topology/cluster.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { sample } from '../../effort.js';

const GOLDEN = fileURLToPath(new URL('../../golden', import.meta.url));

/** Every n-th generated machine is looked at, and all others. */
const RANDOM_STEP = 8;

/** Machines whose search over two nodes takes seconds. */
const SLOW = new Set(['syn-mlopart-x4x2']);

/** Names of the machines. */
export const MACHINES: readonly string[] = readdirSync(GOLDEN)
  .filter((name) => existsSync(join(GOLDEN, name, 'topo.xml')))
  .filter((name) => !name.startsWith('random-') || Number(name.slice(7)) % RANDOM_STEP === 0)
  .concat('real-2xH200');

const documents = new Map<string, XmlElement>();

/** The topology of a machine. */
export function documentOf(machine: string): XmlElement {
  let root = documents.get(machine);
  if (root === undefined) {
    const file = machine === 'real-2xH200' ? 'topo-2.xml' : 'topo.xml';
    root = readXml(readFileSync(join(GOLDEN, machine, file), 'latin1'), { root: 'system' }).root;
    documents.set(machine, root);
  }
  return root;
}

const clusters = new Map<string, Cluster>();

/** `nodes` nodes like the machine. */
export function clusterOf(machine: string, nodes = 1, options: Partial<ClusterOptions> = {}): Cluster {
  // A function has no text of its own: what is given with one is not kept.
  const isKept = Object.values(options).every((value) => typeof value !== 'function');
  const key = `${machine} ${nodes} ${JSON.stringify(options)}`;
  let cluster = isKept ? clusters.get(key) : undefined;
  if (cluster === undefined) {
    const xml = documentOf(machine);
    cluster = describeCluster({ nodes: Array.from({ length: nodes }, () => ({ xml })), ...options });
    if (isKept) clusters.set(key, cluster);
  }
  return cluster;
}

/** The machine has a network port, so that several of it can be connected. */
export function hasNet(machine: string): boolean {
  const visit = ({ name, children }: XmlElement): boolean => name === 'net' || children.some(visit);
  return visit(documentOf(machine));
}

/** The clusters that are looked at: one node, and two where there is a network. */
export const CASES: readonly (readonly [machine: string, nodes: number])[] = sample(
  MACHINES.flatMap((machine): [string, number][] =>
    hasNet(machine) && !SLOW.has(machine)
      ? [
          [machine, 1],
          [machine, 2],
        ]
      : [[machine, 1]],
  ),
  3,
);
