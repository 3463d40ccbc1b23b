/**
 * Connection against NCCL, without our own search: NCCL's systems and graphs go in, its aligned graphs, rings, trees,
 * CollNet and NVLS places and channel counts must come out, number by number, for all golden files.
 */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { connectCommunicator } from '#src/topology/connect/communicator.js';
import { topologySettings } from '#src/topology/settings.js';
import { compareTrees, type Difference } from '../golden/difference.js';
import { findMachines, readGolden } from '../golden/folder.js';
import type { GoldenFile } from '../golden/format.js';
import { effectiveEnvironment } from '../golden/inputs.js';
import { goldenDomains } from './golden-domains.js';
import { communicatorShape } from './shape.js';

/** Fields of `comm` that other parts decide: sizes of buffers, and heads after CollNet was set up. */
const ELSEWHERE = ['buffSizes', 'p2pChunkSize', 'collNetHeadsNum'];

function differences(golden: GoldenFile): Difference[] {
  const settings = topologySettings(effectiveEnvironment(golden.oracle));
  const own = communicatorShape(connectCommunicator({ domains: goldenDomains(golden), settings }));
  const comm = Object.fromEntries(Object.entries(golden.comm!).filter(([key]) => !ELSEWHERE.includes(key)));
  const { aligned, channels, nvlsChannelsInfo } = golden;
  const found: Difference[] = [];
  compareTrees(
    { comm, aligned, channels, nvlsChannelsInfo },
    { nvlsChannelsInfo: undefined, ...own },
    found,
    5,
  );
  return found;
}

const machines = findMachines(fileURLToPath(new URL('../../golden', import.meta.url)));

describe('connected channels equal those of NCCL', () => {
  it('has all the machines to compare with', () => {
    expect(machines.reduce((sum, { files }) => sum + files.length, 0)).toBeGreaterThanOrEqual(580);
  });

  it.each(machines.map(({ name, folder, files }) => ({ name, folder, files })))(
    '$name: aligned graphs, counts, rings, trees, CollNet and NVLS of every file [C03-25]',
    ({ folder, files }) => {
      for (const file of files) {
        expect({ file, differences: differences(readGolden(folder, file)) }).toEqual({
          file,
          differences: [],
        });
      }
    },
  );
});
