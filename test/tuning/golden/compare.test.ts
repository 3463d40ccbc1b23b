/** The comparison with golden files finds what differs. */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readGolden } from '../../topology/golden/folder.js';
import { compareTuning, TUNING_ASPECTS } from './compare.js';
import type { TuningGolden } from './format.js';

const FOLDER = fileURLToPath(new URL('../../golden/azure-ndv5-h100x8-8x400g', import.meta.url));
const FILE = 'golden-n2-nvls-collnet.json.gz';

const golden = (): TuningGolden => readGolden(FOLDER, FILE) as unknown as TuningGolden;

/** Changes the value at a path like `$.comm.buffSizes[1]`; undefined removes it. */
function change(tree: object, path: string, to: (value: unknown) => unknown): void {
  const keys = path.match(/[^.[\]]+/g)!.slice(1);
  const last = keys.pop()!;
  let at = tree as Record<string, unknown>;
  for (const key of keys) at = at[key] as Record<string, unknown>;
  const value = to(at[last]);
  if (value === undefined) delete at[last];
  else at[last] = value;
}

const one = (value: unknown) => (value as number) + 1;
const lastBit = (value: unknown) => (value as number) * (1 + 2 ** -23);

describe('the comparison', () => {
  it('looks at every aspect of a file', () => {
    const results = compareTuning(golden());
    expect(results.map(({ aspect, count }) => [aspect, count])).toEqual(
      TUNING_ASPECTS.map((aspect) => [aspect, 0]),
    );
  });

  it.each([
    ['buffers', '$.comm.buffSizes[1]', one],
    ['buffers', '$.comm.p2pChunkSize', one],
    ['threads', '$.tuning.maxThreads.Ring[0]', one],
    ['threads', '$.tuning.threadThresholds.PAT[2]', one],
    ['latencies', '$.tuning.latencies.Reduce.Ring[2]', lastBit],
    ['bandwidths', '$.tuning.bandwidths.AllGather.PAT[2]', one],
    ['decisions', '$.decisions.AllReduce[3].nWarps', one],
    ['decisions', '$.decisions.AllReduce[3].nMaxChannels', one],
    ['decisions', '$.decisions.AllReduce[3].time', lastBit],
    ['decisions', '$.decisions.Broadcast[0].proto', () => 'Simple'],
    ['decisions', '$.decisions.AllReduce[0].costs.NVLSTree/Simple', () => undefined],
  ] as const)('tells a difference in %s: %s', (aspect, path, to) => {
    const file = golden();
    change(file, path, to);
    const results = compareTuning(file).filter(({ count }) => count > 0);
    expect(results.map(({ aspect: name, count, first }) => [name, count, first[0]?.path])).toEqual([
      [aspect, 1, path],
    ]);
  });
});
