/**
 * Draws the different trees: the root at the left, each rank to the right of the one above it, branches below each
 * other. Ways to another node are dashed.
 */
import type { Cluster } from '../../cluster.js';
import { type TreeOrder, treeOrders } from '../orders.js';
import { countText, rangesText } from '../quantities.js';
import type { Canvas } from './canvas.js';
import { ARROW, CHIP, chipWidth, drawChip } from './chip-row.js';
import { channelClass } from './theme.js';

/** Orders that are drawn; more are counted. */
const MOST_TREES = 8;

/** Ranks of a tree that are drawn, nearest to the root first. */
const MOST_RANKS = 64;

/** Pixels. */
const LABEL_WIDTH = 150;
const ROW = 32;
const STEP = ARROW + 4;
const COLUMN_GAP = 30;
const ROW_GAP = 10;
const MORE_HEIGHT = 20;

interface Place {
  readonly rank: number;
  readonly column: number;
  readonly row: number;
  readonly parent: Place | undefined;
}

/** A tree with its layout and size. */
interface Drawing extends Layout {
  readonly tree: TreeOrder;
  readonly colour: string;
  readonly width: number;
  readonly height: number;
}

/** Draws from (left, top) on, side by side where they fit into a width; returns the height. */
export function drawTrees(
  canvas: Canvas,
  cluster: Cluster,
  left: number,
  top: number,
  width: number,
): number {
  const { comm, nRanks } = cluster;
  const trees = treeOrders(comm);
  const chip = chipWidth(nRanks);
  const drawings = trees.slice(0, MOST_TREES).map((tree, order): Drawing => {
    const layout = layOut(tree, nRanks);
    const columns = 1 + Math.max(0, ...layout.places.map(({ column }) => column));
    return {
      ...layout,
      tree,
      colour: channelClass(order),
      width: LABEL_WIDTH + columns * (chip + STEP) + COLUMN_GAP,
      height: layout.rows * ROW + (layout.hidden > 0 ? MORE_HEIGHT : 0) + ROW_GAP,
    };
  });
  const cell = Math.max(...drawings.map((drawing) => drawing.width));
  const perRow = Math.max(1, Math.floor((width + COLUMN_GAP) / cell));
  let y = top;
  for (let at = 0; at < drawings.length; at += perRow) {
    const row = drawings.slice(at, at + perRow);
    for (const [column, drawing] of row.entries()) {
      drawTree(canvas, drawing, comm.rankToNode, chip, left + column * cell, y);
    }
    y += Math.max(...row.map(({ height }) => height));
  }
  if (trees.length > MOST_TREES) {
    canvas.text(left, y + 10, `and ${countText(trees.length - MOST_TREES, 'more order')}`, {
      className: 'faint',
    });
    y += MORE_HEIGHT;
  }
  return y - top;
}

function drawTree(
  canvas: Canvas,
  { tree, places, rows, hidden, colour }: Drawing,
  rankToNode: Int32Array,
  chip: number,
  left: number,
  top: number,
): void {
  const { channels } = tree;
  const head = `channel${channels.length > 1 ? 's' : ''} ${rangesText(channels, ', ')}`;
  canvas.text(left, top + CHIP / 2 + 4, head, { size: 11, className: 'faint', maxWidth: LABEL_WIDTH - 8 });
  const x = ({ column }: Place) => left + LABEL_WIDTH + column * (chip + STEP);
  const middle = ({ row }: Place) => top + row * ROW + CHIP / 2;
  for (const place of places) {
    const { parent, rank } = place;
    if (parent === undefined) continue;
    const start = x(parent) + chip;
    const end: [number, number] = [x(place) - 1, middle(place)];
    const bends: [number, number][] =
      parent.row === place.row
        ? []
        : [
            [start + STEP / 2, middle(parent)],
            [start + STEP / 2, middle(place)],
          ];
    const crosses = rankToNode[parent.rank] !== rankToNode[rank];
    canvas.line([[start, middle(parent)], ...bends, end], `flow ${colour}${crosses ? ' net' : ''}`, true);
  }
  for (const place of places) drawChip(canvas, x(place), middle(place) - CHIP / 2, chip, place.rank, colour);
  if (hidden > 0) {
    canvas.text(left + LABEL_WIDTH, top + rows * ROW + 8, `and ${countText(hidden, 'more rank')}`, {
      size: 11,
      className: 'faint',
    });
  }
}

interface Layout {
  readonly places: readonly Place[];
  readonly rows: number;
  /** Ranks that are not drawn. */
  readonly hidden: number;
}

/** Column by depth; the first branch stays in the row of its parent, each further one opens a row below. */
function layOut(tree: TreeOrder, nRanks: number): Layout {
  const wanted = nearest(tree, Math.min(nRanks, MOST_RANKS));
  const places: Place[] = [];
  let rows = 0;
  const visit = (rank: number, column: number, row: number, parent: Place | undefined) => {
    const place: Place = { rank, column, row, parent };
    places.push(place);
    rows = Math.max(rows, row + 1);
    for (const [at, child] of tree
      .below(rank)
      .filter((one) => wanted.has(one))
      .entries()) {
      visit(child, column + 1, at === 0 ? row : rows, place);
    }
  };
  if (tree.root >= 0) visit(tree.root, 0, 0, undefined);
  return { places, rows, hidden: nRanks - places.length };
}

/** The ranks nearest to the root. */
function nearest(tree: TreeOrder, most: number): Set<number> {
  const found = new Set<number>(tree.root >= 0 ? [tree.root] : []);
  for (const rank of found) {
    for (const child of tree.below(rank)) if (found.size < most) found.add(child);
  }
  return found;
}
