/**
 * What to launch on GPUs for a ring, a tree or PAT: channels, shares, chunks, and each rank's neighbours.
 *
 * Where all GPUs are joined alike, ranks stand in their own order in every ring, and each is a node of its own in the two
 * trees. Elsewhere the team has orders, which rings follow, one after the other by channel; the two trees are chains along
 * the first order, and from the end of the second. Everything but roles and neighbours is equal on all ranks.
 */

import type { ConnectionProtocol } from '../collectives/connection-protocol.js';
import type { AreaSizes } from '../collectives/gpu/area.js';
import { callBytes, type GpuCall, type GpuTeam } from '../collectives/gpu/call.js';
import type { ConnectorParameters } from '../collectives/gpu/connector-block.js';
import {
  type ConnectorDetails,
  type ConnectorShares,
  connectorWork,
  GPU_TREES,
  type GpuRingPlace,
  type GpuTreePlace,
  MAX_GPU_RINGS,
  writeConnectorWork,
} from '../collectives/gpu/connector-work.js';
import { type ConnectorKind, type ConnectorSizes, slotBytes } from '../collectives/gpu/connectors.js';
import { copyType, type GpuLaunch, requireCall } from '../collectives/gpu/launch.js';
import { gpuPat, patStepWord } from '../collectives/gpu/pat.js';
import { gpuRing } from '../collectives/gpu/ring.js';
import { gpuTree } from '../collectives/gpu/tree.js';
import { reducesElements, supports } from '../collectives/registry.js';
import { type RingCollective, simpleShape } from '../collectives/ring.js';
import { STEPS } from '../collectives/ring-connection.js';
import { treeRoleName } from '../collectives/tree.js';
import { CHUNK128_BYTES, CHUNK128_DATA, WARP_LANES } from '../collectives/warp-chunk.js';
import { TuttiError } from '../errors/tutti-error.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { patStepFields } from './pat-plan.js';
import { patAllGather, patReduceScatter, patShape } from './pat-schedule.js';
import { GRAIN_BYTES } from './ring-plan.js';
import { ONE_TREE_BYTES, treeNeighbours } from './tree-plan.js';

/** A way over connections. */
export interface ConnectorChoice {
  readonly algorithm: ConnectorKind;
  readonly protocol: ConnectionProtocol;
}

/** How data are shared out; tests make it small. */
export interface ConnectorForm {
  /** Threads that the programs are compiled for, and the fewest of a launch. */
  readonly threads: number;
  readonly leastThreads: number;
  /** Bytes that are worth a channel more. */
  readonly channelBytes: Readonly<Record<ConnectionProtocol, number>>;
  /** Smallest unit of a channel's share, bytes. */
  readonly grainBytes: Readonly<Record<ConnectionProtocol, number>>;
}

/**
 * LL: a line for each thread of a block. LL128: a slice for each of four warps. Simple: as much as a fence of each block is
 * worth.
 */
export const CONNECTOR_FORM: ConnectorForm = {
  threads: 512,
  leastThreads: 96,
  channelBytes: { LL: 4096, LL128: 7680, Simple: 16384 },
  // LL128: what a warp moves at a time, so that it has whole lines.
  grainBytes: { ...GRAIN_BYTES, LL128: 2 * CHUNK128_DATA },
};

/** Chunks of a channel from which on a tree goes up and down in different blocks. */
const SPLIT_CHUNKS = STEPS;

/** Blocks of a rank that run at the same time, one on each multiprocessor. */
function residentBlocks({ multiprocessors, ranksPerDevice }: GpuTeam): number {
  return Math.max(1, Math.floor(multiprocessors / ranksPerDevice));
}

interface Plan {
  readonly blocks: number;
  readonly key: readonly (string | number)[];
  readonly shares: ConnectorShares;
  readonly details: ConnectorDetails;
  build(traits: Traits, parameters: ConnectorParameters): Program;
}

/** Shares of so many channels. */
function sharesOf(
  call: GpuCall,
  protocol: ConnectionProtocol,
  channels: number,
  chunkBytes: number,
  { grainBytes }: ConnectorForm,
): ConnectorShares {
  const { size } = ELEMENT_TYPES[call.type];
  const grain = grainBytes[protocol] / size;
  const all = Math.ceil(call.count / grain);
  const chunk = Math.max(1, Math.floor(chunkBytes / size));
  return { grain, grains: Math.floor(all / channels), extra: all % channels, chunk };
}

/** Bytes of data that a slot holds. */
function slotData(sizes: ConnectorSizes, protocol: ConnectionProtocol): number {
  const bytes = slotBytes(sizes, protocol);
  if (protocol === 'LL') return bytes / 2;
  return protocol === 'LL128' ? (bytes / CHUNK128_BYTES) * CHUNK128_DATA : bytes;
}

/** Channels for a call: as many as its data are worth, the areas have and run at the same time. */
function channelsFor(
  call: GpuCall,
  protocol: ConnectionProtocol,
  most: number,
  { channelBytes }: ConnectorForm,
): number {
  return Math.max(1, Math.min(most, Math.ceil(callBytes(call) / channelBytes[protocol])));
}

/** The place of a rank in the rings of a team. */
function ringPlaces({ ranks, orders }: GpuTeam, rank: number): GpuRingPlace[] {
  const inOrder = Array.from({ length: ranks }, (_, r) => r);
  return (orders ?? [inOrder]).slice(0, MAX_GPU_RINGS).map((order) => {
    const position = order.indexOf(rank);
    return { position, around: [...order.slice(position), ...order.slice(0, position)] };
  });
}

function ringPlan(
  team: GpuTeam,
  rank: number,
  call: GpuCall,
  protocol: ConnectionProtocol,
  most: number,
  sizes: ConnectorSizes,
  form: ConnectorForm,
): Plan {
  const collective = call.collective as RingCollective;
  const channels = channelsFor(call, protocol, most, form);
  const { stepsPerChunk } = simpleShape(collective);
  const grain = form.grainBytes[protocol];
  const bytes = slotData(sizes, protocol) * (protocol === 'Simple' ? stepsPerChunk : 1);
  const { type, op } = reductionOf(call);
  return {
    blocks: channels,
    key: [],
    shares: sharesOf(call, protocol, channels, Math.floor(bytes / grain) * grain, form),
    details: { rings: ringPlaces(team, rank) },
    build: (traits, parameters) =>
      gpuRing(traits, { ...parameters, collective, protocol, reduction: { type, op } }),
  };
}

function treePlaces({ ranks, orders }: GpuTeam, rank: number): GpuTreePlace[] {
  if (orders !== undefined) {
    return [orders[0]!, (orders[1] ?? orders[0]!).toReversed()].map((chain) => {
      const at = chain.indexOf(rank);
      return { parent: chain[at - 1] ?? -1, place: 0, children: chain.slice(at + 1, at + 2) };
    });
  }
  const nodes = { ranks, perNode: 1 };
  return ([0, 1] as const).map((tree) => {
    const { parent, children } = treeNeighbours(nodes, rank, tree);
    const place = parent === -1 ? 0 : treeNeighbours(nodes, parent, tree).children.indexOf(rank);
    return { parent, place, children };
  });
}

/** Roles of a rank's blocks in both trees in turn; null where a block has nothing to do. */
function blockRoles(trees: readonly GpuTreePlace[], split: boolean): (string | null)[] {
  return trees.flatMap(({ parent, children }) => {
    const role = { parent: parent !== -1, children: children.length };
    if (!split) return [treeRoleName({ part: 'both', ...role })];
    if (parent === -1) return [treeRoleName({ part: 'root', ...role }), null];
    return [treeRoleName({ part: 'up', ...role }), treeRoleName({ part: 'down', ...role })];
  });
}

/** The roles of all ranks. */
function allRoles(team: GpuTeam, split: boolean): string[] {
  const all = Array.from({ length: team.ranks }, (_, rank) => blockRoles(treePlaces(team, rank), split));
  return [...new Set(all.flat().filter((role) => role !== null))].sort();
}

function treePlan(
  team: GpuTeam,
  call: GpuCall,
  protocol: ConnectionProtocol,
  most: number,
  sizes: ConnectorSizes,
  rank: number,
  form: ConnectorForm,
): Plan {
  const slot = slotData(sizes, protocol);
  const bytes = callBytes(call);
  // Little data take one tree: the second would only double the messages. Otherwise both have as many channels.
  const evenly = (channels: number) => Math.max(1, channels - (channels % GPU_TREES));
  const wanted =
    bytes <= ONE_TREE_BYTES ? 1 : evenly(Math.max(GPU_TREES, channelsFor(call, protocol, most, form)));
  // In place, one block writes what the other has read, and LL lines order nothing but themselves: see tree.ts.
  const room = Math.min(most, Math.floor(residentBlocks(team) / 2));
  const split =
    protocol === 'Simple' && room >= 1 && bytes / Math.min(wanted, evenly(room)) > SPLIT_CHUNKS * slot;
  const channels = Math.min(wanted, split ? evenly(room) : evenly(most));
  const shares = sharesOf(call, protocol, channels, slot, form);
  // One program for all: ranks that share a GPU load it once, before any of them waits in it for the others.
  const roles = allRoles(team, split);
  const trees = treePlaces(team, rank);
  const { type, op } = reductionOf(call);
  return {
    blocks: split ? 2 * channels : channels,
    // The roles are part of the code.
    key: [split ? 'split' : 'unsplit', roles.join()],
    shares: { ...shares, window: STEPS * shares.chunk },
    details: {
      trees,
      roles: blockRoles(trees, split).map((role) => (role === null ? roles.length : roles.indexOf(role))),
    },
    build: (traits, parameters) =>
      gpuTree(traits, { ...parameters, protocol, reduction: { type, op }, split, roles }),
  };
}

function patPlan(
  team: GpuTeam,
  call: GpuCall,
  most: number,
  sizes: ConnectorSizes,
  form: ConnectorForm,
): Plan {
  const collective = call.collective as 'allGather' | 'reduceScatter';
  const channels = channelsFor(call, 'Simple', most, form);
  const shares = sharesOf(call, 'Simple', channels, sizes.simpleSlot, form);
  const { size } = ELEMENT_TYPES[call.type];
  // One schedule for all channels: that of the largest share.
  const part = (shares.grains + (shares.extra > 0 ? 1 : 0)) * shares.grain * size;
  const shape = patShape(team.ranks, sizes.simpleSlot, Math.min(part, callBytes(call)));
  const entries = collective === 'allGather' ? patAllGather(shape) : patReduceScatter(shape);
  const { type, op } = reductionOf(call);
  return {
    blocks: channels,
    key: [],
    shares,
    details: { steps: entries.map((entry) => patStepWord(patStepFields(entry))) },
    build: (traits, parameters) => gpuPat(traits, { ...parameters, collective, reduction: { type, op } }),
  };
}

/** The reduction that a program is made for: copies depend on nothing but the size of elements. */
function reductionOf({ collective, type, op }: GpuCall) {
  const reduces = collective !== 'gather' && collective !== 'scatter' && reducesElements(collective);
  return reduces ? { type, op: op ?? ('sum' as const) } : { type: copyType(type), op: 'sum' as const };
}

/** The launch of a call over connections. Throws `invalidArgument` for what has no program. */
export function connectorLaunch(
  team: GpuTeam,
  call: GpuCall,
  { algorithm, protocol }: ConnectorChoice,
  sizes: AreaSizes,
  rank: number,
  form: ConnectorForm = CONNECTOR_FORM,
): GpuLaunch {
  requireCall(team, call);
  const { collective } = call;
  const { connectors } = sizes;
  const has = connectors?.channels[algorithm] ?? 0;
  const isRing = collective !== 'gather' && collective !== 'scatter' && supports(algorithm, collective);
  if (!isRing || connectors === undefined || has === 0) {
    throw new TuttiError('invalidArgument', `there is no GPU program for ${collective} with ${algorithm}`);
  }
  const most = Math.min(has, residentBlocks(team));
  const plan =
    algorithm === 'Ring'
      ? ringPlan(team, rank, call, protocol, most, connectors, form)
      : algorithm === 'Tree'
        ? treePlan(team, call, protocol, most, connectors, rank, form)
        : patPlan(team, call, most, connectors, form);
  const { blocks, shares, details } = plan;
  const { type, op } = reductionOf(call);
  const { channels, llSlot, ll128Slot, simpleSlot } = connectors;
  // Where connectors lie is part of the code.
  const parts = [channels.Ring ?? 0, channels.Tree ?? 0, channels.PAT ?? 0, llSlot, ll128Slot, simpleSlot];
  return {
    key: [algorithm, protocol, collective, type, op, team.ranks, parts.join('-'), ...plan.key].join('/'),
    label: `${algorithm} with ${protocol}`,
    blocks,
    threads: threadsFor(call, protocol, blocks, form),
    overlap: false,
    compile: {
      threads: protocol === 'LL128' ? wholeWarps(form.threads) : form.threads,
      blocksPerMultiprocessor: 1,
      descriptorBytes: connectorWork(team.ranks).size,
    },
    build: (traits) => plan.build(traits, { ranks: team.ranks, sizes: { ...sizes, connectors } }),
    write: (view, base, args) => writeConnectorWork(view, base, shares, details, args),
  };
}

/** Bytes that a thread moves at a time. */
const THREAD_BYTES: Readonly<Record<ConnectionProtocol, number>> = {
  LL: 8,
  LL128: (2 * CHUNK128_DATA) / WARP_LANES,
  Simple: 16,
};

const wholeWarps = (threads: number): number => Math.ceil(threads / WARP_LANES) * WARP_LANES;

/** As many threads as have something to do. */
function threadsFor(
  call: GpuCall,
  protocol: ConnectionProtocol,
  blocks: number,
  { threads: most, leastThreads }: ConnectorForm,
): number {
  const each = callBytes(call) / blocks / THREAD_BYTES[protocol];
  let threads = leastThreads;
  while (threads < most && threads < each) threads *= 2;
  const found = Math.min(most, threads);
  return protocol === 'LL128' ? wholeWarps(found) : found;
}
