/**
 * `tutti tune --verify`: proves the programs of this library's own algorithms, which run on host memory, for some
 * numbers of ranks, and shows what each moves over the links.
 */
import { MAX_DIRECT_RANKS } from '../../collectives/control-block.js';
import { ALGORITHMS, type Algorithm, isDirect, protocolsOf, supports } from '../../collectives/registry.js';
import type { RingCollective, RingProtocol } from '../../collectives/ring.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { MachineFault } from '../../kernel/interpreter/fault.js';
import { needsEqualNodes } from '../../planning/connected-algorithms.js';
import type { Style } from '../../topology/report/style.js';
import type { NcclFunction } from '../../tuning/names.js';
import { exactBytesText, numberText } from '../../tuning/report/quantities.js';
import { left, right, textTable } from '../../tuning/report/text-table.js';
import type { VerifiedCall } from '../../verifier/call.js';
import { ELEMENT_BYTES } from '../../verifier/team.js';
import { type Verification, verify } from '../../verifier/verify.js';
import { wrong } from '../topo/machine-options.js';

export interface VerificationOptions {
  readonly collectives: readonly RingCollective[];
  readonly ranks: readonly number[];
  /** Of the whole message. */
  readonly bytes: number;
  /** Ranks of an emulated node. */
  readonly perNode: number;
  readonly json: boolean;
}

/** Values of the options of `--verify`. */
export interface VerificationValues {
  readonly ranks?: string | undefined;
  readonly 'ranks-per-node'?: string | undefined;
  readonly json?: boolean | undefined;
}

const USUAL_RANKS = '2,3,4,8';
const USUAL_BYTES = 4096;

/** A megabyte of every rank takes a simulated machine a minute. */
const MOST_BYTES = 2 ** 20;

/** Slots of the simulated connections: small, so that little data goes round all of them. */
const SLOT_BYTES = 512;

const COLLECTIVE_OF: Readonly<Record<NcclFunction, RingCollective>> = {
  AllReduce: 'allReduce',
  AllGather: 'allGather',
  ReduceScatter: 'reduceScatter',
  Broadcast: 'broadcast',
  Reduce: 'reduce',
};

/** @throws TuttiError invalidArgument naming the option, the value and what would be right */
export function verificationOptions(
  functions: readonly NcclFunction[],
  bytes: number | undefined,
  values: VerificationValues,
): VerificationOptions {
  const text = values.ranks ?? USUAL_RANKS;
  const ranks = text.split(',').map((one) => wholeNumber('--ranks', one, 2, MAX_DIRECT_RANKS));
  const perNode = wholeNumber('--ranks-per-node', values['ranks-per-node'] ?? '1', 1, MAX_DIRECT_RANKS);
  const size = bytes ?? USUAL_BYTES;
  if (size > MOST_BYTES) {
    throw wrong(
      `--size ${exactBytesText(size)}: programs are simulated; give ${exactBytesText(MOST_BYTES)} at most`,
    );
  }
  return {
    collectives: functions.map((fn) => COLLECTIVE_OF[fn]),
    ranks,
    bytes: size,
    perNode,
    json: values.json ?? false,
  };
}

function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = /^\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw wrong(`${option} ${text}: give a whole number from ${least} to ${most}`);
}

/** What became of one call. */
interface Row {
  readonly call: VerifiedCall;
  readonly proved: Verification | undefined;
  /** Why it is not proved. */
  readonly fault: string | undefined;
}

/** Lines of the answer, and whether everything is proved. */
export function verificationOutput(
  options: VerificationOptions,
  style: Style,
): { readonly lines: readonly string[]; readonly isProved: boolean } {
  const rows = callsOf(options).map(prove);
  const isProved = rows.every(({ proved }) => proved !== undefined);
  const lines = options.json
    ? [JSON.stringify(rows.map(jsonOf), null, 2)]
    : reportLines(rows, options, style);
  return { lines, isProved };
}

function callsOf({ collectives, ranks, bytes, perNode }: VerificationOptions): VerifiedCall[] {
  return collectives.flatMap((collective) =>
    ALGORITHMS.filter((algorithm) => supports(algorithm, collective)).flatMap((algorithm) =>
      protocolsOf(algorithm).flatMap((protocol) =>
        ranks
          .filter(
            (count) => !needsEqualNodes(algorithm, collective) || count % Math.min(count, perNode) === 0,
          )
          .map((count) => callOf(algorithm, protocol, collective, count, bytes, perNode)),
      ),
    ),
  );
}

function callOf(
  algorithm: Algorithm,
  protocol: RingProtocol,
  collective: RingCollective,
  ranks: number,
  bytes: number,
  perNode: number,
): VerifiedCall {
  const blocks = collective === 'allGather' || collective === 'reduceScatter' ? ranks : 1;
  const count = Math.max(1, Math.round(bytes / ELEMENT_BYTES / blocks));
  return {
    algorithm,
    protocol,
    collective,
    ranks,
    perNode,
    channels: 1,
    count,
    root: 0,
    slotBytes: SLOT_BYTES,
  };
}

function prove(call: VerifiedCall): Row {
  try {
    return { call, proved: verify(call), fault: undefined };
  } catch (error) {
    if (!(error instanceof MachineFault) && !TuttiError.is(error)) throw error;
    return { call, proved: undefined, fault: (error as Error).message };
  }
}

/** Bytes of the whole message. */
const messageBytes = ({ collective, ranks, count }: VerifiedCall): number =>
  count * ELEMENT_BYTES * (collective === 'allGather' || collective === 'reduceScatter' ? ranks : 1);

const protocolText = ({ algorithm, protocol }: VerifiedCall): string =>
  isDirect(algorithm) ? '-' : protocol;

const COLUMNS = [
  left('collective'),
  left('algorithm'),
  left('protocol'),
  right('ranks'),
  right('message'),
  right('sent/rank'),
  right('of message'),
  right('links'),
  right('busiest link'),
  right('depth'),
  left('result'),
];

function reportLines(rows: readonly Row[], { ranks }: VerificationOptions, style: Style): string[] {
  const cells = rows.map(({ call, proved, fault }) => {
    const head = [
      call.collective,
      call.algorithm,
      protocolText(call),
      `${call.ranks}`,
      exactBytesText(messageBytes(call)),
    ];
    if (proved === undefined) return [...head, '', '', '', '', '', fault!];
    const most = Math.max(0, ...proved.sent);
    const busiest = Math.max(0, ...proved.links.map(({ bytes }) => bytes));
    return [
      ...head,
      exactBytesText(most),
      `${numberText(most / messageBytes(call))} x`,
      `${proved.links.length}`,
      exactBytesText(busiest),
      `${proved.depth}`,
      'proved',
    ];
  });
  const [title, ...body] = textTable(COLUMNS, cells, style.width);
  const failed = rows.filter(({ proved }) => proved === undefined).length;
  const verdict =
    failed === 0
      ? `All ${rows.length} programs are proved on ${ranks.join(', ')} ranks: every element of every result holds each ` +
        "rank's contribution exactly once, and no wait blocks for ever."
      : `${failed} of ${rows.length} programs are not proved.`;
  return [
    ...title!.map(style.dim),
    ...body.flat(),
    '',
    verdict,
    'Sent per rank is that of the rank that sends most; depth is the longest chain of messages (docs/algorithms/verification.md).',
  ];
}

function jsonOf({ call, proved, fault }: Row) {
  const { algorithm, protocol, collective, ranks, perNode, count } = call;
  return {
    collective,
    algorithm,
    protocol: isDirect(algorithm) ? null : protocol,
    ranks,
    ranksPerNode: perNode,
    messageBytes: messageBytes(call),
    count,
    proved: proved !== undefined,
    ...(proved === undefined
      ? { fault }
      : { sent: proved.sent, received: proved.received, links: proved.links, depth: proved.depth }),
  };
}
