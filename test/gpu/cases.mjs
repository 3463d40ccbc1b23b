/**
 * Random calls of one communicator's ranks in this process: buffers with guards around them, poisoned outputs, results
 * compared with the reference bit by bit.
 */
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import { encode } from '#src/kernel/numeric.js';
import { TYPES, unsigned } from '../reference/direct-arithmetic.mjs';
import { COLLECTIVES, difference, expected, lengths } from './reference.mjs';

const REDUCING = ['allReduce', 'reduce', 'reduceScatter'];
/** Elements before and behind every buffer. */
const GUARD = 16;

export function randomCase(random, ranks, most) {
  const collective = random.pick(COLLECTIVES);
  return {
    collective,
    type: random.pick(ELEMENT_TYPE_NAMES),
    op: random.pick(REDUCE_OP_NAMES),
    root: random.below(ranks),
    count: random.size(most),
    inPlace: collective !== 'allToAll' && random.chance(0.3),
    offsets: Array.from({ length: ranks }, () => [random.below(GUARD), random.below(GUARD)]),
    seed: random.word(),
  };
}

/**
 * A random call of one of these collectives whose result does not depend on the order of the ranks: its inputs are small
 * whole numbers (`exact`), of which the type holds every sum and product.
 */
export function exactCase(random, ranks, most, { collectives, averages = true }) {
  const one = randomCase(random, ranks, most);
  const collective = random.pick(collectives);
  const halves = ELEMENT_TYPES[one.type].kind !== 'float' || (ranks & (ranks - 1)) === 0;
  const op = one.op === 'avg' && !(averages && halves) ? 'sum' : one.op;
  return { ...one, collective, op, inPlace: one.inPlace && collective !== 'allToAll', exact: true };
}

/** Small whole numbers, as an array of the type. */
function wholeArray(type, length, seed) {
  const { size, kind } = ELEMENT_TYPES[type];
  const most = size === 1 && kind === 'float' ? 1 : 2;
  const least = kind === 'unsigned' ? 0 : -most;
  const values = Array.from({ length: most - least + 1 }, (_, i) => encode(type, least + i || 0));
  const array = new TYPES[type](length);
  const Bits = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[size];
  const bits = new Bits(array.buffer);
  let state = seed | 1;
  for (let i = 0; i < length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    const value = values[(state >>> 8) % values.length];
    bits[i] = size === 8 ? value : Number(value);
  }
  return array;
}

export function describe({ collective, type, op, root, count, inPlace }) {
  return `${collective} ${count} x ${type}${REDUCING.includes(collective) ? ` ${op}` : ''} root ${root}${inPlace ? ' in place' : ''}`;
}

/** Random bits, as an array of the type. */
function randomArray(type, length, seed) {
  const Class = TYPES[type];
  const array = new Class(length);
  const bytes = new Uint8Array(array.buffer);
  let state = seed | 1;
  for (let i = 0; i < bytes.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[i] = state;
  }
  return array;
}

/** Where the buffers of a case are in place: send within recv or the other way round, in elements. */
function inPlaceParts({ collective, count, root }, rank) {
  switch (collective) {
    case 'allGather':
      return { whole: 'recv', send: rank * count, recv: 0 };
    case 'gather':
      return rank === root ? { whole: 'recv', send: rank * count, recv: 0 } : undefined;
    case 'reduceScatter':
      return { whole: 'send', send: 0, recv: rank * count };
    case 'scatter':
      return rank === root ? { whole: 'send', send: 0, recv: rank * count } : undefined;
    case 'reduce':
    case 'broadcast':
      return rank === root ? { whole: 'recv', send: 0, recv: 0 } : undefined;
    default:
      return { whole: 'recv', send: 0, recv: 0 };
  }
}

/** One rank's buffers of a case: memory on the GPU, what was put there, and the views that are passed; dry: data only. */
export async function prepareRank(comm, one, rank, ranks, dry = false) {
  const { type, count } = one;
  const Class = TYPES[type];
  const length = lengths(one, rank, ranks);
  const makeInput = one.exact === true ? wholeArray : randomArray;
  const sends = makeInput(type, length.send, one.seed + rank * 7919);
  if (dry) return { sends };
  const place = one.inPlace ? inPlaceParts(one, rank) : undefined;
  const [sendOffset, recvOffset] = one.offsets[rank];
  const sides = {};
  const make = async (name, elements, offset) => {
    const total = elements + 2 * GUARD;
    const content = randomArray(type, total, one.seed + rank * 31 + (name === 'send' ? 5 : 6));
    sides[name] = { memory: comm.alloc(Class, total), content, offset, elements };
  };
  if (place !== undefined) {
    const elements = Math.max(length.send, length.recv);
    await make('whole', elements, recvOffset);
    sides.send = { ...sides.whole, offset: recvOffset + place.send, elements: length.send };
    sides.recv = { ...sides.whole, offset: recvOffset + place.recv, elements: length.recv };
  } else {
    if (length.send > 0 || count === 0) await make('send', length.send, sendOffset);
    if (length.recv > 0 || count === 0) await make('recv', length.recv, recvOffset);
  }
  if (sides.send !== undefined) sides.send.content.set(sends, sides.send.offset);
  const memories = new Map();
  for (const side of Object.values(sides)) memories.set(side.memory, side.content);
  for (const [memory, content] of memories) await memory.copyFrom(content);
  const view = (side) => side?.memory.subarray(side.offset, side.offset + side.elements) ?? null;
  return { sends, sides, memories, send: view(sides.send), recv: view(sides.recv) };
}

function callOf(comm, one, { send, recv }, extra = {}) {
  const { collective, type, op, root } = one;
  const options = { type, ...extra };
  if (REDUCING.includes(collective)) options.op = op;
  if (['reduce', 'broadcast', 'gather', 'scatter'].includes(collective)) options.root = root;
  return comm[collective](send, recv, options);
}

/**
 * Runs a case on the communicators of all ranks. `how` makes the calls, one of `ways`.
 * Returns what is wrong, one line each.
 */
export async function runCase(comms, one, how = awaited) {
  const ranks = comms.length;
  const states = await Promise.all(comms.map((comm, rank) => prepareRank(comm, one, rank, ranks)));
  await how(comms, states, one);
  const sends = states.map(({ sends }) => unsigned(sends));
  const wrong = [];
  for (const [rank, comm] of comms.entries()) {
    wrong.push(...(await checkRank(comm, one, rank, states[rank], sends)));
  }
  for (const { memories } of states) for (const memory of memories.keys()) memory.free();
  return wrong;
}

export async function checkRank(comm, one, rank, state, sends) {
  const { sides, memories } = state;
  const wrong = [];
  const { recv } = sides;
  for (const [memory, content] of memories) {
    const found = unsigned(await memory.read());
    const want = Array.from(unsigned(content), BigInt);
    if (recv?.memory === memory && recv.elements > 0) {
      const result = expected(one, rank, sends);
      // What was sent from the same memory may be left in any state only where the result is.
      for (let i = 0; i < recv.elements; i++) want[recv.offset + i] = result[i];
    }
    const spoilt = sides.whole !== undefined && recv.elements < sides.whole.elements;
    if (spoilt) continueInPlace(want, found, sides, recv);
    const what = difference(one.type, found, want);
    if (what !== undefined) wrong.push(`rank ${rank} of ${comm.size}, ${describe(one)}: ${what}`);
  }
  return wrong;
}

/** In place, blocks of the send buffer beside the result may hold anything afterwards. */
function continueInPlace(want, found, { whole }, recv) {
  for (let i = 0; i < whole.elements; i++) {
    const at = whole.offset + i;
    if (at < recv.offset || at >= recv.offset + recv.elements) want[at] = BigInt(found[at]);
  }
}

/** All of a case's calls, awaited. */
export async function awaited(comms, states, one) {
  await Promise.all(comms.map((comm, rank) => callOf(comm, one, states[rank])));
}

/** All of a case's calls through prepared operations. */
export async function prepared(comms, states, one) {
  const operations = comms.map((comm, rank) => callOf(comm.prepare, one, states[rank]));
  await Promise.all(operations.map(({ ready }) => ready));
  for (const operation of operations) operation.run();
  await Promise.all(comms.map((comm) => comm.synchronize()));
  for (const operation of operations) operation.release();
}

/** All of a case's calls recorded in a graph, which is replayed. */
export async function graphed(comms, states, one) {
  const loaded = comms.map((comm, rank) => callOf(comm.prepare, one, states[rank]));
  await Promise.all(loaded.map(({ ready }) => ready));
  const graphs = comms.map((comm, rank) => comm.capture(() => void callOf(comm, one, states[rank])));
  await Promise.all(graphs.map((graph) => graph.start()));
  for (const operation of [...loaded, ...graphs]) operation.release();
}

/** The ways in which calls can be made. */
export const ways = { awaited, prepared, graphed };
