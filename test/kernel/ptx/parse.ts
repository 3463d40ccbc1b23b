/** A reader of the PTX that the target writes: functions, declared registers, instructions with their operands. */

export type Class = 'pred' | 'b16' | 'b32' | 'b64' | 'f32' | 'f64';

export interface Instruction {
  readonly line: number;
  /** The predicate that guards it, and whether it must be false. */
  readonly guard?: { readonly register: string; readonly negated: boolean };
  /** The parts of the operation's name: `ld`, `relaxed`, `sys`, `global`, `b32`. */
  readonly name: readonly string[];
  readonly operands: readonly string[];
}

export interface PtxFunction {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Registers by name, with their class. */
  readonly registers: ReadonlyMap<string, Class>;
  readonly instructions: readonly Instruction[];
  /** Number of the instruction that follows each label. */
  readonly labels: ReadonlyMap<string, number>;
}

export interface PtxModule {
  readonly version: string;
  readonly target: string;
  readonly functions: readonly PtxFunction[];
}

const FUNCTION =
  /\n\.visible \.entry (\w+)\(\n((?: {2}\.param \.u64 \w+,?\n)+)\)\n\.maxntid \d+, 1, 1\n\.minnctapersm \d+\n\{\n([\s\S]*?)\n\}\n/g;

/** Splits at commas outside of braces. */
function splitOperands(text: string): string[] {
  return text === '' ? [] : text.split(/, (?![^{]*\})/);
}

function parseBody(body: string): Omit<PtxFunction, 'name' | 'parameters'> {
  const registers = new Map<string, Class>();
  const instructions: Instruction[] = [];
  const labels = new Map<string, number>();
  body.split('\n').forEach((full, line) => {
    const text = full.replace(/ +\/\/ [^ ]+$/, '').trim();
    const declaration = /^\.reg \.(\w+) (%[a-z]+)<(\d+)>;$/.exec(text);
    if (declaration !== null) {
      const [, kind, prefix, count] = declaration as unknown as [string, Class, string, string];
      for (let i = 0; i < Number(count); i++) {
        if (registers.has(prefix + i)) throw new Error(`${prefix + i} is declared twice`);
        registers.set(prefix + i, kind);
      }
      return;
    }
    const label = /^(\$L\d+):$/.exec(text);
    if (label !== null) {
      if (labels.has(label[1]!)) throw new Error(`label ${label[1]} stands twice`);
      labels.set(label[1]!, instructions.length);
      return;
    }
    const match = /^(?:@(!?)(%p\d+) )?([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?: (.*))?;$/.exec(text);
    if (match === null) throw new Error(`line ${line} is no instruction: ${text}`);
    const [, negated, register, name, operands] = match;
    instructions.push({
      line,
      ...(register === undefined ? {} : { guard: { register, negated: negated === '!' } }),
      name: name!.split('.'),
      operands: splitOperands(operands ?? ''),
    });
  });
  return { registers, instructions, labels };
}

/** Reads a module; throws where the text is not of the form that the target writes. */
export function parsePtx(text: string): PtxModule {
  const head = /^\.version (\d+\.\d)\n\.target (sm_\d+)\n\.address_size 64\n/.exec(text);
  if (head === null) throw new Error('the head is missing');
  let end = head[0].length;
  const functions: PtxFunction[] = [];
  for (const match of text.matchAll(FUNCTION)) {
    const [whole, name, parameters, body] = match as unknown as [string, string, string, string];
    if (match.index !== end) throw new Error(`there is something before function ${name}`);
    end = match.index + whole.length;
    functions.push({
      name,
      parameters: [...parameters.matchAll(/\.u64 (\w+)/g)].map((m) => m[1]!),
      ...parseBody(body),
    });
  }
  if (end !== text.length) throw new Error('there is something behind the last function');
  return { version: head[1]!, target: head[2]!, functions };
}

/** The single registers or literals of an operand: a vector in braces has several. */
export function elements(operand: string): string[] {
  return operand.startsWith('{') ? operand.slice(1, -1).split(', ') : [operand];
}
