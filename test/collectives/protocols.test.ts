/** What the protocols leave in memory and how their two sides wait for each other, without an algorithm on top. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ReceiverControl, RingChannel, SenderControl } from '#src/collectives/ring-connection.js';
import { ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import { explore, findFailure } from '#src/kernel/interpreter/explore.js';
import { MachineFault } from '#src/kernel/interpreter/fault.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, type Traits, WASM_TRAITS } from '#src/kernel/ir.js';
import { encode } from '#src/kernel/numeric.js';
import { type Direction, type DriverOptions, driver, Link } from './link.js';
import { pick, random } from './random-call.js';
import { WasmMachine } from './wasm-machine.js';

const TRAITS = interpreterTraits({ threads: 'one' });

const programs = new Map<string, Program>();
/** The program of these options, generated once. */
function programOf(traits: Traits, options: Omit<DriverOptions, 'before'>): Program {
  const key = JSON.stringify([traits.name, options]);
  let program = programs.get(key);
  if (program === undefined) {
    program = driver(traits, options);
    programs.set(key, program);
  }
  return program;
}

const LL = (direction: Direction, options: Partial<DriverOptions> = {}) =>
  programOf(TRAITS, { direction, protocol: 'LL', ...options });
const simple = (direction: Direction, options: Partial<DriverOptions> = {}) =>
  programOf(TRAITS, { direction, protocol: 'Simple', ...options });

function linkFor(options: Partial<MachineOptions> = {}, slots = {}): Link<Machine> {
  return new Link(new Machine({ seed: 1, memory: 'strong', ...options }), slots);
}

/** A region of bytes 1, 2, 3, ... of a rank. */
function bytesOf(link: Link<Machine>, rank: number, length: number): number {
  const address = link.machine.region(`data ${rank}`, length, rank);
  link.machine.writeArray(
    address,
    Uint8Array.from({ length }, (_, i) => i + 1),
  );
  return address;
}

const outputOf = (link: Link<Machine>, length: number): number =>
  link.machine.region('output', length, 1, { zeroed: true });

const bytesAt = (link: Link<Machine>, address: number, length: number): number[] => [
  ...link.machine.readArray(address, Uint8Array, length),
];

/** Runs to the deadlock that must come, and gives its report. */
function stuck(link: Link<Machine>): string {
  try {
    link.machine.run();
  } catch (error) {
    if (error instanceof MachineFault && error.kind === 'deadlock') return error.message;
    throw error;
  }
  throw new Error('ran to its end');
}

describe('LL lines', () => {
  it('are 16 bytes: data, flag, data, flag, with 8 bytes of payload [C09-02]', () => {
    const link = linkFor();
    link.launch(0, { program: LL('send'), calls: [19], data: bytesOf(link, 0, 19) });
    link.machine.run();
    expect(bytesAt(link, link.slot('LL', 0), 64)).toEqual([
      ...[1, 2, 3, 4, 1, 0, 0, 0, 5, 6, 7, 8, 1, 0, 0, 0],
      ...[9, 10, 11, 12, 1, 0, 0, 0, 13, 14, 15, 16, 1, 0, 0, 0],
      ...[17, 18, 19, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
      ...new Array<number>(16).fill(0),
    ]);
  });

  it('carry the flag step + 1 in the slot step mod 8, the first being 1 [C09-03]', () => {
    const link = linkFor();
    link.machine.write('u64', link.counter('head'), 20);
    const calls = new Array<number>(11).fill(8);
    link.launch(0, { program: LL('send'), calls, data: bytesOf(link, 0, 88) });
    link.machine.run();
    const flags = Array.from({ length: 8 }, (_, step) => [4, 12].map((at) => link.slot('LL', step) + at));
    expect(flags.map((pair) => pair.map((at) => link.machine.read('u32', at)))).toEqual(
      [9, 10, 11, 4, 5, 6, 7, 8].map((flag) => [flag, flag]),
    );
  });

  it('that are zero are nothing to a receiver, in every slot [C09-03]', () => {
    for (const step of [0n, 5n, 1000n]) {
      const link = linkFor();
      link.setSteps(step);
      link.launch(1, { program: LL('recv'), calls: [8], output: outputOf(link, 8) });
      expect(stuck(link)).toMatch(/rank 1 .* waits .* on receiver 1\+0x[0-9a-f]+ = 0/);
    }
  });

  it('are accepted only when both flags are those of the step [C09-04]', () => {
    const line = (first: number, second: number) => {
      const link = linkFor();
      link.setSteps(3n);
      const at = link.slot('LL', 3);
      [0x04030201, first, 0x08070605, second].forEach((word, i) => {
        link.machine.write('u32', at + 4 * i, word);
      });
      const output = outputOf(link, 8);
      link.launch(1, { program: LL('recv'), calls: [8], output });
      return { link, output };
    };
    // The flag of step 3 is 4; -4 is that of the slot's use before.
    for (const [first, second] of [
      [4, 0],
      [0, 4],
      [4, 0xfffffffc],
      [0xfffffffc, 4],
      [5, 4],
      [4, 5],
      [3, 3],
      [12, 12],
    ] as const) {
      stuck(line(first, second).link);
    }
    const { link, output } = line(4, 4);
    link.machine.run();
    expect(bytesAt(link, output, 8)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });
});

describe('LL credit', () => {
  it('holds a sender back at 8 unconsumed steps, and the 9th goes when one is consumed [C09-05]', () => {
    const calls = new Array<number>(9).fill(8);
    const start = (head: number, count: number) => {
      const link = linkFor();
      link.machine.write('u64', link.counter('head'), head);
      link.launch(0, { program: LL('send'), calls: calls.slice(0, count), data: bytesOf(link, 0, 72) });
      return link;
    };
    start(0, 8).machine.run();
    const held = start(0, 9);
    expect(stuck(held)).toMatch(/rank 0 .* waits .* on sender 0\+0x0 = 0/);
    // The slot of the 9th step still holds the first.
    expect(held.machine.read('u32', held.slot('LL', 8) + 4)).toBe(1);
    const gone = start(1, 9);
    gone.machine.run();
    expect(gone.machine.read('u32', gone.slot('LL', 8) + 4)).toBe(9);
  });

  it('comes back from the receiver step by step [C09-05]', () => {
    const calls = new Array<number>(30).fill(13);
    explore(
      (options) => {
        const link = linkFor(options);
        const data = bytesOf(link, 0, 13 * 30);
        const output = outputOf(link, 13 * 30);
        link.launch(0, { program: LL('send'), calls, data });
        link.launch(1, { program: LL('recv'), calls, output });
        link.machine.run();
        expect(bytesAt(link, output, 13 * 30)).toEqual(bytesAt(link, data, 13 * 30));
        expect(['head', 'sent', 'received'].map((name) => link.read(name as 'head'))).toEqual([30, 30, 30]);
      },
      { seeds: 20 },
    );
  });

  it('is cached: memory is not looked at again while the known head suffices [C09-06]', () => {
    // The program itself takes the head back after it was read: a sender that looked again would be held.
    const program = driver(TRAITS, {
      direction: 'send',
      protocol: 'LL',
      before: (k, channel) => {
        k.setField(k.field(channel, RingChannel, 'sendControl'), SenderControl, 'head', 0);
      },
    });
    const start = (count: number) => {
      const link = linkFor();
      link.machine.write('u64', link.counter('head'), 4);
      const calls = new Array<number>(count).fill(8);
      link.launch(0, { program, calls, data: bytesOf(link, 0, 8 * count) });
      return link;
    };
    start(12).machine.run();
    stuck(start(13));
  });
});

describe('LL clean-up', () => {
  const lowLatency = { flagMask: 31, cleanMask: 8 };
  /** 8 lines of which a call uses few or all, so that lines keep flags of long ago. */
  const scenario = (options: { flagMask: number; cleanMask: number }) => (machine: MachineOptions) => {
    const next = random(machine.seed + 1);
    // Nine wraps of the flags.
    const calls = Array.from({ length: 9 * 32 }, () => pick([1, 3, 8, 17, 64], next));
    const total = calls.reduce((a, b) => a + b);
    const link = linkFor(machine, { llSlot: 128 });
    const data = bytesOf(link, 0, total);
    link.machine.writeArray(
      data,
      Uint8Array.from({ length: total }, () => Math.floor(next() * 256)),
    );
    const output = outputOf(link, total);
    link.launch(0, { program: LL('send', { lowLatency: options }), calls, data });
    link.launch(1, { program: LL('recv', { lowLatency: options }), calls, output });
    link.machine.run();
    const sent = bytesAt(link, data, total);
    const wrong = bytesAt(link, output, total).findIndex((byte, i) => byte !== sent[i]);
    if (wrong >= 0) throw new Error(`byte ${wrong} is wrong`);
  };

  it('keeps runs over several wraps of the flags right; without it they are corrupted [C09-07]', () => {
    explore(scenario(lowLatency), { seeds: 8 });
    // The same flags, and a mask that no step matches.
    const failure = findFailure(scenario({ flagMask: 31, cleanMask: 1 << 20 }), { seeds: 12 });
    expect((failure?.error as Error | undefined)?.message).toMatch(/^byte \d+ is wrong$/);
  });

  it('rewrites every line beyond the data with zeros and the flag of the step [C09-07]', () => {
    const link = linkFor({}, { llSlot: 128 });
    link.setSteps(9n);
    link.machine.writeArray(link.slot('LL', 9), new Uint8Array(128).fill(0xee));
    link.machine.writeArray(link.slot('LL', 10), new Uint8Array(128).fill(0xee));
    const program = LL('send', { lowLatency: { flagMask: 0xff, cleanMask: 9 } });
    link.launch(0, { program, calls: [9, 9], data: bytesOf(link, 0, 18) });
    link.machine.run();
    const clean = [0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0];
    const lines = bytesAt(link, link.slot('LL', 9), 128);
    for (let line = 2; line < 8; line++) expect(lines.slice(16 * line, 16 * line + 16)).toEqual(clean);
    // Step 10 does not match the mask.
    expect(bytesAt(link, link.slot('LL', 10) + 32, 96)).toEqual(new Array<number>(96).fill(0xee));
  });

  it('happens at the steps just before 2^31, and flags go on after 2^32', () => {
    const touched = (step: bigint) => {
      const link = linkFor();
      link.setSteps(step);
      const slot = link.slot('LL', Number(step & 7n));
      link.machine.writeArray(slot, new Uint8Array(64).fill(0xee));
      link.launch(0, { program: LL('send'), calls: [8], data: bytesOf(link, 0, 8) });
      link.machine.run();
      const flag = Number((step + 1n) & 0xffffffffn);
      expect(link.machine.read('u32', slot + 4)).toBe(flag);
      return link.machine.read('u32', slot + 48 + 4) === flag;
    };
    for (let slot = 0n; slot < 8n; slot++) {
      expect(touched(0x7ffffff8n + slot)).toBe(true);
      expect(touched(0xfffffff8n + slot)).toBe(true);
    }
    expect([0n, 7n, 0x7ffffff7n, 0x80000000n, 0x1_0000_0000n].some(touched)).toBe(false);
  });

  it('lets data pass the wrap of the real flags', () => {
    const link = linkFor({ seed: 3 }, { llSlot: 128 });
    link.setSteps(0xffffffe0n);
    // Whole slots first, so that every line has a flag of its use; then short ones across the wrap.
    const calls = [
      ...new Array<number>(16).fill(64),
      ...Array.from({ length: 40 }, (_, i) => 1 + (i % 9) * 7),
    ];
    const total = calls.reduce((a, b) => a + b);
    const data = bytesOf(link, 0, total);
    const output = outputOf(link, total);
    link.launch(0, { program: LL('send'), calls, data });
    link.launch(1, { program: LL('recv'), calls, output });
    link.machine.run();
    expect(bytesAt(link, output, total)).toEqual(bytesAt(link, data, total));
    expect(link.read('sent')).toBe(0xffffffe0 + 56);
  });
});

/** The bytes of one element, lowest first. */
function bytesOfElement(type: ElementType, value: number): number[] {
  const bits = encode(type, type === 'uint64' ? BigInt(value) : value);
  return Array.from({ length: ELEMENT_TYPES[type].size }, (_, i) => Number((bits >> BigInt(8 * i)) & 255n));
}

describe('misaligned user memory', () => {
  const TYPES: readonly ElementType[] = ['uint8', 'float16', 'int32', 'uint64'];

  it.each(TYPES)('LL moves and adds %s at every byte offset, and touches no byte beside [C09-08]', (type) => {
    const { size } = ELEMENT_TYPES[type];
    for (let misalign = 0; misalign < 16; misalign++) {
      for (const direction of ['recv', 'recvReduceCopy'] as const) {
        const machine = new WasmMachine();
        const link = new Link(machine, { llSlot: 128 });
        const calls = [1, 5, Math.floor(64 / size), 64 / size - 1, 2];
        const total = calls.reduce((a, b) => a + b) * size;
        const areas = ['data', 'own', 'output'].map((name, i) => {
          const at = machine.region(name, total + 64, i) + 16 + ((misalign + 5 * i) % 16);
          machine.writeArray(at - 16, new Uint8Array(total + 32).fill(0xa5));
          return at;
        }) as [number, number, number];
        const [data, own, output] = areas;
        const fill = (value: (i: number) => number) =>
          Array.from({ length: total / size }, (_, i) => bytesOfElement(type, value(i))).flat();
        machine.writeArray(data, Uint8Array.from(fill((i) => i % 2)));
        machine.writeArray(own, Uint8Array.from(fill((i) => 1 + (i % 2))));
        const options = { protocol: 'LL', type } as const;
        const sender = programOf(WASM_TRAITS, { ...options, direction: 'send' });
        link.launch(0, { program: sender, calls, type, data });
        const receiver = programOf(WASM_TRAITS, { ...options, direction });
        link.launch(1, { program: receiver, calls, type, data: own, output });
        machine.run();
        const expected = direction === 'recv' ? (i: number) => i % 2 : (i: number) => 1 + 2 * (i % 2);
        const guard = new Array<number>(16).fill(0xa5);
        expect([...machine.readBytes(output - 16, total + 32)]).toEqual([
          ...guard,
          ...fill(expected),
          ...guard,
        ]);
        expect([...machine.readBytes(data, total)]).toEqual(fill((i) => i % 2));
      }
    }
  });
});

describe('instances that only send or only receive', () => {
  it('leave the other direction as it was [C09-10]', () => {
    for (const [send, recv] of [
      [LL('send'), LL('recv')],
      [simple('send'), simple('recv')],
    ] as const) {
      const link = linkFor();
      const data = bytesOf(link, 0, 200);
      const output = outputOf(link, 200);
      const launches = [
        link.launch(0, { program: send, calls: [20, 32, 30], data }),
        link.launch(1, { program: recv, calls: [20, 32, 30], output }),
      ];
      link.machine.run();
      expect(launches.flatMap(({ statuses }) => statuses)).toEqual([0, 0]);
      expect(bytesAt(link, output, 82)).toEqual(bytesAt(link, data, 82));
      // Afterwards the same connection still carries data the same way.
      link.launch(0, { program: send, calls: [32], data });
      link.launch(1, { program: recv, calls: [32], output });
      link.machine.run();
      expect(bytesAt(link, output, 32)).toEqual(bytesAt(link, data, 32));
    }
  });
});

describe('Simple slices', () => {
  /** Slices of one call of n elements, bytes. */
  function slicesOf(n: number, size: number, slot: number): number[] {
    const slice = Math.max(Math.ceil(n / 32) * 16, Math.floor((Math.floor(slot / size) * 2) / 32));
    const first = Math.min(slice, n);
    return [first * size, Math.min(slice, n - first) * size];
  }

  /** One call of n floats with slots of so many bytes; only the sender runs. */
  function sent(n: number, slot: number) {
    const machine = new WasmMachine();
    const link = new Link(machine, { simpleSlot: slot });
    const data = machine.region('data', Math.max(16, 4 * n), 0);
    const program = programOf(WASM_TRAITS, { direction: 'send', protocol: 'Simple', type: 'float32' });
    link.launch(0, { program, calls: [n], type: 'float32', data });
    machine.run();
    return {
      slices: [link.sliceBytes(0), link.sliceBytes(2)],
      steps: [link.read('tail'), link.read('sent')],
    };
  }

  it('are half of a call in units of 16, or a 32nd of a slice; 4 steps whatever they hold [C09-19]', () => {
    const slot = 131072 * 4;
    expect(sent(524288, slot)).toEqual({ slices: [262144 * 4, 262144 * 4], steps: [4, 4] });
    expect(sent(1000, slot)).toEqual({ slices: [4000, 0], steps: [4, 4] });
    expect(sent(0, slot)).toEqual({ slices: [0, 0], steps: [4, 4] });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 64 }), fc.nat(1000), (units, part) => {
        const slot = units * 128;
        const n = Math.floor((slot * part) / 1000);
        expect(sent(n, slot)).toEqual({ slices: slicesOf(n, 4, slot), steps: [4, 4] });
      }),
      { numRuns: 60 },
    );
  });

  it('without elements are waited for and consumed like full ones, and data after them is right [C09-19]', () => {
    explore(
      (options) => {
        const next = random(options.seed + 1);
        const calls = Array.from({ length: 9 }, () => pick([0, 0, 1, 40, 256], next));
        const total = calls.reduce((a, b) => a + b, 1);
        const link = linkFor(options);
        const data = bytesOf(link, 0, total);
        const output = outputOf(link, total);
        link.launch(0, { program: simple('send'), calls, data });
        link.launch(1, { program: simple('recv'), calls, output });
        link.machine.run();
        expect(bytesAt(link, output, total - 1)).toEqual(bytesAt(link, data, total - 1));
        for (const name of ['head', 'tail', 'sent', 'received'] as const) expect(link.read(name)).toBe(36);
      },
      { seeds: 15 },
    );
  });
});

describe('Simple waits', () => {
  const sender = (head: number, calls: number[], options: Partial<DriverOptions> = {}) => {
    const link = linkFor();
    link.machine.write('u64', link.counter('head'), head);
    const program =
      options.before === undefined
        ? simple('send')
        : driver(TRAITS, { direction: 'send', protocol: 'Simple', ...options });
    link.launch(0, { program, calls, data: bytesOf(link, 0, 64 * calls.length) });
    return link;
  };
  const receiver = (tail: number, calls: number[], options: Partial<DriverOptions> = {}) => {
    const link = linkFor();
    link.machine.write('u64', link.counter('tail'), tail);
    const program =
      options.before === undefined
        ? simple('recv')
        : driver(TRAITS, { direction: 'recv', protocol: 'Simple', ...options });
    link.launch(1, { program, calls, output: outputOf(link, 64 * calls.length) });
    return link;
  };

  it('of a sender end when head + 8 reaches the end of the slice [C09-21]', () => {
    sender(0, [64, 64]).machine.run();
    // The third call has the slices of steps 8 and 10.
    for (const [head, tail] of [
      [0, 8],
      [1, 8],
      [2, 10],
      [3, 10],
    ] as const) {
      const link = sender(head, [64, 64, 64]);
      expect(stuck(link)).toContain(`on sender 0+0x0 = ${head}`);
      expect(link.read('tail')).toBe(tail);
    }
    const link = sender(4, [64, 64, 64]);
    link.machine.run();
    expect(link.read('tail')).toBe(12);
  });

  it('of a receiver end when the tail reaches the end of the slice [C09-21]', () => {
    for (const [tail, head] of [
      [0, 0],
      [1, 0],
      [2, 2],
      [3, 2],
    ] as const) {
      const link = receiver(tail, [64]);
      expect(stuck(link)).toContain(`on receiver 1+0x0 = ${tail}`);
      expect(link.read('head')).toBe(head);
    }
    const link = receiver(4, [64]);
    link.machine.run();
    expect(link.read('head')).toBe(4);
  });

  it('use the counter they know while it suffices [C09-21]', () => {
    const forget = (side: 'sender' | 'receiver'): Partial<DriverOptions> => ({
      before: (k, channel) => {
        if (side === 'sender') {
          k.setField(k.field(channel, RingChannel, 'sendControl'), SenderControl, 'head', 0);
        } else {
          k.setField(k.field(channel, RingChannel, 'recvControl'), ReceiverControl, 'tail', 0);
        }
      },
    });
    sender(4, [64, 64, 64], forget('sender')).machine.run();
    stuck(sender(4, [64, 64, 64, 64], forget('sender')));
    receiver(8, [64, 64], forget('receiver')).machine.run();
    stuck(receiver(8, [64, 64, 64], forget('receiver')));
  });
});

describe('one connection under both protocols', () => {
  it('is rounded up to whole calls by Simple, whose receiver returns the skipped credits at once [C09-27]', () => {
    for (const [steps, rounded] of [
      [0, 0],
      [1, 4],
      [3, 4],
      [4, 4],
      [13, 16],
    ] as const) {
      const link = linkFor();
      link.setSteps(BigInt(steps));
      link.launch(1, { program: simple('recv'), calls: [] });
      link.machine.run();
      expect([link.read('head'), link.read('received')]).toEqual([rounded, rounded]);
      link.launch(0, { program: simple('send'), calls: [64, 64], data: bytesOf(link, 0, 128) });
      // Both calls fit in 8 steps only because the credits came back.
      link.machine.run();
      expect([link.read('tail'), link.read('sent')]).toEqual([rounded + 8, rounded + 8]);
    }
  });

  it('carries random sequences of both, its counters the same on both sides [C09-27]', () => {
    explore(
      (options) => {
        const next = random(options.seed + 7);
        const link = linkFor(options);
        let step = 0;
        const checks: (() => void)[] = [];
        for (let part = 0; part < 6; part++) {
          const protocol = pick(['LL', 'Simple'] as const, next);
          const calls = Array.from({ length: 1 + Math.floor(next() * 4) }, () => pick([0, 5, 16, 32], next));
          const total = calls.reduce((a, b) => a + b, 1);
          const data = bytesOf(link, 0, total);
          link.machine.writeArray(
            data,
            Uint8Array.from({ length: total }, () => Math.floor(next() * 256)),
          );
          const output = outputOf(link, total);
          const of = protocol === 'LL' ? LL : simple;
          link.launch(0, { program: of('send'), calls, data });
          link.launch(1, { program: of('recv'), calls, output });
          step = protocol === 'LL' ? step + calls.length : Math.ceil(step / 4) * 4 + 4 * calls.length;
          checks.push(() => expect(bytesAt(link, output, total - 1)).toEqual(bytesAt(link, data, total - 1)));
        }
        link.machine.run();
        for (const check of checks) check();
        for (const name of ['head', 'sent', 'received'] as const) expect(link.read(name)).toBe(step);
      },
      { seeds: 40 },
    );
  });

  it('keeps a shape of one step per call in step too', () => {
    const shape = { stepsPerChunk: 1, stepsPerSlice: 1 };
    const link = linkFor();
    link.setSteps(3n);
    const data = bytesOf(link, 0, 256);
    const output = outputOf(link, 256);
    link.launch(0, { program: simple('send', { shape }), calls: [64, 10, 0, 64], data });
    link.launch(1, { program: simple('recv', { shape }), calls: [64, 10, 0, 64], output });
    link.machine.run();
    expect(bytesAt(link, output, 138)).toEqual(bytesAt(link, data, 138));
    expect(link.read('sent')).toBe(7);
  });
});
