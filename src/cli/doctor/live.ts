/**
 * Facts of this machine for `tutti doctor --live`: read from /proc, /sys and the runtime; nothing is run or changed.
 */
import { accessSync, constants, existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { connect } from 'node:net';
import { availableParallelism, cpus, networkInterfaces } from 'node:os';
import {
  FILE_VARIABLES,
  type LiveAdapter,
  type LiveCheck,
  type LiveFacts,
  type LiveInterface,
  liveChecks,
} from '../../doctor/live-checks.js';
import { isVirtual } from '../../doctor/rules/network/subnets.js';
import type { Style } from '../../topology/report/style.js';

/** Milliseconds that a host has to answer. */
const ANSWER_LIMIT = 2000;
/** A port that nobody listens on: a refusal shows that the host is there. */
const PROBE_PORT = 1;

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path).sort();
  } catch {
    return [];
  }
}

const numbersOf = (text: string | undefined): number[] => (text?.split(/\s+/) ?? []).map(Number);

export async function liveFacts(hosts: readonly string[], env: NodeJS.ProcessEnv): Promise<LiveFacts> {
  const [low, high] = numbersOf(read('/proc/sys/net/ipv4/ip_local_port_range'));
  const [receive] = numbersOf(read('/proc/sys/net/core/rmem_max'));
  const [send] = numbersOf(read('/proc/sys/net/core/wmem_max'));
  const limits = read('/proc/self/limits');
  return {
    shm: sharedMemory(),
    memlock: limitOf(limits, 'Max locked memory'),
    openFiles: limitOf(limits, 'Max open files'),
    portRange: low === undefined || high === undefined ? undefined : [low, high],
    socketBuffers: receive === undefined || send === undefined ? undefined : { receive, send },
    interfaces: interfaces(),
    adapters: adapters(),
    hasVerbsDevices: list('/dev/infiniband').some((name) => name.startsWith('uverbs')),
    modules: read('/proc/modules')
      ?.split('\n')
      .map((line) => line.split(' ')[0]!),
    cores: { allowed: availableParallelism(), all: cpus().length },
    numaNodes: list('/sys/devices/system/node').filter((name) => /^node\d+$/.test(name)).length || undefined,
    gpus: existsSync('/proc/driver/nvidia/gpus') ? gpus() : undefined,
    hosts: await Promise.all(hosts.map(async (name) => ({ name, reason: await unreachable(name) }))),
    files: Object.fromEntries(
      FILE_VARIABLES.flatMap((name) => {
        const path = env[name];
        return path === undefined ? [] : [[name, isReadable(path)] as const];
      }),
    ),
    variables: Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) =>
        name.startsWith('NCCL_') && value !== undefined ? [[name, value]] : [],
      ),
    ),
  };
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

function sharedMemory(): LiveFacts['shm'] {
  try {
    const { blocks, bavail, bsize } = statfsSync('/dev/shm');
    return { bytes: blocks * bsize, freeBytes: bavail * bsize };
  } catch {
    return undefined;
  }
}

function limitOf(limits: string | undefined, name: string): number | undefined {
  const value = new RegExp(`^${name} +(\\S+)`, 'm').exec(limits ?? '')?.[1];
  if (value === undefined) return undefined;
  return value === 'unlimited' ? Number.POSITIVE_INFINITY : Number(value);
}

function interfaces(): LiveInterface[] {
  const known = networkInterfaces();
  return list('/sys/class/net')
    .filter((name) => name !== 'lo')
    .map((name) => {
      const speed = Number(read(`/sys/class/net/${name}/speed`) ?? Number.NaN);
      const mtu = Number(read(`/sys/class/net/${name}/mtu`) ?? Number.NaN);
      const state = read(`/sys/class/net/${name}/operstate`);
      return {
        name,
        isUp: state === 'up' || state === 'unknown',
        mtu: Number.isFinite(mtu) ? mtu : undefined,
        speed: speed > 0 ? speed : undefined,
        addresses: (known[name] ?? []).map(({ address }) => address),
        isVirtual: isVirtual(name),
      };
    });
}

function adapters(): LiveAdapter[] {
  const root = '/sys/class/infiniband';
  return list(root).flatMap((name) =>
    list(`${root}/${name}/ports`).map((port) => {
      const value = (file: string): string => read(`${root}/${name}/ports/${port}/${file}`) ?? '?';
      return {
        name,
        port: Number(port),
        state: value('state').replace(/^\d+: /, ''),
        rate: value('rate').replace(/ \(.*$/, ''),
        link: value('link_layer'),
      };
    }),
  );
}

const gpus = (): string[] =>
  list('/proc/driver/nvidia/gpus').map(
    (id) => /^Model:\s*(.+)$/m.exec(read(`/proc/driver/nvidia/gpus/${id}/information`) ?? '')?.[1] ?? id,
  );

/** Why a host cannot be reached; undefined when it answers, be it with a refusal. */
function unreachable(host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port: PROBE_PORT, timeout: ANSWER_LIMIT });
    const end = (reason: string | undefined): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`no answer within ${ANSWER_LIMIT / 1000} s`));
    socket.once('error', ({ code, message }: NodeJS.ErrnoException) =>
      end(code === 'ECONNREFUSED' ? undefined : message),
    );
  });
}

/** The checks as lines, what needs attention with its advice. */
export function liveLines(checks: readonly LiveCheck[], style: Style): string[] {
  const width = Math.max(...checks.map(({ what }) => what.length));
  const concerns = checks.filter(({ status }) => status === 'attention').length;
  const head =
    concerns === 0
      ? 'healthy: nothing on this machine needs attention'
      : `${concerns} thing${concerns === 1 ? '' : 's'} on this machine to mind`;
  return [
    style.strong(head),
    ...checks.flatMap(({ what, status, found, advice }) => [
      `  ${what.padEnd(width)}  ${status === 'attention' ? style.warn('attention') : status.padEnd(9)}  ${found}`,
      ...(advice === undefined ? [] : [`  ${''.padEnd(width)}             ${advice}`]),
    ]),
  ];
}

export async function liveOutput(hosts: readonly string[], isJson: boolean, style: Style) {
  const facts = await liveFacts(hosts, process.env);
  const checks = liveChecks(facts);
  const verdict = checks.some(({ status }) => status === 'attention')
    ? ('findings' as const)
    : ('healthy' as const);
  // JSON has no infinity: an unlimited value is written as a word.
  const replace = (_: string, value: unknown): unknown =>
    value === Number.POSITIVE_INFINITY ? 'unlimited' : value;
  const lines = isJson ? JSON.stringify({ checks, facts }, replace, 2).split('\n') : liveLines(checks, style);
  return { lines, verdict };
}
