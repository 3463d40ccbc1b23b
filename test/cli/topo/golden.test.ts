/** The command over all golden machines: it prints, and its rings are those of NCCL. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describedCluster, openMachines } from '#src/cli/topo/described-cluster.js';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { answer } from '#src/cli/topo/output.js';
import { SILENT } from '#src/topology/log.js';
import { plainStyle, visibleLength } from '#src/topology/report/style.js';
import { sample } from '../../effort.js';
import { findMachines, readGolden } from '../../topology/golden/folder.js';
import type { Oracle } from '../../topology/golden/format.js';

const GOLDEN = join(import.meta.dirname, '../../golden');
const WIDTH = 120;

/** The command line that describes what a golden file describes. */
function argumentsFor(folder: string, { nodes, nvls, collnet, mnnvl, traysPerClique }: Oracle): string[] {
  return [
    join(folder, 'topo.xml'),
    `--nodes=${nodes}`,
    nvls === 1 ? '--nvls' : '--no-nvls',
    ...(collnet === 1 ? ['--collnet'] : []),
    ...(mnnvl === 1 ? [`--clique=${traysPerClique}`] : []),
  ];
}

const machines = findMachines(GOLDEN);

test('there are golden machines', () => {
  expect(readdirSync(GOLDEN).length).toBeGreaterThan(50);
  expect(machines.length).toBeGreaterThan(50);
});

/** Generated machines have nothing of their own here: their numbers are compared elsewhere. */
const real = sample(
  machines.filter(({ name }) => !name.startsWith('random-')),
  3,
);

describe.each(real)('$name', ({ folder, files }) => {
  // One and two nodes; what drivers refuse cannot be told to the command.
  const shown = files.filter((file) => file === 'golden.json.gz' || file === 'golden-n2.json.gz');
  test.each(shown)('%s: text without gaps, JSON with the rings of NCCL', (file) => {
    const { oracle, channels, comm } = readGolden(folder, file);
    if (oracle.nop2p === 1) return;
    const options = parseTopoOptions(argumentsFor(folder, oracle)) as TopoOptions;
    const machines = openMachines(options, oracle.env, SILENT);
    const described = describedCluster(machines, options, oracle.env, SILENT);
    const text = answer(described, options, plainStyle(WIDTH));
    expect(text.length).toBeGreaterThan(5);
    expect(text.join('\n')).not.toMatch(/undefined|NaN|\[object|\bnull\b/);
    expect(text.filter((line) => visibleLength(line) > WIDTH + 20)).toEqual([]);
    const json = JSON.parse(answer(described, { ...options, show: 'json' }, plainStyle(WIDTH)).join('\n'));
    expect(json.nRanks).toBe(oracle.nRanks);
    expect(json.nNodes).toBe(comm?.nNodes);
    expect(json.channels.map(({ ring }: { ring: number[] }) => ring)).toEqual(
      channels?.map(({ ring }) => ring),
    );
    expect(json.channels.map(({ tree }: { tree: { up: number[] } }) => tree.up)).toEqual(
      channels?.map(({ treeUp }) => treeUp),
    );
  });
});
