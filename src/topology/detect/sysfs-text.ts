/**
 * Reads one value of sysfs by the rules of NCCL: at most 255 bytes, of which the last (the line's end) is dropped.
 *
 * Text that no kernel writes there (unprintable characters, a double quote, which a topology file cannot hold) counts
 * as unreadable, so that a damaged recording cannot damage the document that is made from it. (NCCL 2.30.7, xml.cc.)
 */
import type { LogSink } from '../log.js';
import type { MachineFiles } from './machine-files.js';

/** NCCL's buffer for texts. */
const MAX_TEXT = 255;

/** The value of `file` in `directory`, '' if there is none, with NCCL's line of log in that case. */
export function sysfsText(files: MachineFiles, directory: string, file: string, log: LogSink): string {
  const path = `${directory}/${file}`;
  const text = files.text(path)?.slice(0, MAX_TEXT).slice(0, -1) ?? '';
  if (text !== '' && /^[ !#-~]*$/.test(text)) return text;
  log('INFO', 'GRAPH', `Topology detection : could not read ${path}, ignoring`);
  return '';
}

/** The value of a file that has one line, without its end; undefined if it is absent or empty. Says nothing. */
export function lineOf(files: MachineFiles, path: string): string | undefined {
  const line = files.text(path)?.split('\n', 1)[0]?.trim();
  return line === '' ? undefined : line;
}
