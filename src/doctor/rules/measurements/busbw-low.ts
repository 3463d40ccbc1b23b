/** A measured bus bandwidth that is a fraction of what the GPUs’ links give. */

import { expectations } from '../../expected.js';
import { type BenchRun, hostsOfRun } from '../../model/bench.js';
import { largest, smallest } from '../../model/extremes.js';
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { nvlinkOf } from '../gpu-models.js';
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { lowPairs } from './host-pairs.js';
import { slowNode } from './slow-node.js';

/** Sizes from which latency no longer decides. */
const LARGE = 16 * 1024 * 1024;

/** Sizes that fill the links of a whole machine. */
const FILLING = 64 * 1024 * 1024;

/** Intact machines reach more than two thirds of their links; less than this share asks for a cause. */
const LOW_INSIDE = 0.4;

/**
 * Bus bandwidth between hosts, in GB/s, below which something is in the way: hosts with GPUs of 450 GB/s of NVLink have
 * several adapters of 200 Gbit/s or more, those of 300 GB/s at least one of 100 Gbit/s; older ones may have 25 Gbit/s.
 */
const LOW_BETWEEN_GBS = { fast: 8, usual: 4 } as const;

/** Programs whose bus bandwidth is that of the slowest link; in others ranks share an adapter. */
const OVER_RINGS = /^(?:all_reduce|all_gather|reduce_scatter|broadcast|reduce)_perf$/;

/** GPUs of boards of four, without switches, have a third of their links to each other; those of older meshes a sixth. */
function shareOfLinks({ devices }: BenchRun, linkGBs: number): number {
  const isMesh = linkGBs < 200;
  if (devices.length >= (isMesh ? 8 : 4)) return 1;
  return isMesh ? 1 / 6 : 1 / 3;
}

/** The bus bandwidth below which a run is low. */
function limitOf(run: BenchRun, linkGBs: number): number {
  if (hostsOfRun(run).length === 1) return linkGBs * LOW_INSIDE * shareOfLinks(run, linkGBs);
  if (run.program !== undefined && !OVER_RINGS.test(run.program)) return 0;
  return linkGBs >= 450 ? LOW_BETWEEN_GBS.fast : linkGBs >= 300 ? LOW_BETWEEN_GBS.usual : 0;
}

interface Low {
  readonly expected: string;
  readonly measured: number;
  readonly at: Place[];
}

/** Times of NCCL's own estimate from which on something is in the way. */
const SLOW = 2.5;

/** Rows of large sizes that take a multiple of what NCCL expected. */
function lowByTable(job: Job): Finding[] {
  return expectations(job, true).flatMap(({ program, rows, table }): Finding[] => {
    const slow = rows.filter(
      ({ bytes, measuredUs, predictedUs }) => bytes >= LARGE && measuredUs > SLOW * predictedUs,
    );
    const last = slow.at(-1);
    if (last === undefined) return [];
    const factor = Math.round((10 * last.measuredUs) / last.predictedUs) / 10;
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `${program} takes ${factor} times as long as NCCL expects by ${last.by}`,
        culprit: { program, measuredUs: last.measuredUs, expectedUs: Math.round(last.predictedUs) },
        evidence: [...some(slow.map(({ at }) => at)), table],
        repair:
          'Compare the way between ranks (channel lines of all ranks) with the machine, and look at clocks of GPUs and counters of links while it runs.',
        workaround: null,
        why: `NCCL itself expects ${Math.round(last.predictedUs)} us for the largest size, it takes ${Math.round(last.measuredUs)}`,
      },
    ];
  });
}

function lowOf(run: BenchRun): Low | undefined {
  const links = run.devices.flatMap(({ gpu }) => nvlinkOf(gpu) ?? []);
  const large = run.rows.filter(({ bytes }) => bytes >= FILLING);
  if (links.length < 2 || links.length < run.devices.length || large.length === 0) return undefined;
  const best = largest(large.map(({ outOfPlace }) => outOfPlace.busGBs));
  const isInside = hostsOfRun(run).length === 1;
  const limit = limitOf(run, smallest(links));
  if (best <= 0 || best >= limit) return undefined;
  const at = [...large.map((row) => row.at), ...(run.average === undefined ? [] : [run.average.at])];
  const expected = isInside
    ? `more than ${Math.round(smallest(links) * 0.6 * shareOfLinks(run, smallest(links)))}`
    : 'more than 10';
  return { expected, measured: best, at };
}

/** Nothing but tables was given: then the slow host is all that can be said. */
const isAlone = (job: Job): boolean => job.processes.length === 0;

export const busbwLow: Rule = {
  id: 'busbw-low',
  causes: ['slows'],
  looksFor: 'large messages at a fraction of what the GPUs’ links, or other pairs of hosts, give',
  example: [
    example(
      'all_reduce.txt',
      '#  Rank  0 Group  0 Pid   10 on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB',
      '#  Rank  1 Group  0 Pid   11 on   n1 device  1 [0000:0b:00] NVIDIA A100-SXM4-80GB',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '  1073741824     268435456     float     sum      -1   107374   10.00   10.00       0   107374   10.00   10.00       0',
    ),
  ],
  references: ['nccl-tests: PERFORMANCE.md'],
  explainedBy: { effects: ['slows'] },
  find(job) {
    const found: Finding[] = lowByTable(job);
    for (const run of found.length > 0 ? [] : job.benches) {
      const low = lowOf(run);
      if (low === undefined) continue;
      found.push({
        severity: 'warning',
        confidence: 'possible',
        text: `${run.program ?? 'the measurement'} reaches ${low.measured} GB/s; these GPUs give ${low.expected} GB/s`,
        culprit: { program: run.program, measuredGBs: low.measured },
        evidence: some(low.at, 40),
        repair:
          'Collect a log of this job with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING and give it to the doctor with this table.',
        workaround: null,
        why: `${low.measured} GB/s at most; intact links of these GPUs give ${low.expected}`,
      });
    }
    const pairs = lowPairs(job.pairRows);
    const isNamed = job.pairRows.length > 0 && slowNode.find(job).length > 0;
    if (pairs !== undefined && !(isNamed && isAlone(job))) {
      found.push({
        severity: 'warning',
        confidence: 'likely',
        text: `some groups of hosts reach ${pairs.worst}, others ${pairs.best} GB/s`,
        culprit: { measuredGBs: pairs.worst, bestGBs: pairs.best },
        evidence: some(pairs.rows),
        repair: 'Compare the logs of a host that is in all slow groups with those of the others.',
        workaround: null,
        why: `groups with the faulty host reach ${pairs.worst} GB/s, others ${pairs.best}`,
      });
    }
    return found;
  },
};
