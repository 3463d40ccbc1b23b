/**
 * Device programs for tests, assembled by hand: independent of the compiler, and small enough to check by eye.
 *
 * Every program is `(descriptor, block, blocks) -> status`, all i32, or has the address of a frame as a fourth
 * parameter when it is resumable, and imports what the host device offers: env.memory,
 * env.spins, env.relax and env.wake.
 */

/** Unsigned LEB128. */
function u(value: number): number[] {
  const bytes: number[] = [];
  let rest = value >>> 0;
  do {
    const low = rest & 0x7f;
    rest >>>= 7;
    bytes.push(rest === 0 ? low : low | 0x80);
  } while (rest !== 0);
  return bytes;
}

/** Signed LEB128 of a small constant. */
function s(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7) {
    const low = rest & 0x7f;
    if (rest >= -64 && rest < 64) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

const name = (text: string): number[] => [...u(text.length), ...new TextEncoder().encode(text)];
const vector = (items: number[][]): number[] => [...u(items.length), ...items.flat()];
const section = (id: number, content: number[]): number[] => [id, ...u(content.length), ...content];

const I32 = 0x7f;
/** Locals of every program: 0 descriptor, 1 block, 2 blocks, 3 frame, 4 round, 5 polls, 6 and 7 free. */
const LOCALS = 8;
const ROUND = 4;
const POLLS = 5;

export const get = (local: number): number[] => [0x20, local];
export const set = (local: number): number[] => [0x21, local];
export const constant = (value: number): number[] => [0x41, ...s(value)];
export const add = [0x6a];
export const multiply = [0x6c];
export const equal = [0x46];
export const lessSigned = [0x48];
export const divideUnsigned = [0x6e];
export const load = (offset = 0): number[] => [0x28, 2, ...u(offset)];
export const atomicLoad = (offset = 0): number[] => [0xfe, 0x10, 2, ...u(offset)];
export const atomicStore = (offset = 0): number[] => [0xfe, 0x17, 2, ...u(offset)];
export const atomicAdd = (offset = 0): number[] => [0xfe, 0x1e, 2, ...u(offset)];
export const drop = [0x1a];
export const leave = [0x0f];
export const trap = [0x00];
export const loop = (...body: number[][]): number[] => [0x03, 0x40, ...body.flat(), 0x0b];
export const block = (...body: number[][]): number[] => [0x02, 0x40, ...body.flat(), 0x0b];
export const when = (...body: number[][]): number[] => [0x04, 0x40, ...body.flat(), 0x0b];
export const branch = (depth: number): number[] => [0x0c, depth];
export const branchIf = (depth: number): number[] => [0x0d, depth];
/** Imported functions come first: 0 is relax, 1 is wake. */
const callRelax = [0x10, 0];
export const callWake = [0x10, 1];
const spins = [0x23, 0];

/**
 * Waits until `condition` (which leaves 1 when it holds) does, the way compiled programs wait; returns status 1
 * from the program when the wait is given up. `doorbell` leaves its address.
 */
export function waitUntil(condition: number[], doorbell: number[]): number[] {
  return [
    ...constant(0),
    ...set(ROUND),
    ...constant(0),
    ...set(POLLS),
    ...block(
      loop(
        [...condition, ...branchIf(1)],
        [...get(POLLS), ...constant(1), ...add, ...set(POLLS)],
        [...get(POLLS), ...spins, ...lessSigned, ...branchIf(0)],
        [...constant(0), ...set(POLLS)],
        [...get(ROUND), ...doorbell, ...callRelax],
        when([...constant(1), ...leave]),
        [...get(ROUND), ...constant(1), ...add, ...set(ROUND)],
        branch(0),
      ),
    ),
  ];
}

/** Bytes of a module with these programs; each body leaves the status. Four parameters: resumable programs. */
export function assemble(programs: Record<string, number[]>, parameters: 3 | 4 = 3): Uint8Array {
  const bodies = Object.values(programs);
  const names = Object.keys(programs);
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(
      1,
      vector([
        [0x60, parameters, ...new Array<number>(parameters).fill(I32), 1, I32],
        [0x60, 2, I32, I32, 1, I32],
        [0x60, 1, I32, 0],
      ]),
    ),
    ...section(
      2,
      vector([
        [...name('env'), ...name('memory'), 0x02, 0x03, ...u(1), ...u(65536)],
        [...name('env'), ...name('spins'), 0x03, I32, 0x00],
        [...name('env'), ...name('relax'), 0x00, 1],
        [...name('env'), ...name('wake'), 0x00, 2],
      ]),
    ),
    ...section(3, vector(bodies.map(() => [0]))),
    ...section(7, vector(names.map((text, index) => [...name(text), 0x00, ...u(index + 2)]))),
    ...section(
      10,
      vector(
        bodies.map((body) => {
          const code = [1, LOCALS - parameters, I32, ...body, 0x0b];
          return [...u(code.length), ...code];
        }),
      ),
    ),
  ]);
}

/** Status "done". */
export const done = constant(0);
