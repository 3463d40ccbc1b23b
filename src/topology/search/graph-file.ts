/**
 * Graphs in files: NCCL_GRAPH_FILE gives them in place of searches, NCCL_GRAPH_DUMP_FILE keeps what was found.
 *
 * (NCCL 2.30.7, search.cc.)
 */
import { type ErrorCode, TuttiError } from '../../errors/tutti-error.js';
import { cHex, cInt } from '../c-integer.js';
import { type Dictionary, lookUp } from '../dictionary.js';
import { generalFormat } from '../general-format.js';
import { type LogSink, SILENT } from '../log.js';
import { MAX_CHANNELS } from '../settings.js';
import { type GpuNode, hostOf, type TopoSystem } from '../system/node.js';
import { PATH_TYPE_NAMES, PathType } from '../system/path-type.js';
import { element, placeOf, type XmlElement } from '../xml/element.js';
import type { SearchRequest } from './compute.js';
import { type GraphChannel, GraphId, Pattern, startGraph, type TopoGraph, type TopoGraphs } from './graph.js';

/** Position of the host number in the number of a device. */
const HOST_SHIFT = 56n;

/** Types that files can name; they have no words for others. */
const NAMED_TYPES: Dictionary<PathType> = [
  ['LOC', PathType.LOC],
  ['NVL', PathType.NVL],
  ['NVB', PathType.NVB],
  ['PIX', PathType.PIX],
  ['PXB', PathType.PXB],
  ['P2C', PathType.P2C],
  ['PXN', PathType.PXN],
  ['PHB', PathType.PHB],
  ['SYS', PathType.SYS],
];

/** Order of the graphs in a file. */
const WRITTEN: readonly (keyof TopoGraphs)[] = ['ring', 'tree', 'collnetDirect', 'collnetChain', 'nvls'];

/** The number by which files name a GPU: host number and NVML index. */
const deviceNumber = (gpu: GpuNode): bigint => (BigInt(hostOf(gpu)) << HOST_SHIFT) | BigInt(gpu.dev);

/**
 * The graphs of a system as a document.
 *
 * @param rankOffset to be added to ranks
 * @throws TuttiError internalError for types that files have no word for, as NCCL does.
 */
export function graphsXml(graphs: TopoGraphs, system: TopoSystem, rankOffset = 0): XmlElement {
  return element(
    'graphs',
    { version: 1 },
    WRITTEN.map((name) => graphElement(graphs[name], system, rankOffset)),
  );
}

function graphElement(graph: TopoGraph, system: TopoSystem, rankOffset: number): XmlElement {
  const channels = graph.channels
    .slice(0, graph.nChannels)
    .map((channel) => channelElement(graph, channel, system, rankOffset));
  return element(
    'graph',
    {
      id: graph.id,
      pattern: graph.pattern,
      crossnic: graph.crossNic,
      nchannels: graph.nChannels,
      speedintra: generalFormat(graph.bwIntra),
      speedinter: generalFormat(graph.bwInter),
      latencyinter: generalFormat(graph.latencyInter),
      typeintra: typeName(graph.typeIntra, graph),
      typeinter: typeName(graph.typeInter, graph),
      samechannels: graph.sameChannels ? 1 : 0,
    },
    channels,
  );
}

function channelElement(
  { id }: TopoGraph,
  { intra, inter }: GraphChannel,
  { nodes: { GPU } }: TopoSystem,
  rankOffset: number,
): XmlElement {
  const net = (end: 0 | 1) => (inter === null ? [] : [element('net', { dev: hex(inter[end]) })]);
  const ranks = id === GraphId.NVLS ? intra.slice(0, 1) : intra;
  const gpus = ranks.map((rank) => {
    const gpu = GPU.find((one) => one.rank === rank);
    if (gpu === undefined) {
      throw new TuttiError(
        'internalError',
        `graph ${id} names rank ${rank}, which has no GPU in the system that the graph is written for`,
        { rank },
      );
    }
    return element('gpu', { dev: hex(deviceNumber(gpu)), rank: rank + rankOffset });
  });
  return element('channel', {}, [...net(0), ...gpus, ...net(1)]);
}

/** `%#lx`: no prefix before 0. */
const hex = (value: bigint): string => (value === 0n ? '0' : `0x${value.toString(16)}`);

function typeName(type: PathType, { id }: TopoGraph): string {
  const named = NAMED_TYPES.find(([, value]) => value === type);
  if (named !== undefined) return named[0];
  throw new TuttiError(
    'internalError',
    `graph ${id} has paths of type ${PATH_TYPE_NAMES[type] ?? type}, for which graph files have no word; ` +
      `NCCL cannot write it either ("KV Convert to str : could not find value ${type} in dictionary")`,
  );
}

/** Where graphs are looked for. */
export interface GraphFileContext {
  readonly system: TopoSystem;
  /** NCCL_CROSS_NIC. */
  readonly crossNic: number;
  readonly log?: LogSink;
}

/**
 * The graph that a document gives for a search; undefined if it gives none.
 *
 * GPUs are those with the given ranks, within the host or clique; where a rank is not there, or none is given, the
 * device number decides, so that one file does for hosts that are alike.
 *
 * @throws TuttiError invalidArgument naming element, line, value and remedy; systemError, as in NCCL, for a GPU or NIC
 *   that the system does not have.
 */
export function graphFromXml(
  root: XmlElement,
  request: SearchRequest,
  { system, crossNic, log = SILENT }: GraphFileContext,
): TopoGraph | undefined {
  let found: TopoGraph | undefined;
  for (const one of root.children) {
    if (one.name !== 'graph' || integer(one, 'id') !== request.id) continue;
    if (crossNic === 0 && integer(one, 'crossnic') === 1) continue;
    found = readGraph(one, request, system, log);
    log('INFO', 'GRAPH', `Search ${request.id} : ${found.nChannels} channels loaded from XML graph`);
  }
  return found;
}

function readGraph(one: XmlElement, request: SearchRequest, system: TopoSystem, log: LogSink): TopoGraph {
  const { id, collNet, minChannels, maxChannels } = request;
  const pattern = integer(one, 'pattern');
  if (!Object.values<number>(Pattern).includes(pattern)) {
    throw wrong(one, `pattern="${pattern}" is none of 1 to 6`);
  }
  const channels = one.children.filter(({ name }) => name === 'channel');
  const nChannels = integer(one, 'nchannels');
  if (nChannels > MAX_CHANNELS) {
    throw wrong(one, `nchannels="${nChannels}" but a communicator has at most ${MAX_CHANNELS} channels`);
  }
  if (nChannels < 0 || nChannels > channels.length) {
    throw wrong(
      one,
      `nchannels="${nChannels}" but ${channels.length} <channel> follow; give as many as nchannels says`,
    );
  }
  if (!one.attributes.has('latencyinter')) log('INFO', 'GRAPH', 'latencyinter not found in graph, using 0.0');
  return {
    ...startGraph(id, pattern as Pattern, collNet, minChannels, maxChannels),
    crossNic: integer(one, 'crossnic'),
    nChannels,
    bwIntra: decimal(one, 'speedintra'),
    bwInter: decimal(one, 'speedinter'),
    latencyInter: one.attributes.has('latencyinter') ? decimal(one, 'latencyinter') : 0,
    typeIntra: lookUp(NAMED_TYPES, one.attributes.get('typeintra') ?? '', PathType.LOC, log),
    typeInter: lookUp(NAMED_TYPES, one.attributes.get('typeinter') ?? '', PathType.LOC, log),
    sameChannels: integer(one, 'samechannels') !== 0,
    channels: channels.slice(0, nChannels).map((channel) => readChannel(channel, id, system)),
  };
}

function readChannel(channel: XmlElement, id: GraphId, { nodes, inter }: TopoSystem): GraphChannel {
  const { GPU, NET } = nodes;
  const ranks: number[] = [];
  const nics: bigint[] = [];
  for (const one of channel.children) {
    if (one.name === 'net') {
      const dev = cHex(attribute(one, 'dev'));
      if (inter && !NET.some((net) => net.id === dev)) throw unknownDevice(one, 'NIC');
      nics.push(dev);
    }
    if (one.name === 'gpu') ranks.push(readGpu(one, GPU).rank);
  }
  // Of NVLS channels only the head has meaning; some files list the others too.
  if (id === GraphId.NVLS) ranks.splice(1);
  const expected = id === GraphId.NVLS ? 1 : GPU.length;
  if (ranks.length !== expected || new Set(ranks).size !== expected) {
    throw wrong(
      channel,
      `${ranks.length} <gpu> where ${expected} different ones are needed; list every GPU of the node once`,
    );
  }
  if (!inter) return { intra: ranks, inter: null };
  const [start, end] = nics;
  if (start === undefined || end === undefined) {
    throw wrong(
      channel,
      `${nics.length} <net> where two are needed: ranks on other nodes are reached through the first and the last`,
    );
  }
  return { intra: ranks, inter: [start, end] };
}

function readGpu(one: XmlElement, gpus: readonly GpuNode[]): GpuNode {
  const rank = one.attributes.get('rank');
  const byRank = rank === undefined ? undefined : gpus.find((gpu) => gpu.rank === cInt(rank));
  if (byRank !== undefined) return byRank;
  const dev = cHex(attribute(one, 'dev'));
  const byDevice = gpus.find((gpu) => deviceNumber(gpu) === dev);
  if (byDevice === undefined) throw unknownDevice(one, 'GPU');
  return byDevice;
}

function attribute(one: XmlElement, name: string): string {
  const text = one.attributes.get(name);
  if (text === undefined) throw wrong(one, `attribute ${name} is missing`);
  return text;
}

const integer = (one: XmlElement, name: string): number => cInt(attribute(one, name));

function decimal(one: XmlElement, name: string): number {
  const text = attribute(one, name);
  const value = Number.parseFloat(text);
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw wrong(one, `${name}="${text.slice(0, 40)}" is not a speed; write GB/s as a number`);
  }
  return Math.fround(value);
}

const wrong = (one: XmlElement, text: string, code: ErrorCode = 'invalidArgument'): TuttiError =>
  new TuttiError(code, `graph file: ${placeOf(one)}: ${text}`);

function unknownDevice(one: XmlElement, what: string): TuttiError {
  const dev = one.attributes.get('dev') ?? '';
  return wrong(
    one,
    `XML Import Channel : dev ${dev.slice(0, 40)} not found; the topology has no such ${what}: ` +
      'give the graph file that was written on a machine like this one',
    'systemError',
  );
}
