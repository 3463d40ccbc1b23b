/**
 * 16-byte packets and the operations on their lanes, by the rules of numeric.ts.
 *
 * A packet is four 32-bit words, immutable. Lane operations go through one scratch area that is seen as
 * arrays of every element width.
 */

import { ELEMENT_TYPES, type ElementType, type StepOp } from '../element-types.js';
import {
  divideBits,
  isWide,
  type NarrowFloat,
  narrowBits,
  reduceBits,
  reduceNumber,
  widenBits,
} from '../numeric.js';

/** Four 32-bit words (signed), word 0 at the lowest address. */
export class Packet {
  constructor(
    readonly a: number,
    readonly b: number,
    readonly c: number,
    readonly d: number,
  ) {}
}

export const ZERO_PACKET = new Packet(0, 0, 0, 0);

/** Three packets wide: two operands and the result. */
const scratch = new ArrayBuffer(48);
const I32 = new Int32Array(scratch);
const U64 = new BigUint64Array(scratch);
const LANES = {
  1: new Uint8Array(scratch),
  2: new Uint16Array(scratch),
  4: new Uint32Array(scratch),
  8: U64,
} as const;
const F32 = new Float32Array(scratch);

/** Puts a packet into third `index` of the scratch area. */
function put(index: 0 | 1, packet: Packet): void {
  const at = index * 4;
  I32[at] = packet.a;
  I32[at + 1] = packet.b;
  I32[at + 2] = packet.c;
  I32[at + 3] = packet.d;
}

function result(): Packet {
  return new Packet(I32[8]!, I32[9]!, I32[10]!, I32[11]!);
}

export function makePacket(low: bigint, high: bigint): Packet {
  U64[4] = low;
  U64[5] = high;
  return result();
}

export function packetHalf(packet: Packet, half: 0 | 1): bigint {
  put(0, packet);
  return U64[half]!;
}

export function packetAt(view: DataView, at: number): Packet {
  return new Packet(
    view.getInt32(at, true),
    view.getInt32(at + 4, true),
    view.getInt32(at + 8, true),
    view.getInt32(at + 12, true),
  );
}

export function setPacketAt(view: DataView, at: number, packet: Packet): void {
  view.setInt32(at, packet.a, true);
  view.setInt32(at + 4, packet.b, true);
  view.setInt32(at + 8, packet.c, true);
  view.setInt32(at + 12, packet.d, true);
}

/** The first `bytes` bytes at an offset, the rest zero. */
export function packetPartAt(view: DataView, at: number, bytes: number): Packet {
  const lanes = LANES[1];
  for (let i = 0; i < 16; i++) lanes[32 + i] = i < bytes ? view.getUint8(at + i) : 0;
  return result();
}

export function setPacketPartAt(view: DataView, at: number, packet: Packet, bytes: number): void {
  put(0, packet);
  for (let i = 0; i < bytes; i++) view.setUint8(at + i, LANES[1][i]!);
}

export function packetAnd(x: Packet, y: Packet): Packet {
  return new Packet(x.a & y.a, x.b & y.b, x.c & y.c, x.d & y.d);
}

export function packetOr(x: Packet, y: Packet): Packet {
  return new Packet(x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d);
}

export function packetXor(x: Packet, y: Packet): Packet {
  return new Packet(x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d);
}

export function packetNot(x: Packet): Packet {
  return new Packet(~x.a, ~x.b, ~x.c, ~x.d);
}

/** The low bits of an element repeated in every lane. */
export function splat(type: ElementType, bits: bigint): Packet {
  const { size } = ELEMENT_TYPES[type];
  if (size === 8) return makePacket(bits, bits);
  const lanes = LANES[size];
  const value = Number(BigInt.asUintN(32, bits));
  const first = 32 / size;
  for (let i = 0; i < 16 / size; i++) lanes[first + i] = value;
  return result();
}

/** Lane by lane `step(x, y)`, rounded to the type. */
export function reduceLanes(type: ElementType, step: StepOp, x: Packet, y: Packet): Packet {
  put(0, x);
  put(1, y);
  if (isWide(type) || type === 'float64') {
    for (let i = 0; i < 2; i++) U64[4 + i] = reduceBits(type, step, U64[i]!, U64[2 + i]!);
    return result();
  }
  if (type === 'float32' && (step === 'sum' || step === 'prod')) {
    for (let i = 0; i < 4; i++) F32[8 + i] = step === 'sum' ? F32[i]! + F32[4 + i]! : F32[i]! * F32[4 + i]!;
    return result();
  }
  const size = ELEMENT_TYPES[type].size as 1 | 2 | 4;
  const lanes = LANES[size];
  const count = 16 / size;
  for (let i = 0; i < count; i++) {
    lanes[2 * count + i] = reduceNumber(type, step, lanes[i]!, lanes[count + i]!);
  }
  return result();
}

/** Lanes 4 part .. 4 part + 3 of a narrow float type, as float32. */
export function widenLanes(type: NarrowFloat, packet: Packet, part: number): Packet {
  put(0, packet);
  const lanes = LANES[ELEMENT_TYPES[type].size as 1 | 2];
  for (let i = 0; i < 4; i++) LANES[4][8 + i] = widenBits(type, lanes[4 * part + i]!);
  return result();
}

/** Packets of float32, one per part, rounded to one packet of a narrow float type. */
export function narrowLanes(type: NarrowFloat, parts: readonly Packet[]): Packet {
  const size = ELEMENT_TYPES[type].size as 1 | 2;
  const lanes = LANES[size];
  parts.forEach((packet, part) => {
    put(0, packet);
    for (let i = 0; i < 4; i++) lanes[32 / size + 4 * part + i] = narrowBits(type, LANES[4][i]!);
  });
  return result();
}

/** Packets of a multicast load, collected one by one; programs are compiled to code that has no lists of its own. */
export const replicas: Packet[] = [];

/** What a switch makes of the packets at all replicas: sums of 16-bit floats in float32, rounded once. */
export function reduceReplicas(type: ElementType, step: StepOp, packets: readonly Packet[]): Packet {
  if (step !== 'sum' || (type !== 'float16' && type !== 'bfloat16')) {
    return packets.reduce((sum, packet) => reduceLanes(type, step, sum, packet));
  }
  const parts = [0, 1].map((part) =>
    packets
      .map((packet) => widenLanes(type, packet, part))
      .reduce((sum, packet) => reduceLanes('float32', 'sum', sum, packet)),
  );
  return narrowLanes(type, parts);
}

/** Integer lanes divided by a positive number, truncating toward zero. */
export function divideLanes(type: ElementType, packet: Packet, divisor: bigint): Packet {
  put(0, packet);
  const { size } = ELEMENT_TYPES[type];
  const count = 16 / size;
  if (size === 8) {
    for (let i = 0; i < 2; i++) U64[4 + i] = divideBits(type, U64[i]!, divisor);
    return result();
  }
  const lanes = LANES[size];
  for (let i = 0; i < count; i++) {
    lanes[2 * count + i] = Number(divideBits(type, BigInt(lanes[i]!), divisor));
  }
  return result();
}

/** A packet with the 8-byte half at `half` (0 or 8) taken from an offset of a view. */
export function withHalf(packet: Packet, half: number, view: DataView, at: number): Packet {
  const low = view.getInt32(at, true);
  const high = view.getInt32(at + 4, true);
  return half === 0 ? new Packet(low, high, packet.c, packet.d) : new Packet(packet.a, packet.b, low, high);
}

/** Stores the 8-byte half at `half` (0 or 8) of a packet. */
export function setHalfAt(view: DataView, at: number, packet: Packet, half: number): void {
  view.setInt32(at, half === 0 ? packet.a : packet.c, true);
  view.setInt32(at + 4, half === 0 ? packet.b : packet.d, true);
}
