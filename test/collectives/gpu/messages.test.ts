/** Sends and receives on GPUs in the interpreter: batches, order, staging, numbers that wrap. */
import { describe, expect, it } from 'vitest';
import { areaLayout } from '#src/collectives/gpu/area.js';
import type { GpuTeam } from '#src/collectives/gpu/call.js';
import {
  type GpuMessage,
  gpuMessages,
  MESSAGE_FORM,
  type MessageForm,
} from '#src/collectives/gpu/message-launch.js';
import { type Addressing, MAP_SLOTS, mappedName, mapTableBytes, STAGED } from '#src/collectives/gpu/names.js';
import { messageWork } from '#src/collectives/gpu/work.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program } from '#src/kernel/ir.js';
import { pick, random } from '../random-call.js';
import { SMALL_AREA } from './gpu-team.js';

const EFFORT = Number(process.env.TUTTI_TEST_EFFORT ?? 1);

const FORM: MessageForm = {
  threads: 4,
  unroll: 2,
  mostLowLatency: 200,
  mostLowLatencyWith128: 130,
  mostLowLatency128: 2100,
  smallGrain: 128,
  grain128: 1024,
  largeGrain: 128,
  sizes: SMALL_AREA,
};

/** The same with LL128 lines. */
const FORM128: MessageForm = { ...FORM, threads: 32, sizes: { ...SMALL_AREA, pairBankBytes: 512 } };

interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /** The receiver's buffer cannot be reached. */
  readonly hidden?: boolean;
  /** Bytes by which buffers start off 16-byte alignment. */
  readonly unalign?: number;
  /** Goes into the buffer of an earlier transfer, of which nothing is left then. */
  readonly into?: number;
}

const programs = new Map<string, Program>();

class Messages {
  readonly machine: Machine;
  readonly #areas: number[] = [];
  readonly #maps: number[] = [];
  readonly #team: GpuTeam;
  readonly #form: MessageForm;
  #slots = 0;

  constructor(options: MachineOptions, ranks: number, addressing: Addressing, form: MessageForm) {
    // LL128 needs whole warps.
    const wholeLines = form.threads % 32 === 0;
    this.machine = new Machine({ warpSize: wholeLines ? 32 : 4, ...options });
    this.#team = { ranks, multiprocessors: 12, ranksPerDevice: 1, addressing, wholeLines };
    this.#form = form;
    const { bytes } = areaLayout(ranks, form.sizes);
    for (let rank = 0; rank < ranks; rank++) {
      this.#areas.push(this.machine.region(`area ${rank}`, bytes, rank, { zeroed: true }));
      this.#maps.push(this.machine.region(`maps ${rank}`, mapTableBytes(ranks), rank, { zeroed: true }));
    }
  }

  #buffer(rank: number, bytes: number, hidden: boolean): { region: number; slot: number } {
    const region = this.machine.region(`buffer of ${rank}`, bytes + 64, rank, {
      zeroed: true,
      private: hidden,
    });
    const slot = this.#slots++;
    for (const table of this.#maps) this.machine.write('ptr', table + 8 * (rank * MAP_SLOTS + slot), region);
    return { region, slot };
  }

  /** Queues transfers; `batchOf` says, for a rank, in which of its batches its end of transfer `i` is. */
  queue(transfers: readonly Transfer[], batchOf: (rank: number, i: number) => number, next: () => number) {
    const { machine } = this;
    const { ranks, addressing } = this.#team;
    const batches: Map<number, GpuMessage[]>[] = Array.from({ length: ranks }, () => new Map());
    const add = (rank: number, i: number, message: GpuMessage) => {
      const batch = batches[rank]!;
      const key = batchOf(rank, i);
      batch.set(key, [...(batch.get(key) ?? []), message]);
    };
    const targets: { region: number; slot: number }[] = [];
    const checks = transfers.map(({ from, to, bytes, hidden = false, unalign = 0, into }, i) => {
      const data = Uint8Array.from({ length: bytes }, () => Math.floor(next() * 256));
      const source = this.#buffer(from, bytes + unalign, true);
      machine.writeArray(source.region + unalign, data);
      const target = into === undefined ? this.#buffer(to, bytes + unalign, hidden) : targets[into]!;
      targets.push(target);
      if (into === undefined)
        machine.writeArray(target.region, new Uint8Array(bytes + unalign + 64).fill(0xa5));
      const at = target.region + unalign;
      const name = addressing === 'plain' ? BigInt(at) : mappedName(target.slot, unalign);
      add(from, i, { kind: 'send', peer: to, bytes, address: source.region + unalign });
      add(to, i, { kind: 'recv', peer: from, bytes, address: at, name: hidden ? STAGED : name });
      return () => {
        if (transfers.some((other) => other.into === i)) return;
        const found = machine.readArray(at, Uint8Array, bytes);
        for (let j = 0; j < bytes; j++) {
          if (found[j] !== data[j])
            throw new Error(`transfer ${i} from ${from} to ${to}: byte ${j} is wrong`);
        }
        if (machine.read('u8', at + bytes) !== 0xa5) throw new Error(`transfer ${i} wrote too much`);
      };
    });
    for (let rank = 0; rank < ranks; rank++) {
      const stream = machine.stream(rank);
      for (const [, list] of [...batches[rank]!].sort(([a], [b]) => a - b)) {
        for (const launch of gpuMessages(this.#team, rank, list, this.#form)) {
          const key = `${launch.key} ${this.#form.roundMask}`;
          let program = programs.get(key);
          if (program === undefined)
            programs.set(key, (program = launch.build(interpreterTraits({ threads: 'many' }))));
          const descriptor = machine.region('work', messageWork(ranks).size, rank, {
            zeroed: true,
            readOnly: true,
          });
          launch.write(machine.view(descriptor), 0, this.#areas, this.#maps[rank]);
          stream.launch(program, { descriptor, blocks: launch.blocks, threads: launch.threads });
        }
      }
    }
    return () => {
      for (const check of checks) check();
    };
  }
}

function randomTransfer(ranks: number, next: () => number): Transfer {
  return {
    from: Math.floor(next() * ranks),
    to: Math.floor(next() * ranks),
    bytes: pick([0, 1, 8, 60, 130, 200, 201, 256, 399], next),
    hidden: next() < 0.3,
    unalign: pick([0, 0, 1, 4, 8], next),
  };
}

function run(
  options: MachineOptions,
  build: (next: () => number) => {
    ranks: number;
    transfers: Transfer[];
    batchOf: (rank: number, i: number) => number;
  },
  form = FORM,
): void {
  const next = random(options.seed + 5);
  const { ranks, transfers, batchOf } = build(next);
  const team = new Messages(options, ranks, pick(['plain', 'mapped'] as const, next), form);
  const check = team.queue(transfers, batchOf, next);
  team.machine.run();
  check();
}

describe('sends and receives on GPUs', () => {
  it('move all messages of a batch at the same time, whoever sends to whom', () => {
    const runs = explore(
      (options) =>
        run(options, (next) => {
          const ranks = pick([2, 3], next);
          const transfers = Array.from({ length: 6 }, () => randomTransfer(ranks, next));
          return { ranks, transfers, batchOf: () => 0 };
        }),
      { seeds: 15 * EFFORT },
    );
    expect(runs).toBe(30 * EFFORT);
  });

  it('mix LL lines, LL128 lines and writes', () => {
    const runs = explore(
      (options) =>
        run(
          options,
          (next) => {
            const transfers = Array.from({ length: 5 }, () => ({
              ...randomTransfer(2, next),
              bytes: pick([8, 130, 131, 960, 2001, 2100, 2101], next),
            }));
            return { ranks: 2, transfers, batchOf: (rank, i) => (rank === 0 ? i : i >> 1) };
          },
          FORM128,
        ),
      { seeds: 5 * EFFORT },
    );
    expect(runs).toBe(10 * EFFORT);
  });

  it('keep the order of a pair when the two ends group their messages differently', () => {
    const runs = explore(
      (options) =>
        run(options, (next) => {
          const transfers = Array.from({ length: 5 }, () => ({ ...randomTransfer(2, next), from: 0, to: 1 }));
          return { ranks: 2, transfers, batchOf: (rank, i) => (rank === 0 ? i : i >> 2) };
        }),
      { seeds: 10 * EFFORT },
    );
    expect(runs).toBe(20 * EFFORT);
  });

  it('write into a buffer only when what came before is over', () => {
    const runs = explore(
      (options) =>
        run(options, () => {
          // The receiver's own program fills the buffer first, then the sender's.
          const transfers = [
            { from: 0, to: 1, bytes: 200 },
            { from: 0, to: 1, bytes: 201, into: 0 },
          ];
          return { ranks: 2, transfers, batchOf: (_, i) => i };
        }),
      { seeds: 8 * EFFORT },
    );
    expect(runs).toBe(16 * EFFORT);
  });

  it('go on when the numbers in lines come again', () => {
    const runs = explore(
      (options) =>
        run(
          options,
          () => {
            // Rounds 1 and 2 fill their banks, 3 to 8 do not; 9 and 10 have the numbers of 1 and 2.
            const sizes = [64, 8, 8, 8, 8, 8, 8, 64, 300, 64];
            const transfers = sizes.map((bytes) => ({ from: 0, to: 1, bytes }));
            return { ranks: 2, transfers, batchOf: () => 0 };
          },
          { ...FORM, roundMask: 7 },
        ),
      { seeds: 10 * EFFORT },
    );
    expect(runs).toBe(20 * EFFORT);
  });

  it('refuse messages that cannot be', () => {
    const team: GpuTeam = {
      ranks: 2,
      multiprocessors: 132,
      ranksPerDevice: 1,
      addressing: 'plain',
      wholeLines: true,
    };
    const send = { kind: 'send', peer: 1, bytes: 8, address: 0 } as const;
    expect(() => gpuMessages(team, 0, [{ ...send, peer: 2 }])).toThrow(
      'a message with rank 2; ranks are 0 to 1',
    );
    expect(() => gpuMessages(team, 0, [{ ...send, bytes: -1 }])).toThrow('a message of -1 bytes');
    expect(() => gpuMessages(team, 1, [send])).toThrow('rank 1 sends itself 1 messages and receives 0');
    expect(() => gpuMessages(team, 0, [{ ...send, kind: 'recv' }])).toThrow('without a name of its buffer');
  });

  it('take several launches for more messages than a descriptor holds, and never more blocks than run at a time', () => {
    const team: GpuTeam = {
      ranks: 2,
      multiprocessors: 132,
      ranksPerDevice: 1,
      addressing: 'plain',
      wholeLines: true,
    };
    const list = Array.from({ length: 40 }, (_, i): GpuMessage[] => [
      { kind: 'send', peer: 1, bytes: 1 << 20, address: i },
      { kind: 'recv', peer: 1, bytes: 1 << 20, address: i, name: i },
    ]).flat();
    const launches = gpuMessages(team, 0, list);
    expect(launches).toHaveLength(3);
    expect(launches.map(({ blocks }) => blocks)).toEqual([128, 128, 128]);
    expect(MESSAGE_FORM.sizes.pairChannels * 2).toBe(128);
  });
});
