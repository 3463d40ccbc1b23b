/** Hierarchical all-reduce on one element at a time: the oracle of its tests. */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { averageArgument, divideBits, reduceBits } from '#src/kernel/numeric.js';
import { type ConnectedSetting, slotElements } from '#src/planning/connected-plan.js';
import { channelShares } from '#src/planning/ring-plan.js';
import type { Bits } from './reference.js';

/** Folds values around a ring that ends at a position; every step rounds. */
function around(type: ElementType, op: ReduceOp, values: Bits, last: number): bigint {
  const n = values.length;
  return values
    .map((_, i) => values[(last + 1 + i) % n]!)
    .reduce((a, b) => reduceBits(type, op === 'avg' ? 'sum' : op, a, b));
}

export function hierarchicalExpected(
  setting: ConnectedSetting,
  { type, op, count }: { type: ElementType; op: ReduceOp; count: number },
  inputs: readonly Bits[],
): Bits[] {
  const { ranks, channels, protocol } = setting;
  const m = Math.min(setting.perNode, ranks);
  const k = ranks / m;
  const { size, kind } = ELEMENT_TYPES[type];
  const most = slotElements(setting, size);
  const scale = op === 'avg' && kind === 'float' ? averageArgument(type, ranks) : undefined;
  const shares = channelShares(count, size, channels, protocol);
  const result = Array.from({ length: count }, (_, i) => {
    const share = shares.find(({ offset, count: own }) => i < offset + own)!;
    let at = i - share.offset;
    let left = share.count;
    for (; at >= most * m * k; at -= most * m * k) left -= most * m * k;
    const grain = 16 / size;
    const chunk = left < most * m * k ? Math.ceil(Math.ceil(left / (m * k)) / grain) * grain : most;
    const q = Math.floor(at / chunk);
    const [p, t] = [Math.floor(q / k), q % k];
    const own = inputs.map((input) =>
      scale === undefined ? input[i]! : reduceBits(type, 'prod', input[i]!, scale),
    );
    const nodes = Array.from({ length: k }, (_, node) =>
      around(type, op, own.slice(node * m, (node + 1) * m), p),
    );
    const total = around(type, op, nodes, t);
    return op === 'avg' && kind !== 'float' ? divideBits(type, total, ranks) : total;
  });
  return inputs.map(() => result);
}
