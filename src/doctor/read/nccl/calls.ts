/**
 * Calls of collectives (`NCCL_DEBUG_SUBSYS=COLL`) and what tuning chose for them (`TUNING`).
 */
import type { Member, NcclProcess } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';
import { memberOf } from './communicators.js';

const CHOICE = /^(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)/;

/** Choices that are kept of one process. */
const MAX_CHOICES = 256;

const OP_COUNT = ': opCount ';
const COUNT = ' count ';
const TYPE = ' datatype ';
const COMM = ' comm ';

/** Longest name of an operation, and most digits of a number. */
const MAX_NAME = 40;
const MAX_DIGITS = 20;

/**
 * `AllReduce: opCount 5 sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 0x1`. Logs of
 * long jobs consist of such lines, so they are taken apart by hand.
 */
export function readCall(process: NcclProcess, text: string, context: FileContext): void {
  const nameEnd = text.indexOf(OP_COUNT);
  if (nameEnd < 1 || nameEnd > MAX_NAME) return;
  const opCount = numberAt(text, nameEnd + OP_COUNT.length, 16);
  const countAt = text.indexOf(COUNT, nameEnd + OP_COUNT.length);
  const typeAt = text.indexOf(TYPE, countAt);
  const commAt = text.indexOf(COMM, typeAt);
  if (countAt < 0 || typeAt < 0 || commAt < 0) return;
  const count = numberAt(text, countAt + COUNT.length, 10);
  const type = numberAt(text, typeAt + TYPE.length, 10);
  const start = commAt + COMM.length;
  const space = text.indexOf(' ', start);
  const end = space < 0 ? text.length : space;
  if (Number.isNaN(opCount + count + type) || !text.startsWith('0x', start) || end - start > MAX_NAME) return;
  const member = memberAt(process, text, start, end);
  const last = member.lastCall;
  const isSame = last?.name.length === nameEnd && text.startsWith(last.name);
  const name = isSame ? last.name : detached(text.slice(0, nameEnd));
  if (!isSame && !/^\w+$/.test(name)) return;
  member.lastCall = { name, opCount, count, type, at: here(context) };
}

/** The member that the line names between two places. */
function memberAt(process: NcclProcess, text: string, start: number, end: number): Member {
  const { members } = process;
  for (let i = members.length - 1; i >= 0; i--) {
    const { comm } = members[i]!;
    if (comm.length === end - start && text.startsWith(comm, start)) return members[i]!;
  }
  return memberOf(process, text.slice(start, end));
}

/** A number up to the next blank; NaN for anything else. */
function numberAt(text: string, start: number, base: 10 | 16): number {
  let value = 0;
  for (let i = start; i < text.length && i < start + MAX_DIGITS; i++) {
    const code = text.charCodeAt(i);
    if (code === 32) return i > start ? value : Number.NaN;
    const digit = code >= 48 && code <= 57 ? code - 48 : code >= 97 && code <= 102 ? code - 87 : base;
    if (digit >= base) return Number.NaN;
    value = value * base + digit;
  }
  return Number.NaN;
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
