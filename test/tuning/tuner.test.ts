/** Tuners: what they are told, what they may change, what happens when they fail; and the rules of CSV files. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { defaultConstants } from '#src/tuning/constants.js';
import { parseTunerRules, ruleTuner } from '#src/tuning/csv-tuner.js';
import { decide, evaluate } from '#src/tuning/decide.js';
import { tuningTables } from '#src/tuning/model.js';
import { cellOf } from '#src/tuning/names.js';
import { IGNORE, type Tuner, type TunerCall, type TunerPlugin, tunedChunkSize } from '#src/tuning/tuner.js';
import { collnetNodes, plainInput, row, tablesOf } from './plain-input.js';

const plugin = (tuner: Partial<Tuner> = {}, init?: TunerPlugin['init']): TunerPlugin => ({
  name: 'test',
  init: (...given) => {
    const made = init?.(...given);
    return made ?? { getCollInfo: () => 0, ...tuner };
  },
});

const call = { function: 'AllReduce', bytes: 1 << 20, type: 'float32' } as const;

const errorOf = (run: () => unknown): TuttiError => {
  try {
    run();
  } catch (error) {
    if (TuttiError.is(error)) return error as TuttiError;
    throw error;
  }
  throw new Error('no error');
};

describe('a tuner', () => {
  it('is told of the communicator and may change the constants before the tables are computed', () => {
    const tables = tuningTables(collnetNodes({ minLocalRanks: 4 }), {
      tuner: plugin({}, (communicator, constants) => {
        expect(communicator).toEqual({
          nRanks: 16,
          nNodes: 2,
          nvlDomains: 2,
          minRanksPerNvlDomain: 4,
          maxRanksPerNvlDomain: 8,
        });
        constants.baseLatencies.Ring = [1000, 14, 8.4];
        constants.perChMaxRingLL128Bws.Hopper[1] = 1;
        return { getCollInfo: () => 0 };
      }),
    });
    const before = tablesOf(collnetNodes());
    expect(row(tables.latencies, 'AllReduce', 'Ring')[0]).toBeCloseTo(
      row(before.latencies, 'AllReduce', 'Ring')[0]! + 993.4,
      2,
    );
    expect(row(tables.bandwidths, 'Broadcast', 'Ring')[1]).toBe(8);
    expect(row(tablesOf(collnetNodes()).bandwidths, 'Broadcast', 'Ring')).toEqual(
      row(before.bandwidths, 'Broadcast', 'Ring'),
    );
  });

  it('is told of each call', () => {
    const calls: TunerCall[] = [];
    const tables = tuningTables(plainInput(), {
      tuner: plugin({ getCollInfo: (one) => 0 * calls.push(one) }),
    });
    decide(tables, call);
    decide(tables, { ...call, pipelined: 3, registered: true });
    expect(calls).toEqual([
      { function: 'AllReduce', bytes: 1 << 20, pipelined: 1, registered: false },
      { function: 'AllReduce', bytes: 1 << 20, pipelined: 3, registered: true },
    ]);
  });

  it('that changes nothing changes nothing', () => {
    const decision = decide(tuningTables(plainInput(), { tuner: plugin() }), call);
    const { tuner, ...own } = decision;
    expect({ ...own, tuner: undefined }).toEqual(decide(tablesOf(plainInput()), call));
    expect(tuner?.modelCosts).toEqual(own.costs);
  });

  it('forces a candidate with cost 0 [C05-09, C05-10, C16-21, C21-16]', () => {
    const tuner = plugin({
      getCollInfo: (_, costs) => {
        costs[cellOf('Tree', 'Simple')] = 0;
        return 5;
      },
    });
    const decision = decide(tuningTables(plainInput(), { tuner }), call);
    expect(decision).toMatchObject({
      algorithm: 'Tree',
      protocol: 'Simple',
      time: 0,
      maxChannels: 5,
      chosenBy: 'tuner',
    });
    expect(decision.tuner?.modelCosts[cellOf('Tree', 'Simple')]).toBeGreaterThan(0);
  });

  it.each([
    ['IGNORE', IGNORE],
    ['a negative time', -5],
    ['no number', Number.NaN],
  ])('excludes a candidate with %s, which never wins [C05-08]', (_, value) => {
    const tuner = plugin({
      getCollInfo: (_call, costs) => {
        for (let cell = 0; cell < costs.length; cell++)
          if (cell !== cellOf('Ring', 'LL')) costs[cell] = value;
        return 0;
      },
    });
    const tables = tuningTables(plainInput(), { tuner });
    expect(decide(tables, call)).toMatchObject({ algorithm: 'Ring', protocol: 'LL' });
    const { excluded } = evaluate(tables, call);
    expect(excluded).toContainEqual({
      algorithm: 'Tree',
      protocol: 'LL',
      rule: 'tuner',
      reason: 'tuner test withdrew it',
    });
  });

  it.each([
    ['gone', (constants: object) => Reflect.deleteProperty(constants, 'baseLatencies'), 'put undefined'],
    ['other things', (constants: object) => Object.assign(constants, { llMaxBws: 7 }), 'put 7 in the place'],
    ['no numbers', (constants: object) => Object.assign(constants, { llMaxBws: { Volta: ['1'] } }), '"1"'],
  ])('whose constants are %s is refused by name', (_, spoil, message) => {
    const spoils = plugin({}, (_communicator, constants) => {
      spoil(constants);
      return { getCollInfo: () => 0 };
    });
    const error = errorOf(() => tuningTables(plainInput(), { tuner: spoils }));
    expect(error.code).toBe('invalidUsage');
    expect(error.message).toMatch(/^tuner test /);
    expect(error.message).toContain(message);
  });

  it('may add to the constants, even circles', () => {
    const adds = plugin({}, (_communicator, constants) => {
      Object.assign(constants, { self: constants });
      return { getCollInfo: () => 0 };
    });
    expect(tuningTables(plainInput(), { tuner: adds }).tuner?.name).toBe('test');
  });

  it.each([
    [
      'answers with a promise',
      () => Promise.reject(new Error('late')),
      'answers getCollInfo with a promise, and nothing waits for it',
    ],
    ['answers with text', () => '16', 'asked for "16" channels'],
    [
      'takes the table away',
      (_: unknown, costs: Float32Array) => structuredClone(0, { transfer: [costs.buffer] }),
      'took the table of costs away',
    ],
  ])('that %s is refused by name', (_, getCollInfo, message) => {
    const tuner = plugin({ getCollInfo: getCollInfo as unknown as Tuner['getCollInfo'] });
    const error = errorOf(() => decide(tuningTables(plainInput(), { tuner }), call));
    expect(error.message).toContain(`tuner test ${message}`);
  });

  it('that withdraws all candidates is what the error names', () => {
    const tuner = plugin({ getCollInfo: (_, costs) => void costs.fill(-1) as undefined });
    const error = errorOf(() => decide(tuningTables(plainInput(), { tuner }), call));
    expect(error.message).toMatch(/Nearest: Tree with LL, but tuner test withdrew it\.$/);
  });

  it('may allow what the model excludes, and is not checked', () => {
    const tuner = plugin({
      getCollInfo: (_, costs) => {
        costs[cellOf('CollNetChain', 'Simple')] = 0;
        return 0;
      },
    });
    const decision = decide(tuningTables(plainInput(), { tuner }), call);
    expect(decision.algorithm).toBe('CollNetChain');
    const still = decision.excluded.filter(({ algorithm }) => algorithm === 'CollNetChain');
    expect(still.some(({ protocol }) => protocol === 'Simple')).toBe(false);
    expect(still.some(({ protocol }) => protocol === 'LL')).toBe(true);
  });

  it('has the last word over the EFFICIENCY policy [C21-16]', () => {
    const input = plainInput({ ctaPolicy: 1 });
    const gather = { function: 'AllGather', bytes: 1 << 26, type: 'int8', registered: true } as const;
    expect(decide(tablesOf(input), gather)).toMatchObject({ algorithm: 'NVLS', chosenBy: 'efficiency' });
    expect(decide(tuningTables(input, { tuner: plugin() }), gather).chosenBy).toBe('model');
  });

  it('is not asked by a single rank', () => {
    const tuner = plugin({
      getCollInfo: () => {
        throw new Error('asked');
      },
    });
    expect(decide(tuningTables(plainInput({ nRanks: 1 }), { tuner }), call).time).toBe(0);
  });

  it.each([-1, 1.5, 65, Number.NaN])('that asks for %d channels is refused', (channels) => {
    const tables = tuningTables(plainInput(), { tuner: plugin({ getCollInfo: () => channels }) });
    const error = errorOf(() => decide(tables, call));
    expect(error.code).toBe('invalidUsage');
    expect(error.message).toContain(`tuner test asked for ${channels} channels`);
  });

  it('that fails is named, with what it threw as the cause', () => {
    const cause = new Error('out of ideas');
    const failing = () => {
      throw cause;
    };
    const later = tuningTables(plainInput(), { tuner: plugin({ getCollInfo: failing }) });
    const error = errorOf(() => decide(later, call));
    expect(error.message).toBe('tuner test failed in getCollInfo: out of ideas');
    expect(error.cause).toBe(cause);
    const early = errorOf(() => tuningTables(plainInput(), { tuner: plugin({}, failing) }));
    expect(early.message).toBe('tuner test failed in init: out of ideas');
  });

  it('may throw errors of the library, which pass as they are', () => {
    const own = new TuttiError('remoteError', 'no');
    const tables = tuningTables(plainInput(), {
      tuner: plugin({
        getCollInfo: () => {
          throw own;
        },
      }),
    });
    expect(errorOf(() => decide(tables, call))).toBe(own);
  });

  it('that leaves a constant which is no number is refused by its name', () => {
    const tuner = plugin({}, (_, constants) => {
      constants.hwLatencies.NET.Ring[1] = Number.POSITIVE_INFINITY;
      return { getCollInfo: () => 0 };
    });
    const error = errorOf(() => tuningTables(plainInput(), { tuner }));
    expect(error.message).toContain('hwLatencies.NET.Ring.1 to Infinity');
  });
});

describe('chunks', () => {
  const chunkCall = {
    function: 'AllReduce',
    bytes: 1 << 20,
    algorithm: 'Ring',
    protocol: 'LL128',
    channels: 4,
    chunkSize: 100000,
  } as const;
  const bounds = { ceiling: 576000, grain: 1920 };
  const lines: string[] = [];
  const chunk = (getChunkSize?: Tuner['getChunkSize']) => {
    const tuner = { getCollInfo: () => 0, ...(getChunkSize === undefined ? {} : { getChunkSize }) };
    return tunedChunkSize({ name: 'test', tuner }, chunkCall, bounds, (...line) =>
      lines.push(line.join(' ')),
    );
  };

  it('are rounded down to the grain, with and without a tuner', () => {
    expect(tunedChunkSize(undefined, chunkCall, bounds, () => {})).toBe(99840);
    expect(chunk()).toBe(99840);
    expect(chunk(({ chunkSize }) => chunkSize * 2)).toBe(199680);
    expect(chunk(() => 1920)).toBe(1920);
    expect(lines).toEqual([]);
  });

  it('never exceed the buffer, with a line of log', () => {
    expect(chunk(() => 576001)).toBe(576000);
    expect(lines).toEqual([
      'INFO TUNING Tuner test: chunk size 576001 is larger than the buffer allows, using 576000',
    ]);
  });

  it.each([0, 1919, -1, Number.NaN])('of %d bytes are refused: nothing would move', (bytes) => {
    expect(errorOf(() => chunk(() => bytes)).message).toBe(
      `tuner test asked for chunks of ${bytes} bytes; LL128 moves 1920 at least`,
    );
  });

  it('of a tuner that fails name it', () => {
    const failing = () => {
      throw new Error('no idea');
    };
    expect(errorOf(() => chunk(failing)).message).toBe('tuner test failed in getChunkSize: no idea');
  });
});

describe('a CSV file of rules', () => {
  const TEXT = `# collective,min,max,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
allreduce,0,65536,tree,ll,4,-1,-1
allreduce,65537,1048576,ring,simple,-1,1,8   # one node only

AllReduce,1048577,-1,NVLS,Simple,8,-1,-1,-1,1
allreduce,1048577,-1,nvls_tree,simple,8,-1,-1
broadcast,-1,-1,ring,ll128,2,2,-1
allgather,0,1000000,ring,ll,3,1,8,2
`;

  it('is read line by line', () => {
    const rules = parseTunerRules(TEXT, 'rules.csv');
    expect(rules.map(({ line }) => line)).toEqual([2, 3, 5, 6, 7, 8]);
    expect(rules[1]).toEqual({
      line: 3,
      function: 'AllReduce',
      minBytes: 65537,
      maxBytes: 1048576,
      algorithm: 'Ring',
      protocol: 'Simple',
      channels: undefined,
      nNodes: 1,
      nRanks: 8,
      pipelined: undefined,
      registered: undefined,
    });
    expect(rules[2]!.registered).toBe(true);
    expect(parseTunerRules(TEXT.replaceAll('\n', '\r\n'), 'rules.csv')).toEqual(rules);
  });

  const lines: string[] = [];
  const tables = tuningTables(plainInput(), {
    tuner: ruleTuner(parseTunerRules(TEXT, 'rules.csv')),
    log: (...line) => lines.push(line.join(' ')),
  });
  const chosen = (change: object) => {
    const { algorithm, protocol, maxChannels, chosenBy } = decide(tables, { ...call, ...change });
    return `${algorithm}/${protocol} ${maxChannels} ${chosenBy}`;
  };

  it('takes the first rule that fits [C16-21]', () => {
    expect(chosen({ bytes: 65536 })).toBe('Tree/LL 4 tuner');
    expect(chosen({ bytes: 65537 })).toBe('Ring/Simple 2 tuner');
    expect(chosen({ bytes: 1048577, registered: true })).toBe('NVLS/Simple 8 tuner');
    expect(chosen({ function: 'AllGather', type: 'int8', bytes: 1000, pipelined: 2 })).toBe(
      'Ring/LL 3 tuner',
    );
  });

  it('changes nothing where no rule fits', () => {
    const reduce = { ...call, function: 'Reduce' } as const;
    expect(decide(tables, reduce)).toMatchObject({ chosenBy: 'model' });
    expect(chosen({ function: 'AllGather', type: 'int8', bytes: 1000 })).toMatch(/model$/);
    // This communicator has one node.
    expect(chosen({ function: 'Broadcast', type: 'int8', bytes: 1000 })).toMatch(/model$/);
  });

  it('takes candidates of any cost that is not negative', () => {
    const communicator = {
      nRanks: 8,
      nNodes: 1,
      nvlDomains: 1,
      minRanksPerNvlDomain: 8,
      maxRanksPerNvlDomain: 8,
    };
    const own = ruleTuner(parseTunerRules('allreduce,-1,-1,ring,ll,2,-1,-1', 'one')).init(
      communicator,
      defaultConstants(),
      () => {},
    );
    const one = { function: 'AllReduce', bytes: 8, pipelined: 1, registered: false } as const;
    for (const [cost, channels] of [
      [0, 2],
      [0.5, 2],
      [IGNORE, 0],
      [-1024, 0],
    ] as const) {
      expect(own.getCollInfo(one, new Float32Array(21).fill(cost))).toBe(channels);
    }
  });

  it('leaves candidates alone that cannot run, and says so', () => {
    lines.length = 0;
    expect(chosen({ bytes: 1048577 })).toMatch(/model$/);
    expect(lines).toEqual([
      'WARN TUNING Tuner rule of line 6 is not used: NVLSTree with Simple cannot run AllReduce of 1048577 bytes here',
    ]);
    // Once for each rule: a sweep would say it for every size.
    expect(chosen({ bytes: 1048578 })).toMatch(/model$/);
    expect(lines).toHaveLength(1);
  });

  it.each([
    ['', 'has no rules'],
    ['allreduce,0,1,ring,ll,-1,-1,64', 'has no rule for 8 ranks on 1 node'],
  ])('that are none for a communicator are a warning', (text, why) => {
    const said: string[] = [];
    tuningTables(plainInput(), {
      tuner: ruleTuner(parseTunerRules(text, 'rules'), 'rules'),
      log: (level, _, line) => said.push(`${level} ${line}`),
    });
    expect(said).toContain(`WARN Tuner rules ${why}, so it changes nothing`);
  });

  it.each([
    ['allreduce,2,1,ring,ll,-1,-1,-1', 'rules.csv:1: minBytes 2 is above maxBytes 1'],
    ['allreduce,0,1,ring', 'rules.csv:1: 4 fields; a rule is collective,minBytes'],
    ['a,b,c,d,e,f,g,h,i,j,k', 'rules.csv:1: 11 fields'],
    [
      '\nalreduce,0,1,ring,ll,1,1,1',
      "rules.csv:2: collective 'alreduce' is unknown (did you mean allreduce?)",
    ],
    ['allreduce,0,1,rign,ll,1,1,1', "algorithm 'rign' is unknown (did you mean ring?)"],
    ['allreduce,0,1,ring,ll64,1,1,1', "protocol 'll64' is unknown"],
    ['allreduce,0,1k,ring,ll,1,1,1', "maxBytes '1k' is no whole number"],
    ['allreduce,-2,1,ring,ll,1,1,1', "minBytes '-2' is no whole number"],
    ['allreduce,0,1,ring,ll,0,1,1', '0 channels; use 1 to 64, or -1'],
    ['allreduce,0,1,ring,ll,65,1,1', '65 channels'],
    ['allreduce,0,1,ring,ll,1,1,', "nRanks '' is no whole number"],
    ['allreduce,0,1,ring,ll,1,1,1,1,2', 'regBuff 2; use 0, 1'],
  ])('%j is refused', (text, message) => {
    const error = errorOf(() => parseTunerRules(text, 'rules.csv'));
    expect(error.code).toBe('invalidUsage');
    expect(error.message).toContain(message);
  });
});
