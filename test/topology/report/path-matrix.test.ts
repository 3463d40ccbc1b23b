/** The table of paths, read back cell by cell. */
import { describe, expect, it } from 'vitest';
import { pathOrNone } from '#src/topology/paths/path.js';
import { pathMatrix } from '#src/topology/report/path-matrix.js';
import { pathTable, typesIn } from '#src/topology/report/path-table.js';
import { plainStyle, visibleLength } from '#src/topology/report/style.js';
import { legendText } from '#src/topology/report/type-legend.js';
import { PATH_TYPE_NAMES, PathType } from '#src/topology/system/path-type.js';
import { cliqueOf, clusterOf, goldenDocument } from './clusters.js';

function linesOf(name: string, width = 200, nodes = 1): string[] {
  const { cluster } = clusterOf(goldenDocument(name), nodes, { nvls: false });
  const domains = cluster.domains.filter(({ node }) => node === 0);
  return pathMatrix(pathTable(domains), domains[0]!.whole, plainStyle(width));
}

/** Cells by row and column heading, of all blocks. */
function readCells(lines: readonly string[]): Map<string, string> {
  const cells = new Map<string, string>();
  let heads: string[] = [];
  for (const line of lines) {
    const row = /^(GPU \d+)(?: {2}|$)/.exec(line)?.[1];
    if (row === undefined) {
      heads = line.startsWith(' ') ? line.trim().split(/ {2,}/) : heads;
      continue;
    }
    const values = line.slice(row.length).trim().split(/ {2,}/);
    expect(values).toHaveLength(heads.length);
    for (const [at, value] of values.entries()) cells.set(`${row} > ${heads[at]}`, value);
  }
  return cells;
}

describe('the table of paths', () => {
  it.each([
    ['azure-ndv5-h100x8-8x400g', 60],
    ['azure-ndv5-h100x8-8x400g', 200],
    ['dgx1-v100x8-4x100g', 90],
    ['rtx4090-x4-rome-vnics', 120],
    ['gh200-x1-1x400g', 80],
  ])('of %s in %i columns has the type and GB/s of every path, within the width', (name, width) => {
    const { cluster } = clusterOf(goldenDocument(name), 1, { nvls: false });
    const [{ system }] = cluster.domains as [(typeof cluster.domains)[0]];
    const lines = linesOf(name, width);
    const cells = readCells(lines);
    const { GPU, NET } = system.nodes;
    const nets = NET.filter(({ id }, at) => NET.findIndex((net) => net.id === id) === at);
    const names = lines.some((line) => line.includes(` ${nets[0]!.name} `) || line.endsWith(nets[0]!.name));
    expect(cells.size).toBe(GPU.length * (GPU.length + nets.length));
    for (const from of GPU) {
      for (const to of [...GPU, ...nets]) {
        const short = `NIC ${to.index}`;
        const column =
          to.type === 'GPU' ? `GPU ${to.rank}` : cells.has(`GPU ${from.rank} > ${short}`) ? short : to.name;
        const cell = cells.get(`GPU ${from.rank} > ${column}`)!;
        if (to === from) {
          expect(cell).toBe('-');
          continue;
        }
        const [type, bandwidth] = cell.split(' ');
        const path = pathOrNone(from, to);
        expect(type).toBe(PATH_TYPE_NAMES[path.type]);
        expect(Math.abs(Number(bandwidth) - path.bandwidth)).toBeLessThanOrEqual(
          path.bandwidth >= 100 ? 0.5 : 0.005,
        );
      }
    }
    expect(names || lines.some((line) => line.includes('NIC 0'))).toBe(true);
    expect(Math.max(...lines.map(visibleLength))).toBeLessThanOrEqual(width);
  });

  it('explains the types that occur, and no others', () => {
    expect(linesOf('azure-ndv5-h100x8-8x400g').at(-1)).toBe(
      'NVL NVLink, PIX one PCIe switch, PXN NVLink to the GPU next to the NIC',
    );
    expect(legendText([PathType.SYS, PathType.PHB, PathType.SYS])).toBe(
      'PHB through the CPU, SYS through two CPUs',
    );
  });

  it('between the parts of a host that was split has the way that split it', () => {
    const { cluster } = clusterOf(goldenDocument('l20-x8-cx8'));
    const table = pathTable(cluster.domains);
    expect(table.gpuRanks).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    for (const { rank, toGpus } of table.rows) {
      for (const [other, { type }] of toGpus.entries()) {
        const apart = Math.floor(rank / 4) !== Math.floor(other / 4);
        expect(type === PathType.NET).toBe(apart);
      }
    }
    expect(typesIn(table)).toContain(PathType.NET);
  });

  it('calls NICs by number where their names are too wide, and says which is which', () => {
    const lines = linesOf('l20-x8-cx8', 80);
    expect(lines.join('\n')).not.toMatch(/^ +mlx5_bond_0 /m);
    expect(lines.join(' ').replaceAll(/ +/g, ' ')).toContain('NIC 0 mlx5_bond_0, NIC 1 mlx5_bond_1');
  });

  it('of a rack is summed up: every path counted once', () => {
    const { cluster } = clusterOf(cliqueOf(goldenDocument('gb200-nvl72-tray'), 6), 1, {
      mnnvl: true,
      nvls: false,
    });
    const lines = pathMatrix(pathTable(cluster.domains), cluster.domains[0]!.whole, plainStyle(120));
    expect(lines[0]).toBe('between 24 GPUs, 552 pairs: NVL 722 GB/s all');
    const [, total, counts] = /^24 GPUs to 24 NICs, (\d+) pairs: (.*)$/.exec(lines[1]!)!;
    expect(Number(total)).toBe(24 * 24);
    const sum = counts!.split(', ').reduce((all, part) => all + Number(part.split(' ').at(-1)), 0);
    expect(sum).toBe(24 * 24);
  });

  it('of a later node has the ranks of that node', () => {
    const { cluster } = clusterOf(goldenDocument('gh200-x1-1x400g'), 3);
    const second = cluster.domains.filter(({ node }) => node === 1);
    const lines = pathMatrix(pathTable(second), second[0]!.whole, plainStyle(80));
    expect(lines[0]).toMatch(/^ +GPU 1 +mlx5_0$/);
    expect(lines[1]).toMatch(/^GPU 1 +- +/);
  });
});
