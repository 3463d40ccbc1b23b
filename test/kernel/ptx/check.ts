/**
 * A checker of generated PTX: every register is declared, written before it is read (in the order of the text) and
 * used by instructions of its type, every label stands once. An independent statement of the rules of the PTX ISA
 * for those instructions that the target writes; unknown ones are faults.
 */
import { type Class, elements, type Instruction, type PtxFunction, parsePtx } from './parse.js';

/** Whether a register of a class may stand where an instruction has a type. */
function fits(kind: Class, type: string): boolean {
  if (type === 'pred') return kind === 'pred';
  if (kind === 'pred') return false;
  const width = type.endsWith('x2')
    ? type.startsWith('e')
      ? 16 // two fp8
      : 32
    : Number(/\d+$/.exec(type)![0]);
  if (Number(kind.slice(1)) !== width) return false;
  // Untyped registers fit everything, untyped instructions take everything; f registers are no integers.
  return kind.startsWith('b') || type.startsWith('b') || type.startsWith('f');
}

const ANY_ROUNDING = ['rn', 'rzi', 'satfinite', 'lo', 'hi'];
const ARITHMETIC = new Set('add sub mul div rem min max and or xor not neg abs brev fma'.split(' '));
const COUNTS: Readonly<Record<string, number>> = {
  not: 1,
  neg: 1,
  abs: 1,
  brev: 1,
  fma: 3,
};

/** The types of an instruction's operands, the results first; `[]` for an address, `label` for a label. */
function signature({ name, operands }: Instruction): { results: number; types: string[][] } {
  const [base, ...rest] = name as [string, ...string[]];
  const type = rest.at(-1)!;
  const all = (count: number, t: string) => Array.from({ length: count }, () => [t]);
  switch (base) {
    case 'ret':
    case 'fence':
      return { results: 0, types: [] };
    case 'bra':
      return { results: 0, types: [['label']] };
    case 'barrier':
      return { results: 0, types: all(operands.length, 'b32') };
    case 'bar':
      return { results: 0, types: [['b32']] };
    case 'nanosleep':
      return { results: 0, types: [['u32']] };
    case 'ld':
    case 'st': {
      const vector = /^v[24]$/.exec(rest.at(-2) ?? '');
      const count = vector === null ? 1 : Number(vector[0][1]);
      // Narrow cells are extended to, or cut from, 32-bit registers.
      const cell = /^[bus](8|16)$/.test(type) ? 'b32' : type;
      const value = Array.from({ length: count }, () => cell);
      return base === 'ld' ? { results: 1, types: [value, ['[]']] } : { results: 0, types: [['[]'], value] };
    }
    case 'mov': {
      const vector = operands.findIndex((o) => o.startsWith('{'));
      const half = type === 'b64' ? 'b32' : 'b16';
      return {
        results: 1,
        types: [0, 1].map((i) => (i === vector ? [half, half] : [type])),
      };
    }
    case 'cvt': {
      const [to, from] = rest.slice(-2) as [string, string];
      const sources = to.endsWith('x2') && from === 'f32' ? 2 : 1;
      return { results: 1, types: [[to], ...all(sources, from)] };
    }
    case 'setp':
      return { results: 1, types: [['pred'], [type], [type]] };
    case 'selp':
      return { results: 1, types: [[type], [type], [type], ['pred']] };
    case 'shl':
    case 'shr':
      return { results: 1, types: [[type], [type], ['u32']] };
    case 'clz':
    case 'popc':
      return { results: 1, types: [['u32'], [type]] };
    case 'bfe':
      return { results: 1, types: [[type], [type], ['u32'], ['u32']] };
    case 'bfi':
      return { results: 1, types: [[type], [type], [type], ['u32'], ['u32']] };
    case 'prmt':
      return { results: 1, types: all(4, 'b32') };
    case 'atom':
      return { results: 1, types: [[type], ['[]'], ...all(operands.length - 2, type)] };
    case 'shfl':
      return { results: 1, types: all(5, 'b32') };
    case 'vote':
      return { results: 1, types: [['pred'], ['pred'], ['b32']] };
    case 'mul':
      if (rest[0] === 'wide') return { results: 1, types: [['u64'], ['u32'], ['u32']] };
      break;
  }
  if (!ARITHMETIC.has(base) || rest.length > 2 || (rest.length === 2 && !ANY_ROUNDING.includes(rest[0]!))) {
    throw new Error(`unknown instruction ${name.join('.')}`);
  }
  return { results: 1, types: all(1 + (COUNTS[base] ?? 2), type) };
}

const SPECIAL = ['%tid.x', '%ntid.x', '%ctaid.x', '%nctaid.x'];

function checkFunction(f: PtxFunction): void {
  const written = new Set<string>();
  const read = (register: string, type: string, where: string) => {
    const kind = f.registers.get(register);
    if (kind === undefined) throw new Error(`${where}: ${register} is not declared`);
    if (!written.has(register))
      throw new Error(`${where}: ${register} is read before anything is written to it`);
    if (!fits(kind, type)) throw new Error(`${where}: ${register} is no ${type}`);
  };
  for (const instruction of f.instructions) {
    const { name, operands, guard, line } = instruction;
    const where = `${f.name} line ${line} (${name.join('.')})`;
    if (guard !== undefined) read(guard.register, 'pred', where);
    const { results, types } = signature(instruction);
    if (types.length !== operands.length) throw new Error(`${where}: ${operands.length} operands`);
    const writes: [string, string][] = [];
    operands.forEach((operand, i) => {
      const expected = types[i]!;
      if (expected[0] === 'label') {
        if (!f.labels.has(operand)) throw new Error(`${where}: there is no label ${operand}`);
        return;
      }
      if (expected[0] === '[]') {
        const address = /^\[(%rd\d+|\w+)(?:\+-?\d+)?\]$/.exec(operand);
        if (address === null) throw new Error(`${where}: ${operand} is no address`);
        const base = address[1]!;
        if (base.startsWith('%')) read(base, 'u64', where);
        else if (!f.parameters.includes(base)) throw new Error(`${where}: there is no parameter ${base}`);
        return;
      }
      const parts = elements(operand);
      if (parts.length !== expected.length) throw new Error(`${where}: ${operand} has ${parts.length} parts`);
      parts.forEach((part, j) => {
        const type = expected[j]!;
        if (i < results) writes.push([part, type]);
        else if (part.startsWith('%') && !SPECIAL.includes(part)) read(part, type, where);
        else if (!part.startsWith('%') && !/^(-?\d+|0x[0-9a-f]+|0f[0-9A-F]{8}|0d[0-9A-F]{16})$/.test(part)) {
          throw new Error(`${where}: ${part} is no literal`);
        }
      });
    });
    for (const [register, type] of writes) {
      const kind = f.registers.get(register);
      if (kind === undefined) throw new Error(`${where}: ${register} is not declared`);
      if (!fits(kind, type)) throw new Error(`${where}: ${register} is no ${type}`);
      written.add(register);
    }
  }
  for (const register of f.registers.keys()) {
    if (!written.has(register)) throw new Error(`${f.name}: nothing is written to ${register}`);
  }
  if (f.instructions.at(-1)?.name[0] !== 'ret') throw new Error(`${f.name} does not end with ret`);
  if ([...f.labels.values()].some((at) => at >= f.instructions.length)) throw new Error('a label at the end');
}

/** Throws when a module breaks a rule; gives the number of its instructions. */
export function checkPtx(text: string): number {
  const { functions } = parsePtx(text);
  for (const f of functions) checkFunction(f);
  return functions.reduce((n, f) => n + f.instructions.length, 0);
}
