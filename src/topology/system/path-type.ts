/**
 * Types of links and paths, best first, with NCCL's numbers: the search compares and steps through them.
 *
 * (NCCL 2.30.7, topo.h.)
 */

/** Type of a path between two nodes; a lower number is a better path. */
export const PathType = {
  /** The same device. */
  LOC: 0,
  /** NVLink. */
  NVL: 1,
  /** NVLink through another GPU's device. */
  NVB: 2,
  /** Chip-to-chip link between CPU and GPU. */
  C2C: 3,
  /** At most one PCI switch. */
  PIX: 4,
  /** Several PCI switches, no CPU. */
  PXB: 5,
  /** GPU to NIC by a chip-to-chip link, then PCI. */
  P2C: 6,
  /** To a NIC through another GPU. */
  PXN: 7,
  /** Through a CPU's host bridge. */
  PHB: 8,
  /** Between CPUs. */
  SYS: 9,
  /** Across the network. */
  NET: 10,
  /** No path. */
  DIS: 11,
} as const;
export type PathType = (typeof PathType)[keyof typeof PathType];

/** Type of a link; the numbers are those of the paths made of them. */
export const LinkType = { LOC: 0, NVL: 1, C2C: 3, PCI: 4, SYS: 9, NET: 10 } as const;
export type LinkType = (typeof LinkType)[keyof typeof LinkType];

/** Names by number. */
export const PATH_TYPE_NAMES = [
  'LOC',
  'NVL',
  'NVB',
  'C2C',
  'PIX',
  'PXB',
  'P2C',
  'PXN',
  'PHB',
  'SYS',
  'NET',
  'DIS',
] as const;

/** Name of a link type. */
export const LINK_TYPE_NAMES: Readonly<Record<LinkType, string>> = {
  0: 'LOC',
  1: 'NVL',
  3: 'C2C',
  4: 'PCI',
  9: 'SYS',
  10: 'NET',
};
