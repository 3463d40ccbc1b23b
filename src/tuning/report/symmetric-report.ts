/**
 * Lines about symmetric windows: what would run a call, or the calls of a sweep, and why.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import type { Registration } from '../symmetric/kernels.js';
import { labelOf } from './candidate.js';
import { bandwidthCell, bytesText, timeCell, timeText } from './quantities.js';
import type { PlacedStudy } from './study.js';
import type { SymmetricStudy } from './symmetric-study.js';
import { left, right, textTable } from './text-table.js';

const SIDES: Readonly<Record<Registration, string>> = {
  none: 'no buffer',
  send: 'the send buffer',
  receive: 'the receive buffer',
  both: 'both buffers',
};

export const windowsTitle = (registration: Registration): string =>
  `With ${SIDES[registration]} in symmetric windows`;

/** Lines about one call. */
export function symmetricCall({ chosen, symmetric }: PlacedStudy, style: Style): string[] {
  if (symmetric === undefined) return [];
  const { runner, reason, choice, registration } = symmetric;
  const lines = [style.heading(windowsTitle(registration))];
  const point = (text: string) => lines.push(...wrap(`- ${text}`, style.width, '  '));
  const otherwise =
    chosen === undefined
      ? 'nothing else can run it'
      : `otherwise ${labelOf(chosen)}, ${timeText(chosen.time)}`;
  switch (runner.kind) {
    case 'ordinary':
      point(`${chosen === undefined ? 'The ordinary choice' : labelOf(chosen)} all the same: ${reason}.`);
      break;
    case 'copy engines':
      point(
        `Copy engines do it, with no thread blocks (${otherwise}): ${reason}. NCCL predicts no time for them.`,
      );
      break;
    case 'kernel':
      point(
        `${runner.kernel} on ${blocksText(runner.blocks)}, predicted ${timeText(runner.time)} (${otherwise}): ${reason}.`,
      );
  }
  if (choice === undefined) return lines;
  if (choice.candidates.length > 0) {
    const rows = choice.candidates.map(({ kernel, time, blocks }) => [
      runner.kind === 'kernel' && kernel.name === runner.kernel ? '>' : '',
      kernel.name,
      timeCell(time),
      `${blocks}`,
    ]);
    lines.push(...textTable([left(''), left(''), right('us'), right('blocks')], rows, style.width).flat());
  }
  for (const { kernel, reason: why } of choice.excluded) point(`${kernel}: ${why}`);
  return lines;
}

const blocksText = (blocks: number): string => `${blocks} ${blocks === 1 ? 'block' : 'blocks'}`;

/** Lines about a sweep. */
export function symmetricSweep(calls: readonly PlacedStudy[], style: Style): string[] {
  const [first] = calls;
  if (first?.symmetric === undefined) return [];
  const rows = calls.map(({ call, symmetric, chosen }) => [
    bytesText(call.bytes),
    ...rowOf(symmetric!),
    chosen === undefined ? '' : `${labelOf(chosen)} ${timeCell(chosen.time)}`,
  ]);
  const columns = [
    right('size'),
    left('runs'),
    right('blocks'),
    right('us'),
    right('algbw'),
    right('busbw'),
    left('without windows, us'),
  ];
  const lines = [style.heading(windowsTitle(first.symmetric.registration))];
  lines.push(...textTable(columns, rows, style.width).flat());
  const reasons = new Set(
    calls.map(({ symmetric }) => {
      const name = nameOf(symmetric!);
      return symmetric!.reason.startsWith(name) ? symmetric!.reason : `${name}: ${symmetric!.reason}`;
    }),
  );
  for (const reason of reasons) lines.push(...wrap(`- ${reason}`, style.width, '  '));
  return lines;
}

/** Reasons that hold for a name of what runs. */
function nameOf({ runner }: SymmetricStudy): string {
  return runner.kind === 'kernel'
    ? runner.kernel
    : runner.kind === 'ordinary'
      ? 'As without windows'
      : 'Copy engines';
}

function rowOf({ runner, algbw, busbw }: SymmetricStudy): string[] {
  switch (runner.kind) {
    case 'ordinary':
      return ['as without', '', '', '', ''];
    case 'copy engines':
      return ['copy engines', '0', '', '', ''];
    case 'kernel':
      return [
        runner.kernel,
        `${runner.blocks}`,
        timeCell(runner.time),
        algbw === undefined ? '' : bandwidthCell(algbw),
        busbw === undefined ? '' : bandwidthCell(busbw),
      ];
  }
}
