/**
 * Ring programs that tell what they do: the shipped program with a record written before every primitive call.
 *
 * While a program is generated, `transfer` of both protocols first emits stores of what it was asked for: which
 * buffers take part, where, and how many elements. So the records hold the values of the run itself.
 */

import type { Transfer } from '#src/collectives/primitives.js';
import { LowLatencyProtocol } from '#src/collectives/protocol-ll.js';
import { SimpleProtocol } from '#src/collectives/protocol-simple.js';
import { type RingParameters, ring } from '#src/collectives/ring.js';
import { RingWork } from '#src/collectives/ring-connection.js';
import { Value } from '#src/kernel/builder.js';
import type { Program, Traits } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import { DOORBELL_BYTES, type SimulatedTeam, type TeamMachine } from './simulated-team.js';

/** Bytes of trace per block (channel): a header and up to 1023 records. */
export const TRACE_BYTES = 65536;

const Header = struct('Header', { records: 'u64' }, 64);
const Entry = struct('Entry', { flags: 'u64', input: 'ptr', output: 'ptr', elements: 'u64' }, 64);

const FLAG = { receives: 1, sends: 2, input: 4, output: 8, after: 16 };

/** The names of primitives by what takes part. */
const NAMES: Readonly<Record<number, string>> = {
  [FLAG.sends | FLAG.input]: 'send',
  [FLAG.sends | FLAG.input | FLAG.output]: 'copySend',
  [FLAG.input | FLAG.output]: 'copy',
  [FLAG.receives | FLAG.sends]: 'recvSend',
  [FLAG.receives | FLAG.output]: 'recv',
  [FLAG.receives | FLAG.sends | FLAG.output]: 'recvCopySend',
  [FLAG.receives | FLAG.sends | FLAG.input]: 'recvReduceSend',
  [FLAG.receives | FLAG.input | FLAG.output]: 'recvReduceCopy',
  [FLAG.receives | FLAG.sends | FLAG.input | FLAG.output]: 'recvReduceCopySend',
};

/** One primitive call of one rank and channel. */
export interface Call {
  readonly name: string;
  readonly elements: number;
  /** Bytes from the beginning of the send and receive buffer; absent where the buffer takes no part. */
  readonly input?: number;
  readonly output?: number;
  /** The closing operation was asked for. */
  readonly after: boolean;
}

function record(transfer: Transfer): void {
  const k = transfer.elements.builder;
  // The descriptor is the first register of every program.
  const work = new Value(k, { kind: 'register', id: 0, type: 'ptr' }, 'ptr');
  const trace = k.field(work, RingWork, 'control').offset(DOORBELL_BYTES);
  const header = trace.offset(k.blockIndex.mul(TRACE_BYTES));
  const records = k.field(header, Header, 'records');
  const entry = header.offset(Header.size).offset(records.mul(Entry.size));
  let flags = 0;
  for (const name of ['receives', 'sends', 'after'] as const)
    if (transfer[name] === true) flags |= FLAG[name];
  for (const name of ['input', 'output'] as const) {
    const address = transfer[name];
    if (address === undefined) continue;
    flags |= FLAG[name];
    k.setField(entry, Entry, name, address);
  }
  k.setField(entry, Entry, 'flags', flags);
  k.setField(entry, Entry, 'elements', transfer.elements);
  k.setField(header, Header, 'records', records.add(1));
}

const programs = new Map<string, Program>();

/** The ring program of these parameters with its records. */
export function tracedRing(traits: Traits, parameters: RingParameters): Program {
  const key = JSON.stringify([traits.name, parameters]);
  let program = programs.get(key);
  if (program !== undefined) return program;
  const plain = [LowLatencyProtocol, SimpleProtocol].map(({ prototype }) => {
    const { transfer } = prototype;
    prototype.transfer = function (this: LowLatencyProtocol & SimpleProtocol, what: Transfer) {
      record(what);
      transfer.call(this, what);
    };
    return () => {
      prototype.transfer = transfer;
    };
  });
  try {
    program = ring(traits, parameters);
  } finally {
    for (const restore of plain) restore();
  }
  programs.set(key, program);
  return program;
}

/** The primitive calls of a rank in a channel, in order, after a run of one traced call. */
export function callsOf(team: SimulatedTeam<TeamMachine>, rank: number, channel: number): Call[] {
  const { machine } = team;
  const header = team.traceOf(rank) + channel * TRACE_BYTES;
  const { send, recv } = team.places[rank]!;
  return Array.from({ length: Number(machine.read('u64', header)) }, (_, i) => {
    const field = (name: 'flags' | 'input' | 'output' | 'elements') =>
      Number(machine.read('u64', header + Header.size + i * Entry.size + Entry.fields[name].offset));
    const flags = field('flags');
    const name = NAMES[flags & ~FLAG.after];
    if (name === undefined) throw new Error(`a call with flags ${flags}`);
    return {
      name,
      elements: field('elements'),
      ...(flags & FLAG.input ? { input: field('input') - send } : {}),
      ...(flags & FLAG.output ? { output: field('output') - recv } : {}),
      after: (flags & FLAG.after) !== 0,
    };
  });
}
