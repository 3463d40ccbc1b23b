/**
 * What tutti wants to reach against its peers on one host, per row of a result. A target is a ratio
 * `peer time / tutti time`: 1 is as fast as the peer, 3 three times as fast.
 */

const K = 1024;

/**
 * The target of one row, or undefined where none is set.
 * @param {number} ranks
 * @param {'windows' | 'arrays'} section windows: prepared, on the heap; arrays: ordinary typed arrays, synchronous
 * @param {number} size bytes
 * @returns {{ peer: 'best' | 'openmpi', ratio: number } | undefined}
 */
export function targetOf(ranks, section, size) {
  if (ranks > 2) return section === 'windows' && size >= K ? { peer: 'openmpi', ratio: 1 } : undefined;
  if (section === 'arrays') return size >= 8 * K ? { peer: 'best', ratio: 1 } : undefined;
  if (size >= 64 * K) return { peer: 'best', ratio: 3 };
  if (size >= K) return { peer: 'best', ratio: 1.5 };
  return { peer: 'best', ratio: 1 / 1.3 };
}
