/** The protocols that move chunks over connections, by name. */

import type { KernelBuilder } from '../kernel/builder.js';
import type { ElementType } from '../kernel/element-types.js';
import type { StepArithmetic } from './arithmetic.js';
import type { Ends } from './ends.js';
import type { Protocol } from './primitives.js';
import { type LowLatencyOptions, LowLatencyProtocol } from './protocol-ll.js';
import { LowLatency128Protocol } from './protocol-ll128.js';
import { SimpleProtocol, type SimpleShape } from './protocol-simple.js';

/** Protocols of rings and trees on every target. */
export type RingProtocol = 'LL' | 'Simple';

/** Those where threads form warps. */
export type ConnectionProtocol = RingProtocol | 'LL128';

export interface ProtocolOptions {
  /** Steps of a call with Simple. */
  readonly shape: SimpleShape;
  readonly lowLatency?: LowLatencyOptions | undefined;
}

/** A protocol over the connections `ends`. */
export function connectionProtocol(
  k: KernelBuilder,
  protocol: ConnectionProtocol,
  ends: Ends,
  type: ElementType,
  arithmetic: StepArithmetic,
  { shape, lowLatency }: ProtocolOptions,
): Protocol {
  switch (protocol) {
    case 'LL':
      return new LowLatencyProtocol(k, ends, type, arithmetic, lowLatency);
    case 'LL128':
      return new LowLatency128Protocol(k, ends, type, arithmetic);
    case 'Simple':
      return new SimpleProtocol(k, ends, type, arithmetic, shape);
  }
}
