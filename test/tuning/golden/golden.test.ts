/** Our cost model and decisions against NCCL's, for every golden file, number by number. */
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findMachines, readGolden } from '../../topology/golden/folder.js';
import { compareTuning } from './compare.js';
import type { TuningGolden } from './format.js';

const DATA = fileURLToPath(new URL('../../golden', import.meta.url));
const machines = findMachines(DATA);

describe('every number of the cost model and of its decisions is that of NCCL', () => {
  it.each(machines)('$name', ({ folder, files }) => {
    const differences = files.flatMap((file) => {
      const golden = readGolden(folder, file) as unknown as TuningGolden;
      return compareTuning(golden).flatMap(({ aspect, first }) =>
        first.map(
          (one) => `${basename(folder)}/${file} ${aspect} ${one.path}: ${one.expected}, not ${one.got}`,
        ),
      );
    });
    expect(differences).toEqual([]);
  });
});
