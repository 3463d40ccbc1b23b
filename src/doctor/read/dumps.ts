/**
 * Dumps of operations, in any layout: somewhere are objects with a sequence number, an operation and a state; rank,
 * host and communicator stand in them or around them. PyTorch's flight recorder is one of the layouts.
 */
import type { DumpedOperation, Message, OperationState, RankDump } from '../model/dump.js';
import type { Job } from '../model/job.js';
import { type JsonValue, member, numberOf, stringOf } from './json.js';

const SEQUENCE = [
  'seq',
  'collective_seq_id',
  'seq_id',
  'sequence',
  'sequence_number',
  'seq_num',
  'seqnum',
  'opCount',
  'op_count',
  'work_id',
  'index',
];
const OPERATION = [
  'op',
  'profiling_name',
  'operation',
  'collective',
  'name',
  'op_type',
  'opType',
  'function',
  'func',
];
const STATE = ['state', 'status', 'phase'];
const ELEMENTS = ['count', 'elements', 'numel', 'num_elements', 'size', 'nelems', 'input_numel', 'bytes'];
const SHAPES = ['input_sizes', 'in_sizes', 'shape', 'shapes'];
const TYPE = ['dtype', 'type', 'datatype', 'data_type', 'input_dtypes'];
const RANK = ['rank', 'global_rank', 'rank_id'];
const HOST = ['host', 'hostname', 'node'];
const COMMUNICATOR = ['communicator', 'comm', 'group', 'process_group', 'pg', 'pg_name', 'pg_id', 'comm_id'];
const WORLD = ['world', 'world_size', 'size', 'nranks', 'n_ranks'];
const REASON = ['reason', 'error', 'cause'];

const STATES: readonly (readonly [OperationState, RegExp])[] = [
  ['completed', /^(?:completed?|done|finished|success(?:ful)?|retired)$/i],
  ['started', /^(?:started|running|active|in[-_ ]?(?:progress|flight)|executing|launched|stuck)$/i],
  ['queued', /^(?:queued|enqueued|scheduled|pending|waiting|submitted|created)$/i],
];

/** Objects that are looked at: enough for thousands of ranks with hundreds of operations each. */
const MAX_OPERATIONS = 2_000_000;

interface Around {
  readonly rank: number | undefined;
  readonly host: string | undefined;
  readonly communicator: string | undefined;
  readonly world: number | undefined;
  readonly reason: RankDump['reason'];
}

/** Operations between two ranks, and several of them started together. */
const MESSAGES = /^(?:send|i?recv|isend|receive|batch_?isend_?irecv|coalesced)\b/i;
const SEND = /^i?send (\d+) ?-> ?(\d+)/i;
const RECEIVE = /^i?recv(?:AnySource)? (\d+) ?<- ?(\d+)/i;

function messageOf(name: string, isMarked: boolean): Message | 'unknown' | undefined {
  if (!isMarked && !MESSAGES.test(name)) return undefined;
  const send = SEND.exec(name);
  if (send !== null) return { isSend: true, from: Number(send[1]), to: Number(send[2]) };
  const receive = RECEIVE.exec(name);
  if (receive !== null) return { isSend: false, from: Number(receive[2]), to: Number(receive[1]) };
  return 'unknown';
}

/** Ranks of process groups by name, as PyTorch lists them: `{"0": {"name": "0", "ranks": "[0, 1]"}}`. */
function membersOf(root: JsonValue): Map<string, readonly number[]> {
  const found = new Map<string, readonly number[]>();
  const config = member(root, ['pg_config']);
  if (config?.type !== 'object') return found;
  for (const [name, group] of config.entries) {
    const ranks = member(group, ['ranks']);
    const text = ranks?.type === 'array' ? flat(ranks) : stringOf(ranks);
    const numbers = text?.match(/\d+/g)?.map(Number) ?? [];
    if (numbers.length > 0) found.set(stringOf(member(group, ['name'])) ?? name, numbers);
  }
  return found;
}

/** Adds the dumps of a document. False when it holds none. */
export function readDumps(root: JsonValue, file: string, job: Job): boolean {
  const found = new Map<
    string,
    { -readonly [K in keyof RankDump]: RankDump[K] } & { operations: DumpedOperation[] }
  >();
  let count = 0;
  const groups = membersOf(root);
  const visit = (value: JsonValue, around: Around): void => {
    if (value.type === 'array') {
      for (const item of value.items) visit(item, around);
      return;
    }
    if (value.type !== 'object' || count > MAX_OPERATIONS) return;
    const operation = operationOf(value, file);
    const inner = aroundOf(value, around, file, operation !== undefined);
    if (operation !== undefined) {
      count++;
      const rank = inner.rank ?? rankOfName(file);
      if (rank === undefined) return;
      const communicator = inner.communicator ?? '';
      const key = `${rank}\0${communicator}`;
      let dump = found.get(key);
      if (dump === undefined) {
        const members = groups.get(communicator) ?? groups.get(communicator.split(' ')[0]!);
        dump = {
          rank,
          host: inner.host,
          communicator,
          size: members?.length ?? inner.world,
          ...(members === undefined ? {} : { members }),
          operations: [],
          reason: inner.reason,
        };
        found.set(key, dump);
      }
      const { sequence, name, state } = operation;
      const group = communicator === '' ? '' : `, group ${communicator}`;
      const caller = calledFrom(value);
      const text = `rank ${rank}${group}, ${name} ${sequence}: ${state}${caller === '' ? '' : `, ${caller}`}`;
      dump.operations.push({ ...operation, at: { ...operation.at, text } });
      return;
    }
    for (const [name, child] of value.entries) {
      if (child.type !== 'object' && child.type !== 'array') continue;
      const byKey = /^(?:rank[_-]?)?(\d{1,6})$/.exec(name)?.[1];
      const isByRank = byKey !== undefined && inner.rank === undefined;
      visit(child, isByRank ? { ...inner, rank: Number(byKey) } : inner);
    }
  };
  visit(root, {
    rank: undefined,
    host: undefined,
    communicator: undefined,
    world: undefined,
    reason: undefined,
  });
  for (const dump of found.values()) {
    dump.operations.sort((a, b) => a.sequence - b.sequence);
    job.dumps.push(dump);
  }
  return found.size > 0;
}

function aroundOf(value: JsonValue, around: Around, file: string, isOperation: boolean): Around {
  const reason = member(value, REASON);
  // In an operation, `size` and `world` are about data.
  const world = isOperation ? undefined : numberOf(member(value, WORLD));
  return {
    rank: numberOf(member(value, RANK)) ?? around.rank,
    host: stringOf(member(value, HOST)) ?? around.host,
    communicator: communicatorOf(member(value, COMMUNICATOR)) ?? around.communicator,
    world: world ?? around.world,
    reason:
      reason?.type === 'string' ? { text: reason.value, at: { file, line: reason.line } } : around.reason,
  };
}

function communicatorOf(value: JsonValue | undefined): string | undefined {
  if (value?.type === 'array') return value.items.flatMap((one) => stringOf(one) ?? []).join(' ');
  return stringOf(value);
}

/** The rank that the name of a file ends in, as dumps per rank have it: `nccl_trace_rank_3`. */
function rankOfName(file: string): number | undefined {
  const found = /(\d+)(?:\.\w+)*$/.exec(file.replace(/^.*[/\\]/, ''))?.[1];
  return found === undefined ? undefined : Number(found);
}

function operationOf(value: JsonValue, file: string): DumpedOperation | undefined {
  const sequence = numberOf(member(value, SEQUENCE));
  const name = stringOf(member(value, OPERATION));
  const state = stringOf(member(value, STATE));
  if (sequence === undefined || name === undefined || state === undefined) return undefined;
  const elements = numberOf(member(value, ELEMENTS));
  const shapes = member(value, SHAPES);
  const own = name.replace(/^nccl:/, '');
  const marked = member(value, ['is_p2p']);
  const message = messageOf(own, marked?.type === 'word' && marked.value === true);
  return {
    sequence,
    name: own,
    ...(message === undefined ? {} : { message }),
    size: elements !== undefined ? String(elements) : shapes === undefined ? undefined : flat(shapes),
    elements: elements ?? (shapes === undefined ? undefined : product(shapes)),
    type: flatOr(member(value, TYPE)),
    state: STATES.find(([, pattern]) => pattern.test(state))?.[0] ?? 'unknown',
    at: { file, line: value.line },
  };
}

/** Files of the framework itself, which call every operation. */
const FRAMEWORK = /(?:site|dist)-packages\/(?:torch|lightning|pytorch_lightning|deepspeed)\//;

/** The line of the program that called the operation, by the innermost frame of its own. */
function calledFrom(operation: JsonValue): string {
  const frames = member(operation, ['frames']);
  if (frames?.type !== 'array') return '';
  const own =
    frames.items.find((frame) => !FRAMEWORK.test(stringOf(member(frame, ['filename'])) ?? '')) ??
    frames.items[0];
  const file = own === undefined ? undefined : stringOf(member(own, ['filename']));
  if (own === undefined || file === undefined) return '';
  const line = numberOf(member(own, ['line']));
  const name = stringOf(member(own, ['name']));
  return `called from ${file.replace(/^.*\//, '').slice(0, 100)}${line === undefined ? '' : `:${line}`}${name === undefined ? '' : ` (${name.slice(0, 80)})`}`;
}

function flat(value: JsonValue): string {
  if (value.type === 'array') return `[${value.items.map(flat).join(',')}]`;
  return stringOf(value) ?? '';
}

const flatOr = (value: JsonValue | undefined): string | undefined =>
  value === undefined ? undefined : flat(value);

/** Elements of `[[3, 4]]`. */
function product(value: JsonValue): number | undefined {
  if (value.type === 'number') return value.value;
  if (value.type !== 'array' || value.items.length === 0) return undefined;
  const parts = value.items.map(product);
  if (parts.some((one) => one === undefined)) return undefined;
  const isNested = value.items[0]!.type === 'array';
  return (parts as number[]).reduce((a, b) => (isNested ? a + b : a * b));
}
