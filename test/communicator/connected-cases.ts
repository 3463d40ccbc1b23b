/**
 * One call of an algorithm with connections of its own on communicators of this process: buffers in the heap and
 * outside, in place, off alignment; compared bit for bit with an oracle, with equal bits at all ranks.
 */
import type { Buffer } from '#src/communicator/buffers.js';
import type { Communicator } from '#src/communicator/communicator.js';
import type { ElementType, ReduceOp } from '#src/kernel/element-types.js';
import { ELEMENT_TYPES } from '#src/kernel/element-types.js';
import { sameBits } from '#src/kernel/numeric.js';
import type { Bits } from '../collectives/reference.js';
import { elementView, randomBits, readBits, writeBits } from './element-bits.js';
import { random } from './random.js';

export interface ConnectedCase {
  readonly collective: 'allReduce' | 'allGather' | 'reduceScatter';
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly count: number;
  readonly inPlace: boolean;
  /** Elements by which buffers start off their memory. */
  readonly offset: number;
  /** Whether each rank's buffers lie in the heap. */
  readonly heap: readonly boolean[];
  readonly plain: boolean;
  readonly prepared: boolean;
  readonly seed: number;
}

/** What every rank must receive, from all inputs. */
export type Oracle = (call: ConnectedCase, inputs: readonly Bits[]) => readonly Bits[];

export async function runConnected(
  comms: readonly Communicator[],
  call: ConnectedCase,
  oracle: Oracle,
): Promise<void> {
  const { collective, type, op, count, inPlace, offset } = call;
  const { size } = ELEMENT_TYPES[type];
  const ranks = comms.length;
  const next = random(call.seed);
  const allocated: { comm: Communicator; array: Uint8Array }[] = [];
  const sendLength = collective === 'reduceScatter' ? count * ranks : count;
  const recvLength = collective === 'allGather' ? count * ranks : count;
  const sides = comms.map((comm, rank) => {
    const make = (length: number): Buffer => {
      const bytes = (length + 2 * offset + 1) * size;
      const memory = call.heap[rank] ? comm.alloc(Uint8Array, bytes) : new Uint8Array(bytes);
      if (call.heap[rank]) allocated.push({ comm, array: memory });
      return elementView(type, memory, offset, length);
    };
    if (!inPlace) return { send: make(sendLength), recv: make(recvLength) };
    const whole = make(Math.max(sendLength, recvLength));
    const block = whole.subarray(rank * count, (rank + 1) * count);
    return {
      send: collective === 'allGather' ? block : whole,
      recv: collective === 'reduceScatter' ? block : whole,
    };
  });
  try {
    const inputs = sides.map(({ send }) => randomBits(type, send.length, call.plain, next));
    sides.forEach(({ send }, rank) => {
      writeBits(send, inputs[rank]!);
    });
    await Promise.all(
      comms.map(async (comm, rank) => {
        const { send, recv } = sides[rank]!;
        const target = call.prepared ? comm.prepare : comm;
        const made =
          collective === 'allGather'
            ? target.allGather(send, recv, { type })
            : target[collective](send, recv, { type, op });
        if (!('start' in made)) return made;
        await made.start();
        if (!inPlace) await made.start();
        made.release();
      }),
    );
    const expected = oracle(call, inputs);
    sides.forEach(({ recv }, rank) => {
      const got = readBits(recv);
      const due = expected[rank]!;
      const wrong = got.findIndex((bits, i) => !sameBits(type, bits, due[i]!));
      if (wrong >= 0 || got.length !== due.length) {
        throw new Error(
          `rank ${rank}, element ${wrong}: 0x${got[wrong]?.toString(16)}, must be 0x${due[wrong]?.toString(16)}: ${JSON.stringify(call)}`,
        );
      }
      if (collective !== 'allReduce') return;
      const first = readBits(sides[0]!.recv);
      // Equal to the last bit, NaNs included.
      if (got.some((bits, i) => bits !== first[i])) {
        throw new Error(`ranks 0 and ${rank} have different bits: ${JSON.stringify(call)}`);
      }
    });
  } finally {
    for (const { comm, array } of allocated) comm.free(array);
  }
}
