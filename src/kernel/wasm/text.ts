/**
 * Readable text of a module: the same instruction lists that the encoder turns into bytes.
 *
 * The form is the flat WebAssembly text format; source places stand as comments where they change.
 */

import type { Instruction } from './code.js';
import type { FunctionType, Import, Module, ModuleFunction } from './encoder.js';
import { INSTRUCTIONS } from './instructions.js';

function signature(type: FunctionType): string {
  const parts: string[] = [];
  if (type.parameters.length > 0) parts.push(`(param ${type.parameters.join(' ')})`);
  if (type.results.length > 0) parts.push(`(result ${type.results.join(' ')})`);
  return parts.join(' ');
}

function importText(i: Import): string {
  const { what } = i;
  const kind =
    what.kind === 'function'
      ? `(func $${i.name} ${signature(what.type)})`
      : what.kind === 'memory'
        ? `(memory ${what.minimum} ${what.maximum} shared)`
        : `(global $${i.name} ${what.type})`;
  return `(import "${i.module}" "${i.name}" ${kind})`;
}

function hex(bytes: Uint8Array, from: number): string {
  const word = [...bytes.subarray(from, from + 4)].reverse();
  return `0x${word.map((b) => b.toString(16).padStart(2, '0')).join('')}`;
}

function float(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  return Object.is(value, -0) ? '-0' : String(value);
}

/** Names of what can be called or read by index in a module. */
interface Names {
  readonly functions: readonly string[];
  readonly globals: readonly string[];
}

function instructionText({ name, first, second }: Instruction, names: Names): string {
  switch (INSTRUCTIONS[name].immediate) {
    case 'none':
    case 'zero':
    case 'zeros':
      return name;
    case 'block':
      return first === undefined ? name : `${name} (result ${String(first)})`;
    case 'memory': {
      const offset = second === undefined || second === 0 ? '' : ` offset=${second}`;
      return `${name}${offset} align=${2 ** (first as number)}`;
    }
    case 'f32':
    case 'f64':
      return `${name} ${float(first as number)}`;
    case 'bytes': {
      const bytes = first as Uint8Array;
      if (name === 'i8x16.shuffle') return `${name} ${bytes.join(' ')}`;
      return `${name} i32x4 ${[0, 4, 8, 12].map((at) => hex(bytes, at)).join(' ')}`;
    }
    case 'index':
      if (name === 'call') return `call $${names.functions[first as number]}`;
      if (name === 'global.get') return `global.get $${names.globals[first as number]}`;
      return `${name} ${String(first)}`;
    case 'label':
    case 'lane':
    case 'i32':
    case 'i64':
      return `${name} ${String(first)}`;
  }
}

function functionText(f: ModuleFunction, names: Names): string[] {
  const lines = [`(func $${f.name} (export "${f.name}") ${signature(f.type)}`];
  const declared = f.locals.slice(f.type.parameters.length);
  if (declared.length > 0) lines.push(`  (local ${declared.join(' ')})`);
  let depth = 1;
  let place = '';
  for (const instruction of f.instructions) {
    const { name } = instruction;
    if (name === 'end' || name === 'else') depth--;
    let line = '  '.repeat(depth) + instructionText(instruction, names);
    if (instruction.place !== place) {
      place = instruction.place;
      if (place !== '') line = `${line.padEnd(56)} ;; ${place}`;
    }
    lines.push(line);
    if (name === 'block' || name === 'loop' || name === 'if' || name === 'else') depth++;
  }
  lines.push(')');
  return lines;
}

/** The module as text, one instruction a line. */
export function printModule(module: Module): string {
  const names: Names = {
    functions: [
      ...module.imports.filter((i) => i.what.kind === 'function').map((i) => i.name),
      ...module.functions.map((f) => f.name),
    ],
    globals: module.imports.filter((i) => i.what.kind === 'global').map((i) => i.name),
  };
  const lines = ['(module'];
  for (const i of module.imports) lines.push(`  ${importText(i)}`);
  for (const f of module.functions) for (const line of functionText(f, names)) lines.push(`  ${line}`);
  lines.push(')');
  return `${lines.join('\n')}\n`;
}
