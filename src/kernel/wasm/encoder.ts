/**
 * Bytes of a WebAssembly module.
 *
 * A module here is what the compiler makes: imports of one shared memory, immutable globals and functions,
 * and exported functions. Layout and LEB128 encoding follow the WebAssembly core specification, chapter 5
 * (binary format).
 */

import type { Instruction } from './code.js';
import { INSTRUCTIONS, VALUE_TYPE_BYTES, type WasmType } from './instructions.js';

export interface FunctionType {
  readonly parameters: readonly WasmType[];
  readonly results: readonly WasmType[];
}

export interface Import {
  readonly module: string;
  readonly name: string;
  readonly what:
    | { readonly kind: 'function'; readonly type: FunctionType }
    /** A shared memory; sizes in pages of 64 KiB. */
    | { readonly kind: 'memory'; readonly minimum: number; readonly maximum: number }
    | { readonly kind: 'global'; readonly type: WasmType };
}

export interface ModuleFunction {
  /** The name that it is exported under. */
  readonly name: string;
  readonly type: FunctionType;
  /** All locals, parameters first. */
  readonly locals: readonly WasmType[];
  readonly instructions: readonly Instruction[];
}

export interface Module {
  readonly imports: readonly Import[];
  readonly functions: readonly ModuleFunction[];
}

/** A growing byte buffer with the encodings of the binary format. */
class ByteWriter {
  #bytes = new Uint8Array(1024);
  #length = 0;

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + more));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  bytes(values: Uint8Array): void {
    this.#reserve(values.length);
    this.#bytes.set(values, this.#length);
    this.#length += values.length;
  }

  /** Unsigned LEB128, below 2^32. */
  unsigned(value: number): void {
    let rest = value >>> 0;
    while (rest >= 0x80) {
      this.byte((rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    this.byte(rest);
  }

  /** Signed LEB128 of a 32-bit integer. */
  signed(value: number): void {
    let rest = value | 0;
    while (rest < -64 || rest > 63) {
      this.byte((rest & 0x7f) | 0x80);
      rest >>= 7;
    }
    this.byte(rest & 0x7f);
  }

  /** Signed LEB128 of a 64-bit integer. */
  signedWide(value: bigint): void {
    let rest = BigInt.asIntN(64, value);
    while (rest < -64n || rest > 63n) {
      this.byte(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.byte(Number(rest & 0x7fn));
  }

  name(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.unsigned(bytes.length);
    this.bytes(bytes);
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }
}

function write(build: (writer: ByteWriter) => void): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter();
  build(writer);
  return writer.finish();
}

/** Section numbers of the binary format. */
const SECTION = { type: 1, import: 2, function: 3, export: 7, code: 10 } as const;

/** Block type of a block without result. */
const EMPTY_BLOCK = 0x40;

function encodeInstruction(w: ByteWriter, instruction: Instruction): void {
  const { prefix, opcode, immediate } = INSTRUCTIONS[instruction.name];
  const first = instruction.first;
  if (prefix === 0) w.byte(opcode);
  else {
    w.byte(prefix);
    w.unsigned(opcode);
  }
  switch (immediate) {
    case 'none':
      break;
    case 'block':
      w.byte(first === undefined ? EMPTY_BLOCK : VALUE_TYPE_BYTES[first as WasmType]);
      break;
    case 'index':
    case 'label':
      w.unsigned(first as number);
      break;
    case 'lane':
      w.byte(first as number);
      break;
    case 'memory':
      w.unsigned(first as number);
      w.unsigned(instruction.second ?? 0);
      break;
    case 'i32':
      w.signed(first as number);
      break;
    case 'i64':
      w.signedWide(first as bigint);
      break;
    case 'f32':
      w.bytes(new Uint8Array(new Float32Array([first as number]).buffer));
      break;
    case 'f64':
      w.bytes(new Uint8Array(new Float64Array([first as number]).buffer));
      break;
    case 'bytes':
      w.bytes(first as Uint8Array);
      break;
    case 'zero':
      w.byte(0);
      break;
    case 'zeros':
      w.byte(0);
      w.byte(0);
      break;
  }
}

function encodeBody(f: ModuleFunction): Uint8Array {
  return write((w) => {
    const declared = f.locals.slice(f.type.parameters.length);
    const runs: { type: WasmType; count: number }[] = [];
    for (const type of declared) {
      const last = runs.at(-1);
      if (last?.type === type) last.count++;
      else runs.push({ type, count: 1 });
    }
    w.unsigned(runs.length);
    for (const { type, count } of runs) {
      w.unsigned(count);
      w.byte(VALUE_TYPE_BYTES[type]);
    }
    for (const instruction of f.instructions) encodeInstruction(w, instruction);
    w.byte(INSTRUCTIONS.end.opcode);
  });
}

/** Collects the function types of a module, each once. */
class TypeTable {
  readonly types: FunctionType[] = [];
  readonly #numbers = new Map<string, number>();

  number(type: FunctionType): number {
    const key = `${type.parameters.join()}:${type.results.join()}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.types.push(type) - 1;
      this.#numbers.set(key, number);
    }
    return number;
  }
}

/** Encodes a module. The result is valid when the instruction lists are. */
export function encodeModule(module: Module): Uint8Array<ArrayBuffer> {
  const table = new TypeTable();
  const importNumbers = module.imports.map((i) =>
    i.what.kind === 'function' ? table.number(i.what.type) : -1,
  );
  const functionNumbers = module.functions.map((f) => table.number(f.type));
  const importedFunctions = importNumbers.filter((n) => n >= 0).length;

  return write((w) => {
    w.bytes(Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00));
    const section = (id: number, build: (writer: ByteWriter) => void) => {
      const bytes = write(build);
      w.byte(id);
      w.unsigned(bytes.length);
      w.bytes(bytes);
    };

    section(SECTION.type, (s) => {
      s.unsigned(table.types.length);
      for (const { parameters, results } of table.types) {
        s.byte(0x60);
        s.unsigned(parameters.length);
        for (const type of parameters) s.byte(VALUE_TYPE_BYTES[type]);
        s.unsigned(results.length);
        for (const type of results) s.byte(VALUE_TYPE_BYTES[type]);
      }
    });

    section(SECTION.import, (s) => {
      s.unsigned(module.imports.length);
      module.imports.forEach(({ module: from, name, what }, i) => {
        s.name(from);
        s.name(name);
        if (what.kind === 'function') {
          s.byte(0x00);
          s.unsigned(importNumbers[i]!);
        } else if (what.kind === 'memory') {
          s.byte(0x02);
          s.byte(0x03); // shared, with a maximum
          s.unsigned(what.minimum);
          s.unsigned(what.maximum);
        } else {
          s.byte(0x03);
          s.byte(VALUE_TYPE_BYTES[what.type]);
          s.byte(0x00); // immutable
        }
      });
    });

    section(SECTION.function, (s) => {
      s.unsigned(functionNumbers.length);
      for (const number of functionNumbers) s.unsigned(number);
    });

    section(SECTION.export, (s) => {
      s.unsigned(module.functions.length);
      module.functions.forEach((f, i) => {
        s.name(f.name);
        s.byte(0x00);
        s.unsigned(importedFunctions + i);
      });
    });

    section(SECTION.code, (s) => {
      s.unsigned(module.functions.length);
      for (const f of module.functions) {
        const body = encodeBody(f);
        s.unsigned(body.length);
        s.bytes(body);
      }
    });
  });
}
