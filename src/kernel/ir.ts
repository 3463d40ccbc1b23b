/**
 * The intermediate representation of device programs.
 *
 * A program is a tree of statements over typed registers (each written once) and variables (written often).
 * Control is structured (if, loop with break/continue), because both WebAssembly and our interpreter want it
 * so and PTX does not mind. Memory operations carry width, order and scope, since the three targets differ
 * exactly there: PTX spells them out, Wasm has plain and sequentially consistent accesses, and the
 * interpreter checks that the weaker ones are used rightly. Arithmetic on 16-byte packets of elements is one
 * operation each (`pk.reduce`, `pk.widen`, ...), so that every target can use its best instructions and the
 * rules of rounding stand in one place (numeric.ts).
 */

import type { ElementType, StepOp } from './element-types.js';

/**
 * Types of run-time values. `ptr` is an address: 64 bits on a GPU and in struct layouts, 32 bits in Wasm.
 * `packet` is 16 bytes of elements (v4.b32 in PTX, v128 in Wasm). `pred` is a truth value.
 */
export type ValueType = 'pred' | 'i32' | 'u32' | 'i64' | 'u64' | 'f32' | 'f64' | 'ptr' | 'packet';

/** Types of memory cells. A `ptr` cell always takes 8 bytes. Narrow integers extend to i32 or u32. */
export type MemoryType =
  | 'i8'
  | 'u8'
  | 'i16'
  | 'u16'
  | 'i32'
  | 'u32'
  | 'i64'
  | 'u64'
  | 'f32'
  | 'f64'
  | 'ptr'
  | 'packet';

export const MEMORY_BYTES: Readonly<Record<MemoryType, number>> = {
  i8: 1,
  u8: 1,
  i16: 2,
  u16: 2,
  i32: 4,
  u32: 4,
  i64: 8,
  u64: 8,
  f32: 4,
  f64: 8,
  ptr: 8,
  packet: 16,
};

/** The value type that a memory cell is loaded into and stored from. */
export function valueTypeOf(memory: MemoryType): ValueType {
  switch (memory) {
    case 'i8':
    case 'i16':
      return 'i32';
    case 'u8':
    case 'u16':
      return 'u32';
    default:
      return memory;
  }
}

/**
 * Memory order of an access.
 * - `weak`: ordinary data; may tear, may be reordered, may only be read after a synchronising flag.
 * - `relaxed`: aligned, up to 8 bytes, seen whole or not at all (an LL word), but ordered with nothing else.
 * - `acquire` (loads), `release` (stores): flags. What was written before the release is seen after the acquire.
 * - `volatile`: relaxed, and never served from a stale cache (PTX); used where the field's protocols say so.
 */
export type Order = 'weak' | 'relaxed' | 'acquire' | 'release' | 'volatile';

/** Who must agree on the order: threads of the block, of the device, or of every device and the host. */
export type Scope = 'block' | 'device' | 'system';

/** A cache hint; `stream` means that the line will not be used again soon. Targets may ignore it. */
export type CacheHint = 'none' | 'stream';

/** Where in the TypeScript source a node was made, `file:line:column`; empty when not recorded. */
export type Place = string;

export interface Register {
  readonly kind: 'register';
  readonly id: number;
  readonly type: ValueType;
}

export interface Constant {
  readonly kind: 'constant';
  readonly type: ValueType;
  /** 64-bit integers as bigint, everything else as number (`pred`: 0 or 1, `ptr`: number). */
  readonly value: number | bigint;
}

export type Operand = Register | Constant;

/** Two operands of one type, result of the same type (`shl`, `shr`: the second operand is u32). */
export type BinaryOp =
  | 'add'
  | 'sub'
  | 'mul'
  /** High half of the product, integers only. */
  | 'mulHi'
  /** Integers truncate toward zero; the divisor must not be 0. */
  | 'div'
  | 'rem'
  /** Floats: the smaller; a NaN loses against a number (C's fmin). */
  | 'min'
  | 'max'
  /** Integers, `pred` and `packet`. */
  | 'and'
  | 'or'
  | 'xor'
  | 'shl'
  /** Arithmetic on signed, logical on unsigned types. */
  | 'shr';

/** Two operands of one type (not `packet`), result `pred`. */
export type CompareOp = 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge';

export type UnaryOp = 'neg' | 'not' | 'clz' | 'ctz' | 'popcnt' | 'abs';

/** Identity of the running thread; type u32. In a single-thread target the first and third are 0 and 1. */
export type IdentityOp = 'threadIndex' | 'blockIndex' | 'threadCount' | 'blockCount';

/** Operations without side effects. */
export type Pure =
  | { readonly op: BinaryOp | CompareOp | UnaryOp | IdentityOp; readonly args: readonly Operand[] }
  /** Value conversion to the type of the destination: integers truncate or extend, float to integer saturates. */
  | { readonly op: 'cast'; readonly args: readonly Operand[] }
  /** Same bits: f32 with u32/i32, f64 with u64/i64, i32 with u32, i64 with u64. */
  | { readonly op: 'bitcast'; readonly args: readonly Operand[] }
  /** (pred, a, b): a where true. Any type; both sides are evaluated. */
  | { readonly op: 'select'; readonly args: readonly Operand[] }
  /** (ptr, u32 | i32 | u64 bytes): address arithmetic. */
  | { readonly op: 'offset'; readonly args: readonly Operand[] }
  /** (u64 low, u64 high) to packet; byte 0 of the packet is the lowest byte of low. */
  | { readonly op: 'pk.make'; readonly args: readonly Operand[] }
  /** (packet) to u64: half 0 is the low one. */
  | { readonly op: 'pk.half'; readonly args: readonly Operand[]; readonly half: 0 | 1 }
  /** (u64 element bits) to packet: the low bits repeated in every lane. */
  | { readonly op: 'pk.splat'; readonly args: readonly Operand[]; readonly type: ElementType }
  /** (a, b): lane by lane, rounded to the element type (the step rule of ordinary kernels). */
  | {
      readonly op: 'pk.reduce';
      readonly args: readonly Operand[];
      readonly type: ElementType;
      readonly step: StepOp;
    }
  /** (packet of float16, bfloat16, float8*) to packet of float32: part p holds lanes 4p .. 4p+3. Exact. */
  | {
      readonly op: 'pk.widen';
      readonly args: readonly Operand[];
      readonly type: ElementType;
      readonly part: number;
    }
  /** (packets of float32, one per part) to one packet of the narrow type, rounded to nearest even. */
  | { readonly op: 'pk.narrow'; readonly args: readonly Operand[]; readonly type: ElementType }
  /** (packet of integers, u64 divisor > 0): each lane divided, truncating toward zero. */
  | { readonly op: 'pk.divide'; readonly args: readonly Operand[]; readonly type: ElementType };

export type AtomicOp = 'add' | 'and' | 'or' | 'xor' | 'exchange' | 'max' | 'min';

interface Located {
  readonly place: Place;
}

export type Statement =
  | (Located & { readonly kind: 'let'; readonly target: Register; readonly value: Pure })
  /** Declares or assigns a variable (a register that may be written again). */
  | (Located & { readonly kind: 'assign'; readonly target: Register; readonly value: Operand })
  | (Located & {
      readonly kind: 'load';
      readonly target: Register;
      readonly memory: MemoryType;
      readonly address: Operand;
      /** Constant bytes added to the address. */
      readonly offset: number;
      readonly order: Order;
      readonly scope: Scope;
      readonly cache: CacheHint;
      /** Guaranteed alignment of address + offset in bytes. */
      readonly align: number;
    })
  | (Located & {
      readonly kind: 'store';
      readonly memory: MemoryType;
      readonly address: Operand;
      readonly offset: number;
      readonly value: Operand;
      readonly order: Order;
      readonly scope: Scope;
      readonly cache: CacheHint;
      readonly align: number;
    })
  /** Packet from the first `bytes` (u32, 0..16) at the address, the rest zero; weak; element-aligned only. */
  | (Located & {
      readonly kind: 'loadPart';
      readonly target: Register;
      readonly address: Operand;
      readonly bytes: Operand;
      readonly align: number;
    })
  | (Located & {
      readonly kind: 'storePart';
      readonly address: Operand;
      readonly value: Operand;
      readonly bytes: Operand;
      readonly align: number;
    })
  /** Moves `bytes` (u64) by the calling thread alone; weak; regions must not overlap. */
  | (Located & {
      readonly kind: 'copy';
      readonly to: Operand;
      readonly from: Operand;
      readonly bytes: Operand;
    })
  /** Read-modify-write of a u32 or u64 cell; result is the old value; acquire and release. */
  | (Located & {
      readonly kind: 'atomic';
      readonly target: Register;
      readonly operation: AtomicOp;
      readonly memory: 'u32' | 'u64';
      readonly address: Operand;
      readonly offset: number;
      readonly value: Operand;
      readonly scope: Scope;
    })
  /** Stores `value` when the cell holds `expected`; result is the old value; acquire and release. */
  | (Located & {
      readonly kind: 'compareExchange';
      readonly target: Register;
      readonly memory: 'u32' | 'u64';
      readonly address: Operand;
      readonly offset: number;
      readonly expected: Operand;
      readonly value: Operand;
      readonly scope: Scope;
    })
  | (Located & {
      readonly kind: 'fence';
      /** `aliases`: also between accesses through different addresses of the same memory (multicast). */
      readonly order: 'acquire' | 'release' | 'both' | 'aliases';
      readonly scope: Scope;
    })
  /** Named barrier over `threads` threads of the block (all of them when absent). */
  | (Located & { readonly kind: 'barrier'; readonly id: number; readonly threads?: Operand })
  /** All lanes of the warp meet here, and see what each of them has done before. */
  | (Located & { readonly kind: 'warpBarrier' })
  | (Located & {
      readonly kind: 'if';
      readonly condition: Operand;
      readonly taken: readonly Statement[];
      readonly otherwise: readonly Statement[];
    })
  /** Repeats body then step until a break. `continue` goes to the step. */
  | (Located & {
      readonly kind: 'loop';
      readonly id: number;
      readonly body: readonly Statement[];
      readonly step: readonly Statement[];
    })
  | (Located & { readonly kind: 'break'; readonly loop: number })
  | (Located & { readonly kind: 'continue'; readonly loop: number })
  /**
   * Repeats `poll` until `condition` holds, giving way to others meanwhile. Ends the program with status
   * `ABORTED` when the communicator is aborted. `poll` holds loads and pure operations only.
   */
  | (Located & {
      readonly kind: 'wait';
      readonly id: number;
      readonly poll: readonly Statement[];
      readonly condition: Operand;
    })
  /**
   * Order of launches of one stream (GPUs of capability 9.0 and up, where the launch asks for it; nothing elsewhere).
   * `await`: the launch before is over and its stores are visible. A program that has such a statement may begin before
   * that, and must not touch memory but its descriptor until then. `release`: the next launch may begin.
   */
  | (Located & { readonly kind: 'launchOrder'; readonly mode: 'await' | 'release' })
  /**
   * Multicast addresses (GPUs of capability 9.0 and up whose memory a switch joins): an address stands for one replica in
   * the memory of each GPU of a group. No other statement may use such an address.
   *
   * The packets of all replicas, combined by the switch in no particular order; sums of 16-bit floats are rounded once.
   * Relaxed, system scope.
   */
  | (Located & {
      readonly kind: 'multicastLoad';
      readonly target: Register;
      readonly address: Operand;
      readonly type: ElementType;
      readonly step: StepOp;
    })
  /** The packet to all replicas. Relaxed, system scope. */
  | (Located & { readonly kind: 'multicastStore'; readonly address: Operand; readonly value: Operand })
  /** Adds a u32 to every replica. Release, system scope. */
  | (Located & { readonly kind: 'multicastAdd'; readonly address: Operand; readonly value: Operand })
  /** Wakes whoever sleeps on the doorbell at the address (host only; nothing on a GPU). */
  | (Located & { readonly kind: 'wake'; readonly address: Operand })
  /** Exchange within a warp of 32 threads: value of lane `lane` (u32). A single-thread target returns the value. */
  | (Located & {
      readonly kind: 'shuffle';
      readonly target: Register;
      readonly value: Operand;
      readonly lane: Operand;
    })
  /**
   * Stores of all lanes of a warp together, 16 bytes each: eight lanes that follow each other, from a multiple of 8 on,
   * write one line of 128 bytes, where `active` holds (for all eight or none). A line arrives whole: who loads the last
   * 8 bytes of it from the memory of a GPU and finds them there finds the others with later loads. That is so on NVIDIA
   * GPUs whose stores go over NVLink, or stay on the GPU. Volatile; a target of single threads has no such stores.
   */
  | (Located & {
      readonly kind: 'storeLine';
      /** Where this lane's 16 bytes go; the first lane's address is a multiple of 128. */
      readonly address: Operand;
      readonly value: Operand;
      readonly active: Operand;
    })
  /** True when the condition holds for any / all lanes of the warp. */
  | (Located & {
      readonly kind: 'vote';
      readonly target: Register;
      readonly mode: 'any' | 'all';
      readonly value: Operand;
    })
  /** Ends the calling thread's program with a status (u32; 0 = done). */
  | (Located & { readonly kind: 'return'; readonly status: Operand });

/** Statuses that a program may end with. Values from 16 up belong to the program. */
export const STATUS = {
  done: 0,
  /** The abort word of the communicator was set, or the time limit passed, while waiting. */
  aborted: 1,
  /** Only from a resumable Wasm build: a wait is not satisfied yet; call again to go on. */
  blocked: 2,
} as const;

/** What a target can do; programs are generated for one set of traits. */
export interface Traits {
  readonly name: 'wasm' | 'ptx' | 'interpreter';
  /** A block is one thread: threadIndex is the constant 0 and barriers vanish. */
  readonly singleThread: boolean;
  /** Packets may be loaded and stored at any address. */
  readonly unalignedPackets: boolean;
  /** Independent packets in flight per thread in copy loops. */
  readonly unroll: number;
}

export const WASM_TRAITS: Traits = { name: 'wasm', singleThread: true, unalignedPackets: true, unroll: 4 };

export const PTX_TRAITS: Traits = { name: 'ptx', singleThread: false, unalignedPackets: false, unroll: 4 };

export interface Program {
  readonly name: string;
  readonly traits: Traits;
  /** The one parameter: address of the work descriptor. */
  readonly descriptor: Register;
  readonly body: readonly Statement[];
  /** Number of registers; ids are below it. */
  readonly registers: number;
  /** Number of waits; ids are below it, in source order. */
  readonly waits: number;
  /** Doorbell that waits sleep on, where the program set one (see KernelBuilder.sleepOn). */
  readonly doorbell?: Register;
}
