/** Our own answer for a golden file's inputs, in the golden shape. */
import type { CommInfo, RankInfo } from '#src/topology/communicator.js';
import { computePaths } from '#src/topology/paths/compute.js';
import { measureSystem, trimSystem } from '#src/topology/paths/trim.js';
import { topologySettings } from '#src/topology/settings.js';
import { buildSystem } from '#src/topology/system/build.js';
import { hostOf } from '#src/topology/system/node.js';
import type { GoldenDomain, GoldenParts, Oracle } from './format.js';
import type { GoldenInputs } from './inputs.js';
import { graphShape, systemShape } from './shape.js';

/** Computes what the golden file lists. */
export async function ownParts(
  inputs: GoldenInputs,
  oracle: Oracle,
  aspects: readonly string[],
): Promise<GoldenParts> {
  const searched = aspects.some((aspect) => aspect !== 'system' && aspect !== 'paths');
  return partial(inputs, oracle, searched);
}

async function partial(inputs: GoldenInputs, oracle: Oracle, searched: boolean): Promise<GoldenParts> {
  const settings = topologySettings(inputs.env);
  const xml = inputs.nodes[0]!.xml;
  const build = () => buildSystem(xml, { localHost: 0x1000n, splitMloPart: settings.splitMloPart });
  const whole = build();
  const perNode = whole.nodes.GPU.length;
  const ranks: RankInfo[] = [];
  for (let node = 0; node < inputs.nodes.length; node++) {
    for (const gpu of whole.nodes.GPU) {
      ranks[gpu.rank + node * perNode] = {
        rank: gpu.rank + node * perNode,
        hostHash: 0x1000n + BigInt(node * oracle.traysPerClique + hostOf(gpu)),
        shmDevice: 1,
        dev: gpu.dev,
        busId: gpu.parent.busId,
        sm: gpu.sm,
        clusterUuid: inputs.mnnvl ? 'uuid' : '',
        cliqueId: node,
      };
    }
  }
  const comm: CommInfo = {
    nRanks: oracle.nRanks,
    ranks,
    mnnvl: inputs.mnnvl,
    nvmlP2p: inputs.nvmlP2p,
    pxnSupported: true,
  };
  const left = new Set(whole.nodes.GPU.map(({ rank }) => rank));
  const systems = [];
  const search: GoldenDomain[] = [];
  const name = '#src/topology/search/search-all.js';
  const searchAll = searched ? await import(name).catch(() => undefined) : undefined;
  while (left.size > 0) {
    const leader = Math.min(...left);
    const system = build();
    const own = system.nodes.GPU.find(({ rank }) => rank === leader)!;
    const host = ranks[leader]!.hostHash;
    computePaths(system, comm, settings, host);
    trimSystem(system, own, comm.nRanks);
    computePaths(system, comm, settings, host);
    measureSystem(system);
    for (const { rank } of system.nodes.GPU) left.delete(rank);
    systems.push(systemShape(system, 0));
    if (searchAll === undefined) continue;
    const graphs = searchAll.searchGraphs(system, {
      settings,
      collnet: inputs.collnet,
      nvls: inputs.nvls,
    }).graphs;
    for (
      let node = 0;
      node < (inputs.mnnvl ? inputs.nodes.length : Math.min(2, inputs.nodes.length));
      node++
    ) {
      const offset = node * perNode;
      search.push({
        leaderRank: leader + offset,
        ranks: system.nodes.GPU.map(({ rank }) => rank + offset),
        ring: graphShape(graphs.ring, system, offset),
        tree: graphShape(graphs.tree, system, offset),
        collnetChain: graphShape(graphs.collnetChain, system, offset),
        collnetDirect: graphShape(graphs.collnetDirect, system, offset),
        nvls: graphShape(graphs.nvls, system, offset),
      });
    }
  }
  search.sort((a, b) => a.leaderRank - b.leaderRank);
  const parts = { system: systems[0]!, domainSystems: systems.slice(1) };
  return search.length === 0 ? parts : { ...parts, search, nDomains: systems.length * inputs.nodes.length };
}
