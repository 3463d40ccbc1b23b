/**
 * Why NCCL decides what it decides about a cluster, in sentences: what limits each graph, why paths are refused, why a
 * host was split, what sets the number of channels.
 *
 * Nodes that are alike are explained once. Every explanation has its numbers as evidence too, for programs.
 */
import type { Cluster, Domain } from '../cluster.js';
import { countExplanations } from './explain/counts.js';
import { because, type Explanation, TOPIC_TITLES, type Topic } from './explain/explanation.js';
import { gpusText } from './explain/gpu-groups.js';
import { graphExplanations } from './explain/graphs.js';
import { machineViews } from './explain/machine-views.js';
import { gdrExplanations, pxnExplanations } from './explain/nics.js';
import { gdrOfOneNode } from './explain/one-node.js';
import { peerExplanations, splitExplanations } from './explain/peer-to-peer.js';
import { collnetAbsence, nvlsAbsence, nvlsNotShared } from './explain/special-graphs.js';
import { variableExplanations } from './explain/variables.js';
import { GRAPH_NAMES_IN_SEARCH_ORDER } from './graph-order.js';
import { distinctDomains } from './graph-summary.js';
import { listText } from './quantities.js';
import { railChanges, railsText } from './rails.js';
import { type Style, wrap } from './style.js';

/** All explanations of a cluster, by topic. */
export function explanations(cluster: Cluster): Explanation[] {
  const { settings } = cluster;
  const kinds = distinctDomains(cluster.domains);
  const said: Explanation[] = [];
  for (const view of machineViews(cluster)) {
    said.push(...splitExplanations(view), ...peerExplanations(view));
  }
  said.push(
    ...perKind(kinds, (domain) => [
      ...GRAPH_NAMES_IN_SEARCH_ORDER.flatMap((name) => graphExplanations(domain, name, settings)),
      ...nvlsAbsence(domain),
    ]),
    ...rails(cluster),
    ...nvlsNotShared(cluster),
    ...collnetAbsence(cluster),
    ...perKind(kinds, (domain) => gdrExplanations(domain, settings)),
    ...gdrOfOneNode(cluster),
    ...perKind(kinds, (domain) => pxnExplanations(domain, settings)),
    ...countExplanations(cluster),
    ...variableExplanations(cluster),
  );
  const order = Object.keys(TOPIC_TITLES);
  return said
    .map((one, at) => ({ one, at }))
    .sort((a, b) => order.indexOf(a.one.topic) - order.indexOf(b.one.topic) || a.at - b.at)
    .map(({ one }) => one);
}

/** Which NICs the hops of rings join. */
function rails(cluster: Cluster): Explanation[] {
  const text = railsText(cluster);
  if (text === '') return [];
  const { hops, changes } = railChanges(cluster);
  return [because('ring', text, { fact: 'rails', hops, changes })];
}

/**
 * Explanations of each kind of node. Kinds whose explanations differ in names only share those of the first; where
 * there are several different ones, each says whose it is.
 */
function perKind(kinds: readonly Domain[], explain: (domain: Domain) => Explanation[]): Explanation[] {
  const groups: { domains: Domain[]; shape: string; said: Explanation[] }[] = [];
  for (const domain of kinds) {
    const said = explain(domain);
    const shape = shapeOf(said);
    const same = groups.find((group) => group.shape === shape);
    if (same === undefined) groups.push({ domains: [domain], shape, said });
    else same.domains.push(domain);
  }
  return groups.flatMap(({ domains, said }) => {
    if (kinds.length === 1) return said;
    const [first, ...others] = domains.map(({ ranks }) => gpusText(ranks));
    const alike = others.length > 0 ? ` (likewise ${listText(others)})` : '';
    const topics = new Set<Topic>();
    return said.map((one) => {
      if (topics.has(one.topic)) return one;
      topics.add(one.topic);
      return { ...one, text: `Node of ${first}${alike}: ${one.text}` };
    });
  });
}

/** Texts without the numbers of devices. */
const shapeOf = (said: readonly Explanation[]): string =>
  said
    .map(({ text }) =>
      text.replace(/(GPUs?|CPU|NICs?|PCIe switch|port) \S+/g, '$1').replace(/\b[a-z]+[a-z0-9]*_\d+\b/g, ''),
    )
    .join('\n');

/**
 * The explanations as lines: a heading per topic, then each explanation behind a dash.
 *
 * @param style paints and breaks the lines; none leaves each explanation on one line
 */
export function explainCluster(cluster: Cluster, style?: Style): readonly string[] {
  const all = explanations(cluster);
  const lines: string[] = [];
  for (const [topic, title] of Object.entries(TOPIC_TITLES)) {
    const own = all.filter((one) => one.topic === topic);
    if (own.length === 0) continue;
    if (lines.length > 0) lines.push('');
    lines.push(style?.heading(title) ?? title);
    for (const { text } of own) {
      lines.push(...(style === undefined ? [`- ${text}`] : wrap(`- ${text}`, style.width, '  ')));
    }
  }
  return lines;
}
