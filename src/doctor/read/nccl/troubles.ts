/**
 * Warnings and messages of failures, over the words of NCCL 2.8 to 2.31.
 */
import type { NcclProcess } from '../../model/process.js';
import { rankOf } from '../../model/process.js';
import type { Trouble } from '../../model/trouble.js';
import { type FileContext, here } from '../file-context.js';
import type { LogLine } from './header.js';

/** Troubles that are kept per process; a failing job repeats them by the thousand. */
const MAX_TROUBLES = 400;

/** Messages of attempts that are kept per kind; what they lead to is a warning of its own. */
const MAX_RETRIES = 16;

const OTHER: Trouble = { kind: 'other' };

type Recogniser = readonly [word: string, pattern: RegExp, make: (found: RegExpExecArray) => Trouble];

/** Logs write hosts without their domain. */
const shortHost = (name: string): string => (/^[A-Za-z]/.test(name) ? name.replace(/\..*$/, '') : name);

const number = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text);

/** A word that the message must contain, the shape, and what it means. The first that fits is taken. */
const RECOGNISERS: readonly Recogniser[] = [
  [
    'failed to extend',
    /failed to extend (\S+) to (\d+) bytes(?:, error: (.*))?/,
    ([, path, bytes, reason = '']) => ({ kind: 'shm', path: path!, bytes: Number(bytes), reason }),
  ],
  [
    'shared memory segment',
    /shared memory segment (\S+) \(size (\d+)\)(?:, error: (.*))?/,
    ([, path, bytes, reason = '']) => ({ kind: 'shm', path: path!, bytes: Number(bytes), reason }),
  ],
  [
    'posix_fallocate failed',
    /posix_fallocate failed : (.*)/,
    ([, reason = '']) => ({ kind: 'shm', path: '/dev/shm', bytes: 0, reason }),
  ],
  [
    'exceeded error retry count',
    /onnect(?:ion)?(?: to (\S+?)<\d+>)? returned (.+?), exceeded error retry count/,
    ([, address, reason]) => ({ kind: 'connect', address, reason: reason! }),
  ],
  [
    'retrying (',
    /onnect(?:ion)? to (\S+?)<\d+> (?:returned|failed :?) ?(.+?),? retrying \(/,
    ([, address, reason]) => ({ kind: 'retry', address: address!, reason: reason! }),
  ],
  [
    'socketPollConnect',
    /Connect to (\S+?)<\d+> returned \d+ ?\((.+?)\)/,
    ([, address, reason]) => ({ kind: 'connect', address: address!, reason: reason! }),
  ],
  [
    'exceeded timeouts',
    /exceeded timeouts/,
    () => ({ kind: 'connect', address: undefined, reason: 'timed out' }),
  ],
  [
    'onnect to ',
    /onnect to (\S+?)<\d+>? (?:failed|returned)[ :]*(.*)/,
    ([, address, reason = '']) => ({ kind: 'connect', address: address!, reason }),
  ],
  [
    'Call to connect',
    /Call to connect (?:to (\S+?)<\d+> )?failed : (.*)/,
    ([, address, reason = '']) => ({ kind: 'connect', address, reason }),
  ],
  ['Call to bind', /Call to bind failed[ :]+(.*)/, ([, reason = '']) => ({ kind: 'bind', reason })],
  [
    'ibv_modify_qp',
    /Call to ibv_modify_qp failed with (?:error )?(?:\d+ )?(.*?)(?:, on dev ([^\s:,]+)|$)(?:.*?local GID index (\d+), local GID ([\w:.]+))?(?:.*?remote GID ([\w:.]+))?/,
    ([, reason = '', device, index, localGid, remoteGid]) => ({
      kind: 'queuePair',
      reason,
      device,
      localGid,
      remoteGid,
      gidIndex: number(index),
    }),
  ],
  [
    'Got completion',
    /Got completion (?:from peer (\S+?)(?:<\d+>)? )?with (?:error |status=(?:[A-Z_]+\()?)(\d+)\)?(?:.* hca (\S+))?/,
    ([, peer = '', status, device]) => ({ kind: 'completion', status: Number(status), peer, device }),
  ],
  [
    'async event',
    /NET\/IB ?: ?(?:([^\s:]+):(\d+) )?.*?async event ?: ?([^()]+)/,
    ([, device, port, event]) => ({
      kind: 'portEvent',
      device,
      port: number(port),
      event: event!.trim().toLowerCase(),
    }),
  ],
  ['ibv_open_device', /failed/, () => ({ kind: 'openDevice' })],
  ['Unable to open device', /./, () => ({ kind: 'openDevice' })],
  ['optimal provider', /NET\/OFI/, () => ({ kind: 'pluginInit' })],
  ['initialization failed', /^NET\/\w+ /, () => ({ kind: 'pluginInit' })],
  [
    'P2P is disabled between',
    /between (NVLINK )?connected GPUs (\d+) and (\d+)/,
    ([, nvlink, from, to]) => ({
      kind: 'p2pOff',
      from: number(from),
      to: number(to),
      isNvlink: nvlink !== undefined,
    }),
  ],
  [
    'ibv_reg_mr',
    /Call to (ibv_reg_\w+) failed(?: with error)?[ :]*(.*)/,
    ([, call, reason = '']) => ({ kind: 'registration', call: call!, reason }),
  ],
  [
    'ibv_create_',
    /Call to (ibv_create_\w+) failed(?: with error)?[ :]*(.*)/,
    ([, call, reason = '']) => ({ kind: 'registration', call: call!, reason }),
  ],
  [
    'closed by remote peer',
    /onnection closed by remote peer (\S+)/,
    ([, peer]) => ({ kind: 'peerClosed', peer: shortHost(peer!.replace(/<\d+>$/, '')) }),
  ],
  ['outstanding requests', /\b(?:send|recv|listen|comm)_?close\b/i, () => ({ kind: 'closing' })],
  ['while polling for opId', /./, () => ({ kind: 'proxy' })],
  ['[Proxy Service', /Failed to execute operation/, () => ({ kind: 'proxy' })],
  ['[Service thread]', /Could not receive|Accept failed|Connection closed/, () => ({ kind: 'proxy' })],
  ['no socket interface found', /./, () => ({ kind: 'noInterface' })],
  ['No socket interface found', /./, () => ({ kind: 'noInterface' })],
  ['uplicate GPU', /./, () => ({ kind: 'sameGpu' })],
  ['using the same GPU', /./, () => ({ kind: 'sameGpu' })],
  ['ismatched NCCL version', /./, () => ({ kind: 'versions' })],
  [
    'No transport found',
    /rank (\d+)\[[^\]]*\] -> rank (\d+)\[/,
    ([, from, to]) => ({ kind: 'noTransport', from: number(from), to: number(to) }),
  ],
  [
    'Multicast memory',
    /Failed to bind .*?(?:CUDA error (.*))?$/,
    ([, reason = '']) => ({ kind: 'multicast', reason }),
  ],
  ['Failed to initialize any NET plugin', /./, () => ({ kind: 'noNetwork' })],
  [
    'uda failure',
    /Cuda failure (?:\S+:\d+ )?(?:(\d+) )?'?(.*?)'?$/,
    ([, code, reason = '']) => ({ kind: 'cuda', reason, number: number(code) }),
  ],
  [
    'Call to ',
    /Call to (\w+) failed(?: with error)?[ :]*(.*)/,
    ([, call, reason = '']) => ({ kind: 'call', call: call!, reason }),
  ],
  [
    'either none or all',
    /./,
    () => ({
      kind: 'misuse',
      what: 'some communicators of a group are captured into a graph and some are not',
    }),
  ],
  ['not in a group call', /./, () => ({ kind: 'misuse', what: 'GroupEnd without GroupStart' })],
  [
    'Blocking and nonblocking',
    /./i,
    () => ({ kind: 'misuse', what: 'blocking and nonblocking communicators in one group' }),
  ],
  [
    'Unrecognized element token',
    /token "([^"]*)" when parsing (\w+)="([^"]*)"/,
    ([, , name, value]) => ({ kind: 'variable', name: name!, value: value! }),
  ],
  [
    'mismatch in rank count',
    /from procs (\d+) : (\d+)/,
    ([, one, other]) => ({ kind: 'rankCounts', sizes: [Number(one), Number(other)] }),
  ],
  ['Message truncated', /Message truncated.*/, ([what]) => ({ kind: 'wrongPeer', what })],
  ['wrong type', /wrong type \S+ != \S+/, ([what]) => ({ kind: 'wrongPeer', what })],
  ['wrong magic', /wrong magic \S+ != \S+/, ([what]) => ({ kind: 'wrongPeer', what })],
  ['nvalid rank requested', /nvalid rank requested.*/, ([what]) => ({ kind: 'argument', what })],
  [': invalid ', /^(\w+ ?: invalid \w+.*)/, ([, what]) => ({ kind: 'argument', what: what! })],
  ['is not a valid pointer', /^\w+ ?: .* is not a valid pointer/, ([what]) => ({ kind: 'argument', what })],
  ['argument is NULL', /^.*argument is NULL/, ([what]) => ({ kind: 'argument', what })],
];

/** What a message reports; `other` for everything that is no known failure. */
export function troubleOf(text: string): Trouble {
  for (const [word, pattern, make] of RECOGNISERS) {
    if (!text.includes(word)) continue;
    const found = pattern.exec(text.length > 1024 ? text.slice(0, 1024) : text);
    if (found !== null) return make(found);
  }
  return OTHER;
}

export function addTrouble(
  process: NcclProcess,
  trouble: Trouble,
  line: LogLine,
  isWarning: boolean,
  context: FileContext,
): void {
  const isRepeated = !isWarning && sameKind(process, trouble.kind) >= MAX_RETRIES;
  if (isRepeated || process.troubles.length >= MAX_TROUBLES) {
    process.moreTroubles++;
    return;
  }
  process.troubles.push({
    trouble,
    text: line.text.slice(0, 500),
    isWarning,
    at: here(context),
    time: line.header.time,
    rank: rankOf(process),
  });
}

const sameKind = (process: NcclProcess, kind: Trouble['kind']): number =>
  process.troubles.reduce((count, one) => count + (!one.isWarning && one.trouble.kind === kind ? 1 : 0), 0);
