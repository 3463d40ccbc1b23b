/**
 * Ranks on a simulated machine: memory laid out as a communicator lays it out, and descriptors written as the
 * host writes them. A scenario launches programs, runs the machine and compares every byte with the reference.
 * The machine is the interpreter, or WasmMachine with compiled programs.
 */

import { argumentRule } from '#src/collectives/arithmetic.js';
import { ControlBlock, PeerTable, signatureOf } from '#src/collectives/control-block.js';
import { type DirectParameters, DirectWork, oneShot, twoShot } from '#src/collectives/direct.js';
import type { LowLatencyOptions } from '#src/collectives/protocol-ll.js';
import { type RingCollective, type RingProtocol, ring } from '#src/collectives/ring.js';
import { CONTROL_BYTES, ReceiverControl, SenderControl, STEPS } from '#src/collectives/ring-connection.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { type Launch, Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { MemoryType, Program, Traits } from '#src/kernel/ir.js';
import type { FieldType, Struct } from '#src/kernel/layout.js';
import { averageArgument, encode, sameBits } from '#src/kernel/numeric.js';
import { channelShares } from '#src/planning/ring-plan.js';
import { encodeRingWork, ringWorkBytes } from '#src/planning/ring-work.js';
import { type Bits, bufferElements, reference } from './reference.js';

/** Small slots, so that few elements go round them several times. */
const LL_SLOT = 128;
const SIMPLE_SLOT = 64;
/** Bytes around user buffers that must stay as they are. */
const GUARD = 32;
/** Room for the user buffers of a rank. */
const BUFFER_BYTES = 12288;
const GUARD_BYTE = 0xa5;
/** Around buffers that are only read: a program that copies too much must change what it overruns. */
const SEND_GUARD_BYTE = 0x3c;
export const DOORBELL_BYTES = 64;

export interface SimulatedCall {
  readonly algorithm: 'OneShot' | 'TwoShot' | 'Ring';
  readonly protocol?: RingProtocol;
  readonly collective: RingCollective;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly root: number;
  readonly count: number;
  readonly inPlace?: boolean;
  /** Elements by which buffers start off 16-byte alignment. */
  readonly unalign?: number;
  /** Ranks that go through staging, with this piece (two-shot). */
  readonly staged?: readonly number[];
  readonly piece?: number;
}

/** What a team needs of the machine it runs on. */
export interface TeamMachine {
  region(name: string, bytes: number, owner: number, options: { zeroed: boolean }): number;
  write(memory: MemoryType, address: number, value: number | bigint): void;
  read(memory: MemoryType, address: number): number | bigint;
  writeArray(address: number, values: ArrayBufferView): void;
  struct<F extends Record<string, FieldType>>(
    layout: Struct<F>,
    owner: number,
    values: { readonly [K in keyof F]?: number | bigint | readonly (number | bigint)[] },
  ): number;
  describe(address: number): string;
  stream(rank: number): TeamStream;
}

export interface TeamStream {
  launch(program: Program, options: { descriptor: number; blocks?: number; threads?: number }): Launch;
}

export interface TeamOptions {
  readonly ranks: number;
  /** The rank at each position of the rings; 0, 1, 2, ... by default. */
  readonly ring?: readonly number[];
  /** What programs are generated for; the interpreter by default. */
  readonly traits?: Traits;
  /** Bytes of a slot per protocol. */
  readonly llSlot?: number;
  readonly simpleSlot?: number;
  /** Room for the user buffers of a rank. */
  readonly bufferBytes?: number;
  /** Bytes behind the doorbell of each rank, for programs that are made to tell what they do. */
  readonly traceBytes?: number;
  /** Direct programs (one-shot, two-shot) will run; otherwise rings. */
  readonly direct?: boolean;
  readonly channels?: number;
  readonly threads?: number;
  readonly lowLatency?: LowLatencyOptions;
  /** Replaces a program before it is launched, to see that a fault is found. */
  readonly mutate?: (program: Program, call: SimulatedCall) => Program;
}

export interface Buffers {
  readonly send: number;
  readonly recv: number;
}

/** A team on an interpreter with small warps. */
export function simulatedTeam(machine: MachineOptions, options: TeamOptions): SimulatedTeam {
  return new SimulatedTeam(new Machine({ warpSize: 4, ...machine }), options);
}

/** Programs are generated once per process: generation costs more than a small run. */
const programs = new Map<string, Program>();

export class SimulatedTeam<M extends TeamMachine = Machine> {
  readonly machine: M;
  readonly ranks: number;
  readonly llSlot: number;
  readonly simpleSlot: number;
  /** The rank at each ring position. */
  readonly ring: readonly number[];
  readonly #channels: number;
  readonly #channelBytes: number;
  readonly #bufferBytes: number;
  readonly #threads: number;
  readonly #options: TeamOptions;
  readonly #traits: Traits;
  readonly #segments: number[] = [];
  /** Whole control blocks where ranks meet directly; rings need the doorbell only. */
  readonly #controls: number[] = [];
  readonly #used: number[] = [];
  readonly #tables: number[] = [];
  readonly #orders: number[] = [];
  /** Where the user buffers of the latest call lie, by rank. */
  places: readonly Buffers[] = [];

  constructor(machine: M, options: TeamOptions) {
    this.machine = machine;
    this.ranks = options.ranks;
    this.ring = options.ring ?? Array.from({ length: options.ranks }, (_, rank) => rank);
    this.llSlot = options.llSlot ?? LL_SLOT;
    this.simpleSlot = options.simpleSlot ?? SIMPLE_SLOT;
    this.#channelBytes = 2 * CONTROL_BYTES + STEPS * (this.llSlot + this.simpleSlot);
    this.#bufferBytes = options.bufferBytes ?? BUFFER_BYTES;
    this.#channels = options.channels ?? 1;
    this.#threads = options.threads ?? 1;
    this.#options = options;
    this.#traits = options.traits ?? interpreterTraits({ threads: this.#threads > 1 ? 'many' : 'one' });
    for (let rank = 0; rank < this.ranks; rank++) {
      const name = options.direct === true ? 'control' : 'doorbell';
      const bytes =
        (options.direct === true ? ControlBlock.size : DOORBELL_BYTES) + (options.traceBytes ?? 0);
      this.#controls.push(this.machine.region(`${name} ${rank}`, bytes, rank, { zeroed: true }));
      const connections = options.direct === true ? 0 : this.#channels * this.#channelBytes;
      this.#segments.push(
        this.machine.region(`segment ${rank}`, connections + this.#bufferBytes, rank, { zeroed: true }),
      );
      this.#used.push(connections);
    }
    for (let rank = 0; rank < this.ranks; rank++) {
      this.#tables.push(
        this.machine.struct(PeerTable, rank, { control: this.#controls, segment: this.#segments }),
      );
      const order = this.machine.region(`order ${rank}`, 4 * this.ranks, rank, { zeroed: true });
      for (let k = 0; k < this.ranks; k++) this.machine.write('u32', order + 4 * k, this.#after(rank, k));
      this.#orders.push(order);
    }
  }

  /** The rank so many places behind another on the ring. */
  #after(rank: number, distance: number): number {
    return this.ring[(this.ring.indexOf(rank) + distance) % this.ranks]!;
  }

  /** Where a rank's own control structures of a ring channel are. */
  connection(rank: number, channel: number): { sender: number; receiver: number } {
    const base = this.#segments[rank]! + channel * this.#channelBytes;
    return { sender: base, receiver: base + CONTROL_BYTES };
  }

  /** Where the trace area of a rank begins. */
  traceOf(rank: number): number {
    return this.#controls[rank]! + (this.#options.direct === true ? ControlBlock.size : DOORBELL_BYTES);
  }

  /** Starts all connections at a step, as if so much had been sent before. */
  setSteps(step: bigint): void {
    for (let rank = 0; rank < this.ranks; rank++) {
      for (let channel = 0; channel < this.#channels; channel++) {
        const { sender, receiver } = this.connection(rank, channel);
        for (const field of ['head', 'step'] as const) {
          this.machine.write('u64', sender + SenderControl.fields[field].offset, step);
        }
        for (const field of ['tail', 'step'] as const) {
          this.machine.write('u64', receiver + ReceiverControl.fields[field].offset, step);
        }
      }
    }
  }

  #buffer(rank: number, bytes: number, unalign: number, guard = GUARD_BYTE): number {
    const start = Math.ceil(this.#used[rank]! / 16) * 16;
    const address = this.#segments[rank]! + start + GUARD + unalign;
    const end = start + GUARD + unalign + bytes + GUARD;
    const connections = this.#options.direct === true ? 0 : this.#channels * this.#channelBytes;
    if (end > connections + this.#bufferBytes) throw new Error('the segment is full');
    this.machine.writeArray(this.#segments[rank]! + start, new Uint8Array(end - start).fill(guard));
    this.#used[rank] = end;
    return address;
  }

  #program(call: SimulatedCall): Program {
    const { algorithm, protocol = 'Simple', collective, type, op } = call;
    const key = [
      algorithm,
      protocol,
      collective,
      type,
      op,
      this.ranks,
      this.#traits.name,
      this.#threads > 1,
    ].join();
    const variant =
      this.#options.lowLatency === undefined ? key : `${key},${JSON.stringify(this.#options.lowLatency)}`;
    let program = programs.get(variant);
    if (program === undefined) {
      const direct: DirectParameters = { collective, reduction: { type, op }, ranks: this.ranks };
      const extra = this.#options.lowLatency === undefined ? {} : { lowLatency: this.#options.lowLatency };
      program =
        algorithm === 'OneShot'
          ? oneShot(this.#traits, direct)
          : algorithm === 'TwoShot'
            ? twoShot(this.#traits, direct)
            : ring(this.#traits, { collective, protocol, reduction: { type, op }, ...extra });
      programs.set(variant, program);
    }
    return this.#options.mutate?.(program, call) ?? program;
  }

  #argument(call: SimulatedCall): bigint {
    const { type, op } = call;
    const n = this.ranks;
    switch (argumentRule({ type, op }, call.algorithm === 'Ring' ? 'step' : 'direct')) {
      case 'none':
        return 0n;
      case 'divisor':
        return BigInt(n);
      case 'scaleFloat32':
        return encode('float32', Math.fround(1 / n));
      default:
        return averageArgument(type, n);
    }
  }

  /** Elements of a whole chunk. */
  chunk(call: SimulatedCall): number {
    const steps = call.collective === 'broadcast' || call.collective === 'reduce' ? 1 : 4;
    const bytes = call.protocol === 'LL' ? this.llSlot / 2 : this.simpleSlot * steps;
    return bytes / ELEMENT_TYPES[call.type].size;
  }

  /** Shares of the channels: grains of 16 bytes, since the test's data are small. */
  shares(call: SimulatedCall): { offset: number; count: number }[] {
    const size = ELEMENT_TYPES[call.type].size;
    return channelShares(call.count, size, this.#channels, 'LL');
  }

  /** The ring chunk of an element of an all-reduce, from the schedule's own rules. */
  #chunkOf(call: SimulatedCall): (element: number) => number {
    const size = ELEMENT_TYPES[call.type].size;
    const n = this.ranks;
    return (element) => {
      const share = this.shares(call).find(({ offset, count }) => element < offset + count)!;
      let chunk = this.chunk(call);
      let at = element - share.offset;
      let left = share.count;
      while (at >= n * chunk) {
        at -= n * chunk;
        left -= n * chunk;
      }
      if (left < n * chunk) chunk = Math.ceil(Math.ceil(left / n) / (16 / size)) * (16 / size);
      return Math.floor(at / chunk);
    };
  }

  /** Queues one call on all ranks; the returned function compares the outcome after `machine.run()`. */
  launch(call: SimulatedCall, inputs: readonly Bits[], streams: readonly TeamStream[]): () => void {
    const { machine } = this;
    const size = ELEMENT_TYPES[call.type].size;
    const n = this.ranks;
    const { send: sends, recv: recvs } = bufferElements(call.collective, call.count, n);
    const program = this.#program(call);
    const unalign = (call.unalign ?? 0) * size;
    const places: Buffers[] = [];
    for (let rank = 0; rank < n; rank++) {
      let send: number;
      let recv: number;
      if (call.inPlace === true) {
        const whole = this.#buffer(rank, Math.max(sends, recvs) * size, unalign);
        send = whole + (call.collective === 'allGather' ? rank * call.count * size : 0);
        recv = whole + (call.collective === 'reduceScatter' ? rank * call.count * size : 0);
      } else {
        send = this.#buffer(rank, sends * size, unalign, SEND_GUARD_BYTE);
        recv = this.#buffer(rank, recvs * size, unalign);
      }
      places.push({ send, recv });
      inputs[rank]!.slice(0, sends).forEach((bits, i) => {
        machine.write(
          size === 1 ? 'u8' : size === 2 ? 'u16' : size === 4 ? 'u32' : 'u64',
          send + i * size,
          bits,
        );
      });
    }
    this.places = places;
    const results = places.map((_, rank) => {
      if (call.algorithm !== 'Ring')
        return this.#launchDirect(call, program, rank, places[rank]!, streams[rank]!);
      return [this.#launchRing(call, program, rank, places[rank]!, streams[rank]!)];
    });
    const order = call.algorithm === 'Ring' ? this.#chunkOf(call) : 'direct';
    return () => {
      const expected = reference({ ...call, order, ring: this.ring }, inputs);
      for (const launches of results) {
        for (const launch of launches) {
          if (launch.statuses.some((status) => status !== 0)) {
            throw new Error(`${launch.program} ended with statuses ${launch.statuses.join()}`);
          }
        }
      }
      for (let rank = 0; rank < n; rank++)
        this.#compare(call, rank, places[rank]!, expected[rank]!, inputs[rank]!);
    };
  }

  #compare(call: SimulatedCall, rank: number, place: Buffers, expected: Bits | null, input: Bits): void {
    const size = ELEMENT_TYPES[call.type].size;
    const memory = size === 1 ? 'u8' : size === 2 ? 'u16' : size === 4 ? 'u32' : 'u64';
    const { recv: recvs } = bufferElements(call.collective, call.count, this.ranks);
    const what = expected ?? (call.inPlace === true ? input.slice(0, recvs) : null);
    for (let i = 0; i < recvs; i++) {
      const found = BigInt(this.machine.read(memory, place.recv + i * size));
      const right = what === null ? BigInt(`0x${'a5'.repeat(size)}`) : what[i]!;
      if (!sameBits(call.type, found, right)) {
        throw new Error(
          `rank ${rank}, element ${i}: 0x${found.toString(16)} in place of 0x${right.toString(16)} (${JSON.stringify(call)})`,
        );
      }
    }
    for (const edge of [place.recv - 1, place.recv + recvs * size]) {
      const inside =
        call.inPlace === true && (call.collective === 'reduceScatter' || call.collective === 'allGather');
      if (!inside && this.machine.read('u8', edge) !== GUARD_BYTE) {
        throw new Error(
          `rank ${rank}: the byte at ${this.machine.describe(edge)} beside the buffer was changed`,
        );
      }
    }
  }

  #launchDirect(call: SimulatedCall, program: Program, rank: number, place: Buffers, stream: TeamStream) {
    const size = ELEMENT_TYPES[call.type].size;
    const piece = call.piece ?? Math.max(1, call.count);
    const staged = call.staged?.includes(rank) === true;
    const base = {
      peers: this.#tables[rank]!,
      control: this.#controls[rank]!,
      self: rank,
      root: call.root,
      signature: signatureOf(call.collective, call.type, call.op, call.root),
      staged: staged ? 1 : 0,
      count: call.count,
      piece,
      send: place.send,
      recv: place.recv,
      sendStride: call.count * size,
      recvStride: call.count * size,
      argument: this.#argument(call),
    };
    const launch = (start: number, limit: number) => {
      // The user's buffers serve as staging: element `start` lies where the descriptor says.
      const descriptor = this.machine.struct(DirectWork, rank, { ...base, start, limit, origin: 0 });
      return stream.launch(program, { descriptor, threads: this.#threads });
    };
    if (!staged) return [launch(0, call.count)];
    const pieces = Math.max(1, Math.ceil(call.count / piece));
    return Array.from({ length: pieces }, (_, i) => launch(i * piece, Math.min(call.count, (i + 1) * piece)));
  }

  #launchRing(call: SimulatedCall, program: Program, rank: number, place: Buffers, stream: TeamStream) {
    const { machine } = this;
    const size = ELEMENT_TYPES[call.type].size;
    const n = this.ranks;
    const next = this.#after(rank, 1);
    const prev = this.#after(rank, n - 1);
    const shares = this.shares(call);
    const descriptor = machine.region(`work ${rank}`, ringWorkBytes(shares.length), rank, { zeroed: true });
    const work = encodeRingWork(
      descriptor,
      {
        control: this.#controls[rank]!,
        rank,
        ranks: n,
        root: call.root,
        ...place,
        sendStride: call.count * size,
        recvStride: call.count * size,
        argument: this.#argument(call),
        llSlot: this.llSlot,
        simpleSlot: this.simpleSlot,
        chunk: this.chunk(call),
        place: { position: this.ring.indexOf(rank), prev, next },
      },
      shares.map((share, channel) => {
        const own = this.connection(rank, channel);
        return {
          ...share,
          sendControl: own.sender,
          recvControl: own.receiver,
          nextReceiver: this.connection(next, channel).receiver,
          prevSender: this.connection(prev, channel).sender,
          nextDoorbell: this.#controls[next]!,
          prevDoorbell: this.#controls[prev]!,
          order: this.#orders[rank]!,
        };
      }),
    );
    machine.writeArray(descriptor, work);
    return stream.launch(program, { descriptor, blocks: this.#channels, threads: this.#threads });
  }
}
