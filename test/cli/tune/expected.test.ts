/**
 * Whole answers, to be read: any change of the text shows as a difference of the files in expected/. When a change is
 * meant, `npx vitest run test/cli/tune/expected.test.ts --update` writes them anew.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseTuneOptions, type TuneOptions } from '#src/cli/tune/options.js';
import { tuningOutput } from '#src/cli/tune/output.js';
import { plainStyle } from '#src/topology/report/style.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

test.each([
  ['h100-4-nodes-sweep', 'azure-ndv5-h100x8-8x400g', ['--nodes=4', '--sweep'], 120],
  [
    'dgx-a100-size',
    'dgx-a100-8x200g',
    ['--nodes=2', '--size=4M', '--what-if=NCCL_ALGO=Tree', '--coll=each'],
    120,
  ],
  [
    'h100-collnet-sweep',
    'azure-ndv5-h100x8-8x400g',
    ['--nodes=2', '--collnet', '--what-if=NCCL_PROTO=^LL128'],
    120,
  ],
  ['nvl72-windows', 'gb200-nvl72-tray', ['--nodes=2', '--mnnvl', '-f', '16', '--windows=both'], 100],
  ['l40s-narrow', 'l40s-x4-2socket-2x200g', ['--coll=all_gather', '-f', '16', '-b', '1K'], 72],
  [
    'excluded',
    'gh200-x1-1x400g',
    ['--nodes=4', '--size=1M', '--what-if=NCCL_ALGO=NVLS', '--what-if=NCCL_ALGO=Rng'],
    100,
  ],
])('%s reads as expected', async (name, machine, args, width) => {
  const options = parseTuneOptions([join(GOLDEN, machine, 'topo.xml'), ...args]) as TuneOptions;
  const { lines } = await tuningOutput(options, { env: {}, style: plainStyle(width), note: () => {} });
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(
    join(import.meta.dirname, 'expected', `${name}.txt`),
  );
});
