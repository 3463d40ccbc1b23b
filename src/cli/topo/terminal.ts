/**
 * How reports look on a terminal: colours if it shows them, and its width.
 */
import { styleText } from 'node:util';
import { plainStyle, type Style } from '../../topology/report/style.js';

/** Columns where the output goes to a file or another program. */
const FILE_WIDTH = 120;

/** Narrower terminals would break every table. */
const LEAST_WIDTH = 40;

/** Style for a stream: no colour unless it is a terminal that shows colours (NO_COLOR and FORCE_COLOR count). */
export function terminalStyle(stream: NodeJS.WriteStream): Style {
  const width = stream.isTTY ? Math.max(LEAST_WIDTH, stream.columns) : FILE_WIDTH;
  const plain = plainStyle(width);
  if (!stream.isTTY || !stream.hasColors()) return plain;
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
