/**
 * The files that `tutti topo` writes.
 */
import { writeFileSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import { cInt } from '../../topology/c-integer.js';
import { liveMachine } from '../../topology/detect/machine.js';
import { recordMachine } from '../../topology/detect/record-machine.js';
import { clusterSvg } from '../../topology/report/svg.js';
import { graphsXml } from '../../topology/search/graph-file.js';
import type { Environment } from '../../topology/settings.js';
import { writeXml } from '../../topology/xml/write.js';
import type { DescribedCluster } from './described-cluster.js';
import type { TopoOptions } from './options.js';

/** Records this machine; the sentence that says so. Comes first: a machine that is refused needs recording most. */
export function recorded(path: string, env: Environment): string {
  const bytes = recordMachine(path, liveMachine(), env);
  return `recorded this machine in ${path} (${bytes} bytes); 'tar tzf ${path}' lists what is in it`;
}

/** The files that options or variables ask for. */
export function writeFiles(
  { dump, graphDump, svg }: TopoOptions,
  env: Environment,
  { cluster, documents }: DescribedCluster,
  isDetected: boolean,
): void {
  const { domains } = cluster;
  // Detection has written NCCL_TOPO_DUMP_FILE itself.
  const dumps = [dump, ...(isDetected ? [] : [env.NCCL_TOPO_DUMP_FILE])];
  for (const path of dumps) if (path) writeOutput(path, writeXml(documents[0]!), 'topology');
  const writer = cInt(env.NCCL_GRAPH_DUMP_FILE_RANK ?? '');
  const domainOf = (rank: number) => domains.find(({ ranks }) => ranks.includes(rank));
  const graphDumps = [
    [graphDump, domainOf(0)] as const,
    [env.NCCL_GRAPH_DUMP_FILE, domainOf(writer)] as const,
  ];
  for (const [path, domain] of graphDumps) {
    if (!path || domain === undefined) continue;
    writeOutput(path, writeXml(graphsXml(domain.graphs, domain.system, domain.rankOffset)), 'graphs');
  }
  if (svg !== undefined)
    writeOutput(
      svg,
      clusterSvg(cluster, (node) => documents[node]!),
      'picture',
      'utf8',
    );
}

export function writeOutput(
  path: string,
  text: string,
  what: string,
  encoding: 'latin1' | 'utf8' = 'latin1',
): void {
  try {
    writeFileSync(path, text, encoding);
  } catch (cause) {
    throw new TuttiError('systemError', `cannot write the ${what} to ${path}: ${(cause as Error).message}`, {
      cause,
    });
  }
}
