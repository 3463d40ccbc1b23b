/**
 * `nvidia-smi topo -m`: the table, and the names of adapters below it.
 */
import type { LinkMatrix } from '../../model/machine.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const HEADER = /^\s+(?:GPU\d+|NIC\d+|mlx5_\w+)\b/;
const ADAPTER = /^ *(NIC\d+): +(\S+)/;
const NAME = /^(?:GPU\d+|NIC\d+|mlx\d_\w+|\w+bond\w*)$/;

export function linkMatrixReader(context: FileContext): LineReader {
  let matrix: LinkMatrix | undefined;
  return (line) => {
    if (HEADER.test(line)) {
      const columns = line
        .trim()
        .split(/\t+| {2,}|\s+(?=GPU|NIC|mlx)/)
        .map((name) => name.trim());
      const names = columns.filter((name) => NAME.test(name));
      if (names.length === 0) return false;
      matrix = { host: context.host, at: here(context), columns: names, rows: [], adapters: new Map() };
      context.job.matrices.push(matrix);
      return kind(context, 'nvidia-smi topo');
    }
    if (matrix === undefined) return false;
    const adapter = ADAPTER.exec(line);
    if (adapter !== null) {
      matrix.adapters.set(adapter[1]!, adapter[2]!);
      return true;
    }
    const cells = line.trim().split(/\s+/);
    if (matrix.columns.includes(cells[0]!) && cells.length > matrix.columns.length) {
      matrix.rows.push({
        name: cells[0]!,
        cells: cells.slice(1, 1 + matrix.columns.length),
        at: here(context),
      });
      return true;
    }
    return false;
  };
}
