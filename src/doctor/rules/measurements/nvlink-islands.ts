/** NVLink that joins only some GPUs of a host. */

import { type BenchRun, hostsOfRun, largestRow } from '../../model/bench.js';
import { largest, smallest } from '../../model/extremes.js';
import type { LinkMatrix } from '../../model/machine.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

const isNvlink = (cell: string): boolean => /^NV\d/.test(cell);

/** Groups of GPUs that NVLink joins, by number. */
function islandsOf(matrix: LinkMatrix): { gpus: number[]; at: Place }[] {
  const rows = matrix.rows.filter(({ name }) => name.startsWith('GPU'));
  const numbers = rows.map(({ name }) => Number(name.slice(3)));
  const seen = new Set<number>();
  const found: { gpus: number[]; at: Place }[] = [];
  for (const start of numbers) {
    if (seen.has(start)) continue;
    const group = [start];
    seen.add(start);
    for (const one of group) {
      const row = rows[numbers.indexOf(one)]!;
      row.cells.forEach((cell, i) => {
        const name = matrix.columns[i] ?? '';
        const other = Number(name.slice(3));
        if (!name.startsWith('GPU') || !isNvlink(cell) || seen.has(other) || !numbers.includes(other)) return;
        seen.add(other);
        group.push(other);
      });
    }
    found.push({ gpus: group.sort((a, b) => a - b), at: rows[numbers.indexOf(start)]!.at });
  }
  return found;
}

/** GPUs that a run used, as its command or its device list says. */
function gpusOf(run: BenchRun): number[] | undefined {
  const visible = run.command?.environment.get('CUDA_VISIBLE_DEVICES');
  if (visible !== undefined && /^\d+(?:,\d+)*$/.test(visible)) return visible.split(',').map(Number);
  return run.devices.length > 0 && hostsOfRun(run).length === 1
    ? run.devices.map(({ device }) => device)
    : undefined;
}

/** A run over several islands that is slower than this share of one inside an island shows the border. */
const BORDER = 0.5;

export const nvlinkIslands: Rule = {
  id: 'nvlink-islands',
  causes: ['slows'],
  looksFor: 'NVLink that joins only some GPUs of a host, and runs that cross the borders',
  example: [
    example(
      'topo.txt',
      '\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity',
      'GPU0\t X \tNV4\tPHB\tPHB\t0-15',
      'GPU1\tNV4\t X \tPHB\tPHB\t0-15',
      'GPU2\tPHB\tPHB\t X \tNV4\t0-15',
      'GPU3\tPHB\tPHB\tNV4\t X \t0-15',
    ),
  ],
  references: ['nvidia-smi topo -m'],
  find: (job) =>
    job.matrices.flatMap((matrix): Finding[] => {
      const islands = islandsOf(matrix).filter(({ gpus }) => gpus.length > 1);
      const all = matrix.rows.filter(({ name }) => name.startsWith('GPU')).length;
      if (islands.length === 0 || (islands.length === 1 && islands[0]!.gpus.length === all)) return [];
      const runs = job.benches.flatMap((run) => {
        const gpus = gpusOf(run);
        const best = largestRow(run);
        if (gpus === undefined || best === undefined || gpus.length < 2) return [];
        const isInside = islands.some((island) => gpus.every((gpu) => island.gpus.includes(gpu)));
        return [{ isInside, best }];
      });
      const inside = runs.filter(({ isInside }) => isInside).map(({ best }) => best.outOfPlace.busGBs);
      const across = runs.filter(({ isInside }) => !isInside);
      const fastest = largest(inside, 0);
      const isShown = across.some(({ best }) => best.outOfPlace.busGBs < BORDER * fastest);
      // Without measurements it is told only where the table is all there is.
      const isAlone = job.benches.length === 0 && job.processes.length === 0;
      if (!isShown && !isAlone) return [];
      const slowest = smallest(across.map(({ best }) => best.outOfPlace.busGBs));
      return [
        {
          severity: 'info',
          confidence: 'certain',
          text: `NVLink joins only ${islands.map(({ gpus }) => `GPU ${listed(gpus)}`).join('; ')}${isShown ? `: ${fastest} GB/s inside, ${slowest} across` : ''}`,
          culprit: { islands: islands.map(({ gpus }) => gpus) },
          evidence: distinctPlaces([
            ...islands.map(({ at }) => at),
            ...some(runs.map(({ best }) => best.at)),
          ]),
          repair:
            'No setting changes it: a group that is larger than an island must cross PCIe or the sockets; place tensor-parallel groups inside an island.',
          workaround: null,
        },
      ];
    }),
};
