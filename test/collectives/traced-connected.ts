/**
 * Programs with connections of their own that tell what they do: the shipped program with a record written before
 * every primitive call, which peers take part included.
 */

import { BlockWork, ConnectedWork } from '#src/collectives/connected-work.js';
import type { Transfer } from '#src/collectives/primitives.js';
import { LowLatencyProtocol } from '#src/collectives/protocol-ll.js';
import { SimpleProtocol } from '#src/collectives/protocol-simple.js';
import { Value } from '#src/kernel/builder.js';
import type { Program } from '#src/kernel/ir.js';
import { array, struct } from '#src/kernel/layout.js';
import { CONTROL_HEAD, type ConnectedTeam } from './connected-team.js';
import type { TeamMachine } from './simulated-team.js';

/** Bytes of trace per block, and blocks that there is room for. */
export const TRACE_BYTES = 32768;
export const TRACED_BLOCKS = 8;

const PEERS = 4;
const NOBODY = 0;

const Header = struct('Header', { records: 'u64' }, 64);
const Entry = struct('Entry', {
  input: 'ptr',
  output: 'ptr',
  elements: 'u64',
  after: 'u64',
  channel: 'u64',
  from: array('ptr', PEERS),
  to: array('ptr', PEERS),
});

/** One primitive call of one block. */
export interface ConnectedCallRecord {
  /** Ranks received from, in the order of combining, and ranks sent to. */
  readonly from: readonly number[];
  readonly to: readonly number[];
  readonly elements: number;
  /** Bytes from the beginning of the send and receive buffer; absent where the buffer takes no part. */
  readonly input?: number;
  /** The same where what is read lies in the receive buffer: a result of earlier calls. */
  readonly result?: number;
  readonly output?: number;
  readonly after: boolean;
  readonly channel: number;
}

function record(protocol: LowLatencyProtocol | SimpleProtocol, transfer: Transfer): void {
  const k = transfer.elements.builder;
  // The descriptor is the first register of every program.
  const work = new Value(k, { kind: 'register', id: 0, type: 'ptr' }, 'ptr');
  const trace = k.field(work, ConnectedWork, 'control').offset(CONTROL_HEAD);
  const header = trace.offset(k.blockIndex.mul(TRACE_BYTES));
  const records = k.field(header, Header, 'records');
  const entry = header.offset(Header.size).offset(records.mul(Entry.size));
  const block = k.field(work, ConnectedWork, 'blocks').offset(k.blockIndex.mul(BlockWork.size));
  k.setField(entry, Entry, 'input', transfer.input ?? k.u64(NOBODY).cast('ptr'));
  k.setField(entry, Entry, 'output', transfer.output ?? k.u64(NOBODY).cast('ptr'));
  k.setField(entry, Entry, 'elements', transfer.elements);
  k.setField(entry, Entry, 'after', transfer.after === true ? 1 : 0);
  k.setField(entry, Entry, 'channel', k.field(block, BlockWork, 'channel').cast('u64'));
  const list = (field: 'from' | 'to', doorbells: readonly Value<'ptr'>[]) => {
    for (let i = 0; i < PEERS; i++) {
      const address = k.fieldAddress(entry, Entry, field, i);
      k.store('ptr', address, doorbells[i] ?? k.u64(NOBODY).cast('ptr'));
    }
  };
  list('from', transfer.receives ? protocol.ends.receives.map(({ doorbell }) => doorbell) : []);
  list('to', transfer.sends ? protocol.ends.sends.map(({ doorbell }) => doorbell) : []);
  k.setField(header, Header, 'records', records.add(1));
}

/** Builds a program with its records. */
export function traced(build: () => Program): Program {
  const restores = [LowLatencyProtocol, SimpleProtocol].map(({ prototype }) => {
    const { transfer } = prototype;
    prototype.transfer = function (this: LowLatencyProtocol & SimpleProtocol, what: Transfer) {
      record(this, what);
      transfer.call(this, what);
    };
    return () => {
      prototype.transfer = transfer;
    };
  });
  try {
    return build();
  } finally {
    for (const restore of restores) restore();
  }
}

/** The primitive calls of a block of a rank, in order, after a run of one traced call. */
export function recordsOf(
  team: ConnectedTeam<TeamMachine>,
  rank: number,
  block: number,
): ConnectedCallRecord[] {
  const { machine } = team;
  const header = team.controls[rank]! + CONTROL_HEAD + block * TRACE_BYTES;
  const { send, recv } = team.places[rank]!;
  return Array.from({ length: Number(machine.read('u64', header)) }, (_, i) => {
    const base = header + Header.size + i * Entry.size;
    const field = (name: keyof typeof Entry.fields, index = 0) =>
      Number(machine.read('u64', base + Entry.fields[name].offset + 8 * index));
    const peers = (name: 'from' | 'to') =>
      Array.from({ length: PEERS }, (_, p) => field(name, p))
        .filter((address) => address !== NOBODY)
        .map((address) => team.controls.indexOf(address));
    const input = field('input');
    const output = field('output');
    return {
      from: peers('from'),
      to: peers('to'),
      elements: field('elements'),
      ...(input === NOBODY ? {} : input >= recv ? { result: input - recv } : { input: input - send }),
      ...(output === NOBODY ? {} : { output: output - recv }),
      after: field('after') === 1,
      channel: field('channel'),
    };
  });
}
