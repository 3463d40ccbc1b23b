/**
 * The text that `tutti topo` prints: one sentence, the machine, its paths, the channels, the orders.
 */
import type { Cluster, Domain } from '../cluster.js';
import type { XmlElement } from '../xml/element.js';
import { nicUses } from './explain/nics.js';
import { channelCounts, graphSummary, orderSummary } from './graph-summary.js';
import { headline, machineText } from './headline.js';
import { machineFacts } from './machine.js';
import { machineTree } from './machine-tree.js';
import { machineDifferences, oddDevices } from './odd-devices.js';
import { pathMatrix } from './path-matrix.js';
import { pathTable } from './path-table.js';
import { countText, rangesText } from './quantities.js';
import { type Style, wrap } from './style.js';

/** A cluster and the documents that it was made from. */
export interface ReportInput {
  readonly cluster: Cluster;
  /** By node, as they were given; equal nodes share one. */
  readonly documents: readonly XmlElement[];
}

/** Nodes that one document describes. */
export interface MachineGroup {
  readonly document: XmlElement;
  /** Positions among the documents. */
  readonly nodes: readonly number[];
  /** Of the first node. */
  readonly domains: readonly Domain[];
}

/** Each different machine once, with the nodes that are like it. */
export function machineGroups({ cluster, documents }: ReportInput): MachineGroup[] {
  const nodes = new Map<XmlElement, number[]>();
  for (const [node, document] of documents.entries()) {
    const known = nodes.get(document);
    if (known === undefined) nodes.set(document, [node]);
    else known.push(node);
  }
  return [...nodes].map(([document, alike]) => ({
    document,
    nodes: alike,
    domains: cluster.domains.filter(({ node }) => node === alike[0]),
  }));
}

/** The whole report, lines without their ends. */
export function textReport(input: ReportInput, style: Style): string[] {
  const { cluster } = input;
  const groups = machineGroups(input);
  const lines = wrap(headline(cluster), style.width, '  ').map(style.strong);
  for (const text of differences(groups)) lines.push(...wrap(text, style.width, '  '));
  for (const group of groups) {
    const { system, machineTitle, pathsTitle } = described(group, groups.length);
    const { rankOffset } = group.domains[0]!;
    const facts = machineFacts(system, group.document);
    lines.push('', style.heading(machineTitle), ...machineTree(facts, system, style, rankOffset));
    for (const text of oddDevices(system, facts, rankOffset)) lines.push(...wrap(text, style.width, '  '));
    lines.push(...refusedGdr(group, cluster, style));
    const paths = pathMatrix(pathTable(group.domains), system, style);
    if (paths.length > 0) lines.push('', style.heading(pathsTitle), ...paths);
  }
  lines.push('', style.heading('Channels'), ...graphSummary(cluster, style));
  lines.push(...wrap(channelCounts(cluster), style.width));
  const orders = orderSummary(cluster, style);
  if (orders.length > 0) lines.push('', ...orders);
  return lines;
}

/** Says that GPUs do not use what the tree shows that NICs can do. */
function refusedGdr({ domains }: MachineGroup, { settings }: Cluster, style: Style): string[] {
  const uses = domains.flatMap((domain) => nicUses(domain, settings)).filter(({ net }) => net.gdr);
  const refused = uses.filter(({ write }) => write !== undefined);
  if (refused.length === 0) return [];
  const all = countText(uses.length, 'pair');
  const text = `GPUDirect is what a NIC can do; ${refused.length} of ${all} of GPU and NIC may not use it (--explain says why)`;
  return wrap(text, style.width, '  ').map(style.dim);
}

/** In what machines of one make differ, each compared with the first; the first line tells makes apart. */
function differences(groups: readonly MachineGroup[]): string[] {
  const [first, ...others] = groups.map(({ document, nodes, domains }) => {
    const system = domains[0]!.whole;
    return { number: nodes[0]!, name: `machine ${nodes[0]}`, system, facts: machineFacts(system, document) };
  });
  return others.flatMap((other) => {
    if (machineText(other.system) !== machineText(first!.system)) return [];
    const found = machineDifferences(first!, other);
    const what = found.length === 0 ? 'in details that their trees show' : found.join('; ');
    return [`Machine ${first!.number} and ${other.name} differ: ${what}.`];
  });
}

/** The system that a machine's devices are shown from, and headings: `Machines 1-2 (2 alike)`, `Paths of ...`. */
function described(group: MachineGroup, kinds: number) {
  const { nodes, domains } = group;
  const [{ whole: system }] = domains as [Domain];
  const alike = nodes.length > 1 ? ` (${nodes.length} alike)` : '';
  const numbers = `achine${nodes.length > 1 ? 's' : ''} ${rangesText(nodes, ', ')}${alike}`;
  return {
    system,
    machineTitle: kinds > 1 ? `M${numbers}` : `Machine${alike}`,
    pathsTitle: kinds > 1 ? `Paths of m${numbers}, type and GB/s` : 'Paths, type and GB/s',
  };
}
