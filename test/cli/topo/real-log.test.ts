/**
 * The lines of `--log` against those that NCCL itself logged on a machine with two H200.
 *
 * The recording is of NCCL 2.28.9, the rules here are of 2.30.7, which tells ranks' GPUs and devices apart: there a
 * device (DEV) stands where a GPU stood, the GPU hangs below it by a link of its own, and paths from and to GPUs are
 * one hop longer per GPU. These differences are taken out; everything else must be the same, in the same order.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { topologyOutput } from '#src/cli/topo/output.js';
import { plainStyle } from '#src/topology/report/style.js';
import type { Environment } from '#src/topology/settings.js';

const REAL = join(import.meta.dirname, '../../golden/real-2xH200');

/** Lines that this part of NCCL logs, and nothing else. */
const OURS =
  /^(?:=== System|CPU\/|[+ ]+\+? ?[A-Z0-9]+\[|={42}$|(?:GPU|NET)\/[0-9a-f]+-[0-9a-f]+ :|Pattern \d|[ \d]\d : |Tree \d+ :|NVLS Head|Channel \d\d\/\d+ : +\d+(?: |$)|Ring \d\d :|Trees \[|comm \S+ rank \d+ nRanks|\d+ coll channels)/;

/** Lines of one rank in the recording, without their prefixes. */
function recorded(file: string, rank: number): string[] {
  const prefix = new RegExp(`^vm:\\d+:\\d+ \\[${rank}\\] NCCL INFO (.*)$`);
  return readFileSync(join(REAL, file), 'utf8')
    .split('\n')
    .flatMap((line) => prefix.exec(line)?.[1] ?? [])
    .filter((text) => OURS.test(text))
    .map(withoutHops);
}

function ours(args: readonly string[], env: Environment): string[] {
  const options = parseTopoOptions([...args, '--log']) as TopoOptions;
  return topologyOutput(options, { env, style: plainStyle(100), note: () => {} });
}

/** NCCL's lines end at 1023 characters with their prefix, ours without. */
const SAFE_LENGTH = 950;

/** Addresses differ from run to run; hops of paths between versions. */
const withoutHops = (line: string): string =>
  line
    .slice(0, SAFE_LENGTH)
    .replace(/^comm \S+/, 'comm')
    .replace(/\(\d+\/([\d.]+\/[A-Z]{3}\))/g, '($1');

/** Lines of 2.30.7 as 2.28.9 wrote them: device and GPU are one node. */
function asBefore(lines: readonly string[], ranks: ReadonlyMap<string, number>): string[] {
  return lines
    .filter((line) => !/^ *\+ LOC\[/.test(line))
    .map((line) =>
      withoutHops(line)
        .replace(/DEV\/\S+ \([\d.]+\/[A-Z]{3}\) /g, '')
        .replace(/- DEV\/(\S+) \([0-9a-f]+\)$/, (_, id: string) => `- GPU/${id} (${ranks.get(id)})`),
    );
}

const RANKS = new Map([
  ['0-60', 0],
  ['0-70', 1],
]);

// The recordings were made with NCCL_NVLS_ENABLE=0.
test.each([
  ['log-2.txt', 'topo-2.xml', 0, {}, 100],
  ['log-2.txt', 'topo-2.xml', 1, {}, 80],
  ['log-1.txt', 'topo-1.xml', 0, {}, 250],
  ['log-2-nop2p.txt', 'topo-2.xml', 0, { NCCL_P2P_DISABLE: '1' }, 20],
  ['log-2-nop2p.txt', 'topo-2.xml', 1, { NCCL_P2P_DISABLE: '1' }, 20],
])(
  '%s: what NCCL logged for %s as rank %i is what the command prints',
  (log, topology, rank, env: Environment, least) => {
    const theirs = recorded(log, rank);
    expect(theirs.length).toBeGreaterThan(least);
    const printed = ours([join(REAL, topology), '--no-nvls', `--rank=${rank}`], env);
    // Without P2P, 2.28.9 leaves NVLink out of maxBw; no search comes to another end for it.
    const isCompared = (line: string) => env.NCCL_P2P_DISABLE === undefined || !line.startsWith('=== System');
    expect(asBefore(printed, RANKS).filter(isCompared)).toEqual(theirs.filter(isCompared));
  },
);
