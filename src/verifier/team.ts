/**
 * Ranks on a simulated machine, laid out as a communicator lays them out, each with its own program and descriptor.
 */
import { ControlBlock, PeerTable, POST_DATA, signatureOf } from '../collectives/control-block.js';
import { DirectWork } from '../collectives/direct.js';
import { buildProgram, isConnected, isDirect } from '../collectives/registry.js';
import type { RingCollective } from '../collectives/ring.js';
import { CONTROL_BYTES, STEPS } from '../collectives/ring-connection.js';
import { PortCounters } from '../collectives/switch-ports.js';
import { Machine } from '../kernel/interpreter/machine.js';
import { interpreterTraits } from '../kernel/interpreter/traits.js';
import type { Program } from '../kernel/ir.js';
import { connectedAlgorithm } from '../planning/connected-algorithms.js';
import {
  type BlockPlan,
  type ConnectedSetting,
  connectedWorkBytes,
  encodeConnectedWork,
  rolesOf,
} from '../planning/connected-plan.js';
import { ConnectionPool, type SwitchPort } from '../planning/connection-pool.js';
import { channelShares, ringChunkBytes } from '../planning/ring-plan.js';
import { encodeRingWork, ringWorkBytes } from '../planning/ring-work.js';
import { oneShotPiece } from '../tuning/host-selection.js';
import type { VerifiedCall } from './call.js';
import { MemoryMap } from './memory-map.js';

/** Elements are 64-bit numbers: their sums keep every contribution apart (weights.ts). */
export const ELEMENT_BYTES = 8;
export const ELEMENT_TYPE = 'uint64';

/** A page, at which pools begin; before it lies something else, so that no offset is 0. */
const PAGE = 4096;

/** Pool word that verified programs use: any does. */
const POOL_INDEX = 0;

/** Room for more accesses than any verified call makes. */
const MAX_STEPS = 500_000_000;

const TRAITS = interpreterTraits({ threads: 'one' });

export interface Places {
  readonly send: number;
  readonly recv: number;
}

/** Blocks of `count` elements in the buffers of a collective. */
export function blocksOf(collective: RingCollective, ranks: number): { send: number; recv: number } {
  return {
    send: collective === 'reduceScatter' || collective === 'allToAll' ? ranks : 1,
    recv: collective === 'allGather' || collective === 'allToAll' ? ranks : 1,
  };
}

/** Bytes through a port of a switch whose work one program does; a rank's port has one such part for each. */
export interface PortTraffic extends SwitchPort {
  readonly bytesIn: number;
  readonly bytesOut: number;
}

export class VerifiedTeam {
  readonly machine: Machine;
  readonly map = new MemoryMap();
  readonly places: Places[] = [];
  readonly #call: VerifiedCall;
  #replace: (program: Program) => Program = (program) => program;
  readonly #controls: number[] = [];
  readonly #segments: number[] = [];
  /** Ports of emulated switches, with the addresses of their counters. */
  readonly #ports: { readonly port: SwitchPort; readonly at: number }[] = [];

  constructor(
    call: VerifiedCall,
    seed: number,
    observe: ConstructorParameters<typeof Machine>[0]['observe'],
  ) {
    this.#call = call;
    this.machine = new Machine({
      seed,
      memory: 'strong',
      maxSteps: MAX_STEPS,
      ...(observe === undefined ? {} : { observe }),
    });
    const blocks = blocksOf(call.collective, call.ranks);
    for (let rank = 0; rank < call.ranks; rank++) {
      this.#controls.push(this.machine.region(`control ${rank}`, ControlBlock.size, rank, { zeroed: true }));
      const send = this.#buffer(`send ${rank}`, rank, blocks.send * call.count);
      const recv = this.#buffer(`recv ${rank}`, rank, blocks.recv * call.count);
      this.places.push({ send, recv });
    }
  }

  /** A user's buffer; what others load from it or store into it is data. */
  #buffer(name: string, rank: number, elements: number): number {
    const bytes = Math.max(1, elements) * ELEMENT_BYTES;
    const address = this.machine.region(name, bytes, rank, { zeroed: true });
    this.map.add(address, 0, bytes);
    return address;
  }

  /** Launches the call's program, or what `replace` puts in its place, on every rank. */
  launch(replace: (program: Program) => Program = (program) => program): void {
    const { algorithm } = this.#call;
    this.#replace = replace;
    if (isDirect(algorithm)) this.#direct();
    else if (isConnected(algorithm)) this.#connected();
    else this.#ring();
  }

  #program(roles?: readonly string[]): Program {
    const { algorithm, collective, protocol, ranks } = this.#call;
    const program = buildProgram(TRAITS, {
      algorithm,
      collective,
      protocol,
      type: ELEMENT_TYPE,
      op: 'sum',
      ranks,
      ...(roles === undefined ? {} : { roles }),
    });
    return this.#replace(program);
  }

  #direct(): void {
    const { machine } = this;
    const { algorithm, collective, ranks, count, root } = this.#call;
    const program = this.#program();
    const stride = count * ELEMENT_BYTES;
    // Small data travel inside the posts, behind their headers.
    if (algorithm === 'OneShot') {
      for (const control of this.#controls) {
        for (const bank of ['bank0', 'bank1'] as const) {
          const { offset } = ControlBlock.fields[bank];
          this.map.add(
            control,
            offset + POST_DATA,
            ControlBlock.fields.bank1.offset - ControlBlock.fields.bank0.offset - POST_DATA,
          );
        }
      }
    }
    // Posts hold offsets in segments; here every buffer is a region of its own, counted from address 0.
    const segments = this.#controls.map(() => 0);
    for (let rank = 0; rank < ranks; rank++) {
      const peers = machine.struct(PeerTable, rank, { control: this.#controls, segment: segments });
      const descriptor = machine.struct(DirectWork, rank, {
        peers,
        control: this.#controls[rank]!,
        self: rank,
        root,
        signature: signatureOf(collective, ELEMENT_TYPE, 'sum', root),
        staged: 0,
        count,
        start: 0,
        limit: count,
        piece: algorithm === 'OneShot' ? oneShotPiece(collective, ELEMENT_BYTES, ranks) : Math.max(1, count),
        origin: 0,
        send: this.places[rank]!.send,
        recv: this.places[rank]!.recv,
        sendStride: stride,
        recvStride: stride,
        argument: 0n,
      });
      machine.launch(program, { rank, descriptor });
    }
  }

  #ring(): void {
    const { machine } = this;
    const { collective, protocol, ranks, count, root, channels, slotBytes } = this.#call;
    const program = this.#program();
    const channelBytes = 2 * CONTROL_BYTES + 2 * STEPS * slotBytes;
    for (let rank = 0; rank < ranks; rank++) {
      const segment = machine.region(`segment ${rank}`, channels * channelBytes, rank, { zeroed: true });
      this.#segments.push(segment);
      for (let channel = 0; channel < channels; channel++) {
        const buffers = channel * channelBytes + 2 * CONTROL_BYTES;
        this.map.add(segment, buffers, STEPS * slotBytes, 1 / 2);
        this.map.add(segment, buffers + STEPS * slotBytes, STEPS * slotBytes);
      }
    }
    const sender = (rank: number, channel: number) => this.#segments[rank]! + channel * channelBytes;
    const receiver = (rank: number, channel: number) => sender(rank, channel) + CONTROL_BYTES;
    const buffers = { llBytes: STEPS * slotBytes, simpleBytes: STEPS * slotBytes };
    const chunk = Math.max(1, Math.floor(ringChunkBytes(collective, protocol, buffers) / ELEMENT_BYTES));
    const shares = channelShares(count, ELEMENT_BYTES, channels, protocol);
    for (let rank = 0; rank < ranks; rank++) {
      const [next, prev] = [(rank + 1) % ranks, (rank + ranks - 1) % ranks];
      const order = machine.region(`order ${rank}`, 4 * ranks, rank, { zeroed: true });
      for (let k = 0; k < ranks; k++) machine.write('u32', order + 4 * k, (rank + k) % ranks);
      const base = machine.region(`work ${rank}`, ringWorkBytes(channels), rank, { zeroed: true });
      const work = encodeRingWork(
        base,
        {
          control: this.#controls[rank]!,
          rank,
          ranks,
          root,
          ...this.places[rank]!,
          sendStride: count * ELEMENT_BYTES,
          recvStride: count * ELEMENT_BYTES,
          argument: 0n,
          llSlot: slotBytes,
          simpleSlot: slotBytes,
          chunk,
        },
        shares.map((share, channel) => ({
          ...share,
          sendControl: sender(rank, channel),
          recvControl: receiver(rank, channel),
          nextReceiver: receiver(next, channel),
          prevSender: sender(prev, channel),
          nextDoorbell: this.#controls[next]!,
          prevDoorbell: this.#controls[prev]!,
          order,
        })),
      );
      machine.writeArray(base, work);
      machine.launch(program, { rank, descriptor: base, blocks: channels });
    }
  }

  #connected(): void {
    const { machine } = this;
    const {
      algorithm: name,
      collective,
      protocol,
      ranks,
      count,
      root,
      channels,
      slotBytes,
      perNode,
    } = this.#call;
    if (!isConnected(name)) return;
    const setting: ConnectedSetting = { ranks, perNode, channels, protocol, slotBytes };
    const shape = { collective, elementBytes: ELEMENT_BYTES, count };
    const { algorithm } = connectedAlgorithm(name, setting, shape);
    const pools: number[] = [];
    const poolWord = ControlBlock.fields.pools.offset + 4 * POOL_INDEX;
    for (let rank = 0; rank < ranks; rank++) {
      const connections = algorithm.connections(setting, rank);
      const pool = new ConnectionPool(connections, slotBytes);
      const segment = machine.region(`segment ${rank}`, PAGE + pool.bytes, rank, { zeroed: true });
      this.#segments.push(segment);
      pools.push(segment + PAGE);
      machine.write('u32', this.#controls[rank]! + poolWord, PAGE | 1);
      for (const [row, port] of (connections.ports ?? []).entries()) {
        this.#ports.push({ port, at: segment + PAGE + pool.ports(row) });
      }
      for (const { channel, peer } of connections.receives) {
        const slots = PAGE + pool.receiver(channel, peer) + CONTROL_BYTES;
        this.map.add(segment, slots, STEPS * slotBytes, protocol === 'LL' ? 1 / 2 : 1);
      }
    }
    const programs = new Map<string, Program>();
    for (let rank = 0; rank < ranks; rank++) {
      const plan: readonly BlockPlan[] = algorithm.plan(setting, shape, rank);
      const base = machine.region(`work ${rank}`, connectedWorkBytes(plan), rank, { zeroed: true });
      const work = encodeConnectedWork(
        base,
        algorithm,
        setting,
        plan,
        { pool: pools[rank]!, controls: this.#controls, segments: this.#segments },
        {
          poolWord,
          rank,
          root,
          ...this.places[rank]!,
          sendStride: count * ELEMENT_BYTES,
          recvStride: count * ELEMENT_BYTES,
          argument: 0n,
        },
      );
      machine.writeArray(base, work);
      const roles = rolesOf(plan);
      const key = roles.join();
      let program = programs.get(key);
      if (program === undefined) {
        program = this.#program(roles);
        programs.set(key, program);
      }
      machine.launch(program, { rank, descriptor: base, blocks: plan.length });
    }
  }

  /** What the programs have counted at the ports of switches. */
  portTraffic(): PortTraffic[] {
    const counter = (at: number, name: keyof typeof PortCounters.fields) =>
      Number(this.machine.read('u64', at + PortCounters.fields[name].offset));
    return this.#ports.map(({ port, at }) => ({
      ...port,
      bytesIn: counter(at, 'bytesIn'),
      bytesOut: counter(at, 'bytesOut'),
    }));
  }
}
