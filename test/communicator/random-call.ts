/**
 * One random collective: drawn, run on communicators of this process, and compared bit for bit with the plain
 * reference. Memory around the receive buffers and send buffers of other calls must stay as they were.
 */
import fc from 'fast-check';
import type { RingCollective, RingProtocol } from '#src/collectives/ring.js';
import type { Buffer } from '#src/communicator/buffers.js';
import type { Collectives, Communicator } from '#src/communicator/communicator.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '#src/kernel/element-types.js';
import { sameBits } from '#src/kernel/numeric.js';
import { connectedSetting } from '#src/planning/connected-algorithms.js';
import { channelShares, type RingBuffers, ringChunkBytes } from '#src/planning/ring-plan.js';
import { patExpected } from '../collectives/pat-model.js';
import { type Bits, bufferElements, reference } from '../collectives/reference.js';
import { elementView, randomBits, readBits, writeBits } from './element-bits.js';
import { random } from './random.js';

/** How the communicators under test were made. */
export interface Setting {
  readonly ranks: number;
  readonly channels: number;
  readonly buffers: RingBuffers;
  /** The protocol when rings were asked for. */
  readonly ring?: RingProtocol;
  /** Bytes at which something changes: counts are drawn around them and around their multiples. */
  readonly borders: readonly number[];
  /** Elements of one rank's send buffer that a call may have at most. */
  readonly most: number;
}

export interface RandomCall {
  readonly collective: RingCollective;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly root: number;
  readonly count: number;
  readonly inPlace: boolean;
  /** Per rank: whether send and recv lie in the heap, and how many elements they start off their memory. */
  readonly places: readonly { send: boolean; recv: boolean; offset: number }[];
  readonly form: 'async' | 'start' | 'startTwice';
  /** Ranks without a part in one side pass null for it. */
  readonly nulls: boolean;
  readonly plain: boolean;
  readonly salt: number;
}

const COLLECTIVES: readonly RingCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
  'allToAll',
];

function counts(setting: Setting, type: ElementType, blocks: number): fc.Arbitrary<number> {
  const most = Math.floor(setting.most / blocks);
  const { size } = ELEMENT_TYPES[type];
  const around = fc
    .tuple(fc.constantFrom(...setting.borders), fc.constantFrom(1, 1, 2, 3), fc.integer({ min: -2, max: 2 }))
    .map(([bytes, times, delta]) => Math.max(0, Math.floor((bytes * times) / size / blocks) + delta))
    .map((count) => (count <= most ? count : 1 + (count % most)));
  return fc.oneof(
    { weight: 1, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 9 }) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: Math.min(most, 700) }) },
    { weight: 5, arbitrary: around },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: most }) },
  );
}

export function randomCall(setting: Setting): fc.Arbitrary<RandomCall> {
  const { ranks } = setting;
  const place = fc.record({ send: fc.boolean(), recv: fc.boolean(), offset: fc.integer({ min: 0, max: 5 }) });
  /** All in the heap, all outside, or each as it likes. */
  const places = fc.oneof(
    fc.array(
      place.map((one) => ({ ...one, send: true, recv: true })),
      { minLength: ranks, maxLength: ranks },
    ),
    fc.array(
      place.map((one) => ({ ...one, send: false, recv: false })),
      { minLength: ranks, maxLength: ranks },
    ),
    fc.array(place, { minLength: ranks, maxLength: ranks }),
  );
  return fc
    .tuple(fc.constantFrom(...COLLECTIVES), fc.constantFrom(...ELEMENT_TYPE_NAMES))
    .chain(([collective, type]: [RingCollective, ElementType]) =>
      fc.record({
        collective: fc.constant(collective),
        type: fc.constant(type),
        op: fc.constantFrom(...REDUCE_OP_NAMES),
        root: fc.integer({ min: 0, max: ranks - 1 }),
        count: counts(setting, type, ['reduceScatter', 'allToAll'].includes(collective) ? ranks : 1),
        inPlace: collective === 'allToAll' ? fc.constant(false) : fc.boolean(),
        places,
        form: fc.constantFrom('async', 'async', 'start', 'startTwice'),
        nulls: fc.boolean(),
        plain: fc.boolean(),
        salt: fc.nat(),
      }),
    );
}

/** The ring chunk of an element of an all-reduce, from the rules of the schedule. */
export function ringChunkOf(setting: Setting, call: RandomCall): (element: number) => number {
  const { ranks, channels, buffers } = setting;
  const protocol = setting.ring!;
  const { size } = ELEMENT_TYPES[call.type];
  const full = Math.max(1, Math.floor(ringChunkBytes('allReduce', protocol, buffers) / size));
  const shares = channelShares(call.count, size, channels, protocol);
  return (element) => {
    const share = shares.find(({ offset, count }) => element < offset + count)!;
    let at = element - share.offset;
    let left = share.count;
    while (at >= ranks * full) {
      at -= ranks * full;
      left -= ranks * full;
    }
    const grain = 16 / size;
    const chunk = left < ranks * full ? Math.ceil(Math.ceil(left / ranks) / grain) * grain : full;
    return Math.floor(at / chunk);
  };
}

/** A rank's buffers of one call, and the memory that they lie in. */
interface Side {
  readonly send: Buffer;
  readonly recv: Buffer;
  readonly memory: readonly Uint8Array[];
  free(): void;
}

/** What fills memory that nobody should touch. */
const GUARD = 0xa5;

function makeSide(comm: Communicator, setting: Setting, call: RandomCall): Side {
  const { type, count, inPlace, collective } = call;
  const { size } = ELEMENT_TYPES[type];
  const { ranks } = setting;
  const place = call.places[comm.rank]!;
  const elements = bufferElements(collective, count, ranks);
  const memory: Uint8Array[] = [];
  const allocated: Uint8Array[] = [];
  const make = (heap: boolean, length: number): Buffer => {
    const bytes = (length + 2 * place.offset + 1) * size;
    const made = heap ? comm.alloc(Uint8Array, bytes) : new Uint8Array(bytes);
    if (heap) allocated.push(made);
    made.fill(GUARD);
    memory.push(made);
    return elementView(type, made, place.offset, length);
  };
  let send: Buffer;
  let recv: Buffer;
  if (!inPlace) {
    send = make(place.send, elements.send);
    recv = make(place.recv, elements.recv);
  } else {
    const whole = make(place.recv, Math.max(elements.send, elements.recv));
    const block = whole.subarray(comm.rank * count, (comm.rank + 1) * count);
    send = collective === 'allGather' ? block : whole;
    recv = collective === 'reduceScatter' ? block : whole;
  }
  return {
    send,
    recv,
    memory,
    free: () => {
      for (const array of allocated) comm.free(array);
    },
  };
}

async function invoke(comm: Communicator, call: RandomCall, side: Side): Promise<void> {
  const { collective, type, op, root, nulls } = call;
  const away = nulls && comm.rank !== root && !call.inPlace;
  const submit = <R>(to: Collectives<unknown>): R => {
    switch (collective) {
      case 'allReduce':
        return to.allReduce(side.send, side.recv, { type, op }) as R;
      case 'reduce':
        return to.reduce(side.send, away ? null : side.recv, { type, op, root }) as R;
      case 'broadcast':
        if (call.inPlace) return to.broadcast(side.recv, { type, root }) as R;
        return to.broadcast(away ? null : side.send, side.recv, { type, root }) as R;
      case 'allGather':
        return to.allGather(side.send, side.recv, { type }) as R;
      case 'reduceScatter':
        return to.reduceScatter(side.send, side.recv, { type, op }) as R;
      case 'allToAll':
        return to.allToAll(side.send, side.recv, { type }) as R;
    }
  };
  if (call.form === 'async') return submit<Promise<void>>(comm);
  const prepared = submit<ReturnType<Communicator['prepare']['allReduce']>>(comm.prepare);
  try {
    await prepared.start();
    // Out of place, doing it again changes nothing.
    if (call.form === 'startTwice' && !call.inPlace) await prepared.start();
  } finally {
    prepared.release();
  }
}

function describeCall(setting: Setting, call: RandomCall): string {
  return JSON.stringify({ ...call, ranks: setting.ranks, channels: setting.channels, ring: setting.ring });
}

/** What every rank must receive, in the order of operands of the algorithm that the communicator names. */
function expectedOf(
  comms: readonly Communicator[],
  setting: Setting,
  call: RandomCall,
  sides: readonly Side[],
  inputs: readonly Bits[],
): readonly (Bits | null)[] {
  const { type, op, root, collective, count } = call;
  const { ranks, channels, buffers } = setting;
  if (ranks === 1) return [inputs[0]!];
  if (collective === 'reduce' || collective === 'allReduce' || collective === 'reduceScatter') {
    const { send, recv } = sides[root]!;
    const options = collective === 'reduce' ? { type, op, root } : { type, op };
    const probe = comms[root]!.prepare[collective](send, recv, options);
    const [algorithm] = probe.explanation.split(/[ :]/);
    probe.release();
    switch (algorithm) {
      case 'Ring':
        return reference({ collective, type, op, root, count, order: ringChunkOf(setting, call) }, inputs);
      case 'PAT': {
        const limits = { ranks, ranksPerNode: undefined, channels, ...buffers };
        const pat = { collective: 'reduceScatter', type, op, count } as const;
        return patExpected(connectedSetting('PAT', 'Simple', limits), pat, inputs);
      }
      case 'OneShot':
      case 'TwoShot':
        break;
      default:
        throw new Error(`no reference for ${algorithm}`);
    }
  }
  return reference({ collective, type, op, root, count, order: 'direct' }, inputs);
}

/** Runs the call on all ranks and throws at the first difference. */
export async function runCall(
  comms: readonly Communicator[],
  setting: Setting,
  call: RandomCall,
): Promise<void> {
  const { type, inPlace } = call;
  const next = random(call.salt);
  const sides = comms.map((comm) => makeSide(comm, setting, call));
  try {
    const inputs = sides.map(({ send }) => randomBits(type, send.length, call.plain, next));
    sides.forEach(({ send }, rank) => {
      writeBits(send, inputs[rank]!);
    });
    const before = sides.map(({ memory }) => memory.map((bytes) => bytes.slice()));
    await Promise.all(comms.map((comm, rank) => invoke(comm, call, sides[rank]!)));

    const expected = expectedOf(comms, setting, call, sides, inputs);
    expected.forEach((bits, rank) => {
      const { recv, memory } = sides[rank]!;
      if (bits !== null) {
        const got = readBits(recv);
        for (let i = 0; i < got.length; i++) {
          if (sameBits(type, got[i]!, bits[i]!)) continue;
          throw new Error(
            `rank ${rank}, element ${i}: 0x${got[i]!.toString(16)}, must be 0x${bits[i]!.toString(16)}: ${describeCall(setting, call)}`,
          );
        }
      }
      // Everything but the result is as it was; a rank without a result finds its receive buffer untouched.
      memory.forEach((bytes, which) => {
        const due = before[rank]![which]!;
        const from = recv.byteOffset - bytes.byteOffset;
        if (bits !== null && recv.buffer === bytes.buffer && from >= 0 && from < bytes.length) {
          due.set(new Uint8Array(recv.buffer, recv.byteOffset, recv.byteLength), from);
        }
        const at = bytes.findIndex((byte, i) => byte !== due[i]);
        if (at < 0) return;
        const name = which === 0 && !inPlace ? 'send' : 'recv';
        throw new Error(
          `rank ${rank}: byte ${at} of the memory around ${name} was changed: ${describeCall(setting, call)}`,
        );
      });
    });
  } finally {
    for (const side of sides) side.free();
  }
}
