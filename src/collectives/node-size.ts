/** The size of emulated nodes where nobody has said one. */

/** Nodes of one size, about as many as each has ranks. */
export function usualNodeSize(ranks: number): number {
  let perNode = Math.ceil(Math.sqrt(ranks));
  while (ranks % perNode !== 0) perNode += 1;
  return perNode;
}
