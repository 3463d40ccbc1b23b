/** Graph files: what NCCL wrote is read and written back the same, what is written is read, errors name the place. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ErrorCode, TuttiError } from '#src/errors/tutti-error.js';
import {
  GraphId,
  NO_NIC,
  Pattern,
  startGraph,
  type TopoGraph,
  type TopoGraphs,
} from '#src/topology/search/graph.js';
import { graphFromXml, graphsXml } from '#src/topology/search/graph-file.js';
import { buildSystem } from '#src/topology/system/build.js';
import type { TopoSystem } from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { writeXml } from '#src/topology/xml/write.js';

const golden = (path: string) => readFileSync(new URL(`../../golden/${path}`, import.meta.url), 'utf8');

function systemOf(path: string, inter: boolean): TopoSystem {
  const system = buildSystem(readXml(golden(path), { root: 'system' }).root);
  system.inter = inter;
  return system;
}

const graphsOf = (text: string): XmlElement => readXml(text, { root: 'graphs' }).root;

/** The start values of each search. */
const START: { readonly [name in keyof TopoGraphs]: TopoGraph } = {
  ring: startGraph(GraphId.RING, Pattern.RING, false, 1, 32),
  tree: startGraph(GraphId.TREE, Pattern.BALANCED_TREE, false, 12, 12),
  collnetChain: startGraph(GraphId.COLLNET_CHAIN, Pattern.TREE, true, 12, 12),
  collnetDirect: startGraph(GraphId.COLLNET_DIRECT, Pattern.COLLNET_DIRECT, true, 1, 64),
  nvls: startGraph(GraphId.NVLS, Pattern.NVLS, false, 1, 64),
};

const NAMES = Object.keys(START) as (keyof TopoGraphs)[];

function readAll(root: XmlElement, system: TopoSystem, log?: (text: string) => void): TopoGraphs {
  const context = {
    system,
    crossNic: 2,
    log: (_level: string, _subsystem: string, text: string) => log?.(text),
  };
  const found = NAMES.map((name) => [name, graphFromXml(root, START[name], context)] as const);
  for (const [name, graph] of found) expect(graph, name).toBeDefined();
  return Object.fromEntries(found) as unknown as TopoGraphs;
}

describe('graphs of a real machine', () => {
  it.each([
    ['graph-1.xml', 'topo-1.xml', false],
    ['graph-2.xml', 'topo-2.xml', false],
    ['graph-2-nop2p.xml', 'topo-2.xml', false],
    ['graph-2-net.xml', 'topo-1.xml', true],
  ])('are written back as they were read: %s [C04-25]', (file, topology, inter) => {
    const text = golden(`real-2xH200/${file}`);
    const system = systemOf(`real-2xH200/${topology}`, inter);
    const written = writeXml(graphsXml(readAll(graphsOf(text), system), system));
    // The version of NCCL that wrote the file left ranks out.
    expect(written).toContain(' rank="0"');
    expect(written.replace(/ rank="\d+"/g, '')).toBe(text);
  });

  it('say what the file says', () => {
    const said: string[] = [];
    const system = systemOf('real-2xH200/topo-1.xml', true);
    const graphs = readAll(graphsOf(golden('real-2xH200/graph-2-net.xml')), system, (text) =>
      said.push(text),
    );
    expect(graphs.ring).toEqual({
      ...START.ring,
      pattern: Pattern.RING,
      crossNic: 0,
      nChannels: 1,
      bwIntra: Math.fround(1.2),
      bwInter: Math.fround(1.2),
      latencyInter: 0,
      typeIntra: PathType.LOC,
      typeInter: PathType.PHB,
      sameChannels: true,
      channels: [{ intra: [0], inter: [0n, 0n] }],
    });
    expect(graphs.tree.pattern).toBe(Pattern.TREE);
    expect(graphs.nvls).toEqual(START.nvls);
    expect(said).toEqual([
      'Search 0 : 1 channels loaded from XML graph',
      'Search 1 : 1 channels loaded from XML graph',
      'Search 2 : 0 channels loaded from XML graph',
      'Search 4 : 0 channels loaded from XML graph',
      'Search 3 : 0 channels loaded from XML graph',
    ]);
  });
});

/** Systems with 2 to 8 GPUs; the first has one NIC. */
const SYSTEMS = [
  ['real-2xH200/topo-2.xml', 2],
  ['perlmutter-a100x4/topo.xml', 4],
  ['azure-ndv5-h100x8-8x400g/topo.xml', 8],
] as const;

const BANDWIDTHS = [0.12, 0.24, 1.2, 2.4, 17.5, 20, 30, 45.1, 0.1, 333.333].map(Math.fround);

const NAMED_TYPES = [
  PathType.LOC,
  PathType.NVL,
  PathType.NVB,
  PathType.PIX,
  PathType.PXB,
  PathType.P2C,
  PathType.PXN,
  PathType.PHB,
  PathType.SYS,
];

/** Any graph of a system that a file can hold. */
function anyGraph(name: keyof TopoGraphs, system: TopoSystem): fc.Arbitrary<TopoGraph> {
  const { GPU, NET } = system.nodes;
  const ranks = GPU.map(({ rank }) => rank);
  const ids = fc.constantFrom(...NET.map(({ id }) => id));
  const channel = fc.record({
    intra: fc
      .shuffledSubarray(ranks, { minLength: ranks.length })
      .map((order) => (name === 'nvls' ? order.slice(0, 1) : order)),
    inter: system.inter ? fc.tuple(ids, ids) : fc.constant(null),
  });
  const bandwidth = fc.constantFrom(...BANDWIDTHS);
  const type = fc.constantFrom(...NAMED_TYPES);
  return fc
    .record({
      pattern: fc.constantFrom(...Object.values(Pattern)),
      crossNic: fc.nat(2),
      bwIntra: bandwidth,
      bwInter: bandwidth,
      latencyInter: bandwidth,
      typeIntra: type,
      typeInter: type,
      sameChannels: fc.boolean(),
      channels: fc.array(channel, { maxLength: 12 }),
    })
    .map((found) => ({ ...START[name], ...found, nChannels: found.channels.length }));
}

describe('a file that we write', () => {
  const cases = SYSTEMS.flatMap(([path, count]) =>
    [false, true].map((inter) => [path, inter, count] as const),
  );
  it.each(cases)('is read as the same graphs: %s, connected to others %s [C04-25]', (path, inter, count) => {
    const system = systemOf(path, inter);
    expect(system.nodes.GPU).toHaveLength(count);
    const any = fc.record(
      Object.fromEntries(NAMES.map((name) => [name, anyGraph(name, system)])) as {
        [name in keyof TopoGraphs]: fc.Arbitrary<TopoGraph>;
      },
    );
    fc.assert(
      fc.property(any, (graphs) => {
        const text = writeXml(graphsXml(graphs, system));
        const read = readAll(graphsOf(text), system);
        expect(read).toEqual(graphs);
        expect(writeXml(graphsXml(read, system))).toBe(text);
      }),
      { numRuns: 40 },
    );
  });

  it('has the graphs in the order 0, 1, 4, 2, 3, with attributes in their order', () => {
    const root = graphsXml(START, systemOf('real-2xH200/topo-2.xml', false));
    expect(root.children.map(({ attributes }) => attributes.get('id'))).toEqual(['0', '1', '4', '2', '3']);
    expect([...root.children[0]!.attributes.keys()]).toEqual(
      'id pattern crossnic nchannels speedintra speedinter latencyinter typeintra typeinter samechannels'.split(
        ' ',
      ),
    );
  });

  it('names GPUs by host and device, adds the offset to ranks, and marks a missing NIC', () => {
    const system = systemOf('real-2xH200/topo-2.xml', true);
    const ring = {
      ...START.ring,
      nChannels: 1,
      channels: [{ intra: [1, 0], inter: [0n, NO_NIC] as [bigint, bigint] }],
    };
    const [channel] = graphsXml({ ...START, ring }, system, 16).children[0]!.children;
    expect(writeXml(channel!)).toBe(
      [
        '<channel>',
        '  <net dev="0"/>',
        '  <gpu dev="0x1" rank="17"/>',
        '  <gpu dev="0" rank="16"/>',
        '  <net dev="0xffffffffffffffff"/>',
        '</channel>',
        '',
      ].join('\n'),
    );
  });

  it('of NVLS has the head only', () => {
    const system = systemOf('real-2xH200/topo-2.xml', false);
    const nvls = { ...START.nvls, nChannels: 1, channels: [{ intra: [1, 0], inter: null }] };
    const [channel] = graphsXml({ ...START, nvls }, system).children[4]!.children;
    expect(channel!.children.map(({ attributes }) => attributes.get('rank'))).toEqual(['1']);
  });

  it.each(['C2C', 'NET', 'DIS'] as const)('cannot have paths of type %s', (type) => {
    const system = systemOf('real-2xH200/topo-2.xml', false);
    for (const key of ['typeIntra', 'typeInter']) {
      const graphs = { ...START, tree: { ...START.tree, [key]: PathType[type] } };
      const error = thrown(() => graphsXml(graphs, system));
      expect(error.code).toBe('internalError');
      expect(error.message).toContain(`graph 1 has paths of type ${type}`);
      expect(error.message).toContain(
        `KV Convert to str : could not find value ${PathType[type]} in dictionary`,
      );
    }
  });

  it('cannot name ranks that are not there', () => {
    const ring = { ...START.ring, nChannels: 1, channels: [{ intra: [0, 5], inter: null }] };
    const error = thrown(() => graphsXml({ ...START, ring }, systemOf('real-2xH200/topo-2.xml', false)));
    expect(error).toMatchObject({ code: 'internalError', rank: 5 });
  });
});

function thrown(call: () => unknown): TuttiError {
  try {
    call();
  } catch (error) {
    expect(TuttiError.is(error)).toBe(true);
    return error as TuttiError;
  }
  throw new Error('nothing was thrown');
}

const RING = {
  id: '0',
  pattern: '4',
  crossnic: '0',
  nchannels: '1',
  speedintra: '20',
  speedinter: '20',
  latencyinter: '1.5',
  typeintra: 'NVL',
  typeinter: 'PIX',
  samechannels: '1',
};

type Attributes = { readonly [name in keyof typeof RING]?: string | undefined };

/** A file with one ring that differs from `RING` in these attributes. */
function ringFile(changes: Attributes = {}, channel = '<gpu dev="0"/><gpu dev="0x1"/>'): string {
  const attributes = Object.entries({ ...RING, ...changes })
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${value}"`);
  return `<graphs version="1">\n<graph${attributes.join('')}>\n<channel>${channel}</channel>\n</graph>\n</graphs>`;
}

interface Reading {
  readonly crossNic?: number;
  readonly inter?: boolean;
  readonly name?: keyof TopoGraphs;
  readonly log?: string[];
}

function read(text: string, { crossNic = 2, inter = false, name = 'ring', log = [] }: Reading = {}) {
  return graphFromXml(graphsOf(text), START[name], {
    system: systemOf('real-2xH200/topo-2.xml', inter),
    crossNic,
    log: (_level, _subsystem, line) => log.push(line),
  });
}

describe('a file that we read', () => {
  it('gives nothing for a search that it does not have', () => {
    expect(read(ringFile(), { name: 'tree' })).toBeUndefined();
    expect(read('<graphs version="1"/>')).toBeUndefined();
  });

  it('is ignored where it crosses NICs and NCCL_CROSS_NIC forbids it', () => {
    const crossing = ringFile({ crossnic: '1' });
    expect(read(crossing, { crossNic: 0 })).toBeUndefined();
    expect(read(crossing, { crossNic: 1 })!.crossNic).toBe(1);
    expect(read(ringFile({ crossnic: '2' }), { crossNic: 0 })!.crossNic).toBe(2);
  });

  it('counts with its last graph of an id', () => {
    const text =
      ringFile().replace('</graphs>', '') + ringFile({ nchannels: '0' }).replace('<graphs version="1">', '');
    expect(read(text)!.nChannels).toBe(0);
  });

  it('may leave the latency out, and says that it does', () => {
    const log: string[] = [];
    expect(read(ringFile({ latencyinter: undefined }), { log })!.latencyInter).toBe(0);
    expect(log).toContain('latencyinter not found in graph, using 0.0');
    expect(read(ringFile())!.latencyInter).toBe(1.5);
  });

  it('names types by the beginning of the text; others count as LOC', () => {
    const log: string[] = [];
    const graph = read(ringFile({ typeintra: 'PXNetwork', typeinter: 'C2C' }), { log })!;
    expect([graph.typeIntra, graph.typeInter]).toEqual([PathType.PXN, PathType.LOC]);
    expect(log[0]).toBe("KV Convert to int : could not find value of 'C2C' in dictionary, falling back to 0");
  });

  it('names GPUs by rank, or else by device; NICs by id', () => {
    const ranks = (channel: string) => read(ringFile({}, channel))!.channels[0]!.intra;
    expect(ranks('<gpu dev="9" rank="1"/><gpu dev="9" rank="0"/>')).toEqual([1, 0]);
    expect(ranks('<gpu dev="1"/><gpu dev="0"/>')).toEqual([1, 0]);
    expect(ranks('<gpu dev="0x1" rank="77"/><gpu dev="0" rank="76"/>')).toEqual([1, 0]);
    const nets = '<net dev="0"/><gpu dev="1"/><gpu dev="0"/><net dev="0x0"/>';
    expect(read(ringFile({}, nets), { inter: true })!.channels[0]).toEqual({
      intra: [1, 0],
      inter: [0n, 0n],
    });
    expect(read(ringFile({}, nets))!.channels[0]!.inter).toBeNull();
  });

  it('of NVLS may list more than the head', () => {
    const text = ringFile({ id: '3' }, '<gpu dev="1"/><gpu dev="0"/>');
    expect(read(text, { name: 'nvls' })!.channels[0]!.intra).toEqual([1]);
  });

  const refused: readonly (readonly [
    what: string,
    text: string,
    code: ErrorCode,
    message: RegExp,
    reading?: Reading,
  ])[] = [
    ...Object.keys(RING)
      .filter((key) => !['latencyinter', 'typeintra', 'typeinter'].includes(key))
      .map(
        (key) =>
          [
            `${key} missing`,
            ringFile({ [key]: undefined }),
            'invalidArgument',
            new RegExp(`<graph> on line 2: attribute ${key} is missing`),
          ] as const,
      ),
    [
      'a pattern that is none',
      ringFile({ pattern: '7' }),
      'invalidArgument',
      /<graph> on line 2: pattern="7" is none of 1 to 6/,
    ],
    [
      'fewer channels than it says',
      ringFile({ nchannels: '2' }),
      'invalidArgument',
      /nchannels="2" but 1 <channel> follow/,
    ],
    ['a negative number of channels', ringFile({ nchannels: '-1' }), 'invalidArgument', /nchannels="-1"/],
    [
      'too many channels',
      ringFile({ nchannels: '65' }),
      'invalidArgument',
      /nchannels="65" but a communicator has at most 64/,
    ],
    [
      'a speed that is none',
      ringFile({ speedintra: 'fast' }),
      'invalidArgument',
      /speedintra="fast" is not a speed/,
    ],
    [
      'a speed below zero',
      ringFile({ speedinter: '-1' }),
      'invalidArgument',
      /speedinter="-1" is not a speed/,
    ],
    [
      'a GPU without dev',
      ringFile({}, '<gpu/><gpu dev="1"/>'),
      'invalidArgument',
      /<gpu> on line 3: attribute dev is missing/,
    ],
    [
      'a GPU that is not there',
      ringFile({}, '<gpu dev="0"/><gpu dev="0x5"/>'),
      'systemError',
      /<gpu> on line 3: XML Import Channel : dev 0x5 not found/,
    ],
    [
      'a GPU of another host',
      ringFile({}, '<gpu dev="0"/><gpu dev="0x100000000000001"/>'),
      'systemError',
      /dev 0x100000000000001 not found/,
    ],
    [
      'a NIC that is not there',
      ringFile({}, '<net dev="7"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/>'),
      'systemError',
      /<net> on line 3: XML Import Channel : dev 7 not found/,
      { inter: true },
    ],
    [
      'too few GPUs',
      ringFile({}, '<gpu dev="0"/>'),
      'invalidArgument',
      /<channel> on line 3: 1 <gpu> where 2 different ones are needed/,
    ],
    [
      'a GPU twice',
      ringFile({}, '<gpu dev="0"/><gpu dev="0"/>'),
      'invalidArgument',
      /2 different ones are needed/,
    ],
    [
      'no NICs for a system with others',
      ringFile(),
      'invalidArgument',
      /<channel> on line 3: 0 <net> where two are needed/,
      { inter: true },
    ],
  ];
  const cases = refused.map(([what, text, code, message, reading]) => ({
    what,
    text,
    code,
    message,
    reading,
  }));
  it.each(cases)('is refused with line and element: $what', ({ text, code, message, reading }) => {
    const error = thrown(() => read(text, reading));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
  });
});
