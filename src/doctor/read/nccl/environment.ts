/**
 * `NCCL_X set by environment to V.`: variables and configuration files both print it.
 *
 * Integers end with a full stop, strings do not.
 */
import type { NcclProcess } from '../../model/process.js';
import { type FileContext, here } from '../file-context.js';

const SET = /^((?:NCCL|FI|OFI)_\w+) set by environment to (.*)$/;

export function readEnvironment(process: NcclProcess, text: string, context: FileContext): boolean {
  if (!/^(?:NCCL|FI|OFI)_/.test(text)) return false;
  const found = SET.exec(text);
  if (found === null) return false;
  const value = found[2]!.trim().replace(/^(-?\d+)\.$/, '$1');
  if (!process.environment.has(found[1]!)) process.environment.set(found[1]!, { value, at: here(context) });
  if (found[1] === 'NCCL_TOPO_FILE') process.topologyFile ??= { value, at: here(context) };
  return true;
}
