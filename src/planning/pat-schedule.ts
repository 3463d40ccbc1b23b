/**
 * The schedule of PAT (parallel aggregated trees): an all-gather or reduce-scatter in about log2(n) exchanges, in which
 * small blocks for several ranks travel in one message.
 *
 * Dimension d joins ranks at distance 2^d. Blocks are named by their distance from the own rank, so the schedule is
 * the same at all ranks. A reduce-scatter runs the trees from the far end to the near one; an all-gather the other
 * way round. Source: NCCL 2.30.7, PAT schedules (collectives.h); NVIDIA, PAT: a new algorithm for all-gather and
 * reduce-scatter operations at scale.
 */

/** One step of a rank. */
export interface PatEntry {
  /** Whose block: the rank so many places after the own. */
  readonly distance: number;
  /** Dimension to receive on, or -1: the own contribution alone. */
  readonly from: number;
  /** Place within the received slot, in blocks. */
  readonly fromIndex: number;
  /** The slot is given back. */
  readonly release: boolean;
  /** Dimension to send on, or -1: only the result is written. */
  readonly to: number;
  readonly toIndex: number;
  /** The slot is complete. */
  readonly publish: boolean;
  /** Slots ahead of the connection's present step: of the sending one to reduce, of the receiving one to gather. */
  readonly ahead: number;
  /**
   * Reduce: what the target holds already is the second operand, in place of the own contribution. Gather: the block
   * is in the output already.
   */
  readonly again: boolean;
}

/** How blocks are put together. */
export interface PatShape {
  readonly ranks: number;
  /** Blocks that an exchange is made of, and the distance between them; their product is a power of two >= ranks. */
  readonly aggregation: number;
  readonly delta: number;
  /** Blocks in one slot. */
  readonly perSlot: number;
}

/** Slots that may be filled ahead. */
const DEPTH = 8;

/** The shape for slots of `slotBytes` and parts of `partBytes` per rank. */
export function patShape(ranks: number, slotBytes: number, partBytes: number): PatShape {
  let delta = 1;
  while (delta < ranks) delta *= 2;
  let aggregation = 1;
  const half = Math.floor(ranks / 2);
  const grow = () => {
    aggregation *= 2;
    delta /= 2;
  };
  const part = Math.max(1, partBytes);
  while (Math.floor(slotBytes / (part * aggregation)) >= 2 && aggregation < half) grow();
  const perSlot = aggregation;
  for (let depth = DEPTH; depth > 1 && aggregation < half; depth /= 2) grow();
  return { ranks, aggregation, delta, perSlot };
}

/** Dimensions of so many ranks. */
export function patDimensions(ranks: number): number {
  return Math.ceil(Math.log2(ranks));
}

/** Index of the lowest set bit. */
const low = (x: number): number => 31 - Math.clz32(x & -x);

/** The complement of `a` with the order of its log2(length) bits reversed. */
function mirrorInverse(a: number, length: number): number {
  let result = 0;
  for (let bit = 1, mirrored = length >> 1; bit < length; bit <<= 1, mirrored >>= 1) {
    if ((a & bit) === 0) result |= mirrored;
  }
  return result;
}

/** Only upper bits of the range are set. */
function isFresh(a: number, length: number): boolean {
  const rest = (a ^ (length - 1)) + 1;
  return (rest & (rest - 1)) === 0;
}

/** An entry before it is known whether its target holds something already. */
type Draft = Omit<PatEntry, 'again'>;

/** The steps of a reduce-scatter of one chunk. */
export function patReduceScatter({ ranks: n, aggregation: A, delta: D, perSlot: F }: PatShape): PatEntry[] {
  const drafts: Draft[] = [];
  const index = (x: number) => x % F;
  const full = (x: number) => (x % F) + 1 >= F;
  let phase = 0;
  let scale = 1;
  let s = D - 1;
  while (phase < 5) {
    const length = phase < 2 ? A : phase === 4 ? 1 : A / (2 * scale);
    let skip = 0;
    let k = 0;
    for (let a = 0; a < length; a++) {
      const last = a === length - 1;
      if (phase === 0) {
        const distance = mirrorInverse(a, length) * D + s;
        if (distance >= n) continue;
        drafts.push({
          distance,
          ...NO_RECEIVE,
          to: 0,
          toIndex: index(a),
          publish: full(a) || last,
          ahead: k,
        });
        continue;
      }
      if (phase === 4) {
        const fromIndex = index(A - 1);
        drafts.push({ distance: 0, from: 0, fromIndex, release: true, ...NO_SEND, ahead: 0 });
        continue;
      }
      const far =
        phase === 1
          ? mirrorInverse(a, length) * D + s
          : (2 * mirrorInverse(a, length) + 1) * scale * D + (phase === 2 ? 1 : 0);
      const dimension = low(far);
      const distance = far - 2 ** dimension;
      // The last receives before the phase changes fill slots from their beginnings.
      const restarts = (phase === 1 && s - 2 ** dimension === 0) || phase === 3;
      if (restarts && isFresh(a, phase === 1 ? A : length)) {
        skip = a;
        k = 0;
      }
      const isSkipped = far >= n && distance >= n;
      if (!isSkipped) {
        const source = phase === 2 ? a + A - A / scale : a;
        const isWhole =
          phase === 1 ? full(a) || last : phase === 2 ? (source + 1) % F === 0 : last || (a + 1) % F === 0;
        const receive =
          far >= n ? NO_RECEIVE : { from: dimension, fromIndex: index(source), release: isWhole };
        const publish =
          phase === 1
            ? dimension === 0 && (full(a) || last)
            : phase === 2
              ? last || (a + 1) % F === 0
              : false;
        const send =
          distance === 0
            ? { ...NO_SEND, publish }
            : { to: low(distance), toIndex: index(restarts ? a - skip : a), publish };
        drafts.push({ distance, ...receive, ...send, publish: distance !== 0 && publish, ahead: k });
        const counts = phase === 3 || (phase === 1 && dimension > 0);
        if (counts && full(a - skip)) k += 1;
      }
    }
    if (phase === 1) s -= 1;
    if (phase === 3) scale *= 2;
    phase = nextReducePhase(phase, s, scale, A);
  }
  return markAgain(drafts, (draft) => ({ lane: draft.to, step: draft.ahead, index: draft.toIndex }), 'to');
}

function nextReducePhase(phase: number, s: number, scale: number, A: number): number {
  switch (phase) {
    case 0:
      return s === 1 ? (A > 1 ? 2 : 4) : 1;
    case 1:
      return s % 2 === 1 ? 0 : 1;
    case 2:
      return 3;
    case 3:
      return scale < A ? 2 : 4;
    default:
      return 5;
  }
}

const NO_RECEIVE = { from: -1, fromIndex: 0, release: false } as const;
const NO_SEND = { to: -1, toIndex: 0, publish: false } as const;

/** Distances below `delta` in the order in which an all-gather opens them: a binomial tree, near the root first. */
function gatherOrder(delta: number): number[] {
  const order: number[] = [];
  const visit = (node: number, span: number) => {
    if (node > 0) order.push(node);
    for (let bit = span >> 1; bit > 0; bit >>= 1) visit(node + bit, bit);
  };
  visit(0, delta);
  return order;
}

/** The steps of an all-gather of one chunk. */
export function patAllGather({ ranks: n, aggregation: A, delta: D, perSlot: F }: PatShape): PatEntry[] {
  const drafts: Draft[] = [];
  const index = (x: number) => x % F;
  const isLast = (x: number) => x % F === F - 1;

  // The aggregated distances first: multiples of delta, from the farthest down.
  for (let scale = A >> 1; scale > 0; scale >>= 1) {
    for (let a = 0; a < A / (2 * scale); a++) {
      const far = (2 * a + 1) * scale * D;
      if (far >= n) continue;
      const distance = far - 2 ** low(far);
      const publish = isLast(a) || (2 * (a + 1) + 1) * scale * D >= n;
      const send = { to: low(far), toIndex: index(a), publish };
      if (distance === 0) {
        drafts.push({ distance, ...NO_RECEIVE, ...send, ahead: 0 });
        continue;
      }
      const from = low(distance);
      const q = (2 * a * scale * D) >> (from + 1);
      drafts.push({
        distance,
        from,
        fromIndex: index(q),
        release: false,
        ...send,
        ahead: Math.floor(q / F),
      });
    }
  }
  for (const s of gatherOrder(D)) {
    for (let a = 0; a < A; a++) {
      const far = a * D + s;
      const dimension = low(far);
      const distance = far - 2 ** dimension;
      const sends = far < n;
      if (!sends && !(distance < n && dimension === 0)) continue;
      const publish = isLast(a) || (a + 1) * D + s >= n;
      const send = sends ? { to: dimension, toIndex: index(a), publish } : NO_SEND;
      if (distance === 0) {
        drafts.push({ distance, ...NO_RECEIVE, ...send, ahead: 0 });
        continue;
      }
      const from = low(distance);
      const aggregated = s - 2 ** dimension === 0;
      const q = aggregated ? (a * D) >> (from + 1) : a;
      const ends = aggregated ? (2 * (q + 1) + 1) << from : (a + 1) * D + s - 1;
      drafts.push({
        distance,
        from,
        fromIndex: index(q),
        release: dimension === 0 && (isLast(q) || ends >= n),
        ...send,
        ahead: dimension === 0 ? 0 : Math.floor(q / F),
      });
    }
    if (s % 2 === 0) continue;
    for (let a = 0; a < A; a++) {
      const distance = a * D + s;
      if (distance >= n) continue;
      const release = isLast(a) || (a + 1) * D + s >= n;
      drafts.push({ distance, from: 0, fromIndex: index(a), release, ...NO_SEND, ahead: 0 });
    }
  }
  return markAgain(
    drafts,
    (draft) => ({ lane: draft.from, step: draft.ahead, index: draft.fromIndex }),
    'from',
  );
}

/**
 * Marks the entries whose place, a slot and an index in it or the rank's own block, came up before: a high-water mark
 * per dimension tells.
 */
function markAgain(
  drafts: readonly Draft[],
  placeOf: (draft: Draft) => { lane: number; step: number; index: number },
  side: 'to' | 'from',
): PatEntry[] {
  const steps = new Map<number, number>();
  const marks = new Map<number, readonly [number, number]>();
  return drafts.map((draft) => {
    const { lane, step, index } = placeOf(draft);
    const at = (steps.get(lane) ?? 0) + (lane === -1 ? 0 : step);
    const mark = marks.get(lane);
    const again = mark !== undefined && (at < mark[0] || (at === mark[0] && index <= mark[1]));
    if (!again) marks.set(lane, [at, index]);
    const ends = side === 'to' ? draft.publish : draft.release;
    if (ends && lane !== -1) steps.set(lane, (steps.get(lane) ?? 0) + 1);
    return { ...draft, again };
  });
}
