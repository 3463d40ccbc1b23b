/**
 * From the description of a host (or of an NVLink clique of hosts) to its domains: the sets of GPUs that NCCL keeps
 * together, each with its own view of the machine and its own graphs.
 *
 * Usually a host is one domain. It splits where the network is faster than the way between its halves.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { cHex, cInt } from './c-integer.js';
import type { CommInfo, RankInfo } from './communicator.js';
import type { LogSink } from './log.js';
import { computePaths } from './paths/compute.js';
import { measureSystem, trimSystem } from './paths/trim.js';
import type { TopoGraphs } from './search/graph.js';
import { type SearchedGraphs, type SearchOptions, searchGraphs } from './search/search-all.js';
import type { TopologySettings } from './settings.js';
import { buildSystem } from './system/build.js';
import type { TopoSystem } from './system/node.js';
import { placeOf, type XmlElement } from './xml/element.js';

/** A set of GPUs that NCCL keeps together, with ranks counted within its host or clique. */
export interface LocalDomain {
  /** In GPU index order. */
  readonly ranks: readonly number[];
  /** Trimmed, with paths; link bandwidths as before the searches. */
  readonly system: TopoSystem;
  readonly graphs: TopoGraphs;
  /** How each search went. */
  readonly results: SearchedGraphs['results'];
  /** The system before GPUs were cut off: says why a host was split. */
  readonly whole: TopoSystem;
  /** The ranks of the host or clique, and what their drivers allow. */
  readonly comm: CommInfo;
  /** Host of the rank that asks. */
  readonly localHost: bigint;
}

export interface DomainOptions {
  readonly settings: TopologySettings;
  /** Ranks of the whole communicator. */
  readonly nRanks: number;
  readonly nvls: boolean;
  readonly collnet: boolean;
  /** The hosts of the document form one NVLink clique. */
  readonly mnnvl: boolean;
  readonly nvmlP2p?: CommInfo['nvmlP2p'];
  readonly pxnSupported?: boolean;
  readonly loadGraph?: SearchOptions['loadGraph'];
  readonly log?: LogSink;
}

/** What the ranks of a document are, by rank. Ranks must be 0 to one less than their number. */
export function ranksOf(root: XmlElement, mnnvl: boolean): RankInfo[] {
  const ranks: RankInfo[] = [];
  const visit = (element: XmlElement, hostHash: bigint, busId: string) => {
    for (const child of element.children) {
      if (child.name === 'pci') visit(child, hostHash, child.attributes.get('busid') ?? '');
      if (child.name !== 'gpu' || !child.attributes.has('rank')) continue;
      const rank = cInt(child.attributes.get('rank')!);
      if (rank < 0 || ranks[rank] !== undefined) {
        throw new TuttiError(
          'invalidArgument',
          `${placeOf(child)}: rank ${rank} ${rank < 0 ? 'is negative' : 'is there twice'}; give every GPU its own rank, from 0`,
          { rank },
        );
      }
      ranks[rank] = {
        rank,
        hostHash,
        shmDevice: 0,
        dev: cInt(child.attributes.get('dev') ?? '0'),
        busId: busId.toLowerCase(),
        sm: cInt(child.attributes.get('sm') ?? '0'),
        clusterUuid: mnnvl ? 'one' : '',
        cliqueId: 0,
      };
    }
  };
  for (const cpu of root.children) {
    if (cpu.name === 'cpu') visit(cpu, cHex(cpu.attributes.get('host_hash') ?? ''), '');
  }
  for (let rank = 0; rank < ranks.length; rank++) {
    if (ranks[rank] !== undefined) continue;
    throw new TuttiError(
      'invalidArgument',
      `no GPU has rank ${rank} although one has rank ${ranks.length - 1}; number the ranks without gaps`,
      { rank },
    );
  }
  if (ranks.length === 0) {
    throw new TuttiError(
      'invalidArgument',
      'the topology has no <gpu> with a rank; a communicator needs at least one',
    );
  }
  return ranks;
}

/** The domains of one document, the one of rank 0 first, then by their lowest rank. */
export function describeDomains(root: XmlElement, options: DomainOptions): LocalDomain[] {
  const { settings, nRanks, mnnvl, nvls, collnet, loadGraph, log } = options;
  const ranks = ranksOf(root, mnnvl);
  const comm: CommInfo = {
    nRanks,
    ranks,
    mnnvl,
    nvmlP2p: options.nvmlP2p ?? (() => true),
    pxnSupported: options.pxnSupported ?? true,
  };
  const domains: LocalDomain[] = [];
  const covered = new Set<number>();
  for (const { rank, hostHash: localHost } of ranks) {
    if (covered.has(rank)) continue;
    const build = () => {
      const system = buildSystem(root, {
        localHost,
        splitMloPart: settings.splitMloPart,
        ...(log === undefined ? {} : { log }),
      });
      computePaths(system, comm, settings, localHost, log);
      return system;
    };
    const whole = build();
    const system = build();
    const own = system.nodes.GPU.find((gpu) => gpu.rank === rank);
    if (own === undefined) {
      throw new TuttiError(
        'internalError',
        `the GPU of rank ${rank} is left out of the graph: the <pci> above it holds another GPU without a rank`,
        { rank },
      );
    }
    trimSystem(system, own, nRanks);
    computePaths(system, comm, settings, localHost);
    measureSystem(system);
    const searched = searchGraphs(system, {
      settings,
      nvls,
      collnet,
      ...(loadGraph === undefined ? {} : { loadGraph }),
      ...(log === undefined ? {} : { log }),
    });
    const members = system.nodes.GPU.map((gpu) => gpu.rank);
    for (const member of members) covered.add(member);
    domains.push({ ranks: members, system, ...searched, whole, comm, localHost });
  }
  return domains;
}
