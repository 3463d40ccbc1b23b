/**
 * The life of communicators: made, connected, aborted, destroyed.
 */
import type { Member, NcclProcess } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';

const COMM = /\bcomm (0x[0-9a-f]+|0x\(nil\)) rank (\d{1,8}) n[rR]anks (\d{1,8})\b/;
const FIELDS = {
  cuda: /\bcudaDev (\d+)/,
  bus: /\bbusId ([0-9a-f]+)/,
  id: /\bcommId 0x([0-9a-f]+)/,
  nodes: /\bnNodes (\d+)/,
  local: /\blocalRanks (\d+)/,
} as const;

/** Communicators that are kept of one process. */
const MAX_MEMBERS = 512;

/** The rank of a communicator of a process, by the address that its lines show. */
export function memberOf(process: NcclProcess, comm: string): Member {
  const known = process.members.findLast((one) => one.comm === comm);
  return known ?? addMember(process, detached(comm));
}

function addMember(process: NcclProcess, comm: string): Member {
  const member: Member = {
    comm,
    commId: undefined,
    rank: undefined,
    size: undefined,
    cudaDevice: undefined,
    busId: undefined,
    nodes: undefined,
    localRanks: undefined,
    started: undefined,
    completed: undefined,
    abortStarted: undefined,
    abortCompleted: undefined,
    destroyed: undefined,
    lastCall: undefined,
  };
  if (process.members.length >= MAX_MEMBERS) process.members.shift();
  process.members.push(member);
  return member;
}

export function readCommunicator(process: NcclProcess, text: string, context: FileContext): boolean {
  if (text.startsWith('Connected all rings')) {
    const direct = /\bGDR (\d)/.exec(text)?.[1];
    process.rings ??= { at: here(context), isGpuDirect: direct === undefined ? undefined : direct === '1' };
    return true;
  }
  if (!text.includes('comm ')) return false;
  const found = COMM.exec(text);
  if (found === null) return false;
  const number = (pattern: RegExp): number | undefined => {
    const value = pattern.exec(text)?.[1];
    return value === undefined ? undefined : Number(value);
  };
  const isStart = text.includes('Init START');
  const id = FIELDS.id.exec(text)?.[1];
  const before = memberOf(process, found[1]!);
  // An address is used again after a communicator is gone.
  const isNew = isStart && before.started !== undefined;
  const member = isNew ? addMember(process, found[1]!) : before;
  member.commId ??= id;
  member.rank ??= Number(found[2]);
  member.size ??= Number(found[3]);
  member.cudaDevice ??= number(FIELDS.cuda);
  member.busId ??= FIELDS.bus.exec(text)?.[1];
  member.nodes ??= number(FIELDS.nodes);
  member.localRanks ??= number(FIELDS.local);
  const at = here(context);
  if (isStart) member.started = at;
  else if (text.includes('Init COMPLETE')) member.completed = at;
  else if (/(?:Abort|Revoke) START/.test(text)) member.abortStarted = at;
  else if (/(?:Abort|Revoke) COMPLETE/.test(text)) member.abortCompleted = at;
  else if (text.includes('Destroy COMPLETE')) member.destroyed = at;
  return true;
}
