/**
 * Why a search found what it found: the fullest link, what the next better graph would need, how the search ended.
 */
import type { Domain } from '../../cluster.js';
import type { SearchResult, SearchRun } from '../../search/compute.js';
import { Pattern, type TopoGraph } from '../../search/graph.js';
import type { GraphName } from '../../search/search-all.js';
import type { TopologySettings } from '../../settings.js';
import { LinkType } from '../../system/path-type.js';
import { GRAPH_TITLES } from '../graph-order.js';
import { type Bundle, foundBundle, lowestSm, type NextStep, nextSteps, searchEnd } from '../headroom.js';
import { Labels } from '../labels.js';
import { equallyFull, type LinkLoad, linkLoads } from '../limits.js';
import { linkName, loadText } from '../link-names.js';
import { bandwidthText, countText } from '../quantities.js';
import { meaningOf, pathTypeName } from '../type-legend.js';
import { because, type Evidence, type Explanation, type Topic } from './explanation.js';

const TOPICS: Readonly<Record<GraphName, Topic>> = {
  ring: 'ring',
  tree: 'tree',
  nvls: 'nvls',
  collnetChain: 'collnet',
  collnetDirect: 'collnet',
};

const titleOf = (name: GraphName): string => GRAPH_TITLES.find(([own]) => own === name)![1];

/** Sentences on one graph of a domain; none if it was not searched. */
export function graphExplanations(
  domain: Domain,
  name: GraphName,
  settings: TopologySettings,
): Explanation[] {
  const result = domain.results[name];
  const graph = domain.graphs[name];
  if (result === undefined) {
    if (graph.nChannels === 0) return [];
    const text = `${titleOf(name)}: ${bundleText(ownBundle(graph))}, taken from the graph file (NCCL_GRAPH_FILE) without a search.`;
    return [because(TOPICS[name], text, { channels: graph.nChannels, bwIntra: graph.bwIntra })];
  }
  if (graph.nChannels === 0) return [];
  return new GraphStory(domain, name, graph, result, settings).tell();
}

class GraphStory {
  readonly #domain: Domain;
  readonly #name: GraphName;
  readonly #graph: TopoGraph;
  readonly #result: SearchResult;
  readonly #labels: Labels;
  readonly #settings: TopologySettings;

  constructor(
    domain: Domain,
    name: GraphName,
    graph: TopoGraph,
    result: SearchResult,
    settings: TopologySettings,
  ) {
    this.#settings = settings;
    this.#domain = domain;
    this.#name = name;
    this.#graph = graph;
    this.#result = result;
    this.#labels = new Labels(domain.system, domain.rankOffset);
  }

  tell(): Explanation[] {
    const result = this.#result;
    if (result.fallback) return [this.#simpleOrder()];
    return [
      this.#whatIsThere(),
      ...this.#raised(),
      ...this.#doubling(),
      ...this.#fullest(),
      ...nextSteps(this.#domain.system, this.#graph, result).map((step) => this.#next(step)),
      ...this.#ending(),
      ...this.#types(),
      ...this.#crossNic(),
    ];
  }

  #because(text: string, evidence: Evidence): Explanation {
    return because(TOPICS[this.#name], text, { graph: this.#name, ...evidence });
  }

  #simpleOrder(): Explanation {
    const { runs } = this.#result;
    const graph = this.#graph;
    return this.#because(
      `${titleOf(this.#name)}: nothing was found in ${countText(runs.length, 'run')}, so that NCCL falls back to one ` +
        `channel in the order of the GPUs, counted as ${bandwidthText(graph.bwIntra)} GB/s. Even the slowest speed ` +
        'needs more than a link on the way has, or no path of an allowed type leads on.',
      { fact: 'fallback', runs: runs.length },
    );
  }

  #whatIsThere(): Explanation {
    const graph = this.#graph;
    const { nChannels, bwIntra, bwInter, typeIntra, typeInter } = graph;
    const { system } = this.#domain;
    const types = [
      ...(system.nodes.GPU.length > 1
        ? [`${pathTypeName(typeIntra)} between GPUs (${meaningOf(typeIntra)})`]
        : []),
      ...(system.inter ? [`${pathTypeName(typeInter)} to NICs (${meaningOf(typeInter)})`] : []),
    ];
    const over = types.length > 0 ? ` over ${types.join(' and ')}` : '';
    return this.#because(`${titleOf(this.#name)}: ${bundleText(ownBundle(graph), system.inter)}${over}.`, {
      fact: 'result',
      channels: nChannels,
      bwIntra,
      bwInter,
      total: nChannels * bwIntra,
    });
  }

  /** Channels that were split in two between the passes. */
  #doubling(): Explanation[] {
    const found = foundBundle(this.#result);
    const graph = this.#graph;
    if (found === undefined || graph.pattern === Pattern.NVLS || graph.nChannels <= found.channels) return [];
    const old = lowestSm(this.#domain.system) <= 80;
    const rule = old
      ? 'channels of 25 GB/s or more are'
      : found.bwIntra >= 50
        ? 'channels of 50 GB/s or more are'
        : 'at most 4 channels of 25 GB/s or more are';
    return [
      this.#because(
        `The search found ${bundleText(found)}; ${rule} split in two, because more channels keep more of a GPU busy.`,
        { fact: 'doubled', channels: found.channels, bwIntra: found.bwIntra },
      ),
    ];
  }

  #fullest(): Explanation[] {
    const loads = linkLoads(this.#domain.system, this.#graph).filter(
      ({ link }) => link?.type !== LinkType.LOC,
    );
    const [fullest] = loads;
    if (fullest === undefined) return [];
    const alike = equallyFull(loads, fullest);
    const surcharge =
      fullest.intelSurcharge > 0
        ? ' A way from a GPU through an Intel CPU takes 6/5 of its bandwidth from PCIe links, which is counted here.'
        : '';
    const others =
      alike.length > 1 ? ` (${countText(alike.length - 1, 'other is', 'others are')} as full)` : '';
    const left = Math.max(0, fullest.capacity - fullest.load);
    return [
      this.#because(
        `The fullest is the ${linkName(fullest, this.#labels)} with ${loadText(fullest)}, ` +
          `${bandwidthText(left)} left${others}.${surcharge}${this.#shares()}`,
        {
          fact: 'fullest',
          link: linkName(fullest, this.#labels),
          load: fullest.load,
          capacity: fullest.capacity,
          alike: alike.length,
        },
      ),
    ];
  }

  /** How channels of this pattern load links, where that is more than one share each. */
  #shares(): string {
    const { system } = this.#domain;
    switch (this.#graph.pattern) {
      case Pattern.NVLS:
        return " The links of a channel's head carry two shares: what it reduces, and what it sends.";
      case Pattern.BALANCED_TREE:
        return system.inter && system.nodes.GPU.length > 1
          ? ' To the NIC, half of a channel goes from each of two GPUs, and all of it from the NIC to the first.'
          : '';
      default:
        return '';
    }
  }

  #next({ what, bundle, obstacle }: NextStep): Explanation {
    const speed = bandwidthText(bundle.bwIntra);
    // Before one of the two speeds was raised alone.
    const both = this.#raised().length > 0 ? ' for both' : '';
    const subject =
      what === 'channel'
        ? `One more channel of ${speed} GB/s (${bundle.channels} in all)`
        : `The next higher speed${both}, ${bundleText(bundle)},`;
    const evidence: Evidence = { fact: `next ${what}`, channels: bundle.channels, bwIntra: bundle.bwIntra };
    switch (obstacle.kind) {
      case 'link': {
        const { load } = obstacle;
        const factor = load.intelSurcharge > 0 ? ' (with the factor 6/5 of ways through an Intel CPU)' : '';
        return this.#because(
          `${subject} does not fit in these orders: on the ${linkName(load, this.#labels)} it would take ` +
            `${bandwidthText(load.load)} GB/s${factor}, more than its ${bandwidthText(load.capacity)}.` +
            this.#otherNics(what, load, bundle),
          {
            ...evidence,
            obstacle: 'link',
            link: linkName(load, this.#labels),
            need: load.load,
            capacity: load.capacity,
          },
        );
      }
      case 'most channels':
        return this.#because(
          `${this.#mostReason(obstacle.most)}: more channels of that speed are not asked for.`,
          { ...evidence, obstacle: 'most channels', most: obstacle.most },
        );
      case 'highest speed':
        return this.#because(
          `${bandwidthText(obstacle.speed)} GB/s is the highest speed that NCCL tries for these GPUs ` +
            `${this.#domain.system.inter ? 'across nodes' : 'inside one node'}.`,
          { ...evidence, obstacle: 'highest speed' },
        );
      case 'path':
        return this.#because(
          `The next higher speed${both}, ${speed} GB/s, is more than the fastest path ` +
            `${this.#domain.system.inter ? 'from a GPU to a NIC' : 'between two GPUs'} carries, ` +
            `${bandwidthText(obstacle.ceiling)} GB/s.`,
          { ...evidence, obstacle: 'path', capacity: obstacle.ceiling },
        );
      case 'GPU':
        return this.#because(
          `The next higher speed${both}, ${speed} GB/s, is not tried: ${countText(obstacle.channels, 'channel')} of it would ` +
            `need ${bandwidthText(obstacle.channels * bundle.bwIntra)} GB/s, more than the ` +
            `${bandwidthText(obstacle.ceiling)} GB/s that NCCL expects of one GPU.`,
          {
            ...evidence,
            obstacle: 'GPU',
            need: obstacle.channels * bundle.bwIntra,
            capacity: obstacle.ceiling,
          },
        );
      case 'search':
        return this.#because(`${subject} would fit the links in the orders found. ${this.#gaveUp(bundle)}`, {
          ...evidence,
          obstacle: 'search',
        });
    }
  }

  /** Why a channel did not go by NICs that have room, where a NIC is what runs out. */
  #otherNics(what: NextStep['what'], { from, to, link }: LinkLoad, bundle: Bundle): string {
    const { NET } = this.#domain.system.nodes;
    const isNic = link === undefined || [from, to].some(({ type }) => type === 'NIC' || type === 'NET');
    if (what !== 'channel' || !isNic) return '';
    const { channels, nChannels } = this.#graph;
    const used = new Set(channels.slice(0, nChannels).flatMap(({ inter }) => inter ?? []));
    const all = new Set(NET.map(({ id }) => id));
    const idle = [...all].filter((id) => !used.has(id)).length;
    const end = searchEnd(this.#domain.system, this.#result)?.kind;
    if (idle === 0 || end === 'enough' || end === 'most channels') return '';
    return ` ${idle} of the ${all.size} NICs ${idle === 1 ? 'has' : 'have'} no channel. ${this.#gaveUp(bundle)}`;
  }

  #mostReason(most: number): string {
    switch (this.#name) {
      case 'tree':
      case 'collnetChain':
        return `It gets as many channels as the ring had in the end, ${most}`;
      case 'nvls':
        return `Each GPU is the head of one channel, ${most} in all`;
      default:
        return `The search asks for at most ${countText(most, 'channel')}`;
    }
  }

  /** What the runs at a speed say. */
  #gaveUp({ bwIntra }: Bundle): string {
    const runs = this.#result.runs.filter((run) => run.pass === 1 && run.bwIntra === bwIntra);
    if (runs.length === 0) return 'The search had ended before it came to that.';
    const steps = runs.filter(({ end }) => end === 'steps').length;
    const end = searchEnd(this.#domain.system, this.#result);
    if (end?.kind === 'enough' || end?.kind === 'most channels') return 'The search had ended before.';
    const ran = countText(runs.length, 'run');
    if (steps === 0) {
      return `The ${ran} at that speed saw every possibility with the path types allowed and found no better one.`;
    }
    return `${steps === runs.length ? `The ${ran}` : `${steps} of the ${ran}`} at that speed ended when their steps (256, or 16384 for channels that differ) were used up: the limit is the search, not a link.`;
  }

  #ending(): Explanation[] {
    const end = searchEnd(this.#domain.system, this.#result);
    const found = foundBundle(this.#result);
    if (end === undefined || found === undefined) return [];
    const runs = this.#result.runs.filter(({ pass }) => pass === 1);
    const evidence = { fact: 'end', end: end.kind, runs: runs.length };
    const after = `After ${countText(runs.length, 'run')} the search was content`;
    switch (end.kind) {
      case 'most channels':
        return [];
      case 'enough':
        return [
          this.#because(
            `${after}: ${bandwidthText(found.channels * found.bwInter)} GB/s is at least the ` +
              `${bandwidthText(end.total)} GB/s of one GPU's links.`,
            { ...evidence, total: end.total },
          ),
        ];
      case 'half':
        return [
          this.#because(
            `Lower speeds were tried down to ${bandwidthText(runs.at(-1)!.bwIntra)} GB/s, without more in all; ` +
              `${bandwidthText(end.next)} is less than half of ${bandwidthText(found.bwInter)} and is not tried.`,
            evidence,
          ),
        ];
      case 'lowest speed':
        return [this.#because('All lower speeds were tried too, without more in all.', evidence)];
      case 'steps':
        return [
          this.#because(
            `The search ended when its ${2 ** 19} steps were used up, after ${countText(runs.length, 'run')}.`,
            evidence,
          ),
        ];
    }
  }

  /** Speeds that differ inside and outside: raised alone in the second pass. */
  #raised(): Explanation[] {
    const { bwIntra, bwInter } = this.#graph;
    const { system } = this.#domain;
    if (bwIntra === bwInter || !system.inter || system.nodes.GPU.length === 1) return [];
    const [where, common, raised] =
      bwIntra > bwInter ? ['inside the node', bwInter, bwIntra] : ['to the network', bwIntra, bwInter];
    const text =
      `The search first takes one speed for both and found ${bandwidthText(common)} GB/s; ${where} alone it could ` +
      `then be raised to ${bandwidthText(raised)}.`;
    return [this.#because(text, { fact: 'raised', bwIntra, bwInter })];
  }

  /** Channels of different orders, trees of the simple kind. */
  #types(): Explanation[] {
    const { pattern, sameChannels } = this.#graph;
    const said: Explanation[] = [];
    const [first] = this.#result.runs;
    const asked = first?.pattern;
    if (
      asked === Pattern.BALANCED_TREE &&
      pattern === Pattern.TREE &&
      this.#domain.system.nodes.GPU.length > 1
    ) {
      said.push(
        this.#because(
          'All traffic of a channel to NICs goes through one GPU: no balanced tree, which spreads it over two, was found ' +
            'with as good paths (the second GPU would need as good a path to the same NIC).',
          { fact: 'pattern', pattern },
        ),
      );
    }
    if (!sameChannels && pattern !== Pattern.NVLS && this.#graph.nChannels > 1) {
      said.push(
        this.#because('The channels have different orders: with one order for all, less was found.', {
          fact: 'different channels',
        }),
      );
    }
    return said;
  }

  #crossNic(): Explanation[] {
    const graph = this.#graph;
    const { system } = this.#domain;
    if (!system.inter || graph.pattern !== Pattern.RING) return [];
    const { NET } = system.nodes;
    const { runs } = this.#result;
    if (graph.crossNic === 2) {
      const before = bestWithout(runs);
      const compared =
        before === undefined
          ? 'with the same NIC at both ends it had found nothing'
          : `with the same NIC at both ends it had found ${bundleText(before)}`;
      return [
        this.#because(
          `Channels come in pairs that enter by one NIC and leave by another (crossNic 2): up to then, ${compared}. ` +
            'On every second node NCCL swaps the two of a pair, so that hops between an even number of nodes stay on ' +
            'their rails. NCCL_CROSS_NIC=0 lets the search go on with one NIC per channel, to what it then finds.',
          {
            fact: 'crossNic',
            crossNic: 2,
            before: before === undefined ? 0 : before.channels * before.bwInter,
          },
        ),
      ];
    }
    if (graph.crossNic === 1) {
      return [
        this.#because('NCCL_CROSS_NIC=1 lets channels enter and leave by any two NICs.', {
          fact: 'crossNic',
          crossNic: 1,
        }),
      ];
    }
    if (NET.length < 2) return [];
    const tried = runs.some(({ crossNic }) => crossNic === 2);
    const untried =
      this.#settings.crossNic === 0
        ? 'NCCL_CROSS_NIC=0 forbids different ones'
        : 'different NICs did not have to be tried';
    const why = tried ? 'different NICs (crossNic 2) were tried and found no more' : untried;
    return [
      this.#because(`Every channel leaves by the NIC it enters by (crossNic 0): ${why}.`, {
        fact: 'crossNic',
        crossNic: 0,
      }),
    ];
  }
}

/** The best of the runs before NICs were allowed to differ with success. */
function bestWithout(runs: readonly SearchRun[]): Bundle | undefined {
  let before: SearchRun | undefined;
  for (const run of runs) {
    const better =
      run.bestChannels * run.bestBwIntra !== (before?.bestChannels ?? 0) * (before?.bestBwIntra ?? 0);
    if (run.crossNic === 2 && better) break;
    before = run;
  }
  if (before === undefined || before.bestChannels === 0) return undefined;
  return { channels: before.bestChannels, bwIntra: before.bestBwIntra, bwInter: before.bestBwInter };
}

const ownBundle = ({ nChannels, bwIntra, bwInter }: TopoGraph): Bundle => ({
  channels: nChannels,
  bwIntra,
  bwInter,
});

/** `12 channels of 30 GB/s (360 GB/s)`; with a second speed `8 channels of 96 GB/s, 48 to NICs (768 and 384 GB/s)`. */
function bundleText({ channels, bwIntra, bwInter }: Bundle, inter = false): string {
  const head = `${countText(channels, 'channel')} of ${bandwidthText(bwIntra)} GB/s`;
  if (!inter || bwIntra === bwInter) {
    return channels > 1 ? `${head} (${bandwidthText(channels * bwIntra)} in all)` : head;
  }
  return `${head}, ${bandwidthText(bwInter)} to NICs (${bandwidthText(channels * bwIntra)} and ${bandwidthText(channels * bwInter)} in all)`;
}
