/**
 * The graphs of a system in the orders in which they are listed.
 */
import type { GraphName } from '../search/search-all.js';

/** As NCCL searches them. */
export const GRAPH_NAMES_IN_SEARCH_ORDER: readonly GraphName[] = [
  'ring',
  'tree',
  'collnetChain',
  'collnetDirect',
  'nvls',
];

/** As people ask for them, with their titles. */
export const GRAPH_TITLES: readonly (readonly [name: GraphName, title: string])[] = [
  ['ring', 'Ring'],
  ['tree', 'Tree'],
  ['nvls', 'NVLS'],
  ['collnetChain', 'CollNet chain'],
  ['collnetDirect', 'CollNet direct'],
];
