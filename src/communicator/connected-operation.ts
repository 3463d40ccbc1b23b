/**
 * What an operation of an algorithm with connections of its own adds: its blocks, its descriptor, and how it is cut.
 */

import { BlockWork } from '../collectives/connected-work.js';
import type { ConnectedName, ProgramRequest } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import {
  type ConnectedLimits,
  connectedAlgorithm,
  connectedSetting,
} from '../planning/connected-algorithms.js';
import {
  type BlockPlan,
  blockOffset,
  type ConnectedAlgorithm,
  type ConnectedSetting,
  connectedWorkBytes,
  encodeConnectedWork,
  rolesOf,
  type WorkValues,
} from '../planning/connected-plan.js';
import type { ChannelShare } from '../planning/ring-plan.js';
import type { CheckedCall } from './buffers.js';
import { ConnectionPools } from './connection-pools.js';
import type { OperationContext } from './operation-context.js';

/** What bounds the connections of this communicator. */
export function connectedLimits({
  team,
  settings,
}: Pick<OperationContext, 'team' | 'settings'>): ConnectedLimits {
  const { channels, llBytes, simpleBytes } = settings.shape;
  return { ranks: team.size, ranksPerNode: settings.ranksPerNode, channels, llBytes, simpleBytes };
}

export class ConnectedOperation {
  readonly blocks: readonly BlockPlan[];
  /** Elements after which a share may be cut without the other ranks noticing. */
  readonly cut: number;
  /** What the program depends on besides the call. */
  readonly program: Pick<ProgramRequest, 'roles' | 'resumable'>;
  readonly #context: OperationContext;
  readonly #algorithm: ConnectedAlgorithm;
  readonly #setting: ConnectedSetting;
  readonly #pool: number;
  readonly #poolWord: number;

  /** Throws `systemError` when there is no memory for the connections. */
  constructor(context: OperationContext, call: CheckedCall, name: ConnectedName, protocol: RingProtocol) {
    const { team, pools } = context;
    this.#context = context;
    this.#setting = connectedSetting(name, protocol, connectedLimits(context));
    const { collective, type, count } = call;
    const shape = { collective, elementBytes: ELEMENT_TYPES[type].size, count };
    const { algorithm, resumable } = connectedAlgorithm(name, this.#setting, shape);
    this.#algorithm = algorithm;
    this.blocks = algorithm.plan(this.#setting, shape, team.rank);
    this.cut = algorithm.cut(this.#setting, shape);
    this.program = { roles: rolesOf(this.blocks), resumable };
    this.#pool = pools.address(name, algorithm, this.#setting);
    this.#poolWord = ConnectionPools.word(name, protocol);
  }

  /** The shares of the channels, which several blocks may work on, in order of the channels. */
  get shares(): ChannelShare[] {
    return this.#channels.map((channel) => {
      const { offset, count } = this.blocks.find((block) => block.channel === channel)!;
      return { offset, count };
    });
  }

  get #channels(): number[] {
    return [...new Set(this.blocks.map(({ channel }) => channel))];
  }

  get descriptorBytes(): number {
    return connectedWorkBytes(this.blocks);
  }

  write(descriptor: number, values: Omit<WorkValues, 'poolWord' | 'rank'>): void {
    const { team } = this.#context;
    const bytes = encodeConnectedWork(
      descriptor,
      this.#algorithm,
      this.#setting,
      this.blocks,
      { pool: this.#pool, controls: team.areas, segments: team.segments },
      { ...values, poolWord: this.#poolWord, rank: team.rank },
    );
    team.device.u8.set(bytes, descriptor);
  }

  /** Has the next run do other shares, in the order of `shares`. */
  setShares(descriptor: number, shares: readonly ChannelShare[]): void {
    const channels = this.#channels;
    this.blocks.forEach(({ channel }, index) => {
      const { offset, count } = shares[channels.indexOf(channel)]!;
      BlockWork.at(this.#context.team.device.dataView, descriptor + blockOffset(index))
        .set('offset', offset)
        .set('count', count);
    });
  }
}
