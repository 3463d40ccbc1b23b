/**
 * How reports look on a terminal: colours if it shows them, and its width.
 */
import { styleText } from 'node:util';
import { plainStyle, type Style } from '../../topology/report/style.js';

/** Columns where the output goes to a file or another program. */
const FILE_WIDTH = 120;

/** Narrower terminals would break every table. */
const LEAST_WIDTH = 40;

/**
 * Style for a stream. It is as wide as COLUMNS says, else as the terminal, else as files are; it has colours on a
 * terminal that shows them, and everywhere if FORCE_COLOR asks for them (NO_COLOR and FORCE_COLOR=0 forbid them).
 */
export function terminalStyle(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv = process.env): Style {
  const plain = plainStyle(widthOf(stream, env));
  if (!showsColors(stream, env)) return plain;
  const paint = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    styleText(format, text, { validateStream: false });
  return {
    ...plain,
    heading: paint(['bold', 'underline']),
    strong: paint('bold'),
    dim: paint('dim'),
    cpu: paint('magenta'),
    gpu: paint('green'),
    nic: paint('cyan'),
    fabric: paint('yellow'),
    warn: paint('red'),
  };
}

function widthOf(stream: NodeJS.WriteStream, { COLUMNS = '' }: NodeJS.ProcessEnv): number {
  const asked = /^[1-9]\d{0,4}$/.test(COLUMNS) ? Number(COLUMNS) : undefined;
  const width = asked ?? (stream.isTTY ? stream.columns : FILE_WIDTH);
  return Math.max(LEAST_WIDTH, width);
}

/** FORCE_COLOR goes before everything else, as for Node itself. */
function showsColors(stream: NodeJS.WriteStream, { FORCE_COLOR }: NodeJS.ProcessEnv): boolean {
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return stream.isTTY && stream.hasColors();
}
