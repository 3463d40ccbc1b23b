/**
 * Ranks joined by an algorithm's own connections on a simulated machine: pools laid out and descriptors written as a
 * communicator does, programs launched, every byte of the outcome compared with what the test expects.
 */

import { argumentRule } from '#src/collectives/arithmetic.js';
import { ControlBlock } from '#src/collectives/control-block.js';
import type { ElementType, ReduceOp } from '#src/kernel/element-types.js';
import { ELEMENT_TYPES } from '#src/kernel/element-types.js';
import { Machine } from '#src/kernel/interpreter/machine.js';
import type { Program } from '#src/kernel/ir.js';
import { averageArgument, sameBits } from '#src/kernel/numeric.js';
import {
  type BlockPlan,
  type ConnectedAlgorithm,
  type ConnectedSetting,
  connectedWorkBytes,
  encodeConnectedWork,
  rolesOf,
} from '#src/planning/connected-plan.js';
import { ConnectionPool } from '#src/planning/connection-pool.js';
import type { Bits } from './reference.js';
import type { TeamMachine, TeamStream } from './simulated-team.js';

/** Bytes around user buffers that must stay as they are. */
const GUARD = 32;
const GUARD_BYTE = 0xa5;
const BUFFER_BYTES = 24576;
/** Control structures of a rank up to the posts, which connected programs do not use; the trace follows. */
export const CONTROL_HEAD = ControlBlock.fields.bank0.offset;
const POOL_INDEX = 3;

export type ConnectedCollective = 'allReduce' | 'allGather' | 'reduceScatter';

export interface ConnectedTestCall {
  readonly collective: ConnectedCollective;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly count: number;
  readonly inPlace?: boolean;
  /** Elements by which buffers start off 16-byte alignment. */
  readonly unalign?: number;
}

export interface ConnectedTeamOptions {
  readonly algorithm: ConnectedAlgorithm;
  readonly setting: ConnectedSetting;
  /** Builds the program of a rank with these roles; equal arguments give the same program object. */
  readonly build: (call: ConnectedTestCall, roles: readonly string[]) => Program;
  readonly threads?: number;
  readonly traceBytes?: number;
  /** Room for the user buffers of a rank. */
  readonly bufferBytes?: number;
}

export interface Places {
  readonly send: number;
  readonly recv: number;
}

export function interpretedTeam(
  machine: ConstructorParameters<typeof Machine>[0],
  options: ConnectedTeamOptions,
): ConnectedTeam {
  return new ConnectedTeam(new Machine({ warpSize: 4, ...machine }), options);
}

export function blocksOf(collective: ConnectedCollective, ranks: number): { send: number; recv: number } {
  return {
    send: collective === 'reduceScatter' ? ranks : 1,
    recv: collective === 'allGather' ? ranks : 1,
  };
}

export class ConnectedTeam<M extends TeamMachine = Machine> {
  readonly machine: M;
  readonly controls: number[] = [];
  readonly #options: ConnectedTeamOptions;
  readonly #segments: number[] = [];
  readonly #pools: number[] = [];
  readonly #buffers: number[] = [];
  readonly #used: number[] = [];
  /** Of the latest call, by rank. */
  places: Places[] = [];
  plans: BlockPlan[][] = [];

  constructor(machine: M, options: ConnectedTeamOptions) {
    this.machine = machine;
    this.#options = options;
    const { setting, algorithm, traceBytes = 0 } = options;
    for (let rank = 0; rank < setting.ranks; rank++) {
      const pool = new ConnectionPool(algorithm.connections(setting, rank), setting.slotBytes);
      this.controls.push(
        machine.region(`control ${rank}`, CONTROL_HEAD + traceBytes, rank, { zeroed: true }),
      );
      // Something before the pool, so that its offset is not 0.
      const segment = machine.region(`segment ${rank}`, 4096 * (rank + 2) + pool.bytes, rank, {
        zeroed: true,
      });
      const poolOffset = 4096 * (rank + 1);
      this.#segments.push(segment);
      this.#pools.push(segment + poolOffset);
      const word = this.controls[rank]! + ControlBlock.fields.pools.offset + 4 * POOL_INDEX;
      machine.write('u32', word, poolOffset | 1);
      const bufferBytes = options.bufferBytes ?? BUFFER_BYTES;
      this.#buffers.push(machine.region(`buffers ${rank}`, bufferBytes, rank, { zeroed: true }));
      this.#used.push(0);
    }
  }

  #buffer(rank: number, bytes: number, unalign: number): number {
    const start = Math.ceil(this.#used[rank]! / 16) * 16;
    const end = start + GUARD + unalign + bytes + GUARD;
    if (end > (this.#options.bufferBytes ?? BUFFER_BYTES)) throw new Error('no room for buffers');
    this.machine.writeArray(this.#buffers[rank]! + start, new Uint8Array(end - start).fill(GUARD_BYTE));
    this.#used[rank] = end;
    return this.#buffers[rank]! + start + GUARD + unalign;
  }

  /** Queues one call on all ranks; the returned function compares the outcome after `machine.run()`. */
  launch(
    call: ConnectedTestCall,
    inputs: readonly Bits[],
    expected: readonly Bits[],
    streams: readonly TeamStream[],
  ): () => void {
    const { machine } = this;
    const { algorithm, setting, build, threads = 1 } = this.#options;
    const { type, op, collective, count } = call;
    const size = ELEMENT_TYPES[type].size;
    const cell = ({ 1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64' } as const)[size as 1 | 2 | 4 | 8];
    const blocks = blocksOf(collective, setting.ranks);
    const unalign = (call.unalign ?? 0) * size;
    const launches = inputs.map((input, rank) => {
      const sends = blocks.send * count * size;
      const recvs = blocks.recv * count * size;
      let send: number;
      let recv: number;
      if (call.inPlace === true) {
        const whole = this.#buffer(rank, Math.max(sends, recvs), unalign);
        send = whole + (collective === 'allGather' ? rank * count * size : 0);
        recv = whole + (collective === 'reduceScatter' ? rank * count * size : 0);
      } else {
        send = this.#buffer(rank, sends, unalign);
        recv = this.#buffer(rank, recvs, unalign);
      }
      this.places[rank] = { send, recv };
      input.forEach((bits, i) => {
        machine.write(cell, send + i * size, bits);
      });
      const plan = algorithm.plan(setting, { collective, elementBytes: size, count }, rank);
      this.plans[rank] = plan;
      const base = machine.region(`work ${rank}`, connectedWorkBytes(plan), rank, { zeroed: true });
      const bytes = encodeConnectedWork(
        base,
        algorithm,
        setting,
        plan,
        { pool: this.#pools[rank]!, controls: this.controls, segments: this.#segments },
        {
          poolWord: ControlBlock.fields.pools.offset + 4 * POOL_INDEX,
          rank,
          root: 0,
          send,
          recv,
          sendStride: count * size,
          recvStride: count * size,
          argument: argumentOf(type, op, setting.ranks),
        },
      );
      machine.writeArray(base, bytes);
      const program = build(call, rolesOf(plan));
      return streams[rank]!.launch(program, { descriptor: base, blocks: plan.length, threads });
    });
    const places = this.places.slice();
    return () => {
      for (const { program, statuses } of launches) {
        if (statuses.some((status) => status !== 0))
          throw new Error(`${program}: statuses ${statuses.join()}`);
      }
      places.forEach(({ send, recv }, rank) => {
        const due = expected[rank]!;
        due.forEach((bits, i) => {
          const got = BigInt(machine.read(cell, recv + i * size));
          if (!sameBits(type, got, bits)) {
            throw new Error(
              `rank ${rank}, element ${i}: 0x${got.toString(16)}, must be 0x${bits.toString(16)}: ${JSON.stringify(call)}`,
            );
          }
        });
        if (call.inPlace !== true) {
          inputs[rank]!.forEach((bits, i) => {
            if (BigInt(machine.read(cell, send + i * size)) !== bits)
              throw new Error('the input has changed');
          });
        }
        const wide = call.inPlace === true ? Math.min(send, recv) : recv;
        const bytes =
          (call.inPlace === true ? Math.max(blocks.send, blocks.recv) : blocks.recv) * count * size;
        for (const at of [wide - 1, wide - GUARD, wide + bytes, wide + bytes + GUARD - 1]) {
          if (Number(machine.read('u8', at)) !== GUARD_BYTE) {
            throw new Error(`rank ${rank}: wrote outside of its buffer: ${JSON.stringify(call)}`);
          }
        }
      });
    };
  }
}

function argumentOf(type: ElementType, op: ReduceOp, ranks: number): bigint {
  const rule = argumentRule({ type, op }, 'step');
  if (rule === 'none') return 0n;
  return rule === 'divisor' ? BigInt(ranks) : averageArgument(type, ranks);
}
