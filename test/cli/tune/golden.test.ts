/** The command against NCCL's decisions: every number that both have, for machines of different kinds. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseTuneOptions, type TuneOptions } from '#src/cli/tune/options.js';
import { tuningOutput } from '#src/cli/tune/output.js';
import { plainStyle } from '#src/topology/report/style.js';
import { findMachines, readGolden } from '../../topology/golden/folder.js';
import type { Oracle } from '../../topology/golden/format.js';
import { effectiveEnvironment } from '../../topology/golden/inputs.js';
import type { TuningGolden } from '../../tuning/golden/format.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

/** Hopper with NVSwitch, Ampere with AMD, an NVL72 tray, PCIe, one GPU per node, Volta, made-up ones. */
const MACHINES = [
  'azure-ndv5-h100x8-8x400g',
  'dgx-a100-8x200g',
  'gb200-nvl72-tray',
  'l40s-x4-2socket-2x200g',
  'gh200-x1-1x400g',
  'azure-ndv2-v100x8-mesh',
  'rccl-collnet-n4',
  'random-0003',
  'random-0017',
];

/** The command line that describes what a golden file describes. */
function argumentsFor(folder: string, oracle: Oracle): string[] {
  const { nodes, nvls, collnet, mnnvl, traysPerClique } = oracle;
  return [
    join(folder, 'topo.xml'),
    `--nodes=${nodes}`,
    nvls === 1 ? '--nvls' : '--no-nvls',
    ...(collnet === 1 ? ['--collnet'] : []),
    ...(mnnvl === 1 ? [`--clique=${traysPerClique}`] : []),
    '--coll=each',
    '--json',
  ];
}

/** The fields of the command's JSON that a golden file has, too. */
interface Answer {
  readonly functions: readonly {
    readonly function: string;
    readonly calls: readonly {
      readonly bytes: number;
      readonly count: number;
      readonly choice: {
        readonly algorithm: string;
        readonly protocol: string;
        readonly time: number;
        readonly maxChannels: number;
        readonly warps: number;
      } | null;
      readonly placement: {
        readonly firstChannel: number;
        readonly lastChannel: number;
        readonly threads: number;
        readonly parts: readonly {
          readonly channels: number;
          readonly bytes: number;
          readonly chunkBytes: number;
        }[];
      } | null;
      readonly candidates: readonly {
        readonly algorithm: string;
        readonly protocol: string;
        readonly time: number;
      }[];
    }[];
  }[];
}

/** Fields of a golden decision beyond those of its type: the placement. */
interface Placed {
  readonly channelLo?: number;
  readonly channelHi?: number;
  readonly threads?: number;
  readonly chunkBytesLo?: number;
  /** Elements, where the channels share the whole. */
  readonly chunkCount?: number;
}

/** Files of each machine that are compared: single node, several, and variants; all of them are in other tests. */
const FILES = 3;

/** Bytes of an element of a golden call: what only moves data moves bytes. */
const elementBytes = (fn: string): number => (fn === 'AllGather' || fn === 'Broadcast' ? 1 : 4);

const machines = findMachines(GOLDEN).filter(({ name }) => MACHINES.includes(name));

test('the machines are there', () => {
  expect(machines.map(({ name }) => name)).toEqual(MACHINES.toSorted());
});

describe.each(machines)('$name', ({ folder, files }) => {
  // Cliques of many trays take seconds to search.
  const quick = files.filter((file) => !/-clique(9|1\d)/.test(file));
  const some = quick.filter((_, at) => at % Math.ceil(quick.length / FILES) === 0);
  test.each(some)('%s: choice, times, channels, threads and chunks are those of NCCL', async (file) => {
    const golden = readGolden(folder, file) as unknown as TuningGolden & { readonly oracle: Oracle };
    const { oracle } = golden;
    // What drivers refuse, and nodes that differ, cannot be told to the command by numbers alone.
    if (oracle.nop2p === 1 || oracle.lastNodeDiffers !== 0 || oracle.nRanks === 1) return;
    const options = parseTuneOptions(argumentsFor(folder, oracle)) as TuneOptions;
    const env = effectiveEnvironment(oracle);
    const { lines } = await tuningOutput(options, { env, style: plainStyle(), note: () => {} });
    const { functions } = JSON.parse(lines.join('\n')) as Answer;
    let compared = 0;
    for (const [fn, decisions] of Object.entries(golden.decisions)) {
      const { calls } = functions.find((one) => one.function === fn)!;
      for (const decision of decisions) {
        const call = calls.find(({ bytes }) => bytes === decision.bytes);
        if (call === undefined) continue;
        const { channelLo, channelHi, threads, chunkBytesLo, chunkCount } = decision as Placed;
        const chunk = chunkBytesLo ?? chunkCount! * elementBytes(fn);
        const got = {
          algo: call.choice?.algorithm,
          proto: call.choice?.protocol,
          time: call.choice && Math.fround(call.choice.time),
          nMaxChannels: call.choice?.maxChannels,
          nWarps: call.choice?.warps,
          costs: Object.fromEntries(
            call.candidates.map(({ algorithm, protocol, time }) => [
              `${algorithm}/${protocol}`,
              Math.fround(time),
            ]),
          ),
          ...(channelLo === undefined
            ? {}
            : {
                channelLo: call.placement?.firstChannel,
                channelHi: call.placement?.lastChannel,
                threads: call.placement?.threads,
                chunk: call.placement?.parts[0]?.chunkBytes,
              }),
        };
        const wanted =
          decision.error === undefined
            ? {
                algo: decision.algo,
                proto: decision.proto,
                time: Math.fround(decision.time!),
                nMaxChannels: decision.nMaxChannels,
                nWarps: decision.nWarps,
                costs: Object.fromEntries(
                  Object.entries(decision.costs!).map(([name, cost]) => [name, Math.fround(cost)]),
                ),
                ...(channelLo === undefined ? {} : { channelLo, channelHi, threads, chunk }),
              }
            : { ...got, algo: undefined, costs: {} };
        expect({ fn, bytes: call.bytes, ...got }).toEqual({ fn, bytes: call.bytes, ...wanted });
        compared += 1;
      }
    }
    expect(compared).toBeGreaterThan(100);
  });
});
