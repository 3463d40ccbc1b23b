/**
 * Whole answers, to be read: any change of the text shows as a difference of the files in expected/. When a change is
 * meant, `npx vitest run test/cli/topo/expected.test.ts --update` writes them anew.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { topologyOutput } from '#src/cli/topo/output.js';
import { plainStyle } from '#src/topology/report/style.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

test.each([
  ['h100-2-nodes', 'azure-ndv5-h100x8-8x400g', ['--nodes=2'], 120],
  ['nvl72-2-racks', 'gb200-nvl72-tray', ['--nodes=36', '--clique=18'], 120],
  ['rtx3090-narrow', 'rtx3090-x8-2switch', [], 72],
])('%s reads as expected', async (name, machine, args, width) => {
  const options = parseTopoOptions([join(GOLDEN, machine, 'topo.xml'), ...args]) as TopoOptions;
  const lines = topologyOutput(options, { env: {}, style: plainStyle(width), note: () => {} });
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(
    join(import.meta.dirname, 'expected', `${name}.txt`),
  );
});
