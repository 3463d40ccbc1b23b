/**
 * Calls of collectives (`NCCL_DEBUG_SUBSYS=COLL`) and what tuning chose for them (`TUNING`).
 */
import type { NcclProcess } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';
import { memberOf } from './communicators.js';

const CALL = /^(\w{1,40}): opCount ([0-9a-f]{1,16}) /;
const DATA = / count (\d{1,20}) datatype (\d{1,6}) /;
const COMM = / comm (0x[0-9a-f]{1,16})/;
const CHOICE = /^(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)/;

/** Choices that are kept of one process. */
const MAX_CHOICES = 256;

export function readCall(process: NcclProcess, text: string, context: FileContext): void {
  const call = CALL.exec(text);
  const data = DATA.exec(text);
  const comm = COMM.exec(text);
  if (call === null || data === null || comm === null) return;
  const member = memberOf(process, comm[1]!);
  member.lastCall = {
    name: detached(call[1]!),
    opCount: Number.parseInt(call[2]!, 16),
    count: Number(data[1]),
    type: Number(data[2]),
    at: here(context),
  };
}

/** Algorithms of versions before 2.22 are numbers. */
const ALGORITHM_NUMBERS = ['TREE', 'RING', 'COLLNET_DIRECT', 'COLLNET_CHAIN', 'NVLS', 'NVLS_TREE', 'PAT'];
const PROTOCOL_NUMBERS = ['LL', 'LL128', 'SIMPLE'];

export function readChoice(process: NcclProcess, text: string, context: FileContext): boolean {
  if (!text.includes(' Bytes -> Algo ')) return false;
  const found = CHOICE.exec(text);
  if (found === null) return false;
  const [, operation, bytes, algorithm, protocol] = found as unknown as [
    string,
    string,
    string,
    string,
    string,
  ];
  const known = process.choices.some(
    (one) =>
      one.operation === operation && one.bytes === Number(bytes) && one.protocol === protocol.toUpperCase(),
  );
  if (!known && process.choices.length < MAX_CHOICES) {
    process.choices.push({
      operation,
      bytes: Number(bytes),
      algorithm: ALGORITHM_NUMBERS[Number(algorithm)] ?? algorithm.toUpperCase(),
      protocol: PROTOCOL_NUMBERS[Number(protocol)] ?? protocol.toUpperCase(),
      at: here(context),
    });
  }
  return true;
}
