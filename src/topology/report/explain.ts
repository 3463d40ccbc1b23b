/**
 * Why NCCL decides what it decides about a cluster, in sentences: what limits each graph, why paths are refused, why a
 * host was split, what sets the number of channels.
 */
import type { Cluster } from '../cluster.js';
import { type Explanation, TOPIC_TITLES, type Topic } from './explain/explanation.js';
import { graphExplanations } from './explain/graphs.js';
import { distinctDomains } from './graph-summary.js';

/** All explanations of a cluster, by topic. */
export function explanations(cluster: Cluster): Explanation[] {
  const kinds = distinctDomains(cluster.domains);
  const said: Explanation[] = [];
  for (const domain of kinds) {
    for (const name of ['ring', 'tree', 'nvls', 'collnetChain', 'collnetDirect'] as const) {
      said.push(...graphExplanations(domain, name));
    }
  }
  return said;
}

/** The explanations as lines: a heading per topic, then one line per explanation. */
export function explainCluster(cluster: Cluster): readonly string[] {
  const all = explanations(cluster);
  const lines: string[] = [];
  for (const topic of Object.keys(TOPIC_TITLES) as Topic[]) {
    const own = all.filter((one) => one.topic === topic);
    if (own.length === 0) continue;
    if (lines.length > 0) lines.push('');
    lines.push(TOPIC_TITLES[topic], ...own.map(({ text }) => `- ${text}`));
  }
  return lines;
}
