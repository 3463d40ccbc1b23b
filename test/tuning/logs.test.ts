/** Real logs of NCCL replayed: the tables, thresholds, channels and choices that it printed come out again. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { CommunicatorPlanner } from '#src/planning/communicator-planner.js';
import type { PlannedCollective } from '#src/planning/plan-group.js';
import { describeCluster } from '#src/topology/cluster.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { bufferSizes, p2pChunkSize } from '#src/tuning/buffer-sizes.js';
import { defaultConstants } from '#src/tuning/constants.js';
import { tuningInput } from '#src/tuning/from-topology.js';
import { decisionLine, tableLines, thresholdLine } from '#src/tuning/log-lines.js';
import { tuningTables } from '#src/tuning/model.js';
import type { NcclFunction } from '#src/tuning/names.js';
import { tuningSettings } from '#src/tuning/settings.js';
import type { TunerPlugin } from '#src/tuning/tuner.js';
import { constantsOfVersion, MODEL_VERSION } from '#src/tuning/versions.js';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const documentOf = (name: string): XmlElement =>
  readXml(readFileSync(pathOf(`../golden/${name}`), 'latin1'), { root: 'system' }).root;

/** The host with its first GPUs only. */
function withGpus(document: XmlElement, count: number): XmlElement {
  const copy = cloneElement(document);
  const visit = (one: XmlElement): void => {
    one.children = one.children.filter(
      ({ name, attributes }) => name !== 'gpu' || Number(attributes.get('rank')) < count,
    );
    for (const child of one.children) visit(child);
  };
  visit(copy);
  return copy;
}

interface Log {
  readonly name: string;
  readonly lines: readonly string[];
}

const LOGS: readonly Log[] = readdirSync(pathOf('logs'))
  .filter((file) => file.endsWith('.txt'))
  .map((file) => ({
    name: file.replace('.txt', ''),
    lines: readFileSync(pathOf(`logs/${file}`), 'utf8')
      .trimEnd()
      .split('\n'),
  }));

/** The machine of a log and its variables (logs/README.md). */
function machineOf(name: string): {
  document: XmlElement;
  env: Readonly<Record<string, string>>;
  nvls: boolean;
} {
  const [, gpus, kind] = /^h100-g(\d)_(\w+)$/.exec(name) ?? [];
  if (gpus !== undefined) {
    return {
      document: withGpus(documentOf('azure-ndv5-h100x8-8x400g/topo.xml'), Number(gpus)),
      env: kind === 'auto' ? {} : { NCCL_ALGO: kind! },
      nvls: true,
    };
  }
  const env = {
    'h200-2': {},
    'h200-2-nop2p': { NCCL_P2P_DISABLE: '1' },
    'h200-2-net': { NCCL_P2P_DISABLE: '1', NCCL_SHM_DISABLE: '1' },
  }[name];
  if (env === undefined) throw new Error(`no machine for ${name}`);
  return { document: documentOf('real-2xH200/topo-2.xml'), env, nvls: false };
}

const versionOf = (lines: readonly string[]): string =>
  lines.flatMap((line) => /^NCCL version (\S+)/.exec(line)?.[1] ?? [])[0]!;

/** What our own model says in the place of a log's lines. */
function replayed({ name, lines }: Log, tuner?: TunerPlugin) {
  const { document, nvls, ...machine } = machineOf(name);
  const env = { ...constantsOfVersion(versionOf(lines)).defaults, ...machine.env };
  const { comm, settings: topology } = describeCluster({ nodes: [{ xml: document }], env, nvls });
  const settings = tuningSettings(env);
  const tables = tuningTables(
    tuningInput({ comm, topology, settings }),
    tuner === undefined ? {} : { tuner },
  );
  const planner = new CommunicatorPlanner({ comm, tables });
  const facts = {
    nNodes: comm.nNodes,
    isAllNvlink: comm.isAllNvlink,
    cpuArch: comm.cpuArch,
    minSm: comm.minSm,
    simpleBuffer: bufferSizes(settings).Simple,
  };
  const choices = lines.flatMap((line) => {
    const [, fn, bytes] = /^(\w+): (\d+) Bytes -> Algo/.exec(line) ?? [];
    if (bytes === undefined) return [];
    const call = { function: fn as NcclFunction, bytes: Number(bytes), type: 'float32' as const };
    const [plan] = planner.plan([
      { function: call.function, deviceOp: 'Sum', type: 'float32', elementBytes: 4, count: call.bytes / 4 },
    ]);
    const [{ decision, placement }] = plan!.collectives as [PlannedCollective];
    return [decisionLine(call, decision, { first: placement.channelLo, last: placement.channelHi })];
  });
  return {
    tables: tableLines(tables),
    thresholds: thresholdLine(tables),
    channels:
      `${comm.nChannels} coll channels, ${comm.nChannels} collnet channels, ${comm.nvls?.nChannels ?? 0} nvls channels, ` +
      `${comm.p2pnChannels} p2p channels, ${comm.p2pnChannelsPerPeer} p2p channels per peer`,
    chunk: `P2P Chunksize set to ${p2pChunkSize(facts, settings)}`,
    choices,
    graphs: [comm.aligned.ring, comm.aligned.tree].map(({ nChannels, bwIntra, bwInter }) => ({
      nChannels,
      bwIntra,
      bwInter,
    })),
  };
}

const TABLE = /^ *(?:Algorithm|Protocol|Max NThreads|Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) +\|/;

describe('a log of NCCL', () => {
  it('is there for each of several versions, shapes and variables', () => {
    expect(LOGS.map(({ name }) => name)).toHaveLength(9);
  });

  it.each(LOGS)('$name comes out again: its tables, thresholds, channels and choices', (log) => {
    const own = replayed(log);
    const { lines } = log;
    expect(constantsOfVersion(versionOf(lines)).evidence).toBeDefined();
    expect(own.tables).toHaveLength(24);
    expect(own.tables).toEqual(lines.filter((line) => TABLE.test(line)));
    expect(own.thresholds).toBe(lines.find((line) => line.startsWith('threadThresholds')));
    expect(own.channels).toBe(lines.find((line) => line.includes(' coll channels, ')));
    expect(own.choices.length).toBeGreaterThanOrEqual(6);
    expect(own.choices).toEqual(lines.filter((line) => line.includes(' Bytes -> Algo ')));
    const chunk = lines.find((line) => line.startsWith('P2P Chunksize'));
    if (chunk !== undefined) expect(own.chunk).toBe(chunk);
    const graphs = lines.flatMap((line) => {
      const [, nChannels, bwIntra, bwInter] =
        /^Pattern \d, .*nChannels (\d+), bw ([\d.]+)\/([\d.]+), type/.exec(line) ?? [];
      return nChannels === undefined
        ? []
        : [{ nChannels: Number(nChannels), bwIntra: Number(bwIntra), bwInter: Number(bwInter) }];
    });
    if (graphs.length > 0) expect(own.graphs.map(rounded)).toEqual(graphs);
  });

  it('would not come out with other constants', () => {
    // Each of the constants that the tables of one node with NVLink stand on.
    const changes: readonly ((constants: ReturnType<typeof defaultConstants>) => void)[] = [
      (constants) => (constants.baseLatencies.Tree[0] += 0.2),
      (constants) => (constants.baseLatencies.Ring[2] += 0.2),
      (constants) => (constants.hwLatencies.NVLINK.Ring[1] += 0.2),
      (constants) => (constants.hwLatencies.NVLINK.NVLS[2] += 0.2),
      (constants) => (constants.llMaxBws.Hopper[0] += 1),
      (constants) => (constants.perChMaxTreeBws.Hopper[0] -= 20),
    ];
    const log = LOGS.find(({ name }) => name === 'h100-g4_auto')!;
    const printed = log.lines.filter((line) => TABLE.test(line));
    for (const [at, change] of changes.entries()) {
      const tuner: TunerPlugin = {
        name: 'other-constants',
        init: (_, constants) => {
          change(constants);
          return { getCollInfo: () => 0 };
        },
      };
      expect(replayed(log, tuner).tables, `change ${at}`).not.toEqual(printed);
    }
  });
});

const rounded = ({
  nChannels,
  bwIntra,
  bwInter,
}: {
  nChannels: number;
  bwIntra: number;
  bwInter: number;
}) => ({
  nChannels,
  bwIntra: Number(bwIntra.toFixed(6)),
  bwInter: Number(bwInter.toFixed(6)),
});

describe('constants of a version', () => {
  it('are known of those whose logs were seen, and a guess for others, which says so', () => {
    expect(constantsOfVersion('2.29.2+cuda13.1')).toMatchObject({
      from: '2.29.2',
      constants: defaultConstants(),
    });
    expect(constantsOfVersion(MODEL_VERSION).evidence!.scales).toEqual([0, 1, 2]);
    expect(constantsOfVersion('2.18.3')).toMatchObject({ from: MODEL_VERSION, evidence: undefined });
    const two = { NCCL_NCHANNELS_PER_NET_PEER: '2' };
    expect(
      ['2.26.2', '2.28.9', '2.30.4', MODEL_VERSION].map((one) => constantsOfVersion(one).defaults),
    ).toEqual([two, two, {}, {}]);
  });

  it('are copies', () => {
    constantsOfVersion('2.28.9').constants.baseLatencies.Ring[0] = 1;
    expect(constantsOfVersion('2.28.9').constants.baseLatencies.Ring[0]).toBe(6.6);
  });
});
