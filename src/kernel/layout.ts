/**
 * Struct layouts shared by host and device: one definition gives offsets to the host writer and to the
 * device reader, so that the two can never disagree.
 *
 * Fields lie in the given order at their natural alignment (little endian). A `ptr` takes 8 bytes on every
 * target. `array(type, n)` is n cells; `align` rounds a struct up, for instance to a cache line.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { MEMORY_BYTES, type MemoryType } from './ir.js';

export interface ArrayField<T extends MemoryType = MemoryType> {
  readonly array: T;
  readonly length: number;
}

export type FieldType = MemoryType | ArrayField;

export function array<T extends MemoryType>(type: T, length: number): ArrayField<T> {
  return { array: type, length };
}

export interface FieldPlace<T extends MemoryType = MemoryType> {
  readonly offset: number;
  readonly type: T;
  /** Cells; 1 for a scalar field. */
  readonly length: number;
}

/** The memory type of one cell of a field. */
export type CellOf<F extends FieldType> = F extends MemoryType
  ? F
  : F extends ArrayField<infer T>
    ? T
    : never;

export class Struct<F extends Record<string, FieldType> = Record<string, FieldType>> {
  readonly name: string;
  /** Bytes, a multiple of the alignment. */
  readonly size: number;
  readonly align: number;
  readonly fields: { readonly [K in keyof F]: FieldPlace<CellOf<F[K]>> };

  constructor(name: string, fields: F, align = 1) {
    this.name = name;
    const places: Record<string, FieldPlace> = {};
    let offset = 0;
    let widest = align;
    for (const [key, field] of Object.entries(fields)) {
      const type = typeof field === 'string' ? field : field.array;
      const length = typeof field === 'string' ? 1 : field.length;
      const bytes = MEMORY_BYTES[type];
      offset = Math.ceil(offset / bytes) * bytes;
      places[key] = { offset, type, length };
      offset += bytes * length;
      widest = Math.max(widest, bytes);
    }
    this.fields = places as { readonly [K in keyof F]: FieldPlace<CellOf<F[K]>> };
    this.align = widest;
    this.size = Math.ceil(offset / widest) * widest;
  }

  /** Writes and reads the struct at `base` bytes into a view of host memory. */
  at(view: DataView, base: number): StructView<F> {
    return new StructView(this, view, base);
  }
}

/** Host-side access to one struct in memory. 64-bit fields accept numbers up to 2^53 and bigints. */
export class StructView<F extends Record<string, FieldType> = Record<string, FieldType>> {
  constructor(
    readonly struct: Struct<F>,
    readonly view: DataView,
    readonly base: number,
  ) {}

  #cell(field: keyof F & string, index: number): { place: FieldPlace; at: number } {
    const place = this.struct.fields[field];
    if (place === undefined || index < 0 || index >= place.length) {
      throw new TuttiError('internalError', `struct ${this.struct.name} has no cell ${field}[${index}]`);
    }
    return { place, at: this.base + place.offset + index * MEMORY_BYTES[place.type] };
  }

  set(field: keyof F & string, value: number | bigint, index = 0): this {
    const { place, at } = this.#cell(field, index);
    const v = this.view;
    switch (place.type) {
      case 'i8':
      case 'u8':
        v.setUint8(at, Number(value));
        break;
      case 'i16':
      case 'u16':
        v.setUint16(at, Number(value), true);
        break;
      case 'i32':
      case 'u32':
        v.setUint32(at, Number(value), true);
        break;
      case 'f32':
        v.setFloat32(at, Number(value), true);
        break;
      case 'f64':
        v.setFloat64(at, Number(value), true);
        break;
      case 'i64':
      case 'u64':
      case 'ptr':
        if (typeof value === 'bigint') v.setBigUint64(at, BigInt.asUintN(64, value), true);
        else {
          // Two halves without BigInt: this runs once per call on latency paths.
          v.setUint32(at, value >>> 0, true);
          v.setInt32(at + 4, Math.floor(value / 4294967296), true);
        }
        break;
      case 'packet': {
        const bits = BigInt(value);
        v.setBigUint64(at, BigInt.asUintN(64, bits), true);
        v.setBigUint64(at + 8, BigInt.asUintN(64, bits >> 64n), true);
        break;
      }
    }
    return this;
  }

  /** A 64-bit field read as a number; exact up to 2^53. */
  get(field: keyof F & string, index = 0): number {
    const { place, at } = this.#cell(field, index);
    const v = this.view;
    switch (place.type) {
      case 'i8':
        return v.getInt8(at);
      case 'u8':
        return v.getUint8(at);
      case 'i16':
        return v.getInt16(at, true);
      case 'u16':
        return v.getUint16(at, true);
      case 'i32':
        return v.getInt32(at, true);
      case 'u32':
        return v.getUint32(at, true);
      case 'f32':
        return v.getFloat32(at, true);
      case 'f64':
        return v.getFloat64(at, true);
      case 'i64':
        return v.getUint32(at, true) + v.getInt32(at + 4, true) * 4294967296;
      default:
        return v.getUint32(at, true) + v.getUint32(at + 4, true) * 4294967296;
    }
  }
}

export function struct<F extends Record<string, FieldType>>(name: string, fields: F, align = 1): Struct<F> {
  return new Struct(name, fields, align);
}
