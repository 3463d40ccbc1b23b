/**
 * Paths as ranks can really use them.
 *
 * After the plain walk, GPU pairs without peer-to-peer go through a CPU, pairs for which the network is the better
 * way count as separate, NICs without GPUDirect are reached through a CPU, and a NIC next to another GPU is reached
 * through that GPU over NVLink (PXN). Each rule sees what the rules before it changed. (NCCL 2.30.7, paths.cc.)
 */
import type { CommInfo } from '../communicator.js';
import type { LogSink } from '../log.js';
import type { TopologySettings } from '../settings.js';
import { type GpuNode, hostOf, type NetNode, type TopoNode, type TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';
import { walkPaths } from './breadth-first.js';
import { gpuOfNic, localCpu } from './local-nics.js';
import { joinedType, joinPaths, localNodes, pathBetween, pathOrNone, setPath } from './path.js';
import { checkGdr, checkP2p, p2pTransportRefuses, type ReachContext, shmTransportRefuses } from './reach.js';

/** Computes all paths of a system anew. */
export function computePaths(
  system: TopoSystem,
  comm: CommInfo,
  settings: TopologySettings,
  localHost: bigint,
  log?: LogSink,
): void {
  const context: ReachContext = { system, comm, settings, localHost, ...(log === undefined ? {} : { log }) };
  walkPaths(system, settings.nvbDisable);
  for (const gpu of system.nodes.GPU) {
    const peers = system.nodes.GPU.filter(({ rank }) => comm.ranks[rank] !== undefined);
    for (const peer of peers) {
      if (checkP2p(context, peer, gpu).refused !== undefined) routeThrough(peer, localCpu(system, gpu), gpu);
    }
    for (const peer of peers) {
      if (peer === gpu) continue;
      const refused =
        p2pTransportRefuses(context, peer, gpu) !== undefined &&
        shmTransportRefuses(context, peer, gpu) !== undefined;
      if (refused) setType(peer, gpu, PathType.NET);
    }
  }
  for (const gpu of system.nodes.GPU) markC2cNics(system, gpu);
  for (const net of system.nodes.NET) for (const gpu of system.nodes.GPU) adaptNicPath(context, net, gpu);
  for (const net of system.nodes.NET) {
    net.localGpu = gpuOfNic(system, net, settings.netDevsPolicy)?.index ?? -1;
  }
}

function routeThrough(from: TopoNode, middle: TopoNode, to: TopoNode): void {
  setPath(from, to, joinPaths(pathOrNone(from, middle), pathOrNone(middle, to)));
}

function setType(from: TopoNode, to: TopoNode, type: PathType): void {
  setPath(from, to, { ...pathOrNone(from, to), type });
}

/** A NIC near a CPU that the GPU reaches by a chip-to-chip link. */
function markC2cNics(system: TopoSystem, gpu: GpuNode): void {
  for (const index of localNodes(gpu, 'NET').indices) {
    const net = system.nodes.NET[index]!;
    const cpu = localCpu(system, gpu);
    const type = joinedType(pathOrNone(gpu, cpu).type, pathOrNone(net, cpu).type);
    if (type !== PathType.P2C) continue;
    for (const [from, to] of [
      [gpu, net],
      [net, gpu],
    ] as const) {
      const path = pathBetween(from, to);
      if (path !== undefined && path.type > type) setType(from, to, type);
    }
  }
}

function adaptNicPath(context: ReachContext, net: NetNode, gpu: GpuNode): void {
  const { system } = context;
  const relay = relayFor(context, net, gpu);
  if (relay !== undefined) {
    const path = joinPaths(pathOrNone(gpu, relay), pathOrNone(relay, net));
    setPath(gpu, net, { ...path, type: PathType.PXN });
  }
  const direct = pathOrNone(gpu, net).type < PathType.PHB;
  if (direct && checkGdr(context, gpu, net, false).refused !== undefined) {
    const cpu = localCpu(system, gpu);
    routeThrough(net, cpu, gpu);
    routeThrough(gpu, cpu, net);
  }
}

/** The GPU next to the NIC that is a better way to it than the own one. */
function relayFor(context: ReachContext, net: NetNode, gpu: GpuNode): GpuNode | undefined {
  const { system, settings, comm } = context;
  if (settings.pxnDisable || !comm.pxnSupported || gpu.paths.NET === undefined) return undefined;
  const relay = gpuOfNic(system, net, settings.netDevsPolicy);
  if (relay === undefined || relay === gpu) return undefined;
  const there = pathOrNone(relay, net);
  const own = pathOrNone(gpu, net);
  const usable =
    there.type <= (settings.pxnC2c ? PathType.P2C : PathType.PXB) &&
    checkGdr(context, relay, net, true).refused === undefined &&
    pathOrNone(relay, gpu).type <= PathType.NVL &&
    hostOf(relay) === hostOf(gpu);
  const worthwhile = there.bandwidth > own.bandwidth || own.type > PathType.PXN;
  return usable && worthwhile ? relay : undefined;
}
