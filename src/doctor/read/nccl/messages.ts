/**
 * Reads the messages of NCCL's log into the model of their process, by their first words. The frequent kinds come
 * first, and nothing is kept of what is said again, since logs of large jobs have gigabytes.
 */

import type { NcclProcess } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';
import { readAffinity } from './affinity.js';
import { readCall, readChoice } from './calls.js';
import { readCommunicator } from './communicators.js';
import { readConnection } from './connections.js';
import { readEnvironment } from './environment.js';
import type { LogLine } from './header.js';
import { readNetwork } from './network.js';
import { readTree } from './system-tree.js';
import { addTrouble, troubleOf } from './troubles.js';
import { readTuningTable } from './tuning-table.js';

/** Reads one message. */
export function readMessage(process: NcclProcess, line: LogLine, context: FileContext): void {
  const { level, header } = line;
  if (level === 'WARN') {
    const text = detached(line.text);
    addTrouble(process, troubleOf(text), { text, level, header }, true, context);
    return;
  }
  if (level === 'TRACE') process.traced ??= here(context);
  if (readConnection(process, line.text, context)) return;
  if (line.text.includes(': opCount ')) {
    readCall(process, line.text, context);
    return;
  }
  if (isBulk(line.text)) {
    if (line.text.includes('|')) readTuningTable(process, line.text, context);
    return;
  }
  const text = detached(line.text);
  if (
    readCommunicator(process, text, context) ||
    readEnvironment(process, text, context) ||
    readNetwork(process, text, context) ||
    readTree(process, text, context) ||
    readAffinity(process, text, context) ||
    readChoice(process, text, context) ||
    readVersion(process, text, context)
  ) {
    return;
  }
  if (readFailedReturn(process, text, context)) return;
  const trouble = troubleOf(text);
  if (trouble.kind !== 'other') addTrouble(process, trouble, { text, level, header }, false, context);
}

/** Tables, rings and trees: nothing in them is looked at. */
function isBulk(text: string): boolean {
  const first = text.charCodeAt(0);
  return (
    (first === 32 && text.includes('|')) || // tables of tuning
    text.startsWith('Trees [') ||
    text.startsWith('Ring ') ||
    text.startsWith('Tree ') ||
    text.startsWith('ReduceScatter |')
  );
}

/** `init.cc:2110 -> 4`, with a note in brackets behind in newer versions. */
const RETURN = /^[\w/.-]+\.(?:cc|cu|h|cpp|c):\d+ (?:NCCL_\w+ )?-> (\d{1,3})\b/;

/** ncclInProgress, which nonblocking communicators return all the time. */
const IN_PROGRESS = 7;

const MAX_RETURNS = 64;

function readFailedReturn(process: NcclProcess, text: string, context: FileContext): boolean {
  if (!text.includes(' -> ')) return false;
  const code = Number(RETURN.exec(text)?.[1] ?? Number.NaN);
  if (Number.isNaN(code)) return false;
  if (code !== 0 && code !== IN_PROGRESS && process.failedReturns.length < MAX_RETURNS)
    process.failedReturns.push({ code, at: here(context), text });
  return true;
}

const VERSION = /^NCCL version (\S+)/;
const DRIVER = /^cudaDriverVersion (\d+)/;
const MULTICAST = /^NVLS multicast support is (not )?available/;
const CHANNELS = /^(\d+) coll channels,(?: \d+ collnet channels,)?(?: (\d+) nvls channels,)?/;

function readVersion(process: NcclProcess, text: string, context: FileContext): boolean {
  const version = VERSION.exec(text);
  if (version !== null) process.version ??= { value: version[1]!, at: here(context) };
  const driver = DRIVER.exec(text);
  if (driver !== null) process.cudaDriver ??= { value: Number(driver[1]), at: here(context) };
  const multicast = MULTICAST.exec(text);
  if (multicast !== null) process.multicast ??= { value: multicast[1] === undefined, at: here(context) };
  const channels = CHANNELS.exec(text);
  if (channels !== null) {
    process.channels ??= {
      collective: Number(channels[1]),
      nvls: Number(channels[2] ?? 0),
      at: here(context),
    };
  }
  return (version ?? driver ?? multicast ?? channels) !== null;
}
