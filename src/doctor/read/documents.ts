/**
 * Whole documents: JSON (dumps of operations, RAS, nccl-tests) and NCCL's XML.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { readXml } from '../../topology/xml/read.js';
import type { BenchRun, BenchSide } from '../model/bench.js';
import { grouped } from '../model/grouped.js';
import type { FileRecord, Job } from '../model/job.js';
import type { RasCommunicator, RasRank, RasReport } from '../model/ras.js';
import { readDumps } from './dumps.js';
import { type JsonValue, member, numberOf, readJson, stringOf } from './json.js';

/** Reads a JSON document into the model. */
export function readJsonDocument(text: string, record: FileRecord, job: Job): void {
  const { value, broken } = readJson(text);
  if (broken !== undefined) record.problems.push(`line ${broken}: the JSON text ends or breaks off here`);
  if (value === undefined) return;
  if (readRas(value, record, job) || readBench(value, record, job)) return;
  if (readDumps(value, record.name, job)) record.kinds.add('operation dump');
}

/** The name of the first element: behind declarations, comments and instructions. */
const ROOT = /^\ufeff?\s*(?:<\?[^>]*>\s*|<!--[\s\S]*?-->\s*|<![A-Z][^>]*>\s*)*<([A-Za-z_][\w.:-]*)/;

/** Documents of other tools, by root. */
const OTHER_ROOTS: Readonly<Record<string, string>> = { nvidia_smi_log: 'nvidia-smi -q -x' };

/** Reads a topology or graph file; other XML is recognised, or named as unknown. */
export function readXmlDocument(text: string, record: FileRecord, job: Job): void {
  const kind = ROOT.exec(text)?.[1];
  if (kind !== 'system' && kind !== 'graphs') {
    const known = kind === undefined ? undefined : OTHER_ROOTS[kind];
    if (known !== undefined) record.kinds.add(known);
    else if (kind === undefined) record.problems.push('XML without an element');
    else record.problems.push(`XML with the root <${kind}>, which is none that the doctor knows`);
    return;
  }
  if (kind === 'system' && !/<system[^>]*\sversion=|<(?:cpu|pci|gpu|net|nic)\b/.test(text)) {
    record.problems.push('XML with the root <system>, but not a topology of NCCL');
    return;
  }
  try {
    const { root, notes } = readXml(text, { root: kind, file: record.name });
    job.topologies.push({ kind, root, file: record.name, notes });
    record.kinds.add(kind === 'system' ? 'topology file' : 'graph file');
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    record.problems.push(error.message);
    record.refusedTopology = {
      text: error.message,
      line: Number(/\bline (\d+)/.exec(error.message)?.[1] ?? 1),
    };
  }
}

function items(value: JsonValue | undefined): readonly JsonValue[] {
  return value?.type === 'array' ? value.items : [];
}

function readRas(root: JsonValue, record: FileRecord, job: Job): boolean {
  const list = member(root, ['communicators']);
  if (list?.type !== 'array' || member(root, ['nccl_version']) === undefined) return false;
  const place = (value: JsonValue) => ({ file: record.name, line: value.line });
  const report: RasReport = {
    at: place(root),
    version: stringOf(member(root, ['nccl_version'])),
    dead: [],
    deadAt: [],
    incomplete: [],
    communicators: [],
    timeouts: undefined,
  };
  for (const one of list.items) {
    const rankOf = (value: JsonValue): RasRank => ({
      rank: numberOf(member(value, ['rank'])) ?? -1,
      gpu: stringOf(member(value, ['cuda_dev'])),
      pid: numberOf(member(value, ['pid'])),
      host: stringOf(member(value, ['host'])),
      at: place(value),
    });
    const communicator: RasCommunicator = {
      hash: (stringOf(member(one, ['hash'])) ?? '').replace(/^0x/, ''),
      at: place(one),
      missing: undefined,
      errors: [],
      mismatches: [],
    };
    const missing = items(member(one, ['missing_ranks']));
    if (missing.length > 0) {
      communicator.missing = { ranks: missing.map(rankOf), at: place(missing[0]!) };
      for (const value of missing) {
        const dead = member(member(value, ['status']), ['considered_dead']);
        const { rank: _, gpu, pid, host, at } = rankOf(value);
        if (dead?.type === 'word' && dead.value === true && pid !== undefined)
          report.dead.push({ pid, host: host ?? '', gpus: gpu ?? '', at });
      }
    }
    addCounts(communicator, items(member(one, ['ranks'])), rankOf, place);
    report.communicators.push(communicator);
  }
  const timeouts = member(member(root, ['ras']), ['timeouts_count']);
  const count = numberOf(timeouts) ?? 0;
  if (count > 0) report.timeouts = { count, at: place(timeouts!) };
  job.ras.push(report);
  record.kinds.add('RAS');
  return true;
}

/** Ranks whose numbers of operations differ. */
function addCounts(
  communicator: RasCommunicator,
  ranks: readonly JsonValue[],
  rankOf: (value: JsonValue) => RasRank,
  place: (value: JsonValue) => RasRank['at'],
): void {
  for (const operation of ['Broadcast', 'Reduce', 'AllGather', 'ReduceScatter', 'AllReduce']) {
    const countOf = (value: JsonValue) => numberOf(member(member(value, ['collective_counts']), [operation]));
    const byCount = grouped(ranks, countOf);
    byCount.delete(undefined);
    if (byCount.size < 2) continue;
    communicator.mismatches.push({
      operation,
      at: communicator.at,
      counts: [...byCount].map(([count, values]) => ({
        ranks: values.length,
        operation: count!,
        listed: values.length <= 10 ? values.map(rankOf) : [],
        at: place(values[0]!),
      })),
    });
  }
}

function readBench(root: JsonValue, record: FileRecord, job: Job): boolean {
  const results = member(root, ['results']);
  const config = member(root, ['config']);
  if (results?.type !== 'array' || config === undefined) return false;
  const place = (value: JsonValue) => ({ file: record.name, line: value.line });
  const side = (value: JsonValue | undefined): BenchSide | undefined => {
    const time = numberOf(member(value, ['time', 'cpu_time']));
    const algorithm = numberOf(member(value, ['alg_bw']));
    const bus = numberOf(member(value, ['bus_bw']));
    if (time === undefined || algorithm === undefined || bus === undefined) return undefined;
    return { timeUs: time, algGBs: algorithm, busGBs: bus, wrong: numberOf(member(value, ['nwrong'])) };
  };
  const program = stringOf(items(member(root, ['args']))[0]);
  const average = member(root, ['average_bus_bandwidth']);
  const bandwidth = numberOf(member(average, ['bandwidth']));
  const run: BenchRun = {
    at: place(root),
    program: program?.replace(/^.*\//, ''),
    devices: items(member(config, ['devices'])).flatMap((one) => {
      const rank = numberOf(member(one, ['rank']));
      return rank === undefined
        ? []
        : [
            {
              rank,
              pid: numberOf(member(one, ['pid'])) ?? 0,
              host: stringOf(member(one, ['hostname'])) ?? '',
              device: numberOf(member(one, ['device'])) ?? 0,
              gpu: stringOf(member(one, ['device_info'])) ?? '',
              at: place(one),
            },
          ];
    }),
    rows: results.items.flatMap((one) => {
      const bytes = numberOf(member(one, ['size']));
      const outOfPlace = side(member(one, ['out_of_place']));
      if (bytes === undefined || outOfPlace === undefined) return [];
      return [{ bytes, outOfPlace, inPlace: side(member(one, ['in_place'])), at: place(one) }];
    }),
    outOfBounds: undefined,
    average: bandwidth === undefined ? undefined : { busGBs: bandwidth, at: place(average!) },
    concluded: place(root),
    command: undefined,
  };
  job.benches.push(run);
  record.kinds.add('nccl-tests');
  return true;
}
