/**
 * Reading and joining paths.
 *
 * A node has one table of paths per type of base; a table that is missing says that the node was never touched, an
 * unreached slot that no path was found. Both answer "no path", but the search tells them apart.
 */
import type { NodeType, TopoNode, TopoPath } from '../system/node.js';
import { PathType } from '../system/path-type.js';

/** A slot that no path reached. */
export const UNREACHED: TopoPath = Object.freeze({ type: PathType.DIS, bandwidth: 0, hops: [] });

/** The path from a node to another, undefined if the node has no table for the other's type. */
export function pathBetween(from: TopoNode, to: TopoNode): TopoPath | undefined {
  return from.paths[to.type]?.[to.index];
}

/** The path, or an unreached one. */
export const pathOrNone = (from: TopoNode, to: TopoNode): TopoPath => pathBetween(from, to) ?? UNREACHED;

/** Two paths one after the other. A host bridge and a chip-to-chip link make P2C, else the worse type counts. */
export function joinPaths(first: TopoPath, second: TopoPath): TopoPath {
  return {
    type: joinedType(first.type, second.type),
    bandwidth: Math.min(first.bandwidth, second.bandwidth),
    hops: [...first.hops, ...second.hops],
  };
}

/** Type of two paths one after the other. */
export function joinedType(a: PathType, b: PathType): PathType {
  const { PHB, C2C, P2C } = PathType;
  if ((a === PHB && b === C2C) || (a === C2C && b === PHB)) return P2C;
  return Math.max(a, b) as PathType;
}

/** Nodes that are reached best from a node. */
export interface LocalNodes {
  /** Indices among the nodes of the type, ascending; all of them if none is reached. */
  readonly indices: readonly number[];
  /** Type of the best path; undefined if none is reached. */
  readonly type: PathType | undefined;
}

/** Answers of `localNodes` by the table that they come from, until it changes: large hosts ask thousands of times. */
const nearest = new WeakMap<readonly TopoPath[], LocalNodes>();

/** Puts a path into the table of a node that has one. All changes after the walks of `walkPaths` come by here. */
export function setPath(from: TopoNode, to: TopoNode, path: TopoPath): void {
  const table = from.paths[to.type]!;
  table[to.index] = path;
  nearest.delete(table);
}

/** The nodes of a type with the best path: highest bandwidth, then lowest type. (NCCL 2.30.7, paths.cc.) */
export function localNodes(from: TopoNode, type: NodeType): LocalNodes {
  const table = from.paths[type];
  if (table === undefined) return { indices: [], type: undefined };
  let nodes = nearest.get(table);
  if (nodes === undefined) {
    nodes = nearestOf(table);
    nearest.set(table, nodes);
  }
  return nodes;
}

function nearestOf(table: readonly TopoPath[]): LocalNodes {
  let bandwidth = 0;
  let best: PathType = PathType.DIS;
  let found = false;
  let indices: number[] = [];
  for (const [index, path] of table.entries()) {
    if (path.bandwidth > bandwidth || (path.bandwidth === bandwidth && path.type < best)) {
      bandwidth = path.bandwidth;
      best = path.type;
      found = true;
      indices = [];
    }
    if (path.bandwidth === bandwidth && path.type === best) indices.push(index);
  }
  return { indices, type: found ? best : undefined };
}
