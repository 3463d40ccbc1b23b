/**
 * The primitive calls of the ring programs, as the programs themselves record them, against the published schedules
 * written down again here.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RingCollective, RingProtocol } from '#src/collectives/ring.js';
import { ReceiverControl, SenderControl } from '#src/collectives/ring-connection.js';
import { ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import { WASM_TRAITS } from '#src/kernel/ir.js';
import { encode, reduceBits } from '#src/kernel/numeric.js';
import { inputsFor, random } from './random-call.js';
import { type SimulatedCall, SimulatedTeam, type TeamOptions } from './simulated-team.js';
import { type Call, callsOf, TRACE_BYTES, tracedRing } from './traced-ring.js';
import { WasmMachine, type WasmMachineOptions } from './wasm-machine.js';

interface Run {
  readonly team: SimulatedTeam<WasmMachine>;
  /** By rank, then channel. */
  readonly calls: readonly (readonly Call[][])[];
}

interface RunOptions extends Partial<TeamOptions> {
  readonly machine?: WasmMachineOptions;
  readonly seed?: number;
  /** `false` leaves the buffers as they are and looks at the calls only. */
  readonly data?: boolean;
}

const asRing = (collective: RingCollective, protocol: RingProtocol, count: number): SimulatedCall => ({
  algorithm: 'Ring',
  collective,
  protocol,
  type: 'float32',
  op: 'sum',
  root: 0,
  count,
});

/** Runs one traced call, compares its result with the reference, and gives what every rank did. */
function trace(call: SimulatedCall, ranks: number, options: RunOptions = {}): Run {
  const channels = options.channels ?? 1;
  const team = new SimulatedTeam(new WasmMachine(options.machine), {
    ranks,
    traits: WASM_TRAITS,
    traceBytes: channels * TRACE_BYTES,
    mutate: (_, { collective, protocol, type, op }) =>
      tracedRing(WASM_TRAITS, { collective, protocol: protocol!, reduction: { type, op } }),
    ...options,
  });
  const streams = Array.from({ length: ranks }, (_, rank) => team.machine.stream(rank));
  const inputs =
    options.data === false
      ? Array.from({ length: ranks }, () => [])
      : inputsFor(call, ranks, random(options.seed ?? 1));
  const check = team.launch(call, inputs, streams);
  team.machine.run();
  if (options.data !== false) check();
  const list = (rank: number) => Array.from({ length: channels }, (_, c) => callsOf(team, rank, c));
  return { team, calls: Array.from({ length: ranks }, (_, rank) => list(rank)) };
}

// ---- the schedules, from the published description ----

interface Expected {
  readonly name: string;
  readonly elements: number;
  /** Elements from the beginning of the buffers. */
  readonly input?: number;
  readonly output?: number;
  readonly after?: boolean;
}

interface Share {
  readonly offset: number;
  readonly count: number;
}

/** Ring all-reduce at ring position `i` of `n`; C elements per chunk. */
function allReduceCalls(n: number, i: number, C: number, size: number, share: Share): Expected[] {
  const calls: Expected[] = [];
  for (let e = 0; e < share.count; e += n * C) {
    const left = share.count - e;
    const grain = 16 / size;
    const c = left < n * C ? Math.ceil(Math.ceil(left / n) / grain) * grain : C;
    const chunk = (back: number) => {
      const k = (i + n - back) % n;
      return { at: share.offset + e + k * c, elements: Math.max(0, Math.min(c, left - k * c)) };
    };
    const call = (name: string, back: number, input: boolean, output: boolean, after = false) => {
      const { at, elements } = chunk(back);
      calls.push({
        name,
        elements,
        ...(input ? { input: at } : {}),
        ...(output ? { output: at } : {}),
        after,
      });
    };
    call('send', 1, true, false);
    for (let j = 2; j <= n - 1; j++) call('recvReduceSend', j, true, false);
    call('recvReduceCopySend', 0, true, true, true);
    for (let j = 1; j <= n - 2; j++) call('recvCopySend', j, false, true);
    call('recv', n - 1, false, true);
  }
  return calls;
}

/** Chunks of a share without realignment of the last one. */
function chunksOf(C: number, { offset, count }: Share): { at: number; elements: number }[] {
  const chunks = [];
  for (let e = 0; e < count; e += C) chunks.push({ at: offset + e, elements: Math.min(C, count - e) });
  return chunks;
}

interface Place {
  readonly n: number;
  /** Ranks by ring distance after this one; the first is this rank. */
  readonly order: readonly number[];
  readonly count: number;
  readonly root: number;
  readonly inPlace: boolean;
}

type Schedule = (place: Place, d: number, elements: number) => Expected[];

const SCHEDULES: Readonly<Record<Exclude<RingCollective, 'allReduce'>, Schedule>> = {
  allGather: ({ n, order: q, count: K, inPlace }, d, elements) => {
    const own = d + q[0]! * K;
    return [
      inPlace ? { name: 'send', input: d, elements } : { name: 'copySend', input: d, output: own, elements },
      ...Array.from({ length: n - 2 }, (_, j) => ({
        name: 'recvCopySend',
        output: d + q[n - 1 - j]! * K,
        elements,
      })),
      { name: 'recv', output: d + q[1]! * K, elements },
    ];
  },
  reduceScatter: ({ n, order: q, count: K }, d, elements) => [
    { name: 'send', input: d + q[n - 1]! * K, elements },
    ...Array.from({ length: n - 2 }, (_, j) => ({
      name: 'recvReduceSend',
      input: d + q[n - 2 - j]! * K,
      elements,
    })),
    { name: 'recvReduceCopy', input: d + q[0]! * K, output: d, elements, after: true },
  ],
  allToAll: ({ n, order: q, count: K }, d, elements) => [
    { name: 'copy', input: d + q[0]! * K, output: d + q[0]! * K, elements },
    ...Array.from({ length: n - 1 }, (_, i) => i + 1).flatMap((distance) => [
      { name: 'send', input: d + q[distance]! * K, elements },
      ...Array.from({ length: distance - 1 }, () => ({ name: 'recvSend', elements })),
      { name: 'recv', output: d + q[n - distance]! * K, elements },
    ]),
  ],
  broadcast: ({ order: q, root, inPlace }, d, elements) => {
    if (q[0] !== root) return [{ name: q[1] === root ? 'recv' : 'recvCopySend', output: d, elements }];
    return [
      inPlace ? { name: 'send', input: d, elements } : { name: 'copySend', input: d, output: d, elements },
    ];
  },
  reduce: ({ n, order: q, root }, d, elements) => {
    if (q[n - 1] === root) return [{ name: 'send', input: d, elements }];
    if (q[0] !== root) return [{ name: 'recvReduceSend', input: d, elements }];
    return [{ name: 'recvReduceCopy', input: d, output: d, elements, after: true }];
  },
};

/** Compares calls with the schedule; where an empty chunk lies does not matter. */
function expectCalls(found: readonly Call[], expected: readonly Expected[], size: number): void {
  const place = (at: number | undefined, call: Call | Expected, unit: number) =>
    at === undefined ? 'none' : call.elements === 0 ? 'anywhere' : at * unit;
  const plain = (call: Call | Expected, unit: number) => ({
    name: call.name,
    elements: call.elements,
    input: place(call.input, call, unit),
    output: place(call.output, call, unit),
    after: call.after ?? false,
  });
  expect(found.map((call) => plain(call, 1))).toEqual(expected.map((call) => plain(call, size)));
}

interface Case {
  readonly ranks: number;
  readonly ring: readonly number[];
  readonly protocol: RingProtocol;
  readonly type: ElementType;
  readonly channels: number;
  readonly count: number;
  readonly root: number;
  readonly inPlace: boolean;
  readonly seed: number;
}

/** Counts from nothing over fewer than ranks to several loops. */
const cases: fc.Arbitrary<Case> = fc.integer({ min: 2, max: 8 }).chain((ranks) =>
  fc.record({
    ranks: fc.constant(ranks),
    ring: fc.shuffledSubarray(
      Array.from({ length: ranks }, (_, rank) => rank),
      { minLength: ranks },
    ),
    protocol: fc.constantFrom<RingProtocol>('LL', 'Simple'),
    type: fc.constantFrom<ElementType>('int32', 'uint8', 'float16', 'float64'),
    channels: fc.integer({ min: 1, max: 3 }),
    count: fc.oneof(fc.nat(ranks), fc.nat(40), fc.nat(ranks * 100)),
    root: fc.nat(ranks - 1),
    inPlace: fc.boolean(),
    seed: fc.nat(1000),
  }),
);

const toCall = (collective: RingCollective, c: Case): SimulatedCall => ({
  ...asRing(collective, c.protocol, c.count),
  type: c.type,
  root: c.root,
  inPlace: c.inPlace,
});

const runCase = (collective: RingCollective, c: Case) =>
  trace(toCall(collective, c), c.ranks, {
    ring: c.ring,
    channels: c.channels,
    seed: c.seed,
    bufferBytes: 65536,
  });

describe('all-reduce', () => {
  it('makes 2n - 1 calls per loop in the order of the schedule, for any ranks and counts, empty chunks included [C10-01] [C10-04] [C10-05]', () => {
    fc.assert(
      fc.property(cases, (c) => {
        const { team, calls } = runCase('allReduce', c);
        const call = toCall('allReduce', c);
        const { size } = ELEMENT_TYPES[c.type];
        c.ring.forEach((rank, position) => {
          team.shares(call).forEach((share, channel) => {
            const expected = allReduceCalls(c.ranks, position, team.chunk(call), size, share);
            expectCalls(calls[rank]![channel]!, expected, size);
            expect(expected.length % (2 * c.ranks - 1)).toBe(0);
          });
        });
      }),
      { numRuns: 60 },
    );
  });

  it.each(['LL', 'Simple'] as const)(
    'handles chunks 3,2,1,0,3,2,1 at position 0 of 4 with %s [C10-02]',
    (protocol) => {
      const { team, calls } = trace(asRing('allReduce', protocol, 4 * 16), 4, {
        llSlot: 128,
        simpleSlot: 16,
      });
      expect(team.chunk(asRing('allReduce', protocol, 64))).toBe(16);
      const chunks = calls.map(([list]) => list!.map((call) => (call.input ?? call.output!) / 64));
      expect(chunks).toEqual([
        [3, 2, 1, 0, 3, 2, 1],
        [0, 3, 2, 1, 0, 3, 2],
        [1, 0, 3, 2, 1, 0, 3],
        [2, 1, 0, 3, 2, 1, 0],
      ]);
      expect(calls[0]![0]!.map(({ name }) => name)).toEqual([
        'send',
        'recvReduceSend',
        'recvReduceSend',
        'recvReduceCopySend',
        'recvCopySend',
        'recvCopySend',
        'recv',
      ]);
    },
  );

  it('cuts 1000 floats on 4 ranks with chunks of 128 into loops of 128 and 124, 124, 124, 116 [C10-04]', () => {
    for (const protocol of ['LL', 'Simple'] as const) {
      const { calls } = trace(asRing('allReduce', protocol, 1000), 4, { llSlot: 1024, simpleSlot: 128 });
      for (const [list] of calls) {
        expect(list!.length).toBe(14);
        const lengthAt = new Map(list!.map((call) => [(call.input ?? call.output!) / 4, call.elements]));
        expect([...lengthAt].sort(([a], [b]) => a - b)).toEqual([
          [0, 128],
          [128, 128],
          [256, 128],
          [384, 128],
          [512, 124],
          [636, 124],
          [760, 124],
          [884, 116],
        ]);
      }
    }
  });

  it('makes all its calls with fewer elements than ranks, most of them empty [C10-05]', () => {
    for (const protocol of ['LL', 'Simple'] as const) {
      for (const count of [1, 2, 5]) {
        const { calls } = trace({ ...asRing('allReduce', protocol, count), type: 'float64' }, 6);
        for (const [list] of calls) expect(list!.length).toBe(11);
        const empty = calls.map(([list]) => list!.filter(({ elements }) => elements === 0).length);
        // Chunks of 2 elements: ceil(count / 2) of the 6 have any, and each is in 2 calls of a rank, or 1.
        expect(empty.every((calls) => calls >= 11 - 2 * Math.ceil(count / 2))).toBe(true);
      }
    }
  });

  it('sends 2(n - 1) chunks per rank and loop, 2(n - 1)/n of the data [C10-03]', () => {
    for (const protocol of ['LL', 'Simple'] as const) {
      for (let n = 2; n <= 8; n++) {
        const loops = 3;
        const call = asRing('allReduce', protocol, 0);
        const chunk = protocol === 'LL' ? 16 : 64;
        const count = loops * n * chunk;
        const { team, calls } = trace({ ...call, count }, n, { bufferBytes: 65536 });
        expect(team.chunk(call)).toBe(chunk);
        for (const [rank, [list]] of calls.entries()) {
          const sent = list!.filter(({ name }) => /send$/i.test(name));
          expect(sent.length).toBe(loops * 2 * (n - 1));
          const elements = sent.reduce((sum, call) => sum + call.elements, 0);
          expect(elements).toBe((2 * (n - 1) * count) / n);
          // The connection's own counter says the same.
          const { sender } = team.connection(rank, 0);
          const steps = team.machine.read('u64', sender + SenderControl.fields.step.offset);
          expect(Number(steps)).toBe(sent.length * (protocol === 'LL' ? 1 : 4));
        }
      }
    }
  });

  it('sends 2(n - 1)/n of any count within the alignment of one loop [C10-03]', () => {
    fc.assert(
      fc.property(cases, (c) => {
        const { calls } = runCase('allReduce', { ...c, channels: 1 });
        const grain = 16 / ELEMENT_TYPES[c.type].size;
        for (const [list] of calls) {
          const sent = list!.filter(({ name }) => /send$/i.test(name));
          const elements = sent.reduce((sum, call) => sum + call.elements, 0);
          const exact = (2 * (c.ranks - 1) * c.count) / c.ranks;
          expect(Math.abs(elements - exact)).toBeLessThanOrEqual(2 * (c.ranks - 1) * (grain + 1));
        }
      }),
      { numRuns: 30 },
    );
  });

  it('sends every chunk 2(n - 1) times over all ranks and writes every element once per rank [C02-11] [C02-12]', () => {
    fc.assert(
      fc.property(cases, (c) => {
        const { calls } = runCase('allReduce', c);
        const { size } = ELEMENT_TYPES[c.type];
        const sends = new Array<number>(c.count).fill(0);
        for (const list of calls) {
          const writes = new Array<number>(c.count).fill(0);
          for (const call of list.flat()) {
            const first = (call.input ?? call.output!) / size;
            for (let e = first; e < first + call.elements; e++) {
              if (/send$/i.test(call.name)) sends[e]!++;
              if (call.output !== undefined) writes[e]!++;
            }
          }
          expect(writes.every((times) => times === 1)).toBe(true);
        }
        expect(sends.every((times) => times === 2 * (c.ranks - 1))).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  /** Slice that a step of a rank sends, from the addressing function of the proxy (bytes). */
  function addressing(curStep: number, ringIndex: number, channelSize: number) {
    const [elemSize, nRanks, chunkSize, sliceSize, chunkSteps, sliceSteps] = [4, 4, 524288, 262144, 4, 2];
    const loopSize = nRanks * chunkSize;
    const nStepsPerLoop = 2 * (nRanks - 1) * chunkSteps;
    const elemOffset = Math.floor(curStep / nStepsPerLoop) * loopSize;
    const stage = Math.floor((curStep % nStepsPerLoop) / chunkSteps);
    const chunkStage = stage % nRanks;
    const sliceStage = Math.floor((curStep % chunkSteps) / sliceSteps);
    const remSize = channelSize - elemOffset;
    const grain = 16 / elemSize;
    const curChunkSize =
      remSize < loopSize
        ? Math.ceil(Math.ceil(remSize / elemSize / nRanks) / grain) * grain * elemSize
        : chunkSize;
    const chunkId = (ringIndex + nRanks - 1 - chunkStage) % nRanks;
    const chunkOffset = chunkId * curChunkSize;
    const nelem = Math.min(remSize - chunkOffset, curChunkSize);
    const slices = chunkSteps / sliceSteps;
    const curSliceSize =
      Math.max(Math.ceil(nelem / elemSize / (16 * slices)) * 16, sliceSize / elemSize / 32) * elemSize;
    const sliceOffset = sliceStage * curSliceSize;
    return {
      stage,
      address: elemOffset + chunkOffset,
      chunk: nelem,
      slice: Math.max(0, Math.min(curSliceSize, nelem - sliceOffset)),
    };
  }

  it('sends the slices of the ring addressing function, worked example included [C02-12]', () => {
    const channelSize = 4_000_000;
    const slices = Array.from({ length: 4 }, () => new Map<number, number>());
    let team: SimulatedTeam<WasmMachine> | undefined;
    // A slot's cell says how much a step put there; no turn can fill a slot twice.
    const afterTurn = () => {
      for (const [rank, seen] of slices.entries()) {
        const { receiver } = team!.connection((rank + 1) % 4, 0);
        for (let slot = 0; slot < 8; slot++) {
          const cell = team!.machine.read('u64', receiver + ReceiverControl.fields.size.offset + 8 * slot);
          if (cell !== 0n) seen.set(Number(BigInt(cell) >> 32n) - 1, Number(BigInt(cell) & 0xffffffffn));
        }
      }
    };
    const call = asRing('allReduce', 'Simple', channelSize / 4);
    const options = { ranks: 4, traits: WASM_TRAITS, traceBytes: TRACE_BYTES, simpleSlot: 131072 };
    team = new SimulatedTeam(new WasmMachine({ afterTurn }), {
      ...options,
      bufferBytes: 2 * channelSize + 256,
      mutate: () =>
        tracedRing(WASM_TRAITS, {
          collective: 'allReduce',
          protocol: 'Simple',
          reduction: { type: 'float32', op: 'sum' },
        }),
    });
    const streams = [0, 1, 2, 3].map((rank) => team!.machine.stream(rank));
    team.launch(call, [[], [], [], []], streams);
    team.machine.run();

    const steps = 2 * 6 * 4;
    for (let rank = 0; rank < 4; rank++) {
      const sent = callsOf(team, rank, 0).filter(({ name }) => /send$/i.test(name));
      expect(sent.length).toBe(2 * 6);
      expect([...slices[rank]!.keys()].sort((a, b) => a - b)).toEqual(
        Array.from({ length: steps / 2 }, (_, i) => 2 * i),
      );
      for (let step = 0; step < steps; step += 2) {
        const { address, chunk, slice } = addressing(step, rank, channelSize);
        const primitive = sent[Math.floor(step / 4)]!;
        expect(slices[rank]!.get(step)).toBe(slice);
        expect(primitive.elements * 4).toBe(chunk);
        expect(primitive.input ?? primitive.output).toBe(address);
      }
    }
    expect([24, 26].map((step) => slices[1]!.get(step))).toEqual([237_888, 237_824]);
  });

  it('adds contributions in ring order, the last at the position of the chunk: x0 + (x3 + (x2 + x1))', () => {
    // Sums of these depend on their order.
    const values = [2 ** -24, 1, -(2 ** 24), 2 ** 24 + 2].map((x) => encode('float32', x));
    const [x0, x1, x2, x3] = values as [bigint, bigint, bigint, bigint];
    const add = (a: bigint, b: bigint) => reduceBits('float32', 'sum', a, b);
    const byChunk = [
      add(x0, add(x3, add(x2, x1))),
      add(x1, add(x0, add(x3, x2))),
      add(x2, add(x1, add(x0, x3))),
      add(x3, add(x2, add(x1, x0))),
    ];
    expect(new Set(byChunk).size).toBeGreaterThan(1);
    for (const protocol of ['LL', 'Simple'] as const) {
      const call = asRing('allReduce', protocol, 16);
      const team = new SimulatedTeam(new WasmMachine(), { ranks: 4, traits: WASM_TRAITS });
      const streams = [0, 1, 2, 3].map((rank) => team.machine.stream(rank));
      const inputs = values.map((value) => new Array<bigint>(16).fill(value));
      team.launch(call, inputs, streams);
      team.machine.run();
      for (const { recv } of team.places) {
        const found = Array.from({ length: 16 }, (_, i) => team.machine.read('u32', recv + 4 * i));
        expect(found).toEqual(Array.from({ length: 16 }, (_, i) => Number(byChunk[i >> 2])));
      }
    }
  });
});

describe('the other rings', () => {
  const follows = (collective: Exclude<RingCollective, 'allReduce'>) =>
    fc.assert(
      fc.property(cases, (c) => {
        const { team, calls } = runCase(collective, c);
        expectSchedule(collective, c, team, calls);
      }),
      { numRuns: 40 },
    );

  const everyRoot = (collective: 'broadcast' | 'reduce') => {
    for (const ring of [
      [0, 1],
      [2, 0, 1],
      [0, 1, 2, 3],
      [3, 1, 4, 0, 2],
    ]) {
      for (const root of ring) {
        for (const inPlace of [false, true]) {
          const place = { ranks: ring.length, ring, root, inPlace, channels: 1, count: 50, seed: root };
          const c: Case = { ...place, protocol: 'LL', type: 'int32' };
          const { team, calls } = runCase(collective, c);
          expectSchedule(collective, c, team, calls);
        }
      }
    }
  };

  it('all-gather copies its own block once, and not at all when it is in place [C10-13]', () => {
    follows('allGather');
  });

  it('reduce-scatter adds the pieces of its send buffer and leaves the sum in the whole of recv [C10-16]', () => {
    follows('reduceScatter');
  });

  it('broadcast has three branches in every channel: the root, the last of the ring, and those between [C10-17] [C10-19]', () => {
    follows('broadcast');
    everyRoot('broadcast');
  });

  it('reduce has three branches: the first of the ring, the root, and those between [C10-18]', () => {
    follows('reduce');
    everyRoot('reduce');
  });

  it('and all-reduce close every element once, where its sum is complete [C10-06]', () => {
    fc.assert(
      fc.property(cases, (c) => {
        for (const collective of ['allReduce', 'reduceScatter', 'reduce'] as const) {
          const { calls } = runCase(collective, c);
          const { size } = ELEMENT_TYPES[c.type];
          const total = collective === 'reduceScatter' ? c.count * c.ranks : c.count;
          const closed = new Array<number>(total).fill(0);
          calls.forEach((list, rank) => {
            for (const { after, name, input, elements } of list.flat()) {
              if (!after) continue;
              if (collective === 'allReduce') expect(name).toBe('recvReduceCopySend');
              else expect(name).toBe('recvReduceCopy');
              if (collective === 'reduce') expect(rank).toBe(c.root);
              for (let e = 0; e < elements; e++) closed[input! / size + e]!++;
            }
          });
          expect(closed.every((times) => times === 1)).toBe(true);
        }
      }),
      { numRuns: 15 },
    );
  });
});

describe('all-to-all', () => {
  it('passes every block on until it is where it belongs', () => {
    fc.assert(
      fc.property(cases, (c) => {
        // n (n + 1) / 2 calls per chunk: more elements than these would overrun the records of 8 ranks.
        const apart = { ...c, inPlace: false, count: Math.min(c.count, 100) };
        const { team, calls } = runCase('allToAll', apart);
        expectSchedule('allToAll', apart, team, calls);
      }),
      { numRuns: 20 },
    );
  });
});

function expectSchedule(
  collective: Exclude<RingCollective, 'allReduce'>,
  c: Case,
  team: Run['team'],
  calls: Run['calls'],
): void {
  const call = toCall(collective, c);
  const { size } = ELEMENT_TYPES[c.type];
  for (let rank = 0; rank < c.ranks; rank++) {
    const at = c.ring.indexOf(rank);
    const order = c.ring.map((_, k) => c.ring[(at + k) % c.ranks]!);
    const place: Place = { n: c.ranks, order, count: c.count, root: c.root, inPlace: c.inPlace };
    team.shares(call).forEach((share, channel) => {
      const expected = chunksOf(team.chunk(call), share).flatMap(({ at: d, elements }) =>
        SCHEDULES[collective](place, d, elements),
      );
      expectCalls(calls[rank]![channel]!, expected, size);
    });
  }
}
