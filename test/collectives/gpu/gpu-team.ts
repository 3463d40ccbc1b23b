/**
 * Ranks on simulated GPUs: areas of small sizes, buffers with guards, descriptors as the host writes them. Calls are
 * queued on streams, one behind the other without a meeting on the host, and compared with the reference afterwards.
 */

import { type AreaSizes, areaLayout, BlockState } from '#src/collectives/gpu/area.js';
import type { GpuCall, GpuCollective, GpuShape, GpuTeam, RankOrders } from '#src/collectives/gpu/call.js';
import { type GpuLaunch, launchOf } from '#src/collectives/gpu/launch.js';
import { type Addressing, MAP_SLOTS, mappedName, mapTableBytes, STAGED } from '#src/collectives/gpu/names.js';
import { ELEMENT_TYPES, type ReduceOp } from '#src/kernel/element-types.js';
import { type Launch, Machine, type MachineOptions, type Stream } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program } from '#src/kernel/ir.js';
import { sameBits } from '#src/kernel/numeric.js';
import {
  type ConnectorChoice,
  type ConnectorForm,
  connectorLaunch,
} from '#src/planning/gpu-connector-plan.js';
import { type Bits, bufferElements, reference } from '../reference.js';

/** Few and small, so that small data take several blocks, rounds and pieces. */
export const SMALL_AREA: AreaSizes = {
  blocks: 3,
  llBlocks: 3,
  llBankBytes: 256,
  ll128BankBytes: 4096,
  lamportBankBytes: 2048,
  pairChannels: 2,
  pairBankBytes: 64,
  pairBank128Bytes: 1024,
  firstBytes: 8192,
  stageBytes: 16384,
};

/** The same with connections of slots that hold a few packets. */
export const CONNECTED_AREA: AreaSizes = {
  ...SMALL_AREA,
  llBankBytes: 1024,
  connectors: { channels: { Ring: 3, Tree: 4, PAT: 2 }, llSlot: 128, ll128Slot: 2048, simpleSlot: 64 },
};

export const SMALL_FORM: ConnectorForm = {
  threads: 8,
  leastThreads: 4,
  channelBytes: { LL: 64, LL128: 960, Simple: 128 },
  grainBytes: { LL: 16, LL128: 480, Simple: 64 },
};

const GUARD = 32;
const GUARD_BYTE = 0xa5;
const SEND_GUARD_BYTE = 0x3c;

export interface SimulatedGpuCall extends GpuCall {
  readonly shape?: GpuShape;
  /** In place of a shape: over connections. */
  readonly choice?: ConnectorChoice;
  readonly op: ReduceOp;
  readonly root: number;
  /** On all ranks, or on these. */
  readonly inPlace?: boolean | readonly number[];
  /** By rank, elements by which its buffers start off 16-byte alignment. */
  readonly unalign?: readonly number[];
  /** Ranks whose buffers others cannot reach. */
  readonly staged?: readonly number[];
  /** Takes the result buffers of the call before as its input. */
  readonly chained?: boolean;
}

function isInPlace({ inPlace = false }: SimulatedGpuCall, rank: number): boolean {
  return typeof inPlace === 'boolean' ? inPlace : inPlace.includes(rank);
}

/** Elements of a rank's send and receive buffers. */
export function gpuBufferElements(collective: GpuCollective, count: number, ranks: number) {
  if (collective === 'gather') return bufferElements('allGather', count, ranks);
  if (collective === 'scatter') return bufferElements('reduceScatter', count, ranks);
  if (collective === 'barrier') return { send: 0, recv: 0 };
  return bufferElements(collective, count, ranks);
}

export function gpuReference(call: SimulatedGpuCall, sends: readonly Bits[]): (Bits | null)[] {
  const { collective, count, root } = call;
  if (collective === 'barrier') return sends.map(() => null);
  if (collective === 'gather') {
    const all = sends.flatMap((send) => send.slice(0, count));
    return sends.map((_, rank) => (rank === root ? all : null));
  }
  if (collective === 'scatter') {
    return sends.map((_, rank) => sends[root]!.slice(rank * count, (rank + 1) * count));
  }
  return reference({ ...call, collective, order: 'direct' }, sends);
}

interface Buffer {
  readonly region: number;
  readonly start: number;
  readonly slot: number;
}

const programs = new Map<string, Program>();

export class SimulatedGpuTeam {
  readonly machine: Machine;
  readonly ranks: number;
  readonly #team: GpuTeam;
  readonly #areas: number[] = [];
  readonly #maps: number[] = [];
  readonly #unroll: number;
  readonly #sizes: AreaSizes;
  readonly #form: ConnectorForm;
  #slots = 0;
  #latest: readonly Buffer[] = [];
  #latestBits: readonly Bits[] = [];

  constructor(
    machine: MachineOptions,
    options: {
      ranks: number;
      addressing?: Addressing;
      unroll?: number;
      sizes?: AreaSizes;
      orders?: RankOrders;
      form?: ConnectorForm;
    },
  ) {
    const { ranks, addressing = 'plain' } = options;
    this.machine = new Machine({ warpSize: 4, ...machine });
    this.ranks = ranks;
    this.#unroll = options.unroll ?? 2;
    this.#sizes = options.sizes ?? SMALL_AREA;
    this.#form = options.form ?? SMALL_FORM;
    this.#team = {
      ranks,
      multiprocessors: options.sizes === undefined ? 3 : 12,
      ranksPerDevice: 1,
      addressing,
      wholeLines: true,
      ...(options.orders === undefined ? {} : { orders: options.orders }),
    };
    const { bytes } = areaLayout(ranks, this.#sizes);
    for (let rank = 0; rank < ranks; rank++) {
      this.#areas.push(this.machine.region(`area ${rank}`, bytes, rank, { zeroed: true }));
      if (addressing === 'mapped') {
        const table = this.machine.region(`maps ${rank}`, mapTableBytes(ranks), rank, { zeroed: true });
        this.#maps.push(table);
      }
    }
  }

  /** Addresses of the areas, by rank. */
  get areas(): readonly number[] {
    return this.#areas;
  }

  streams(): Stream[] {
    return this.#areas.map((_, rank) => this.machine.stream(rank));
  }

  /** Starts all blocks with this as the number of the last LL round. */
  setRound(round: number): void {
    const { states } = areaLayout(this.ranks, SMALL_AREA);
    for (const area of this.#areas) {
      for (let block = 0; block < SMALL_AREA.blocks; block++) {
        this.machine.write('u32', area + states + block * BlockState.size, round);
      }
    }
  }

  #buffer(rank: number, bytes: number, unalign: number, guard: number, hidden: boolean): Buffer {
    const total = GUARD + unalign + bytes + GUARD;
    const region = this.machine.region(`buffer ${this.#slots} of ${rank}`, total, rank, {
      zeroed: true,
      private: hidden,
    });
    this.machine.writeArray(region, new Uint8Array(total).fill(guard));
    const slot = this.#slots++;
    for (const table of this.#maps) this.machine.write('ptr', table + 8 * (rank * MAP_SLOTS + slot), region);
    return { region, start: region + GUARD + unalign, slot };
  }

  #nameOf(buffer: Buffer, at: number, hidden: boolean): bigint {
    if (hidden) return STAGED;
    if (this.#team.addressing === 'plain') return BigInt(at);
    return mappedName(buffer.slot, at - buffer.region);
  }

  #program(call: SimulatedGpuCall, rank: number): { program: Program; launch: GpuLaunch } {
    const launch =
      call.choice === undefined
        ? launchOf(this.#team, call, call.shape!, this.#sizes)
        : connectorLaunch(this.#team, call, call.choice, this.#sizes, rank, this.#form);
    let program = programs.get(launch.key);
    if (program === undefined) {
      program = launch.build(interpreterTraits({ threads: 'many', unroll: this.#unroll }));
      programs.set(launch.key, program);
    }
    return { program, launch };
  }

  /** Queues a call on all ranks; the function that it gives compares the outcome after `machine.run()`. */
  launch(call: SimulatedGpuCall, inputs: readonly Bits[], streams: readonly Stream[]): () => void {
    const { machine, ranks } = this;
    const { collective, type, count } = call;
    const { size } = ELEMENT_TYPES[type];
    const memory = size === 1 ? 'u8' : size === 2 ? 'u16' : size === 4 ? 'u32' : 'u64';
    const elements = gpuBufferElements(collective, count, ranks);
    const chained = call.chained === true && this.#latest.length > 0;
    const sends = chained ? this.#latestBits : inputs;
    const recvBuffers: Buffer[] = [];
    const results: { launch: Launch; recv: number }[] = [];
    for (let rank = 0; rank < ranks; rank++) {
      const unalign = (call.unalign?.[rank] ?? 0) * size;
      const hidden = call.staged?.includes(rank) === true;
      let sendBuffer: Buffer;
      let recvBuffer: Buffer;
      let send: number;
      let recv: number;
      if (isInPlace(call, rank)) {
        const whole = Math.max(elements.send, elements.recv) * size;
        sendBuffer = this.#buffer(rank, whole, unalign, GUARD_BYTE, hidden);
        recvBuffer = sendBuffer;
        const mine = rank * count * size;
        const isSlice = collective === 'allGather' || (collective === 'gather' && rank === call.root);
        send = sendBuffer.start + (isSlice ? mine : 0);
        const lands = collective === 'reduceScatter' || (collective === 'scatter' && rank === call.root);
        recv = sendBuffer.start + (lands ? mine : 0);
      } else {
        sendBuffer = chained
          ? this.#latest[rank]!
          : this.#buffer(rank, elements.send * size, unalign, SEND_GUARD_BYTE, hidden);
        recvBuffer = this.#buffer(rank, elements.recv * size, unalign, GUARD_BYTE, hidden);
        send = sendBuffer.start;
        recv = recvBuffer.start;
      }
      recvBuffers.push({ ...recvBuffer, start: recv });
      if (!chained) {
        sends[rank]!.slice(0, elements.send).forEach((bits, i) => {
          machine.write(memory, send + i * size, bits);
        });
      }
      const { program, launch } = this.#program(call, rank);
      const { descriptorBytes } = launch.compile;
      const descriptor = machine.region(`work ${rank}`, descriptorBytes, rank, {
        zeroed: true,
        readOnly: true,
      });
      launch.write(machine.view(descriptor), 0, {
        self: rank,
        root: call.root,
        type,
        op: call.op,
        count,
        send,
        recv,
        sendName: this.#nameOf(sendBuffer, send, hidden && !chained),
        recvName: this.#nameOf(recvBuffer, recv, hidden),
        maps: this.#maps[rank] ?? 0,
        areas: this.#areas,
      });
      const { blocks, threads } = launch;
      results.push({ launch: streams[rank]!.launch(program, { descriptor, blocks, threads }), recv });
    }
    const expected = gpuReference(call, sends);
    this.#latest = recvBuffers;
    this.#latestBits = expected.map((bits) => bits ?? []);
    return () => {
      results.forEach(({ launch, recv }, rank) => {
        if (launch.statuses.some((status) => status !== 0)) {
          throw new Error(`${launch.program} ended with statuses ${launch.statuses.join()}`);
        }
        const input = isInPlace(call, rank) ? sends[rank]!.slice(0, elements.recv) : null;
        const right = expected[rank] ?? input;
        // What a rank without a result finds beyond its own input is nobody's business.
        const checked = Math.min(elements.recv, right?.length ?? elements.recv);
        for (let i = 0; i < checked; i++) {
          const found = BigInt(machine.read(memory, recv + i * size));
          const want = right === null ? BigInt(`0x${'a5'.repeat(size)}`) : right[i]!;
          if (sameBits(type, found, want)) continue;
          const what = `0x${found.toString(16)} in place of 0x${want.toString(16)}`;
          throw new Error(`rank ${rank}, element ${i}: ${what} (${JSON.stringify(call)})`);
        }
        if (isInPlace(call, rank)) return;
        for (const edge of [recv - 1, recv + elements.recv * size]) {
          if (machine.read('u8', edge) === GUARD_BYTE) continue;
          throw new Error(
            `rank ${rank}: the byte at ${machine.describe(edge)} was changed (${JSON.stringify(call)})`,
          );
        }
      });
    };
  }
}
