/**
 * Single lines in the output of programs that tell how they are set up: the backend of a framework, the use of GPUs, how
 * errors are handled, memory of GPUs over time, and the time that an answer of another host takes (`ping`).
 */
import { detached } from '../detached.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

/** PyTorch Lightning, and options of programs: `distributed_backend=gloo`, `--dist-backend gloo`, `backend='gloo'`. */
const BACKEND =
  /(?:^|[\s(,{'"-])(?:dist(?:ributed)?[-_])?backend['"]?(?: ?[=:] ?| )['"]?(gloo|nccl|mpi|ucc)\b/i;
const GPUS_USED = /^GPU available: True(?: \(cuda\))?, used: True/;
/** In the list that PyTorch prints, in `env`, and in commands. */
const ERROR_HANDLING = /\b(?:TORCH_)?NCCL_ASYNC_ERROR_HANDLING['"]? ?[:=] ?['"]?(\d)\b/;
const PING = /^(?:rtt|round-trip) min\/avg\/max(?:\/\w+)? = [\d.]+\/([\d.]+)\//;
const PING_HOST = /^--- (\S+) ping statistics ---$/;
const NO_PEER_ACCESS = /\bunable to enable (?:P2P|peer[- ]to[- ]peer|peer access)\b/i;

/** What PyTorch says before an exception that does not repeat it. */
const SAID =
  /The IPv4 network addresses of \([^)]{1,300}\) cannot be retrieved \(gai error[^)]{0,200}\)|The NVIDIA driver on your system is too old \(found version \d+\)/;

/** The NCCL that a framework brings along: lists of packages, and `torch.cuda.nccl.version()`. */
const BUNDLED =
  /\bnvidia-nccl-cu\d+ *(?:==)? *(\d+\.\d+\.\d+)|\bcuda\.nccl\.version\(\)[^\d]{1,20}(\d+), (\d+), (\d+)/;

export function noticeReader(context: FileContext): LineReader {
  let pinged: string | undefined;
  const add = (name: string, value: string, what: string): true => {
    context.job.values.push({ host: context.host, at: here(context), name, value: detached(value) });
    return kind(context, what);
  };
  return (line) => {
    if (line.length > 2000) return false;
    if (line.includes('ackend')) {
      const found = BACKEND.exec(line);
      if (found !== null) return add('framework.backend', found[1]!.toLowerCase(), 'framework');
    }
    if (line.startsWith('GPU available: ') && GPUS_USED.test(line))
      return add('framework.gpus', 'used', 'framework');
    if (line.includes('ASYNC_ERROR_HANDLING')) {
      const found = ERROR_HANDLING.exec(line);
      // Other readers look at the rest of the line.
      if (found !== null) add('framework.errorHandling', found[1]!, 'framework');
      return false;
    }
    if (line.includes(' cannot be retrieved (gai error') || line.includes('system is too old')) {
      const found = SAID.exec(line);
      if (found !== null) return add('framework.said', found[0], 'framework');
    }
    if (line.includes('nccl') && line.length < 400) {
      const found = BUNDLED.exec(line);
      if (found !== null)
        return add('framework.nccl', found[1] ?? [found[2], found[3], found[4]].join('.'), 'packages');
    }
    if (line.startsWith('--- ')) pinged = PING_HOST.exec(line)?.[1] ?? pinged;
    if (line.includes(' min/avg/max')) {
      const found = PING.exec(line);
      if (found !== null) return add(`ping.ms${pinged === undefined ? '' : ` ${pinged}`}`, found[1]!, 'ping');
    }
    if (/nable to enable p/i.test(line) && NO_PEER_ACCESS.test(line))
      return add('gpu.noPeerAccess', line.trim().slice(0, 200), 'framework');
    return memory(context, line);
  };
}

const AMOUNT = '[^\\d|]{0,16}?([\\d.]+) ?([KMG]i?B)?';
const ALLOCATED = new RegExp(`(?<!max[ _])\\ballocated\\b${AMOUNT}`, 'i');
const RESERVED = new RegExp(`(?<!max[ _])\\breserved\\b${AMOUNT}`, 'i');
/** `memory (MB) | allocated: 1.0`: the unit stands before. */
const UNIT_BEFORE = /\bmemory \(([KMG]i?B)\)/i;
const RANK = /\[?\brank ?(\d+)\b/i;

const SCALE: Readonly<Record<string, number>> = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };

/** Samples that are kept: enough to see a trend. */
const MAX_SAMPLES = 20_000;

/** `reserved 1.24 GB, allocated 0.00 GB` in any order, as programs print torch.cuda.memory_reserved. */
function memory(context: FileContext, line: string): boolean {
  if (line.length > 400 || !/reserved/i.test(line) || !/allocated/i.test(line)) return false;
  const allocated = ALLOCATED.exec(line);
  const reserved = RESERVED.exec(line);
  if (allocated === null || reserved === null) return false;
  const before = UNIT_BEFORE.exec(line)?.[1];
  const scale = (unit: string | undefined): number =>
    SCALE[(unit ?? before ?? reserved[2] ?? allocated[2] ?? ' ')[0]!.toUpperCase()] ?? 1;
  const values = [Number(allocated[1]) * scale(allocated[2]), Number(reserved[1]) * scale(reserved[2])];
  if (!values.every(Number.isFinite) || context.job.memory.length >= MAX_SAMPLES) return false;
  const rank = RANK.exec(line)?.[1];
  context.job.memory.push({
    host: context.host,
    at: here(context),
    rank: rank === undefined ? undefined : Number(rank),
    allocated: values[0]!,
    reserved: values[1]!,
  });
  return kind(context, 'framework');
}
