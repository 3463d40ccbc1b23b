/**
 * Draws the table of paths: a row per GPU, a column per GPU and NIC, each cell the type of the path and its GB/s.
 *
 * Columns that do not fit beside each other go below each other; machines with more GPUs than a screen can show get a
 * summary of which paths occur how often.
 */
import type { NetNode, TopoPath, TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';
import { Labels } from './labels.js';
import { type PathTable, typesIn } from './path-table.js';
import { bandwidthText, countText } from './quantities.js';
import { type Paint, padEnd, padStart, type Style, wrap } from './style.js';
import { legendText, pathTypeName } from './type-legend.js';

/** GPUs that a table can show; more are summed up. */
const MAX_ROWS = 16;

/** Below this GB/s have a decimal. */
const WHOLE_FROM = 100;

export function pathMatrix(table: PathTable, system: TopoSystem, style: Style): string[] {
  const types = typesIn(table);
  const lines = table.rows.length > MAX_ROWS ? summary(table, style) : matrix(table, system, style);
  if (types.size > 0) lines.push(...wrap(legendText(types), style.width, '  ').map(style.dim));
  return lines;
}

interface Column {
  readonly head: string;
  readonly paint: Paint;
  readonly cells: readonly string[];
}

function matrix({ rows, gpuRanks, nics }: PathTable, system: TopoSystem, style: Style): string[] {
  const labels = new Labels(system);
  const heads = rows.map(({ rank }) => `GPU ${rank}`);
  const first = Math.max(...heads.map(({ length }) => length));
  const nicColumns = (names: (nic: NetNode) => string): Column[] =>
    nics.map((nic, at) => ({
      head: names(nic),
      paint: style.nic,
      cells: rows.map((row) => cellText(row.toNics[at]!)),
    }));
  const named = nicColumns((nic) => labels.port(nic));
  const namesFit = named.reduce((sum, column) => sum + widthOf(column), first) <= style.width;
  const columns: Column[] = [
    ...gpuRanks.map((rank, at) => ({
      head: `GPU ${rank}`,
      paint: style.gpu,
      cells: rows.map((row) => (row.rank === rank ? '-' : cellText(row.toGpus[at]!))),
    })),
    ...(namesFit ? named : nicColumns(({ index }) => `NIC ${index}`)),
  ];
  const lines: string[] = [];
  for (let start = 0; start < columns.length; ) {
    let end = start;
    let room = style.width - first;
    // GPUs and NICs share a block only if all of them fit.
    const total = columns.slice(start).reduce((sum, column) => sum + widthOf(column), 0);
    const stop = total <= room || start >= gpuRanks.length ? columns.length : gpuRanks.length;
    while (end < stop && (end === start || widthOf(columns[end]!) <= room)) {
      room -= widthOf(columns[end]!);
      end += 1;
    }
    const block = columns.slice(start, end);
    if (start > 0) lines.push('');
    lines.push(
      ' '.repeat(first) +
        block.map((column) => padStart(column.paint(column.head), widthOf(column))).join(''),
    );
    for (const [at, head] of heads.entries()) {
      const cells = block.map((column) => padStart(column.cells[at]!, widthOf(column)));
      lines.push(style.gpu(padEnd(head, first)) + cells.join(''));
    }
    start = end;
  }
  if (!namesFit) {
    const names = nics.map((nic) => `NIC ${nic.index} ${labels.of(nic)}`);
    lines.push(...wrap(names.join(', '), style.width, '  ').map(style.dim));
  }
  return lines;
}

const widthOf = ({ head, cells }: Column): number =>
  Math.max(head.length, ...cells.map(({ length }) => length)) + 2;

/** `NVL 371`, `PIX 48`; `DIS` for none. */
function cellText({ type, bandwidth }: TopoPath): string {
  const name = pathTypeName(type);
  if (type === PathType.DIS || type === PathType.LOC) return name;
  return `${name} ${bandwidth >= WHOLE_FROM ? Math.round(bandwidth) : bandwidthText(bandwidth)}`;
}

function summary({ rows, gpuRanks, nics }: PathTable, style: Style): string[] {
  const gpuPaths = rows.flatMap((row) => row.toGpus.filter((_, at) => gpuRanks[at] !== row.rank));
  const nicPaths = rows.flatMap((row) => row.toNics);
  const section = (what: string, paths: readonly TopoPath[]) => {
    if (paths.length === 0) return [];
    const counts = new Map<string, number>();
    for (const path of paths) {
      const text = cellText(path) + (path.type === PathType.DIS ? '' : ' GB/s');
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    const sorted = [...counts].sort(([, a], [, b]) => b - a);
    const said = sorted.map(([text, count]) => `${text} ${sorted.length === 1 ? 'all' : count}`);
    return wrap(`${what}, ${paths.length} pairs: ${said.join(', ')}`, style.width, '  ');
  };
  return [
    ...section(`between ${countText(gpuRanks.length, 'GPU')}`, gpuPaths),
    ...section(`${countText(gpuRanks.length, 'GPU')} to ${countText(nics.length, 'NIC')}`, nicPaths),
  ];
}
