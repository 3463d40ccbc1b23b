/**
 * Refuses calls that cannot be planned, before anything is: a count that is no number is not work of no elements, and a
 * peer that does not exist would wait for its round for ever.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { NCCL_FUNCTIONS, type NcclFunction } from '../tuning/names.js';

/** What is looked at of a collective (plan-group.ts). */
interface Collective {
  readonly function: NcclFunction;
  readonly count: number;
  readonly elementBytes: number;
  readonly root?: number;
}

/** What is looked at of a send or receive. */
interface Message {
  readonly kind: string;
  readonly peer: number;
  readonly bytes: number;
}

/** Bytes of elements. */
const ELEMENT_BYTES: readonly number[] = [1, 2, 4, 8];

const KINDS: readonly string[] = ['send', 'recv'];

const isNumberOf = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/**
 * @throws TuttiError invalidArgument naming the call (from 0), the wrong value and what would be right
 */
export function checkGroup(
  collectives: readonly Collective[],
  messages: readonly Message[],
  nRanks: number,
): void {
  for (let at = 0; at < collectives.length; at++) checkCollective(collectives[at]!, at, nRanks);
  for (let at = 0; at < messages.length; at++) checkMessage(messages[at]!, at, nRanks);
}

function checkCollective(call: Collective, at: number, nRanks: number): void {
  const { function: fn, count, elementBytes, root = 0 } = call;
  const what = `collective ${at} of the group`;
  if (!NCCL_FUNCTIONS.includes(fn)) {
    throw wrong(`${what}: there is no function ${fn}; use ${NCCL_FUNCTIONS.join(', ')}`);
  }
  if (!isNumberOf(count)) {
    throw wrong(`${what}, ${fn}: a count of ${count} is none; give a whole number from 0 on`);
  }
  if (!ELEMENT_BYTES.includes(elementBytes)) {
    throw wrong(`${what}, ${fn}: no elements have ${elementBytes} bytes; use ${ELEMENT_BYTES.join(', ')}`);
  }
  if (!isNumberOf(root) || root >= nRanks) {
    throw wrong(`${what}, ${fn}: root ${root} is no rank; ranks are 0 to ${nRanks - 1}`);
  }
}

function checkMessage({ kind, peer, bytes }: Message, at: number, nRanks: number): void {
  const what = `message ${at} of the group`;
  if (!KINDS.includes(kind)) throw wrong(`${what}: ${kind} is neither send nor recv`);
  if (!isNumberOf(peer) || peer >= nRanks) {
    throw wrong(`${what}: peer ${peer} is no rank; ranks are 0 to ${nRanks - 1}`);
  }
  if (!isNumberOf(bytes)) {
    throw wrong(`${what}: ${bytes} bytes cannot be moved; give a whole number from 0 on`);
  }
}

const wrong = (text: string): TuttiError => new TuttiError('invalidArgument', text);
