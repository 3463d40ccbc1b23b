/** One call to be verified. */
import type { Algorithm } from '../collectives/registry.js';
import type { RingCollective, RingProtocol } from '../collectives/ring.js';

export interface VerifiedCall {
  readonly algorithm: Algorithm;
  readonly protocol: RingProtocol;
  readonly collective: RingCollective;
  readonly ranks: number;
  /** Ranks of an emulated node. */
  readonly perNode: number;
  readonly channels: number;
  /** Elements of 64 bits, as the API counts them. */
  readonly count: number;
  readonly root: number;
  /** Bytes of a slot of a connection: small ones make few elements go round all of them. */
  readonly slotBytes: number;
}
