/** What ranks send in the checks, and what they must receive: whole numbers, so that sums are exact. */

/** Element `i` of the send buffer of a rank. */
export function sentElement(rank, i) {
  return (i % 251) + 3 * rank;
}

/** Elements that a rank receives; the rest of its buffer stays as it was. */
export function outputElements(operation, { rank, size, elements }) {
  if (operation === 'reduceScatter') return elements / size;
  if (operation === 'reduce') return rank === 0 ? elements : 0;
  return elements;
}

/**
 * Element `i` of the receive buffer of a rank. `elements`: those of the larger side of a rank; roots are rank 0;
 * sendRecv sends to the next rank.
 */
export function expectedElement(operation, { rank, size, elements }, i) {
  const share = elements / size;
  const block = Math.floor(i / share);
  const sum = (index) => {
    let total = 0;
    for (let r = 0; r < size; r++) total += sentElement(r, index);
    return total;
  };
  switch (operation) {
    case 'allReduce':
    case 'reduce':
      return sum(i);
    case 'reduceScatter':
      return sum(rank * share + i);
    case 'allGather':
      return sentElement(block, i - block * share);
    case 'allToAll':
      return sentElement(block, rank * share + i - block * share);
    case 'broadcast':
      return sentElement(0, i);
    case 'sendRecv':
      return sentElement((rank - 1 + size) % size, i);
    default:
      throw new RangeError(`operation ${operation} is not known`);
  }
}
