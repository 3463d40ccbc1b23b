/**
 * Ranks as small boxes, as rings and trees are drawn with them.
 */
import { type Canvas, textWidth } from './canvas.js';

/** Height of a box, and the least width. Pixels. */
export const CHIP = 24;

/** Room for an arrow between two boxes. */
export const ARROW = 14;

/** Pixels that the widest rank needs. */
export const chipWidth = (nRanks: number): number => Math.max(CHIP, textWidth(`${nRanks - 1}`, 11) + 10);

/** One rank. */
export function drawChip(
  canvas: Canvas,
  x: number,
  y: number,
  width: number,
  rank: number,
  colour: string,
): void {
  canvas.box(x, y, width, CHIP, `chip ${colour}`, 4);
  canvas.text(x + width / 2, y + 16, `${rank}`, { anchor: 'middle', size: 11 });
}
