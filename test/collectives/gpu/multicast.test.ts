/** NVLS programs over an emulated switch: every schedule of a seed, weak memory, and what the switch does not do. */
import { describe, expect, it } from 'vitest';
import {
  Meeting,
  MULTICAST_COLLECTIVES,
  type MulticastCollective,
  MulticastWork,
  multicast,
} from '#src/collectives/gpu/multicast.js';
import { kernel } from '#src/kernel/builder.js';
import {
  canReduceInSwitch,
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  type StepOp,
} from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { WASM_TRAITS } from '#src/kernel/ir.js';
import { encode, sameBits } from '#src/kernel/numeric.js';
import { compilePtx } from '#src/kernel/ptx/compile.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';
import { effort } from '../../effort.js';
import { pick, random } from '../random-call.js';
import { bufferElements, reference } from '../reference.js';

const BLOCKS = 2;
const STEPS: readonly StepOp[] = ['sum', 'min', 'max'];

interface Call {
  readonly collective: MulticastCollective;
  readonly type: ElementType;
  readonly op: StepOp;
  readonly count: number;
  readonly root: number;
}

/** Windows of all ranks, each also at a multicast address, and meetings that stay from call to call. */
class MulticastTeam {
  readonly machine: Machine;
  readonly #meetings: number[];
  readonly #meetingsAll: number;
  readonly #ranks: number;
  #windows = 0;

  constructor(options: MachineOptions, ranks: number) {
    this.machine = new Machine({ warpSize: 4, ...options });
    this.#ranks = ranks;
    [this.#meetings, this.#meetingsAll] = this.#window('meetings', BLOCKS * Meeting.size);
  }

  #window(name: string, bytes: number): [own: number[], all: number] {
    const ranks = Array.from({ length: this.#ranks }, (_, rank) => rank);
    const title = `${name} ${this.#windows++}`;
    const own = ranks.map((rank) =>
      this.machine.region(`${title} of ${rank}`, bytes, rank, { zeroed: true }),
    );
    return [own, this.machine.region(`${title} of all`, bytes, 0, { replicas: own })];
  }

  launch(call: Call, inputs: readonly (readonly bigint[])[], streams: ReturnType<Machine['stream']>[]) {
    const { machine } = this;
    const { collective, type, op, count, root } = call;
    const { size } = ELEMENT_TYPES[type];
    const cell = ({ 1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64' } as const)[size as 1 | 2 | 4 | 8];
    const lengths = bufferElements(collective, count, this.#ranks);
    const [sends, sendAll] = this.#window('send', Math.max(16, lengths.send * size));
    const [recvs, recvAll] = this.#window('recv', Math.max(16, lengths.recv * size));
    const program = multicast(interpreterTraits({ threads: 'many' }), {
      collective,
      reduction: { type, op },
    });
    inputs.forEach((input, rank) => {
      for (const [i, bits] of input.entries()) machine.write(cell, sends[rank]! + i * size, bits);
      const descriptor = machine.struct(MulticastWork, rank, {
        ...{ send: sends[rank]!, recv: recvs[rank]!, sendAll, recvAll },
        ...{ meetings: this.#meetings[rank]!, meetingsAll: this.#meetingsAll },
        ...{ bytes: BigInt(count * size), self: rank, ranks: this.#ranks, root },
      });
      streams[rank]!.launch(program, { descriptor, blocks: BLOCKS, threads: 4 });
    });
    return () => {
      reference({ ...call, order: 'direct' }, inputs).forEach((right, rank) => {
        right?.forEach((bits, i) => {
          const found = BigInt(machine.read(cell, recvs[rank]! + i * size));
          if (!sameBits(type, found, bits))
            throw new Error(`rank ${rank}, element ${i}: ${JSON.stringify(call)}`);
        });
      });
    };
  }
}

/** Sums of small whole numbers are the same in every order. */
function inputsOf({ type, collective, count }: Call, ranks: number, next: () => number): bigint[][] {
  const least = ELEMENT_TYPES[type].kind === 'unsigned' ? 0 : -2;
  const { send } = bufferElements(collective, count, ranks);
  return Array.from({ length: ranks }, () =>
    Array.from({ length: send }, () => encode(type, least + Math.floor(next() * 4) || 0)),
  );
}

describe('NVLS programs', () => {
  it.each(MULTICAST_COLLECTIVES)(
    '%s over a switch between 2 to 5 ranks is right, call after call',
    (collective) => {
      const seeds = effort(4, 40);
      const runs = explore(
        (machine) => {
          const next = random(machine.seed + 23);
          const ranks = pick([2, 3, 5], next);
          const team = new MulticastTeam(machine, ranks);
          const streams = Array.from({ length: ranks }, (_, rank) => team.machine.stream(rank));
          const checks = [0, 1, 2].map(() => {
            const op = pick(STEPS, next);
            const type = pick(
              ELEMENT_TYPE_NAMES.filter((name) => canReduceInSwitch(name, op)),
              next,
            );
            const packets = 1 + Math.floor(next() * 20);
            const count = (packets * 16) / ELEMENT_TYPES[type].size;
            const call = { collective, type, op, count, root: Math.floor(next() * ranks) };
            return team.launch(call, inputsOf(call, ranks, next), streams);
          });
          team.machine.run();
          for (const check of checks) check();
        },
        { seeds },
      );
      expect(runs).toBe(2 * seeds);
    },
  );

  it('use multicast addresses for nothing else', () => {
    const machine = new Machine({ seed: 1, memory: 'strong' });
    const own = machine.region('window', 64, 0, { zeroed: true });
    const all = machine.region('window of all', 64, 0, { replicas: [own] });
    const program = kernel(
      'plain',
      interpreterTraits({ threads: 'many' }),
      (k, at) => void k.load('u32', at),
    );
    machine.stream(0).launch(program, { descriptor: all });
    expect(() => machine.run()).toThrow('an ordinary access to the multicast address window of all+0x0');
  });

  it('are made for what switches combine, and for targets that have them', () => {
    const make = (type: ElementType, op: StepOp | 'avg') => () =>
      multicast(ptxTraits(), { collective: 'allReduce', reduction: { type, op } });
    expect(make('float8e4m3', 'sum')).toThrow('no switch combines float8e4m3 with sum');
    expect(make('float32', 'prod')).toThrow('no switch combines float32 with prod');
    expect(make('float32', 'max')).toThrow('no switch combines float32 with max');
    expect(make('int32', 'avg')).toThrow('no switch combines int32 with avg');
    const parameters = { collective: 'allGather', reduction: { type: 'uint8', op: 'sum' } } as const;
    expect(() => multicast(WASM_TRAITS, parameters)).toThrow('the wasm target has no multicast addresses');
    const program = make('bfloat16', 'sum')();
    expect(() => compilePtx(program, { arch: 'sm_80' })).toThrow('multicast addresses need sm_90 or newer');
    const text = compilePtx(program, { arch: 'sm_90' });
    expect(text).toContain('.version 8.2');
    expect(text).toContain('multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2');
    expect(text).toContain('multimem.st.relaxed.sys.global.v4.f16x2');
    expect(text).toContain('multimem.red.release.sys.global.add.u32');
  });
});
