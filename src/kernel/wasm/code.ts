/**
 * The code of one function under construction: a flat list of instructions.
 *
 * The encoder turns the list into bytes and the printer turns the same list into text. Labels are objects;
 * their depth is computed where a branch is written, so that callers may nest blocks freely. Locals are
 * numbered in the order of their creation; scratch locals are lent and returned, so that an expansion of
 * many instructions does not leave a trail of them.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Place } from '../ir.js';
import type { InstructionName, NameWith, WasmType } from './instructions.js';

export interface Instruction {
  readonly name: InstructionName;
  /** Index, depth, lane, block type, alignment (log2) or constant. */
  readonly first?: number | bigint | WasmType | Uint8Array;
  /** Offset of a memory access. */
  readonly second?: number;
  /** Source place of the node that the instruction belongs to; empty when not known. */
  readonly place: Place;
}

/** A block, loop or if that is open; branches to it leave a block and repeat a loop. */
export interface Label {
  readonly depth: number;
}

/** Constants of equal lanes: packet arithmetic asks for the same few again and again. */
const lanesCache = new Map<number, Uint8Array>();

export class Code {
  readonly instructions: Instruction[] = [];
  /** Types of all locals, parameters first. */
  readonly locals: WasmType[];
  readonly #free = new Map<WasmType, number[]>();
  #depth = 0;
  #place: Place = '';

  constructor(parameters: readonly WasmType[]) {
    this.locals = [...parameters];
  }

  /** From here on instructions belong to this source place. */
  at(place: Place): void {
    this.#place = place;
  }

  #push(name: InstructionName, first?: Instruction['first'], second?: number): void {
    const place = this.#place;
    if (first === undefined) this.instructions.push({ name, place });
    else if (second === undefined) this.instructions.push({ name, first, place });
    else this.instructions.push({ name, first, second, place });
  }

  /** Instructions without immediates. */
  op(...names: NameWith<'none' | 'zero' | 'zeros'>[]): void {
    for (const name of names) this.#push(name);
  }

  memory(name: NameWith<'memory'>, align: number, offset = 0): void {
    this.#push(name, Math.log2(align), offset);
  }

  lane(name: NameWith<'lane'>, lane: number): void {
    this.#push(name, lane);
  }

  i32(value: number): void {
    this.#push('i32.const', value | 0);
  }
  i64(value: bigint): void {
    this.#push('i64.const', BigInt.asIntN(64, value));
  }
  f32(value: number): void {
    this.#push('f32.const', value);
  }
  f64(value: number): void {
    this.#push('f64.const', value);
  }

  v128(bytes: Uint8Array): void {
    this.#push('v128.const', bytes);
  }
  /** A vector constant of four equal 32-bit lanes. */
  lanes32(bits: number): void {
    let bytes = lanesCache.get(bits);
    if (bytes === undefined) {
      bytes = new Uint8Array(new Uint32Array(4).fill(bits).buffer);
      lanesCache.set(bits, bytes);
    }
    this.v128(bytes);
  }
  /** A vector constant of four equal float32 lanes. */
  lanesFloat32(value: number): void {
    this.lanes32(new Uint32Array(Float32Array.of(value).buffer)[0]!);
  }
  /** A vector constant of eight equal 16-bit lanes. */
  lanes16(bits: number): void {
    this.lanes32(((bits & 0xffff) * 0x0001_0001) >>> 0);
  }
  /** A vector constant of sixteen equal bytes. */
  lanes8(bits: number): void {
    this.lanes32(((bits & 0xff) * 0x0101_0101) >>> 0);
  }
  shuffle(lanes: readonly number[]): void {
    this.#push('i8x16.shuffle', Uint8Array.from(lanes));
  }

  call(index: number): void {
    this.#push('call', index);
  }
  globalGet(index: number): void {
    this.#push('global.get', index);
  }

  // ---- locals ----

  newLocal(type: WasmType): number {
    return this.locals.push(type) - 1;
  }

  get(...locals: number[]): void {
    for (const local of locals) {
      const last = this.instructions.at(-1);
      if (last?.name === 'local.set' && last.first === local) {
        this.instructions[this.instructions.length - 1] = { ...last, name: 'local.tee' };
      } else this.#push('local.get', local);
    }
  }
  set(local: number): void {
    this.#push('local.set', local);
  }
  tee(local: number): void {
    this.#push('local.tee', local);
  }

  /** Lends `count` locals of a type to the expansion in `use`. */
  scratch(type: WasmType, count: number, use: (...locals: number[]) => void): void {
    let free = this.#free.get(type);
    if (free === undefined) this.#free.set(type, (free = []));
    const lent: number[] = [];
    while (lent.length < count) lent.push(free.pop() ?? this.newLocal(type));
    use(...lent);
    free.push(...lent.reverse());
  }

  // ---- structured control ----

  #open(name: NameWith<'block'>, body: (label: Label) => void, result?: WasmType): void {
    this.#push(name, result);
    this.#depth++;
    body({ depth: this.#depth });
    this.#depth--;
    this.#push('end');
  }

  /** A branch to the label leaves the block. */
  block(body: (label: Label) => void): void {
    this.#open('block', body);
  }

  /** A branch to the label repeats the loop; falling off its end leaves it. */
  loop(body: (label: Label) => void): void {
    this.#open('loop', body);
  }

  /** Takes its condition (i32) from the stack. Both sides leave a value when `result` is given. */
  if(taken: () => void, otherwise?: () => void, result?: WasmType): void {
    this.#open(
      'if',
      () => {
        taken();
        if (otherwise !== undefined) {
          this.#push('else');
          otherwise();
        }
      },
      result,
    );
  }

  branch(label: Label): void {
    this.#push('br', this.#distance(label));
  }
  branchIf(label: Label): void {
    this.#push('br_if', this.#distance(label));
  }

  #distance(label: Label): number {
    const distance = this.#depth - label.depth;
    if (distance < 0) throw new TuttiError('internalError', 'a branch to a block that is closed');
    return distance;
  }
}
