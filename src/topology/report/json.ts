/**
 * Everything that was found out about a cluster as plain values for JSON. docs/topology.md describes the form; fields
 * may be added within a version, others keep their meaning.
 *
 * Ranks are those of the communicator, bandwidths are GB/s, types of paths are NCCL's names; -1 stands for "nobody".
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { Cluster, Domain } from '../cluster.js';
import type { NicChoice } from '../connect/connection-nics.js';
import type { DomainInfo } from '../connect/domain.js';
import type { TopoGraph } from '../search/graph.js';
import type { GraphName } from '../search/search-all.js';
import type { PortNode, TopoPath, TopoSystem } from '../system/node.js';
import { LinkType } from '../system/path-type.js';
import type { Evidence } from './explain/explanation.js';
import { explanations } from './explain.js';
import { GRAPH_TITLES } from './graph-order.js';
import { headline } from './headline.js';
import { Labels } from './labels.js';
import { equallyFull, linkLoads } from './limits.js';
import { linkName } from './link-names.js';
import {
  type CpuFacts,
  type DeviceFacts,
  type MachineFacts,
  machineFacts,
  type PciFacts,
} from './machine.js';
import { pathTable } from './path-table.js';
import { RankNics } from './rank-nics.js';
import { type MachineGroup, machineGroups, type ReportInput } from './text-report.js';
import { pathTypeName } from './type-legend.js';

/** A value that JSON can hold. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

/** Version of the form. */
export const JSON_VERSION = 1;

/** Ranks times channels that are written down: some hundred megabytes of text, and some times as many of memory. */
const MOST_PLACES = 1_000_000;

const FORMAT = 'tutti topology';

/** Down slots of a rank in a tree. */
const TREE_ARITY = 3;

/**
 * A cluster, with the documents that it was made from.
 *
 * @param notes what the user was told beside the answer
 */
export function clusterJson(input: ReportInput, notes: readonly string[] = []): JsonValue {
  const { cluster } = input;
  const { comm, domains, nRanks } = cluster;
  if (nRanks * comm.nChannels > MOST_PLACES) {
    throw new TuttiError(
      'invalidArgument',
      `--json: ${nRanks} ranks in ${comm.nChannels} channels each make a text of gigabytes; ask for ` +
        `${Math.floor(MOST_PLACES / comm.nChannels)} ranks at most, or for the text, --log or --rank`,
    );
  }
  const groups = machineGroups(input);
  const nics = new RankNics(cluster);
  const machineOf = new Map(groups.flatMap(({ nodes }, at) => nodes.map((node) => [node, at] as const)));
  const domainOf = new Map<DomainInfo, Domain>(domains.map((one) => [one, one]));
  return {
    format: FORMAT,
    version: JSON_VERSION,
    summary: headline(cluster),
    notes: [...notes],
    nRanks,
    nNodes: comm.nNodes,
    machines: groups.map(machineJson),
    nodes: comm.nodes.map(({ ranks, domain }) => nodeJson(ranks, domainOf.get(domain)!, machineOf)),
    channels: channelsJson(cluster, nics),
    ranks: Array.from({ length: nRanks }, (_, rank) => rankJson(rank, comm.rankToNode[rank]!, nics)),
    nvls: nvlsJson(cluster),
    collnet: collnetJson(cluster),
    p2p: {
      nChannels: comm.p2pnChannels,
      nChannelsPerPeer: comm.p2pnChannelsPerPeer,
      maxPeers: comm.p2pMaxPeers,
    },
    explanations: explanations(cluster).map(({ topic, text, evidence }) => ({
      topic,
      text,
      evidence: evidenceJson(evidence),
    })),
  };
}

/** A machine without GPUs, on which there is nothing to decide. */
export function machineOnlyJson(
  summary: string,
  facts: MachineFacts,
  notes: readonly string[] = [],
): JsonValue {
  return {
    format: FORMAT,
    version: JSON_VERSION,
    summary,
    notes: [...notes],
    nRanks: 0,
    nNodes: 0,
    machines: [{ nodes: [0], hosts: hostsJson(facts, 0) }],
    nodes: [],
    channels: [],
    ranks: [],
    nvls: null,
    collnet: null,
    p2p: null,
    explanations: [],
  };
}

function machineJson({ document, nodes, domains }: MachineGroup): { [name: string]: JsonValue } {
  const [first] = domains;
  const { whole, rankOffset } = first!;
  const { rows, gpuRanks, nics } = pathTable(domains);
  return {
    nodes: [...nodes],
    hosts: hostsJson(machineFacts(whole, document), rankOffset),
    paths: {
      gpus: [...gpuRanks],
      nics: nics.map(portId),
      fromGpu: rows.map(({ rank, toGpus, toNics }) => ({
        rank,
        toGpus: toGpus.map(pathJson),
        toNics: toNics.map(pathJson),
      })),
    },
  };
}

const hostsJson = ({ hosts }: MachineFacts, rankOffset: number): JsonValue =>
  hosts.map(({ number, cpus }) => ({ host: number, cpus: cpus.map((cpu) => cpuJson(cpu, rankOffset)) }));

function cpuJson({ node, name, cores, links, devices }: CpuFacts, rankOffset: number): JsonValue {
  return {
    numaId: node.numaId,
    name,
    cores,
    toCpus: links.map(({ to, bandwidth }) => ({ numaId: to.numaId, bandwidth: float(bandwidth) })),
    devices: devices.map((device) => deviceJson(device, rankOffset)),
  };
}

function deviceJson(device: DeviceFacts, rankOffset: number): JsonValue {
  switch (device.kind) {
    case 'switch':
      return {
        kind: 'switch',
        busId: device.node.busId,
        pci: pciJson(device.pci),
        devices: device.devices.map((below) => deviceJson(below, rankOffset)),
      };
    case 'gpu':
      return {
        kind: 'gpu',
        busId: device.node.busId,
        ranks: device.gpus.map(({ rank }) => rank + rankOffset),
        dev: device.node.dev,
        name: device.name,
        sm: device.node.sm,
        gdr: device.gpus.some(({ gdr }) => gdr),
        pci: pciJson(device.pci),
        nvlinks: device.nvlinks.map(({ to, bandwidth, count }) => ({
          to: to.type === 'DEV' ? to.busId : to.type === 'NVS' ? 'NVSwitch' : 'CPU',
          count: count ?? null,
          bandwidth: float(bandwidth),
        })),
        c2c: float(device.c2c),
      };
    case 'nic':
      return {
        kind: 'nic',
        busId: device.node.busId,
        pci: device.pci === undefined ? null : pciJson(device.pci),
        ports: device.ports.map((port) => ({
          type: port.type,
          name: port.name,
          dev: port.dev,
          id: portId(port),
          bandwidth: float(port.bandwidth),
          gdr: port.gdr,
          coll: port.coll,
        })),
      };
  }
}

const pciJson = ({ bandwidth, generation, lanes }: PciFacts): JsonValue => ({
  bandwidth: float(bandwidth),
  generation: generation ?? null,
  lanes: lanes ?? null,
});

/** Digits with which every 32-bit float is found again, and fewer that often do. */
const FLOAT_DIGITS = [6, 7, 8, 9];

/** A 32-bit float by the shortest decimal number that stands for it: 370.8, not 370.79998779296875. */
function float(value: number): number {
  for (const digits of FLOAT_DIGITS) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Ids have 64 bits, more than a JSON number keeps. */
const portId = ({ id }: PortNode): string => idText(id);
const idText = (id: bigint): string => `0x${id.toString(16)}`;

const pathJson = ({ type, bandwidth, hops }: TopoPath): JsonValue => ({
  type: pathTypeName(type),
  bandwidth: float(bandwidth),
  hops: hops.length,
});

function nodeJson(
  ranks: readonly number[],
  domain: Domain,
  machineOf: ReadonlyMap<number, number>,
): JsonValue {
  const { graphs, results, system, node } = domain;
  return {
    machine: machineOf.get(node)!,
    ranks: [...ranks],
    maxBw: float(system.maxBw),
    totalBw: float(system.totalBw),
    graphs: Object.fromEntries(
      GRAPH_TITLES.map(([name]) => [
        name,
        graphJson(graphs[name], results[name]?.fallback ?? false, domain, name),
      ]),
    ),
  };
}

function graphJson(graph: TopoGraph, fallback: boolean, domain: Domain, name: GraphName): JsonValue {
  if (graph.nChannels === 0) return null;
  const { system, rankOffset } = domain;
  const channels = graph.channels.slice(0, graph.nChannels);
  return {
    pattern: graph.pattern,
    crossNic: graph.crossNic,
    nChannels: graph.nChannels,
    bwIntra: float(graph.bwIntra),
    bwInter: float(graph.bwInter),
    latencyInter: float(graph.latencyInter),
    typeIntra: pathTypeName(graph.typeIntra),
    typeInter: pathTypeName(graph.typeInter),
    sameChannels: graph.sameChannels,
    fallback,
    fullest: fallback ? [] : fullestJson(system, graph, rankOffset),
    channels: channels.map(({ intra, inter }) => ({
      [name === 'nvls' ? 'head' : 'ranks']:
        name === 'nvls' ? intra[0]! + rankOffset : intra.map((rank) => rank + rankOffset),
      nics: inter === null ? null : inter.map(idText),
    })),
  };
}

/** The links that are fullest, as the text names them; all are equally full. */
function fullestJson(system: TopoSystem, graph: TopoGraph, rankOffset: number): JsonValue {
  const labels = new Labels(system, rankOffset);
  const loads = linkLoads(system, graph).filter(({ link }) => link?.type !== LinkType.LOC);
  const [first] = loads;
  if (first === undefined) return [];
  return equallyFull(loads, first).map((load) => ({
    link: linkName(load, labels),
    load: short(load.load),
    capacity: float(load.capacity),
  }));
}

/** Sums of 32-bit floats, without the digits that they cannot have. */
const short = (value: number): number => Number(value.toPrecision(FLOAT_DIGITS[0]!));

/** Numbers of explanations come from 32-bit floats, too. */
function evidenceJson(evidence: Evidence): JsonValue {
  const plain = (value: Evidence[string]): JsonValue => (typeof value === 'number' ? short(value) : value);
  return Object.fromEntries(Object.entries(evidence).map(([name, value]) => [name, plain(value)]));
}

function rankJson(rank: number, node: number, nics: RankNics): JsonValue {
  const { gpu } = nics.placeOf(rank);
  return {
    rank,
    node,
    busId: gpu.parent.busId,
    dev: gpu.dev,
    sendReceive: byDevice(nics.ofPeers(rank)).map((choice) => nicJson(rank, choice, nics)),
  };
}

/** Devices that a list by number may hold: far above what a machine has, so that no file can ask for a longer one. */
const MOST_DEVICES = 1024;

/** A list by number of the device, without numbers that no driver gives. */
function byDevice(choices: ReadonlyMap<number, NicChoice>): (NicChoice | undefined)[] {
  const last = Math.max(-1, ...[...choices.keys()].filter((dev) => dev < MOST_DEVICES));
  return Array.from({ length: last + 1 }, (_, dev) => choices.get(dev));
}

/** A NIC and the rank whose proxy drives it, which is another one with PXN. */
function nicJson(rank: number, choice: NicChoice | undefined, nics: RankNics): JsonValue {
  if (choice === undefined) return null;
  return { id: idText(choice.net.id), rank: choice.relay.rank + nics.placeOf(rank).domain.rankOffset };
}

function channelsJson({ comm, nRanks }: Cluster, nics: RankNics): JsonValue {
  const { rankToNode } = comm;
  /** Both ends of a step between nodes; none within one. */
  const hop = (graph: 'ring' | 'tree', channel: number, from: number, to: number): JsonValue[] =>
    rankToNode[from] === rankToNode[to]
      ? []
      : [
          {
            from,
            to,
            fromNic: nicJson(from, nics.ofChannel(graph, from, channel), nics),
            toNic: nicJson(to, nics.ofChannel(graph, to, channel), nics),
          },
        ];
  const { nChannels, treeUp, treeDown } = comm;
  return Array.from({ length: nChannels }, (_, channel) => {
    const ring = [...comm.ringOf(channel)];
    const up = ofChannel(treeUp, channel, nRanks);
    return {
      ring,
      tree: { up, down: triples(treeDown, channel, nRanks) },
      hops: {
        ring: ring.flatMap((rank, at) => hop('ring', channel, rank, ring[(at + 1) % nRanks]!)),
        tree: up.flatMap((parent, rank) => (parent === -1 ? [] : hop('tree', channel, rank, parent))),
      },
    };
  });
}

function nvlsJson({ comm, nRanks }: Cluster): JsonValue {
  const { nvls } = comm;
  if (nvls === undefined) return null;
  return {
    nChannels: nvls.nChannels,
    nHeads: nvls.nHeads,
    headRank: [...nvls.headRank],
    trees: [0, 1].map((tree) => ({
      up: ofChannel(nvls.treeUp, tree, nRanks),
      down: triples(nvls.treeDown, tree, nRanks),
    })),
  };
}

function collnetJson({ comm, nRanks }: Cluster): JsonValue {
  const { collnet, nChannels } = comm;
  if (collnet === undefined) return null;
  const { direct } = collnet;
  return {
    chains: Array.from({ length: nChannels }, (_, channel) => ({
      up: ofChannel(collnet.chainUp, channel, nRanks),
      down: ofChannel(collnet.chainDown, channel, nRanks),
    })),
    direct:
      direct === undefined
        ? null
        : Array.from({ length: nRanks }, (_, rank) => {
            const { headRank, heads, up, down, out, shift } = direct(rank);
            return { headRank, heads: [...heads], up: [...up], down: [...down], out, shift };
          }),
  };
}

const ofChannel = (values: Int32Array, channel: number, nRanks: number): number[] => [
  ...values.subarray(channel * nRanks, (channel + 1) * nRanks),
];

/** By rank: those below it; empty slots are left out. */
const triples = (values: Int32Array, channel: number, nRanks: number): number[][] =>
  Array.from({ length: nRanks }, (_, rank) => {
    const at = (channel * nRanks + rank) * TREE_ARITY;
    return [...values.subarray(at, at + TREE_ARITY)].filter((child) => child !== -1);
  });

/** JSON text that people can read: lists of numbers on one line, everything short as well. */
export function jsonText(value: JsonValue, width = 110, indent = ''): string {
  if (typeof value !== 'object' || value === null) return flatText(value);
  const isList = Array.isArray(value);
  if (isList && value.every((one) => typeof one !== 'object')) return flatText(value);
  const inner = `${indent} `;
  // From the inside out, so that each part is made into text once.
  const parts = isList
    ? value.map((one) => jsonText(one, width, inner))
    : Object.entries(value as { [name: string]: JsonValue }).map(
        ([name, one]) => [flatText(name), jsonText(one, width, inner)] as const,
      );
  const texts = (colon: string) => parts.map((part) => (typeof part === 'string' ? part : part.join(colon)));
  const [open, close] = isList ? '[]' : '{}';
  const length = texts(':').reduce((sum, text) => sum + text.length + 1, 1);
  if (parts.length === 0 || (length + indent.length <= width && !texts(':').some(isLong))) {
    return `${open}${texts(':').join(',')}${close}`;
  }
  return `${open}\n${texts(': ')
    .map((text) => inner + text)
    .join(',\n')}\n${indent}${close}`;
}

const isLong = (text: string): boolean => text.includes('\n');

/** On one line; with the control characters escaped that JSON allows and terminals obey. */
const flatText = (value: JsonValue): string =>
  JSON.stringify(value).replace(
    /[\u007f-\u009f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
