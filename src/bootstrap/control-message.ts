/**
 * The messages between ranks and the root of a communicator, and their bytes (type, then fields in the order
 * of the interface).
 */
import type { ErrorCode } from '../errors/tutti-error.js';
import { TuttiError } from '../errors/tutti-error.js';
import { ByteReader, ByteWriter } from './byte-codec.js';

/** What a rank tells the root about itself; the identity of its handshake. */
export interface CheckIn {
  rank: number;
  size: number;
  /** Which communicator of a root that serves several; 0 for a plain unique id. */
  generation: number;
  /** Time the rank is willing to wait for the others, ms. */
  timeoutMs: number;
  processId: number;
  /** Random per process: tells the root which ranks live in its own process. */
  processNonce: bigint;
  hostHash: bigint;
  hostName: string;
  /** Where the rank listens for other ranks. */
  listenHost: string;
  listenPort: number;
}

/** What every rank knows about every other after the rendezvous. */
export interface Member {
  readonly rank: number;
  readonly processId: number;
  /** Equal hash = same machine. */
  readonly hostHash: bigint;
  readonly hostName: string;
  readonly listenHost: string;
  readonly listenPort: number;
}

export interface WireError {
  code: ErrorCode;
  /** The rank at fault, -1 when there is none. */
  rank: number;
  message: string;
}

/** One rank's part in a control operation. */
export interface Contribution {
  /** Chosen by the sender; returned with the outcome. */
  ticket: number;
  /** Which operation among `among`, counted from 0 by every participant. */
  sequence: number;
  timeoutMs: number;
  label: string;
  /** Participating ranks in ascending order; empty for all. */
  among: readonly number[];
  bytes: Uint8Array;
}

export type ToRoot =
  | ({ type: 'contribute' } & Contribution)
  | { type: 'abort'; reason: string }
  | { type: 'goodbye' };

export type FromRoot =
  | { type: 'welcome'; rootRank: number; members: readonly Member[] }
  | { type: 'refused'; error: WireError }
  | { type: 'gathered'; ticket: number; parts: readonly Uint8Array[] }
  | { type: 'failed'; ticket: number; error: WireError }
  | { type: 'lost'; rank: number; reason: string }
  | { type: 'left'; rank: number }
  | { type: 'aborted'; rank: number; reason: string };

const TYPE = {
  contribute: 1,
  abort: 2,
  goodbye: 3,
  welcome: 16,
  refused: 17,
  gathered: 18,
  failed: 19,
  lost: 20,
  left: 21,
  aborted: 22,
} as const;

const CODES: readonly ErrorCode[] = [
  'unhandledCudaError',
  'systemError',
  'internalError',
  'invalidArgument',
  'invalidUsage',
  'remoteError',
  'timeout',
];

/** Longest text of a reason or label that is sent, characters; longer ones are cut. */
const MAX_TEXT = 2000;

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;
}

export function encodeCheckIn(checkIn: CheckIn): Uint8Array {
  return new ByteWriter()
    .i32(checkIn.rank)
    .i32(checkIn.size)
    .u32(checkIn.generation)
    .u32(checkIn.timeoutMs)
    .u32(checkIn.processId)
    .u64(checkIn.processNonce)
    .u64(checkIn.hostHash)
    .text(checkIn.hostName)
    .text(checkIn.listenHost)
    .u16(checkIn.listenPort)
    .finish();
}

export function decodeCheckIn(bytes: Uint8Array): CheckIn {
  const reader = new ByteReader(bytes);
  const checkIn = {
    rank: reader.i32(),
    size: reader.i32(),
    generation: reader.u32(),
    timeoutMs: reader.u32(),
    processId: reader.u32(),
    processNonce: reader.u64(),
    hostHash: reader.u64(),
    hostName: reader.text(),
    listenHost: reader.text(),
    listenPort: reader.u16(),
  };
  reader.finish();
  return checkIn;
}

export function encodeToRoot(message: ToRoot): Uint8Array {
  const writer = new ByteWriter().u8(TYPE[message.type]);
  switch (message.type) {
    case 'contribute':
      writer.u32(message.ticket).u32(message.sequence).u32(message.timeoutMs).text(cut(message.label));
      writer.u32(message.among.length);
      for (const rank of message.among) writer.u32(rank);
      return writer.bytes(message.bytes).finish();
    case 'abort':
      return writer.text(cut(message.reason)).finish();
    case 'goodbye':
      return writer.finish();
  }
}

function unknownType(type: number): TuttiError {
  return new TuttiError('remoteError', `A control message of unknown type ${type} arrived.`);
}

export function decodeToRoot(bytes: Uint8Array): ToRoot {
  const reader = new ByteReader(bytes);
  const type = reader.u8();
  let message: ToRoot;
  switch (type) {
    case TYPE.contribute:
      message = {
        type: 'contribute',
        ticket: reader.u32(),
        sequence: reader.u32(),
        timeoutMs: reader.u32(),
        label: reader.text(),
        among: decodeRanks(reader),
        bytes: reader.bytes(),
      };
      break;
    case TYPE.abort:
      message = { type: 'abort', reason: reader.text() };
      break;
    case TYPE.goodbye:
      message = { type: 'goodbye' };
      break;
    default:
      throw unknownType(type);
  }
  reader.finish();
  return message;
}

/** Pushes as it reads, so a false count ends at the end of the message and reserves nothing. */
function decodeRanks(reader: ByteReader): number[] {
  const ranks: number[] = [];
  for (let left = reader.u32(); left > 0; left--) ranks.push(reader.u32());
  return ranks;
}

function encodeError(writer: ByteWriter, error: WireError): ByteWriter {
  return writer.u8(CODES.indexOf(error.code)).i32(error.rank).text(error.message);
}

function decodeError(reader: ByteReader): WireError {
  return { code: CODES[reader.u8()] ?? 'internalError', rank: reader.i32(), message: reader.text() };
}

/** A 'gathered' message is this head, which differs per rank, and a body that is the same for all. */
export function encodeGatheredHead(ticket: number): Uint8Array {
  return new ByteWriter().u8(TYPE.gathered).u32(ticket).finish();
}

export function encodeGatheredBody(parts: readonly Uint8Array[]): Uint8Array {
  const writer = new ByteWriter().u32(parts.length);
  for (const part of parts) writer.bytes(part);
  return writer.finish();
}

export function encodeFromRoot(message: Exclude<FromRoot, { type: 'gathered' }>): Uint8Array {
  const writer = new ByteWriter().u8(TYPE[message.type]);
  switch (message.type) {
    case 'welcome':
      writer.i32(message.rootRank).u32(message.members.length);
      for (const member of message.members) {
        writer.u32(member.processId).u64(member.hostHash).text(member.hostName);
        writer.text(member.listenHost).u16(member.listenPort);
      }
      return writer.finish();
    case 'refused':
      return encodeError(writer, message.error).finish();
    case 'failed':
      return encodeError(writer.u32(message.ticket), message.error).finish();
    case 'lost':
    case 'aborted':
      return writer.u32(message.rank).text(cut(message.reason)).finish();
    case 'left':
      return writer.u32(message.rank).finish();
  }
}

export function decodeFromRoot(bytes: Uint8Array): FromRoot {
  const reader = new ByteReader(bytes);
  const type = reader.u8();
  let message: FromRoot;
  switch (type) {
    case TYPE.welcome: {
      const rootRank = reader.i32();
      const members: Member[] = [];
      for (let left = reader.u32(); left > 0; left--) {
        members.push({
          rank: members.length,
          processId: reader.u32(),
          hostHash: reader.u64(),
          hostName: reader.text(),
          listenHost: reader.text(),
          listenPort: reader.u16(),
        });
      }
      message = { type: 'welcome', rootRank, members };
      break;
    }
    case TYPE.refused:
      message = { type: 'refused', error: decodeError(reader) };
      break;
    case TYPE.gathered: {
      const ticket = reader.u32();
      const parts: Uint8Array[] = [];
      for (let left = reader.u32(); left > 0; left--) parts.push(reader.bytes());
      message = { type: 'gathered', ticket, parts };
      break;
    }
    case TYPE.failed:
      message = { type: 'failed', ticket: reader.u32(), error: decodeError(reader) };
      break;
    case TYPE.lost:
      message = { type: 'lost', rank: reader.u32(), reason: reader.text() };
      break;
    case TYPE.left:
      message = { type: 'left', rank: reader.u32() };
      break;
    case TYPE.aborted:
      message = { type: 'aborted', rank: reader.u32(), reason: reader.text() };
      break;
    default:
      throw unknownType(type);
  }
  reader.finish();
  return message;
}

export function toTuttiError({ code, rank, message }: WireError): TuttiError {
  return new TuttiError(code, message, rank >= 0 ? { rank } : {});
}
