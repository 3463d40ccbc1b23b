/**
 * Draws a sweep: every candidate as a thin line over the size, the choice bold along the line of the candidate that is
 * chosen. Colours tell algorithms, dashes protocols.
 */
import { type Canvas, textWidth } from '../../../topology/report/svg/canvas.js';
import { channelClass } from '../../../topology/report/svg/theme.js';
import { type NcclAlgorithm, type NcclProtocol, ProtocolId } from '../../names.js';
import { type Candidate, labelOf } from '../candidate.js';
import { bytesText, numberText, timeText } from '../quantities.js';
import type { PlacedStudy } from '../study.js';
import { type LogAxis, logAxis, place, powers, withRoom } from './log-axis.js';

/** What is shown over the size. */
export interface Measure {
  readonly title: string;
  readonly of: (candidate: Candidate) => number;
  readonly text: (value: number) => string;
  /** Less is better: the choice is the lowest line, and there is room below it. */
  readonly isLow: boolean;
}

export const TIME: Measure = { title: 'predicted time', of: ({ time }) => time, text: timeText, isLow: true };
export const BUS_BANDWIDTH: Measure = {
  title: 'busbw, GB/s',
  of: ({ busbw }) => busbw,
  text: numberText,
  isLow: false,
};

export interface ChartInput {
  /** Ascending sizes. */
  readonly calls: readonly PlacedStudy[];
  readonly measure: Measure;
  /** Choices under other variables, drawn as a line each. */
  readonly others: readonly { readonly label: string; readonly calls: readonly PlacedStudy[] }[];
  /** A size to be marked, bytes. */
  readonly mark: number | undefined;
}

/** Pixels. */
export const CHART_WIDTH = 640;
export const CHART_HEIGHT = 380;
const LEFT = 62;
const RIGHT = 118;
const TOP = 28;
const BOTTOM = 30;
const LABEL_HEIGHT = 12;
const TICK_SIZE = 10.5;
const NAME_SIZE = 11;
const DOT = 4;

/** Rules beyond those of the theme. */
export const CHART_STYLE =
  '.thin{stroke-width:1.3;opacity:.75}.bold{stroke-width:4.5;stroke-linecap:round;stroke-dasharray:none}' +
  '.p0{stroke-dasharray:2 3}.p1{stroke-dasharray:7 3}.grid{stroke-width:.5;opacity:.45}.other{stroke-width:2.5}';

/** Class of the colour of an algorithm, by its place among those that are drawn. */
export type ColourOf = (algorithm: NcclAlgorithm) => string;

export function coloursFor(calls: readonly PlacedStudy[]): ColourOf {
  const seen: NcclAlgorithm[] = [];
  for (const { candidates } of calls) {
    for (const { algorithm } of candidates.toSorted((a, b) => a.cell - b.cell)) {
      if (!seen.includes(algorithm)) seen.push(algorithm);
    }
  }
  return (algorithm) => channelClass(seen.indexOf(algorithm));
}

const dashOf = (protocol: NcclProtocol): string => `p${ProtocolId[protocol]}`;

/** Draws one chart with its corner at (left, top). */
export function drawSweep(canvas: Canvas, input: ChartInput, left: number, top: number): void {
  const { calls, measure, others, mark } = input;
  const sizes = calls.map(({ call }) => call.bytes);
  const x = logAxis(sizes, left + LEFT, left + CHART_WIDTH - RIGHT);
  const values = [...calls, ...others.flatMap((one) => one.calls)].flatMap(({ candidates }) =>
    candidates.map(measure.of),
  );
  const y = withRoom(logAxis(values, top + CHART_HEIGHT - BOTTOM, top + TOP));
  canvas.text(left + LEFT, top + 14, measure.title, { className: 'text strong' });
  drawGrid(canvas, x, y, measure);
  if (mark !== undefined) {
    const at = place(x, mark);
    canvas.line(
      [
        [at, y.from],
        [at, y.to],
      ],
      'wire',
    );
    canvas.text(at, y.to - 3, bytesText(mark), { anchor: 'middle', size: TICK_SIZE });
  }
  const colourOf = coloursFor(calls);
  const ends = drawCandidates(canvas, input, x, y, colourOf);
  for (const { label, calls: other } of others) {
    const points = other.flatMap(({ call, chosen }) =>
      chosen === undefined ? [] : [point(x, y, call.bytes, measure.of(chosen))],
    );
    if (points.length > 1) canvas.line(points, 'wire other');
    const last = points.at(-1);
    if (last !== undefined) ends.push({ y: last[1], label, chosen: false });
  }
  drawChoice(canvas, input, x, y, colourOf);
  drawLabels(canvas, ends, x.to + 8, y);
}

const point = (x: LogAxis, y: LogAxis, bytes: number, value: number): readonly [number, number] => [
  place(x, bytes),
  place(y, value),
];

function drawGrid(canvas: Canvas, x: LogAxis, y: LogAxis, measure: Measure): void {
  for (const value of powers(y, 10, 12)) {
    const at = place(y, value);
    canvas.line(
      [
        [x.from, at],
        [x.to, at],
      ],
      'wire grid',
    );
    canvas.text(x.from - 6, at + 3.5, measure.text(value), {
      anchor: 'end',
      size: TICK_SIZE,
      className: 'faint',
    });
  }
  for (const size of powers(x, 2, 11)) {
    const at = place(x, size);
    canvas.line(
      [
        [at, y.from],
        [at, y.to],
      ],
      'wire grid',
    );
    canvas.text(at, y.from + 15, bytesText(size), {
      anchor: 'middle',
      size: TICK_SIZE,
      className: 'faint',
    });
  }
}

interface End {
  readonly y: number;
  readonly label: string;
  readonly chosen: boolean;
}

/** Thin lines; returns where each ends, for its label. */
function drawCandidates(
  canvas: Canvas,
  { calls, measure }: ChartInput,
  x: LogAxis,
  y: LogAxis,
  colourOf: ColourOf,
): End[] {
  const cells = [...new Set(calls.flatMap(({ candidates }) => candidates.map(({ cell }) => cell)))];
  const ends: End[] = [];
  for (const cell of cells.sort((a, b) => a - b)) {
    const found = calls.flatMap(({ call, candidates }) => {
      const one = candidates.find((candidate) => candidate.cell === cell);
      return one === undefined ? [] : [{ bytes: call.bytes, one }];
    });
    const points = found.map(({ bytes, one }) => point(x, y, bytes, measure.of(one)));
    const { one } = found.at(-1)!;
    if (points.length > 1) {
      canvas.line(points, `flow thin ${colourOf(one.algorithm)} ${dashOf(one.protocol)}`);
    }
    ends.push({ y: points.at(-1)![1], label: labelOf(one), chosen: calls.at(-1)?.chosen?.cell === cell });
  }
  return ends;
}

/** The bold line, in the colour of who is chosen, with each name once. */
function drawChoice(
  canvas: Canvas,
  { calls, measure }: ChartInput,
  x: LogAxis,
  y: LogAxis,
  colourOf: ColourOf,
): void {
  const named = new Set<number>();
  const names = new Names(canvas, measure.isLow);
  let at = 0;
  while (at < calls.length) {
    const { chosen } = calls[at]!;
    let end = at;
    while (end + 1 < calls.length && calls[end + 1]!.chosen?.cell === chosen?.cell) end += 1;
    if (chosen !== undefined) {
      const stretch = calls.slice(at, end + 1);
      const points = stretch.map(({ call, chosen: one }) => point(x, y, call.bytes, measure.of(one!)));
      const next = calls[end + 1];
      const onward = next?.candidates.find(({ cell }) => cell === chosen.cell);
      if (next !== undefined && onward !== undefined) {
        points.push(point(x, y, next.call.bytes, measure.of(onward)));
      }
      const [only] = points;
      if (points.length === 1) points.push([only![0] + 1, only![1]]);
      canvas.line(points, `flow bold ${colourOf(chosen.algorithm)}`);
      if (at > 0) drawDot(canvas, points[0]!, colourOf(chosen.algorithm));
      if (!named.has(chosen.cell)) {
        named.add(chosen.cell);
        names.add(labelOf(chosen), points[Math.floor((points.length - 1) / 2)]!);
      }
    }
    at = end + 1;
  }
}

/** Where the choice changes. */
function drawDot(canvas: Canvas, [x, y]: readonly [number, number], colour: string): void {
  canvas.box(x - DOT, y - DOT, 2 * DOT, 2 * DOT, `chip ${colour}`, DOT);
}

/** Names beside a line, below it to the right or above it to the left, that do not cover each other. */
class Names {
  readonly #canvas: Canvas;
  readonly #isBelow: boolean;
  readonly #placed: { readonly left: number; readonly right: number; readonly y: number }[] = [];

  constructor(canvas: Canvas, isBelow: boolean) {
    this.#canvas = canvas;
    this.#isBelow = isBelow;
  }

  add(text: string, [x, y]: readonly [number, number]): void {
    const width = textWidth(text, NAME_SIZE, true);
    const left = this.#isBelow ? x + 6 : x - 6 - width;
    let own = this.#isBelow ? y + 15 : y - 8;
    const covers = () =>
      this.#placed.some(
        (one) => one.left < left + width && left < one.right && Math.abs(one.y - own) < LABEL_HEIGHT,
      );
    while (covers()) own += this.#isBelow ? LABEL_HEIGHT : -LABEL_HEIGHT;
    this.#placed.push({ left, right: left + width, y: own });
    this.#canvas.text(left, own, text, { size: NAME_SIZE, className: 'text strong' });
  }
}

/** Names at the ends of the lines, moved apart. */
function drawLabels(canvas: Canvas, ends: readonly End[], left: number, y: LogAxis): void {
  let last = Number.NEGATIVE_INFINITY;
  const sorted = ends.toSorted((a, b) => a.y - b.y);
  const overflow = Math.max(0, y.to + sorted.length * LABEL_HEIGHT - y.from);
  for (const { y: at, label, chosen } of sorted) {
    const own = Math.max(at - overflow, last + LABEL_HEIGHT);
    canvas.text(left, own + 3.5, label, {
      size: TICK_SIZE,
      className: chosen ? 'text strong' : 'text',
      maxWidth: RIGHT - 10,
    });
    last = own;
  }
}
