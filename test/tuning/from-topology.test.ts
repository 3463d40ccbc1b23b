/** The model's input from our own topology, searched and connected, against that from golden files. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { readXml } from '#src/topology/xml/read.js';
import { tuningInput } from '#src/tuning/from-topology.js';
import type { TuningInput } from '#src/tuning/input.js';
import { tuningTables } from '#src/tuning/model.js';
import { tuningSettings } from '#src/tuning/settings.js';
import { readGolden, readTopology } from '../topology/golden/folder.js';
import { goldenInputs } from '../topology/golden/inputs.js';
import type { TuningGolden } from './golden/format.js';
import { goldenInput } from './golden/input.js';

const DATA = fileURLToPath(new URL('../golden', import.meta.url));

function both(machine: string, file: string) {
  const folder = join(DATA, machine);
  const golden = readGolden(folder, file);
  const topology = readXml(readTopology(folder), { root: 'system', file: 'topo.xml' }).root;
  const cluster = describeCluster(goldenInputs(topology, golden.oracle));
  const own = (rank?: number) =>
    tuningInput({
      comm: cluster.comm,
      topology: cluster.settings,
      settings: tuningSettings(golden.oracle.env),
      rank,
    });
  return { own, wanted: goldenInput(golden as unknown as TuningGolden) };
}

/** Fields of the graphs that the model reads, and the rest without functions. */
const plain = ({ graphs, collnet: { supports: _, ...collnet }, ...rest }: TuningInput) => ({
  ...rest,
  collnet: collnet.enabled ? collnet : { enabled: false },
  graphs: Object.fromEntries(
    Object.entries(graphs).map(
      ([name, { nChannels, bwIntra, bwInter, typeIntra, typeInter, sameChannels }]) => [
        name,
        { nChannels, bwIntra, bwInter, typeIntra, typeInter, sameChannels },
      ],
    ),
  ),
});

describe('the input of the model from our topology is that of NCCL', () => {
  it.each([
    ['dgx-a100-8x200g', 'golden-n2.json.gz'],
    ['azure-ndv5-h100x8-8x400g', 'golden-nvls.json.gz'],
    ['azure-ndv5-h100x8-8x400g', 'golden-n2-nvls-collnet.json.gz'],
    ['azure-ndv5-h100x8-8x400g', 'golden-n4-collnet.json.gz'],
    ['rtx4090-x2-one-root-intel', 'golden.json.gz'],
    ['gh200-x1-1x400g', 'golden-n2.json.gz'],
    ['l40s-x4-2socket-2x200g', 'golden-n2.json.gz'],
    ['syn-mixed-sm', 'golden.json.gz'],
  ])('%s %s', (machine, file) => {
    const { own, wanted } = both(machine, file);
    expect(plain(own())).toEqual(plain(wanted));
    expect(tuningTables(own()).bandwidths).toEqual(tuningTables(wanted).bandwidths);
    expect(tuningTables(own()).latencies).toEqual(tuningTables(wanted).latencies);
  });

  it('refuses ranks that do not exist', () => {
    const { own } = both('rtx4090-x2-one-root-intel', 'golden.json.gz');
    expect(own(1).nRanks).toBe(2);
    expect(() => own(2)).toThrow('rank 2 is not in a communicator of 2 ranks');
  });
});
