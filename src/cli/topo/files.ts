/**
 * The files that `tutti topo` writes.
 */
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../../topology/c-integer.js';
import type { Domain } from '../../topology/cluster.js';
import { liveMachine } from '../../topology/detect/machine.js';
import { writeWhole } from '../../topology/detect/output-file.js';
import { recordMachine } from '../../topology/detect/record-machine.js';
import { clusterSvg } from '../../topology/report/svg.js';
import { graphsXml } from '../../topology/search/graph-file.js';
import type { Environment } from '../../topology/settings.js';
import { writeXml } from '../../topology/xml/write.js';
import type { DescribedCluster } from './described-cluster.js';
import { reasonOf } from './file-errors.js';
import { STANDARD } from './machine-options.js';
import type { TopoOptions } from './options.js';

/** Records this machine; the sentence that says so. Comes first: a machine that is refused needs recording most. */
export function recorded(path: string, env: Environment): string {
  const bytes = recordMachine(path, liveMachine(), env);
  return `recorded this machine in ${path} (${bytes} bytes); 'tar tzf ${path}' lists what is in it`;
}

/**
 * The files that options or variables ask for; returns the text of the one that goes to the standard output, if any.
 */
export function writeFiles(
  { dump, graphDump, svg }: TopoOptions,
  env: Environment,
  { cluster, documents }: DescribedCluster,
  isDetected: boolean,
): string | undefined {
  const { domains } = cluster;
  const domainOf = (rank: number) => domains.find(({ ranks }) => ranks.includes(rank));
  const graphs = (domain: Domain) => writeXml(graphsXml(domain.graphs, domain.system, domain.rankOffset));
  const topology = () => writeXml(documents[0]!);
  // Detection has written NCCL_TOPO_DUMP_FILE itself.
  const topologyPath = isDetected ? undefined : env.NCCL_TOPO_DUMP_FILE;
  if (topologyPath) writeOutput(topologyPath, topology(), 'topology');
  const writer = domainOf(cInt(env.NCCL_GRAPH_DUMP_FILE_RANK ?? ''));
  if (env.NCCL_GRAPH_DUMP_FILE && writer !== undefined) {
    writeOutput(env.NCCL_GRAPH_DUMP_FILE, graphs(writer), 'graphs');
  }
  const picture = () => clusterSvg(cluster, (node) => documents[node]!);
  const asked = [
    [dump, topology, 'topology', 'latin1'],
    [graphDump, () => graphs(domainOf(0)!), 'graphs', 'latin1'],
    [svg, picture, 'picture', 'utf8'],
  ] as const;
  let printed: string | undefined;
  for (const [path, text, what, encoding] of asked) {
    if (path === STANDARD) printed = Buffer.from(text(), encoding).toString('utf8');
    else if (path !== undefined) writeOutput(path, text(), what, encoding);
  }
  return printed;
}

/**
 * Makes the folder of a file that will be written later, and finds out whether that can be done.
 *
 * @throws TuttiError systemError with the reason
 */
export function prepareOutput(path: string, what: string): void {
  const folder = dirname(path);
  try {
    if (existsSync(folder) && !statSync(folder).isDirectory()) throw new Error(`${folder} is no folder`);
    mkdirSync(folder, { recursive: true });
    if (!existsSync(path)) accessSync(folder, constants.W_OK);
    else if (statSync(path).isDirectory()) throw new Error('it is a folder');
    else accessSync(path, constants.W_OK);
  } catch (cause) {
    throw new TuttiError('systemError', `cannot write the ${what} to ${path}: ${reasonOf(cause)}`, { cause });
  }
}

export function writeOutput(
  path: string,
  text: string,
  what: string,
  encoding: 'latin1' | 'utf8' = 'latin1',
): void {
  try {
    writeWhole(path, text, encoding);
  } catch (cause) {
    throw new TuttiError('systemError', `cannot write the ${what} to ${path}: ${reasonOf(cause)}`, { cause });
  }
}
