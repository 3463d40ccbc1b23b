/**
 * Limits and states of the system: sysctl, ulimit, df, ss, lsmod, counters of adapters, the kernel's log.
 */
import type { KernelModules } from '../../model/machine.js';
import { detached } from '../detached.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';
import { bytesOf } from '../quantity.js';

const SYSCTL = /^((?:net|kernel|vm|fs)\.[\w.]+) ?= ?(.*)$/;
const ULIMITS = [
  ['ulimit.memlock', /^max locked memory\s+\(kbytes, -l\)\s+(\S+)|^Max locked memory\s+(\S+)/],
  ['ulimit.nofile', /^open files\s+\(-n\)\s+(\S+)|^Max open files\s+(\S+)/],
] as const;

export function settingsReader(context: FileContext): LineReader {
  const add = (name: string, value: string): true => {
    context.job.values.push({ host: context.host, at: here(context), name, value });
    return kind(context, 'system settings');
  };
  return (line) => {
    const first = line.charCodeAt(0);
    if (first === 32 || first === 9 || line.length > 300) return false;
    const sysctl = SYSCTL.exec(line);
    if (sysctl !== null) return add(sysctl[1]!, sysctl[2]!.trim().replace(/\s+/g, ' '));
    const command = context.command?.text ?? '';
    const asked = /^ulimit -([ln])$/.exec(command.trim())?.[1];
    if (asked !== undefined && /^(?:\d+|unlimited)$/.test(line)) {
      return add(asked === 'l' ? 'ulimit.memlock' : 'ulimit.nofile', line);
    }
    if (/^(?:max|Max|open) /.test(line)) {
      for (const [name, pattern] of ULIMITS) {
        const found = pattern.exec(line);
        if (found !== null) return add(name, (found[1] ?? found[2])!);
      }
    }
    return false;
  };
}

const DF = /^(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\d{1,3})%\s+(\/\S*)\s*$/;
const DF_HEADER = /^Filesystem\s+(1K-blocks|1024-blocks|Size|1M-blocks|1B-blocks|Inodes)\b/;

export function diskReader(context: FileContext): LineReader {
  let unit: number | undefined;
  return (line) => {
    if (line.length > 500) return false;
    const header = DF_HEADER.exec(line);
    if (header !== null) {
      const units: Readonly<Record<string, number>> = { Size: 1, '1M-blocks': 1 << 20, '1B-blocks': 1 };
      unit = header[1] === 'Inodes' ? undefined : (units[header[1]!] ?? 1024);
      return kind(context, 'df');
    }
    if (unit === undefined || !line.includes('%')) return false;
    const found = DF.exec(line);
    if (found === null) return false;
    const size = bytesOf(found[2]!);
    const free = bytesOf(found[4]!);
    if (size === undefined || free === undefined) return false;
    const scale = /^\d+$/.test(found[2]!) ? unit : 1;
    context.job.mounts.push({
      host: context.host,
      at: here(context),
      path: found[6]!,
      bytes: size * scale,
      freeBytes: free * scale,
    });
    return true;
  };
}

const SS_TOTAL = /^TCP:\s+(\d+) \(estab /;

export function socketSummaryReader(context: FileContext): LineReader {
  return (line) => {
    if (!line.startsWith('TCP:')) return false;
    const found = SS_TOTAL.exec(line);
    if (found === null) return false;
    context.job.sockets.push({ host: context.host, at: here(context), tcp: Number(found[1]) });
    return kind(context, 'ss');
  };
}

const MODULE = /^([a-z][\w]*)\s+(\d+)\s+(\d+)(?:\s+[\w,-]+)?\s*$/;

export function moduleReader(context: FileContext): LineReader {
  let modules: KernelModules | undefined;
  let command: unknown;
  return (line) => {
    const isAsked = /\blsmod\b/.test(context.command?.text ?? '');
    if (/^Module\s+Size\s+Used by/.test(line) || (isAsked && context.command !== command)) {
      command = context.command;
      modules = { host: context.host, at: context.command?.at ?? here(context), names: new Map() };
      context.job.modules.push(modules);
      kind(context, 'lsmod');
    }
    if (modules === undefined || line.length > 500) return false;
    const found = MODULE.exec(line);
    if (found === null) return false;
    modules.names.set(found[1]!, here(context));
    return true;
  };
}

const COUNTER =
  /^\s*(\w+(?:discard|drop|pause|out_of_seq|seq_err|timeout_err|crc|symbol|retry|cnp|ecn)\w*):\s+(\d+)\s*$/;

/** `perfquery`. */
const PORT_COUNTER =
  /^(SymbolErrorCounter|LinkErrorRecoveryCounter|LinkDownedCounter|PortRcvErrors|LocalLinkIntegrityErrors|PortXmitDiscards):\.+(\d+)\s*$/;

/** Whose counters a command asks for: `perfquery -C mlx5_2`, `ethtool -S eth2`. */
const ASKED = /\b(?:perfquery\b.*(?:-C|--Ca)[ =]?(\S+)|ethtool\b.*(?:-S|--statistics) (\S+))/;

export function counterReader(context: FileContext): LineReader {
  return (line) => {
    if (line.length > 120 || !/:[ .]/.test(line)) return false;
    const found = COUNTER.exec(line) ?? PORT_COUNTER.exec(line);
    if (found === null) return false;
    const asked = ASKED.exec(context.command?.text ?? '');
    const of = asked?.[1] ?? asked?.[2];
    context.job.counters.push({
      host: context.host,
      at: here(context),
      name: found[1]!,
      value: Number(found[2]),
      ...(of === undefined ? {} : { of }),
    });
    return kind(context, 'counters');
  };
}

/** The library found an adapter in the system, and nothing in the image that drives it. */
const NO_DRIVER = /^libibverbs: Warning: no userspace device-specific driver found for (\S+)/;

/** What the library of adapters says on standard error, before NCCL's lines. */
export function verbsReader(context: FileContext): LineReader {
  return (line) => {
    if (!line.startsWith('libibverbs: ')) return false;
    const found = NO_DRIVER.exec(line.slice(0, 300));
    if (found !== null)
      context.job.values.push({
        host: context.host,
        at: here(context),
        name: 'libibverbs.driverless',
        value: detached(found[1]!),
      });
    return kind(context, 'libibverbs');
  };
}

const SXID = /nvidia-nvswitch\d*: SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+), (?:Fatal|fatal)\b,? ?(.*)$/;
const ADAPTER_LINK = /\bmlx[45]_core ([0-9a-f:.]+) (\w[\w.-]*): Link (up|down)\b/;
/** Of the driver of adapters: what is broken, apart from cables that are pulled and notes about slots. */
const ADAPTER_FAULT =
  /\bmlx[45]_core ([0-9a-f:.]+)[^:]*: (?:\w+:\d+:\(pid \d+\): ?)?((?:Port module event\[error\]|.*\bhealth (?:compromised|recovery)|.*firmware internal error|.*Fatal error|High temperature).*)$/i;
/** File servers, and tasks that wait for what does not come. */
const SERVER = /\b(?:nfs|NFS): server (\S+) (not responding|OK)\b/;
const BLOCKED = /INFO: task (\S+?):(\d+) blocked for more than \d+ seconds/;
const XID = /NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),? ?(.*)$/;
const KILLED = /(?:Out of memory: Killed process|Memory cgroup out of memory: Killed process) (\d+)/;
const IOMMU = /(?:DMAR|AMD-Vi): .*(?:\bfault (?:addr|status)|IO_PAGE_FAULT)/;

/** Events that are kept of one file: a broken link reports itself for days. */
const MAX_EVENTS = 2000;

export function kernelLogReader(context: FileContext): LineReader {
  let count = 0;
  return (line) => {
    if (line.length > 1000 || count >= MAX_EVENTS) return false;
    const base = { host: context.host, at: here(context) };
    if (line.includes('NVRM: Xid')) {
      const found = XID.exec(line);
      if (found === null) return false;
      context.job.kernelEvents.push({
        ...base,
        kind: 'xid',
        device: found[1]!,
        number: Number(found[2]),
        text: found[3]!.slice(0, 200),
      });
      count++;
      return kind(context, 'kernel log');
    }
    if (line.includes(': SXid ')) {
      const found = SXID.exec(line);
      // Others are notes of the driver about links that come up again.
      if (found === null) return /nvidia-nvswitch/.test(line) && kind(context, 'kernel log');
      context.job.kernelEvents.push({
        ...base,
        kind: 'sxid',
        device: found[1]!,
        number: Number(found[2]),
        text: found[3]!.slice(0, 200),
      });
      count++;
      return kind(context, 'kernel log');
    }
    if (line.includes(': server ') || line.includes('INFO: task ')) {
      const server = SERVER.exec(line);
      const task = server === null ? BLOCKED.exec(line) : null;
      if (server === null && task === null) return false;
      context.job.kernelEvents.push({
        ...base,
        kind: 'storage',
        of: server !== null ? server[1]! : `${task![1]} (process ${task![2]})`,
        isTask: server === null,
        isOver: server?.[2] === 'OK',
      });
      count++;
      return kind(context, 'kernel log');
    }
    if (line.includes('_core ')) {
      const link = ADAPTER_LINK.exec(line);
      const fault = link === null ? ADAPTER_FAULT.exec(line) : null;
      if (link !== null) {
        const [, device, name, state] = link;
        context.job.kernelEvents.push({
          ...base,
          kind: 'adapterLink',
          device: device!,
          interface: name!,
          isUp: state === 'up',
        });
      } else if (fault !== null) {
        context.job.kernelEvents.push({
          ...base,
          kind: 'adapterFault',
          device: fault[1]!,
          text: fault[2]!.slice(0, 200),
        });
      } else return /\bmlx[45]_core [0-9a-f]{4}:/.test(line) && kind(context, 'kernel log');
      count++;
      return kind(context, 'kernel log');
    }
    if (line.includes('ut of memory: Killed process')) {
      const found = KILLED.exec(line);
      if (found === null) return false;
      context.job.kernelEvents.push({
        ...base,
        kind: 'outOfMemory',
        pid: Number(found[1]),
        text: line.slice(0, 200),
      });
      count++;
      return kind(context, 'kernel log');
    }
    if ((line.includes('DMAR') || line.includes('AMD-Vi')) && IOMMU.test(line)) {
      count++;
      context.job.kernelEvents.push({ ...base, kind: 'iommuFault', text: line.slice(0, 200) });
      return kind(context, 'kernel log');
    }
    return false;
  };
}
