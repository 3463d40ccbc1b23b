/**
 * One thread that stands for all ranks and blocks: programs compiled to resumable WebAssembly over one memory, each
 * run until it waits, then the next. It offers what a team needs, as the interpreter's machine does.
 */

import type { Launch } from '#src/kernel/interpreter/machine.js';
import { MEMORY_BYTES, type MemoryType, type Program, STATUS } from '#src/kernel/ir.js';
import type { FieldType, Struct } from '#src/kernel/layout.js';
import { compileWasm, frameBytes } from '#src/kernel/wasm/compile.js';
import type { TeamMachine, TeamStream } from './simulated-team.js';

type Entry = (descriptor: number, block: number, blocks: number, frame: number) => number;

interface Compiled {
  readonly entry: Entry;
  readonly frame: number;
}

/** Pages of 64 KiB: room for the largest team of these tests. */
const PAGES = 1024;
/** The first bytes stay free, so that address 0 is nobody's. */
const START = 1024;
/** Polls of a wait before the program gives way. */
const SPINS = 2;

/** One memory and one instance per program for all machines of the process; a machine starts it afresh. */
const memory = new WebAssembly.Memory({ initial: PAGES, maximum: 65536, shared: true });
const bytes = new Uint8Array(memory.buffer);
const view = new DataView(memory.buffer);
const compiled = new WeakMap<Program, Compiled>();
let used = START;

function compile(program: Program): Compiled {
  let result = compiled.get(program);
  if (result === undefined) {
    const module = new WebAssembly.Module(compileWasm(program, { resumable: true }));
    const imports = { memory, spins: SPINS, relax: () => 0, wake: () => {} };
    const { exports } = new WebAssembly.Instance(module, { env: imports });
    result = { entry: exports[program.name] as Entry, frame: frameBytes(program) };
    compiled.set(program, result);
  }
  return result;
}

/** One block of a launch that has begun. */
interface Activity {
  readonly launch: Queued;
  readonly block: number;
  readonly frame: number;
}

interface Queued {
  readonly program: Program;
  readonly descriptor: number;
  readonly blocks: number;
  readonly result: { program: string; rank: number; statuses: number[] };
  alive: number;
}

export interface WasmMachineOptions {
  /** Which of so many activities that are not done gets the next turn; in turn by default. */
  readonly choose?: (activities: number) => number;
  /** Called after every turn. */
  readonly afterTurn?: () => void;
}

export class WasmMachine implements TeamMachine {
  /** Turns that ended because a wait was not satisfied yet. */
  blocked = 0;
  readonly #options: WasmMachineOptions;
  readonly #streams = new Map<number, Queued[]>();
  readonly #regions: { name: string; base: number; bytes: number }[] = [];

  constructor(options: WasmMachineOptions = {}) {
    this.#options = options;
    bytes.fill(0, 0, used);
    used = START;
  }

  region(name: string, size: number, _owner: number, _options?: { zeroed: boolean }): number {
    const base = Math.ceil(used / 64) * 64;
    used = base + size;
    if (used > bytes.length) throw new Error(`no room for ${name}: ${size} bytes`);
    this.#regions.push({ name, base, bytes: size });
    return base;
  }

  describe(address: number): string {
    const region = this.#regions.find(({ base, bytes: size }) => address >= base && address < base + size);
    return region === undefined ? `0x${address.toString(16)}` : `${region.name}+${address - region.base}`;
  }

  write(type: MemoryType, address: number, value: number | bigint): void {
    if (type === 'f32') view.setFloat32(address, Number(value), true);
    else if (type === 'f64') view.setFloat64(address, Number(value), true);
    else {
      const bits = BigInt(value);
      for (let i = 0; i < MEMORY_BYTES[type]; i++)
        bytes[address + i] = Number((bits >> BigInt(8 * i)) & 255n);
    }
  }

  /** Unsigned bits: a bigint for cells of 8 bytes. */
  read(type: MemoryType, address: number): number | bigint {
    const size = MEMORY_BYTES[type];
    if (size === 8) return view.getBigUint64(address, true);
    if (size === 4) return view.getUint32(address, true);
    return size === 2 ? view.getUint16(address, true) : bytes[address]!;
  }

  writeArray(address: number, values: ArrayBufferView): void {
    bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), address);
  }

  /** A copy of `length` bytes. */
  readBytes(address: number, length: number): Uint8Array {
    return bytes.slice(address, address + length);
  }

  struct<F extends Record<string, FieldType>>(
    layout: Struct<F>,
    owner: number,
    values: { readonly [K in keyof F]?: number | bigint | readonly (number | bigint)[] },
  ): number {
    const address = this.region(layout.name, layout.size, owner);
    const target = layout.at(view, address);
    for (const [field, value] of Object.entries(values)) {
      const cells = (Array.isArray(value) ? value : [value]) as (number | bigint)[];
      for (const [i, cell] of cells.entries()) target.set(field, cell, i);
    }
    return address;
  }

  /** A stream of launches of one rank that run in order. */
  stream(rank: number): TeamStream {
    const queue = this.#streams.get(rank) ?? [];
    this.#streams.set(rank, queue);
    return {
      launch: (program, { descriptor, blocks = 1 }): Launch => {
        const result = { program: program.name, rank, statuses: new Array<number>(blocks).fill(-1) };
        queue.push({ program, descriptor, blocks, result, alive: blocks });
        return result;
      },
    };
  }

  /** Runs all launches to their end on this thread; throws when nobody can go on. */
  run(): void {
    const open: Activity[] = [];
    const begin = (launch: Queued | undefined) => {
      if (launch === undefined) return;
      const { frame } = compile(launch.program);
      for (let block = 0; block < launch.blocks; block++) {
        open.push({ launch, block, frame: this.region('frame', frame, launch.result.rank) });
      }
    };
    for (const queue of this.#streams.values()) begin(queue[0]);
    let turn = -1;
    let last = bytes.slice(0, used);
    let idle = 0;
    while (open.length > 0) {
      turn = this.#options.choose?.(open.length) ?? (turn + 1) % open.length;
      const { launch, block, frame } = open[turn]!;
      const status = compile(launch.program).entry(launch.descriptor, block, launch.blocks, frame);
      this.#options.afterTurn?.();
      if (status === STATUS.blocked) {
        this.blocked++;
        // Deadlock: for a while everybody had turns and no byte of the memory changed.
        if (++idle % 2000 === 0) {
          if (Buffer.compare(last, bytes.subarray(0, last.length)) === 0) throw new Error('nobody can go on');
          last = bytes.slice(0, used);
        }
        continue;
      }
      idle = 0;
      open.splice(turn, 1);
      launch.result.statuses[block] = status;
      if (--launch.alive > 0) continue;
      const queue = this.#streams.get(launch.result.rank)!;
      queue.shift();
      begin(queue[0]);
    }
  }
}
