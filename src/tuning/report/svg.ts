/**
 * A picture of sweeps: for each function the predicted times and bandwidths of all candidates by size, with the choice.
 */
import type { Cluster } from '../../topology/cluster.js';
import { headline } from '../../topology/report/headline.js';
import { wrap } from '../../topology/report/style.js';
import { Canvas } from '../../topology/report/svg/canvas.js';
import { STYLE_SHEET } from '../../topology/report/svg/theme.js';
import type { PlacedStudy } from './study.js';
import { BUS_BANDWIDTH, CHART_HEIGHT, CHART_STYLE, CHART_WIDTH, drawSweep, TIME } from './svg/sweep-chart.js';
import { changeText, type Sweep, sweepTitle } from './sweep-report.js';

/** Pixels. */
const LEFT = 16;
const GAP = 24;

/** Characters of a line below the charts. */
const LINE = 190;

export interface PictureInput {
  readonly cluster: Cluster;
  readonly sweeps: readonly Sweep[];
  /** The same sweeps under other variables. */
  readonly others: readonly { readonly label: string; readonly sweeps: readonly Sweep[] }[];
  /** A size to be marked, bytes. */
  readonly mark: number | undefined;
}

/** Draws sweeps, one below the other. The same sweeps give the same text. */
export function sweepSvg({ cluster, sweeps, others, mark }: PictureInput): string {
  const canvas = new Canvas();
  const title = headline(cluster);
  let y = 34;
  for (const line of wrap(title, 150)) {
    canvas.text(LEFT, y, line, { size: 15, className: 'text strong' });
    y += 20;
  }
  for (const [at, sweep] of sweeps.entries()) {
    canvas.text(LEFT, y + 8, sweepTitle(sweep.study), { size: 13, className: 'text strong' });
    y += 20;
    const calls = withChanges(sweep);
    const alternatives = others.map(({ label, sweeps: own }) => ({ label, calls: withChanges(own[at]!) }));
    for (const [column, measure] of [TIME, BUS_BANDWIDTH].entries()) {
      const left = LEFT + column * (CHART_WIDTH + GAP);
      drawSweep(canvas, { calls, measure, others: alternatives, mark }, left, y);
    }
    y += CHART_HEIGHT + 14;
    for (const change of sweep.changes) {
      for (const line of wrap(changeText(change), LINE)) {
        canvas.text(LEFT, y, line, { size: 11, className: 'faint' });
        y += 15;
      }
    }
    y += GAP;
  }
  return canvas.toSvg(title, STYLE_SHEET + CHART_STYLE);
}

/** The calls of a sweep with those at which the choice changes, so that lines bend where they do. */
function withChanges({ study, calls, changes }: Sweep): PlacedStudy[] {
  if (!study.isRepeatable) return [...calls];
  const known = new Set(calls.map(({ call }) => call.bytes));
  const added = changes.filter(({ bytes }) => !known.has(bytes));
  const extra = added.map(({ bytes }) => study.at(study.countFor(bytes)));
  return [...calls, ...extra].sort((a, b) => a.call.bytes - b.call.bytes);
}
