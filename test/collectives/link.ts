/**
 * Two ranks joined by one connection each way, and small programs that send or receive a list of pieces over it:
 * what the protocols do, without an algorithm on top.
 */

import { stepArithmetic } from '#src/collectives/arithmetic.js';
import { Primitives } from '#src/collectives/primitives.js';
import { type LowLatencyOptions, LowLatencyProtocol } from '#src/collectives/protocol-ll.js';
import { SimpleProtocol, type SimpleShape } from '#src/collectives/protocol-simple.js';
import {
  CONTROL_BYTES,
  ReceiverControl,
  RingChannel,
  RingWork,
  ringEnds,
  SenderControl,
  STEPS,
} from '#src/collectives/ring-connection.js';
import { type KernelBuilder, kernel, type Value } from '#src/kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import type { Launch } from '#src/kernel/interpreter/machine.js';
import { MEMORY_BYTES, type MemoryType, type Program, type Traits } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import type { TeamMachine, TeamStream } from './simulated-team.js';

const FOUR_STEPS: SimpleShape = { stepsPerChunk: 4, stepsPerSlice: 2 };

/** Behind the ring's descriptor: the pieces of this program. */
const Script = struct('Script', { pieces: 'ptr', calls: 'u64', data: 'ptr', output: 'ptr' });
const Piece = struct('Piece', { offset: 'u64', elements: 'u64' });

export type Direction = 'send' | 'recv' | 'recvReduceCopy';

export interface DriverOptions {
  readonly direction: Direction;
  readonly protocol: 'LL' | 'Simple';
  readonly type?: ElementType;
  readonly lowLatency?: LowLatencyOptions;
  readonly shape?: SimpleShape;
  /** Runs when the protocol is set up, before the first piece. */
  readonly before?: (k: KernelBuilder, channel: Value<'ptr'>) => void;
}

/** A program that does one kind of primitive call for every piece of its script. */
export function driver(traits: Traits, options: DriverOptions): Program {
  const { direction, protocol, type = 'uint8', lowLatency, shape = FOUR_STEPS } = options;
  return kernel(`${direction}_${protocol}`, traits, (k, work) => {
    const channel = k.field(work, RingWork, 'channels');
    const arithmetic = stepArithmetic(k, { type, op: 'sum' }, () => k.u64(0));
    const ends = ringEnds(k, work, channel, protocol);
    const primitives = new Primitives(
      protocol === 'LL'
        ? new LowLatencyProtocol(k, ends, type, arithmetic, lowLatency)
        : new SimpleProtocol(k, ends, type, arithmetic, shape),
    );
    options.before?.(k, channel);
    const script = work.offset(RingWork.size);
    const pieces = k.field(script, Script, 'pieces');
    const data = k.field(script, Script, 'data');
    const output = k.field(script, Script, 'output');
    k.for(k.u64(0), k.field(script, Script, 'calls'), 1, (i) => {
      const piece = pieces.offset(i.mul(Piece.size));
      const offset = k.field(piece, Piece, 'offset');
      const elements = k.field(piece, Piece, 'elements');
      if (direction === 'send') primitives.send(data.offset(offset), elements);
      else if (direction === 'recv') primitives.recv(output.offset(offset), elements);
      else primitives.recvReduceCopy(data.offset(offset), output.offset(offset), elements, true);
    });
    primitives.close();
  });
}

export interface LinkOptions {
  readonly llSlot?: number;
  readonly simpleSlot?: number;
}

export interface Work {
  readonly program: Program;
  /** Elements of each call. */
  readonly calls: readonly number[];
  readonly type?: ElementType;
  /** Where the pieces lie, one behind the other. */
  readonly data?: number;
  readonly output?: number;
}

/** Memory of two ranks; rank 0's successor and predecessor is rank 1, and the other way round. */
export class Link<M extends TeamMachine> {
  readonly llSlot: number;
  readonly simpleSlot: number;
  readonly #senders: number[] = [];
  readonly #receivers: number[] = [];
  readonly #doorbells: number[] = [];
  readonly #streams: TeamStream[] = [];

  constructor(
    readonly machine: M,
    { llSlot = 64, simpleSlot = 64 }: LinkOptions = {},
  ) {
    this.llSlot = llSlot;
    this.simpleSlot = simpleSlot;
    const buffers = STEPS * (llSlot + simpleSlot);
    for (const rank of [0, 1]) {
      this.#senders.push(machine.region(`sender ${rank}`, CONTROL_BYTES, rank, { zeroed: true }));
      const bytes = CONTROL_BYTES + buffers;
      this.#receivers.push(machine.region(`receiver ${rank}`, bytes, rank, { zeroed: true }));
      this.#doorbells.push(machine.region(`doorbell ${rank}`, 64, rank, { zeroed: true }));
      this.#streams.push(machine.stream(rank));
    }
  }

  #fill(
    address: number,
    fields: Readonly<Record<string, { offset: number; type: MemoryType }>>,
    values: object,
  ) {
    for (const [name, value] of Object.entries(values)) {
      this.machine.write(fields[name]!.type, address + fields[name]!.offset, value);
    }
  }

  /** Queues a program of rank 0 (the sender of the tests) or 1 (the receiver). */
  launch(rank: 0 | 1, { program, calls, type = 'uint8', data = 0, output = 0 }: Work): Launch {
    const { machine } = this;
    const peer = 1 - rank;
    const region = (name: string, bytes: number) =>
      machine.region(`${name} ${rank}`, bytes, rank, { zeroed: true });
    const channel = region('channel', RingChannel.size);
    this.#fill(channel, RingChannel.fields, {
      sendControl: this.#senders[rank]!,
      recvControl: this.#receivers[rank]!,
      nextReceiver: this.#receivers[peer]!,
      prevSender: this.#senders[peer]!,
      nextDoorbell: this.#doorbells[peer]!,
      prevDoorbell: this.#doorbells[peer]!,
    });
    const pieces = region('pieces', Math.max(1, calls.length) * Piece.size);
    let offset = 0;
    calls.forEach((elements, i) => {
      this.#fill(pieces + i * Piece.size, Piece.fields, { offset, elements });
      offset += elements * ELEMENT_TYPES[type].size;
    });
    const descriptor = region('work', RingWork.size + Script.size);
    this.#fill(descriptor, RingWork.fields, {
      control: this.#doorbells[rank]!,
      channels: channel,
      llSlot: this.llSlot,
      simpleSlot: this.simpleSlot,
      llOffset: CONTROL_BYTES,
      simpleOffset: CONTROL_BYTES + STEPS * this.llSlot,
    });
    this.#fill(descriptor + RingWork.size, Script.fields, { pieces, calls: calls.length, data, output });
    return this.#streams[rank]!.launch(program, { descriptor });
  }

  /** Address of the LL or Simple slot that a step from rank 0 to rank 1 uses. */
  slot(protocol: 'LL' | 'Simple', step: number): number {
    const base = this.#receivers[1]! + CONTROL_BYTES;
    return protocol === 'LL'
      ? base + (step % STEPS) * this.llSlot
      : base + STEPS * this.llSlot + (step % STEPS) * this.simpleSlot;
  }

  /** Addresses of the counters of the connection from rank 0 to rank 1. */
  counter(name: 'head' | 'sent' | 'tail' | 'received'): number {
    const sender = name === 'head' || name === 'sent';
    const field = name === 'sent' || name === 'received' ? 'step' : name;
    return sender
      ? this.#senders[0]! + SenderControl.fields[field as 'head' | 'step'].offset
      : this.#receivers[1]! + ReceiverControl.fields[field as 'tail' | 'step'].offset;
  }

  read(name: 'head' | 'sent' | 'tail' | 'received'): number {
    return Number(this.machine.read('u64', this.counter(name)));
  }

  /** Both sides as if so many steps had been sent and consumed. */
  setSteps(step: bigint): void {
    for (const name of ['head', 'sent', 'tail', 'received'] as const) {
      this.machine.write('u64', this.counter(name), step);
    }
  }

  /** What a Simple sender wrote about the slice that began at a step: its bytes, or undefined. */
  sliceBytes(step: number): number | undefined {
    const { offset, type } = ReceiverControl.fields.size;
    const cell = this.#receivers[1]! + offset + (step % STEPS) * MEMORY_BYTES[type];
    const bits = BigInt(this.machine.read('u64', cell));
    return Number(bits >> 32n) === step + 1 ? Number(bits & 0xffffffffn) : undefined;
  }
}
