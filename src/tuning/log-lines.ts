/**
 * NCCL's lines about tuning, word for word, for people and tools that know them.
 *
 * (NCCL 2.30.7, tuning.cc, enqueue.cc.)
 */
import type { LogSink } from '../topology/log.js';
import type { TuningCall } from './call.js';
import type { Decision } from './decide.js';
import type { TuningTables } from './model.js';
import {
  cellOf,
  entryOf,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclAlgorithm,
  type NcclProtocol,
} from './names.js';

/** Algorithms of one block of the table. */
const BLOCK = 3;

const CALL_NAMES: Readonly<Record<NcclAlgorithm, string>> = {
  Tree: 'TREE',
  Ring: 'RING',
  CollNetDirect: 'COLLNET_DIRECT',
  CollNetChain: 'COLLNET_CHAIN',
  NVLS: 'NVLS',
  NVLSTree: 'NVLS_TREE',
  PAT: 'PAT',
};

/** What rank 0 says after the tables are computed. */
export function logTables(tables: TuningTables, log: LogSink): void {
  const { algo, proto } = tables.input.settings;
  if (algo !== undefined || proto !== undefined) log('INFO', 'ENV', selectionMatrix(tables));
  for (const line of tableLines(tables)) log('INFO', 'TUNING', line);
  log('INFO', 'INIT', thresholdLine(tables));
}

/** Latency and bandwidth of every candidate: three algorithms side by side. */
export function tableLines(tables: TuningTables): string[] {
  const lines: string[] = [];
  for (let start = 0; start < NCCL_ALGORITHMS.length; start += BLOCK) {
    const algorithms = NCCL_ALGORITHMS.slice(start, start + BLOCK);
    lines.push(`  Algorithm   |${algorithms.map((name) => `${cell('', name, '')} |`).join('')}`);
    // The last block has one algorithm, but as many protocols in its heading as the others.
    lines.push(
      `  Protocol    |${NCCL_PROTOCOLS.map((name) => `${cell(name)} |`)
        .join('')
        .repeat(BLOCK)}`,
    );
    const threads = algorithms.flatMap((algorithm) =>
      NCCL_PROTOCOLS.map((protocol) => `${cell(`${tables.maxThreads[cellOf(algorithm, protocol)]}`)} |`),
    );
    lines.push(` Max NThreads |${threads.join('')}`);
    for (const fn of NCCL_FUNCTIONS) {
      const cells = algorithms.flatMap((algorithm) =>
        NCCL_PROTOCOLS.map((protocol) => {
          const entry = entryOf(fn, algorithm, protocol);
          const latency = tables.latencies[entry]!.toFixed(1).padStart(8);
          return `${latency}/${tables.bandwidths[entry]!.toFixed(1).padStart(6)} |`;
        }),
      );
      lines.push(`${fn.padStart(13)} |${cells.join('')}`);
    }
  }
  return lines;
}

/** What NCCL_ALGO and NCCL_PROTO leave, as they were read: 2 stands for LL128 where the machine can do it. */
export function selectionMatrix({ lists }: TuningTables): string {
  const row = (
    name: string,
    protocols: readonly (string | number)[],
    algorithms: readonly (string | number)[],
  ) =>
    `${name.padStart(13)} | ${protocols.map((p) => `${`${p}`.padStart(8)}  `).join('')} | ` +
    `${algorithms.map((a) => `${`${a}`.padStart(13)}  `).join('')}\n`;
  const rows = NCCL_FUNCTIONS.map((fn, number) =>
    row(fn, lists.protocols[number]!, lists.algorithms[number]!),
  );
  return `Enabled NCCL Func/Proto/Algo Matrix:\n${row('Function', NCCL_PROTOCOLS, NCCL_ALGORITHMS)}${rows.join('')}`;
}

export function thresholdLine({ threadThresholds: bytes }: TuningTables): string {
  const all = (algorithm: NcclAlgorithm) =>
    NCCL_PROTOCOLS.map((protocol: NcclProtocol) => bytes[cellOf(algorithm, protocol)]).join('/');
  const simple = (algorithm: NcclAlgorithm) => bytes[cellOf(algorithm, 'Simple')];
  return `threadThresholds ${all('Tree')} | ${all('Ring')} | ${simple('CollNetDirect')} | ${simple('CollNetChain')}`;
}

/** The choice for one call, after its channels are placed. */
export function decisionLine(
  { function: fn, bytes }: TuningCall,
  { algorithm, protocol }: Pick<Decision, 'algorithm' | 'protocol'>,
  channels: { readonly first: number; readonly last: number },
): string {
  const name = CALL_NAMES[algorithm];
  return `${fn}: ${bytes} Bytes -> Algo ${name} proto ${protocol.toUpperCase()} channel{Lo..Hi}={${channels.first}..${channels.last}}`;
}

/** Texts right-aligned above the 17 columns of a latency and a bandwidth. */
const cell = (...texts: readonly string[]): string => texts.map((text) => ` ${text.padStart(14)}`).join('  ');
