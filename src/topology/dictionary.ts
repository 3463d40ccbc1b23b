/**
 * NCCL's dictionaries: a text means the first entry that it begins with, anything else the fallback.
 *
 * (NCCL 2.30.7, xml.h.)
 */
import type { LogSink } from './log.js';

/** Values by the text that they begin with; earlier entries win. */
export type Dictionary<V> = readonly (readonly [prefix: string, value: V])[];

/** The value of a text; the fallback is logged as NCCL does. */
export function lookUp<V extends number>(
  dictionary: Dictionary<V>,
  text: string,
  fallback: V,
  log: LogSink,
): V {
  const found = dictionary.find(([prefix]) => text.startsWith(prefix));
  if (found !== undefined) return found[1];
  for (const line of [
    `KV Convert to int : could not find value of '${text}' in dictionary, falling back to ${fallback}`,
    'HINT: In many cases this issue indicates missing or faulty information in the provided topology file.',
    'HINT: To confirm, set NCCL_TOPO_DUMP_FILE=topo.xml to produce the topology NCCL has detected and compare to the one provided.',
  ]) {
    log('INFO', 'GRAPH', line);
  }
  return fallback;
}
