/** NVLinks that are inactive although others of the GPU, or of its neighbours, are active. */

import type { Job } from '../../model/job.js';
import type { GpuLinks } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import { nvlinkOf } from '../gpu-models.js';
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const nvlinkDown: Rule = {
  id: 'nvlink-down',
  causes: ['kills', 'slows'],
  looksFor: 'NVLinks that are inactive although others of the GPU, or of its neighbours, are active',
  example: [
    example(
      'nvlink.txt',
      'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)',
      '\t Link 0: 25 GB/s',
      '\t Link 1: <inactive>',
    ),
  ],
  references: ['nvidia-smi nvlink -s'],
  find(job) {
    const inactive = inactiveLinks(job);
    // A pair without links is what the links of one of its GPUs lead to.
    const isTold = ({ culprit }: Finding): boolean =>
      inactive.some(
        (one) =>
          (one.culprit.host === undefined ||
            culprit.host === undefined ||
            one.culprit.host === culprit.host) &&
          (one.culprit.gpu === culprit.gpu ||
            (culprit.gpus as number[] | undefined)?.includes(one.culprit.gpu as number)),
      );
    const pairs = oddPairs(job).filter((one) => !isTold(one));
    return [...inactive, ...pairs, ...oddInTrees(job), ...refusedPairs(job)];
  },
};

/** Of so many of their kind, the others show what is normal. */
const USUAL = 0.75;

const REPAIR =
  'Look at nvidia-smi nvlink -s and dmesg (Xid 74) of the host, reset the GPU and restart the fabric manager; if the links stay away, the board or the bridge is to be replaced.';

/** The value that nearly all have; undefined where there is none, or all are equal. */
function usualOf(values: readonly number[]): number | undefined {
  const top = Math.max(...values);
  const share = values.filter((value) => value === top).length / values.length;
  return share < 1 && share >= USUAL ? top : undefined;
}

/** Pairs of GPUs with fewer links than nearly all others, in the table of ways between them. */
function oddPairs(job: Job): Finding[] {
  return job.matrices.flatMap((matrix): Finding[] => {
    const pairs = matrix.rows.flatMap(({ name, cells, at }, row) =>
      matrix.columns.flatMap((other, column) => {
        const isPair = name.startsWith('GPU') && other.startsWith('GPU') && column > row;
        return isPair
          ? [{ name, other, at, links: Number(/^NV(\d+)$/.exec(cells[column] ?? '')?.[1] ?? 0) }]
          : [];
      }),
    );
    const usual = pairs.length < 6 ? undefined : usualOf(pairs.map(({ links }) => links));
    const odd = pairs.filter(({ links }) => usual !== undefined && links < usual);
    const [first] = odd;
    if (first === undefined || usual === undefined) return [];
    const common = [first.name, first.other].filter((gpu) =>
      odd.every(({ name, other }) => name === gpu || other === gpu),
    );
    const gpus = common.length === 1 ? common : [...new Set(odd.flatMap(({ name, other }) => [name, other]))];
    const numbers = gpus.map((gpu) => Number(gpu.slice(3)));
    const where = matrix.host === undefined ? '' : ` of ${matrix.host}`;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${listed(gpus)}${where} ${gpus.length === 1 ? 'has' : 'have'} ${first.links === 0 ? 'no NVLink' : `${first.links} NVLinks`} to ${gpus.length === 1 ? 'others' : 'each other'}, where other pairs have ${usual}`,
        culprit: {
          ...(matrix.host === undefined ? {} : { host: matrix.host }),
          ...(numbers.length === 1 ? { gpu: numbers[0] } : { gpus: numbers }),
        },
        evidence: some([...new Set(odd.map(({ at }) => at))]),
        repair: REPAIR,
        workaround: null,
      },
    ];
  });
}

/** GPUs whose links carry less than those of nearly all others, in NCCL's tree of the machine. */
function oddInTrees(job: Job): Finding[] {
  const trees = job.processes.flatMap(({ host, tree }) => (tree === undefined ? [] : [{ host, tree }]));
  return firstOfEach(trees, ({ host }) => host).flatMap(({ host, tree }): Finding[] => {
    const gpus = tree.devices.filter(({ kind }) => kind === 'GPU');
    const values = gpus.map(({ nvlinkGBs }) => nvlinkGBs ?? 0);
    const usual = values.length < 4 ? undefined : usualOf(values);
    return gpus.flatMap((gpu): Finding[] => {
      const own = gpu.nvlinkGBs ?? 0;
      if (usual === undefined || own >= usual) return [];
      return [
        {
          severity: 'error',
          confidence: 'likely',
          text: `GPU ${gpu.id} of ${host} has NVLinks of ${own} GB/s, the others ${usual} GB/s`,
          culprit: { host, device: gpu.id, measuredGBs: own, othersGBs: usual },
          evidence: [gpu.at],
          repair: REPAIR,
          workaround: null,
        },
      ];
    });
  });
}

/** GPUs with links between them that the driver does not let reach each other, as NCCL warns. */
function refusedPairs(job: Job): Finding[] {
  const all = troubles(job, 'p2pOff').filter(({ trouble }) => trouble.isNvlink);
  return firstOfEach(all, ({ process }) => process.host).map(({ process, trouble, at }): Finding => {
    const gpus = [trouble.from, trouble.to].flatMap((gpu) => gpu ?? []);
    return {
      severity: 'error',
      confidence: 'likely',
      text: `GPUs ${listed(gpus)} of ${process.host} have NVLinks between them, and the driver does not let them reach each other`,
      culprit: { host: process.host, gpus },
      evidence: distinctPlaces([at, ...some(process.failedReturns, 2).map((one) => one.at)]),
      repair: REPAIR,
      workaround: 'NCCL_IGNORE_DISABLED_P2P=1 goes on without them, at the speed of host memory.',
    };
  });
}

function inactiveLinks(job: Job): Finding[] {
  const isActive = (GBs: number | undefined): boolean => GBs !== undefined && GBs > 0;
  const upOf = ({ links }: GpuLinks): number => links.filter(({ GBs }) => isActive(GBs)).length;
  return job.links.flatMap((gpu): Finding[] => {
    const down = gpu.links.filter(({ GBs }) => !isActive(GBs));
    const up = upOf(gpu);
    const same = job.links.filter(({ name, host }) => name === gpu.name && host === gpu.host);
    // Boards that wire fewer links show all GPUs alike, and cards without a bridge have none: only on boards with
    // switches is every link of a GPU in use.
    const isOnBoard = (nvlinkOf(gpu.name) ?? 0) >= 300 || /V100/.test(gpu.name);
    const isOdd = isOnBoard
      ? same.length === 1 || same.some((one) => upOf(one) !== up)
      : same.some((one) => upOf(one) > up) && up > 0;
    if (down.length === 0 || !isOdd || (up === 0 && same.every((one) => upOf(one) === 0))) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `GPU ${gpu.gpu}${gpu.host === undefined ? '' : ` of ${gpu.host}`} has ${down.length} inactive NVLink${down.length === 1 ? '' : 's'} of ${gpu.links.length}`,
        culprit: {
          ...(gpu.host === undefined ? {} : { host: gpu.host }),
          gpu: gpu.gpu,
          links: down.map(({ index }) => index),
        },
        evidence: some(down.map(({ at }) => at)),
        repair:
          'Reset the GPU and restart the fabric manager; if the links stay down, the board or the bridge is to be replaced.',
        workaround: null,
      },
    ];
  });
}
