/**
 * Prompts and commands between outputs: `host$ lsmod`, `[host ~]# ss -s`, `user@host:/tmp# df`, `host: ethtool -S eth0`,
 * `+ srun -n 8 ./all_reduce_perf`. They tell whose output follows, and which variables it ran with.
 */
import type { CommandLine } from '../model/bench.js';
import { type FileContext, here, kind, type LineReader } from './file-context.js';

const PROMPTS = [
  /^\[(?:[\w.-]+@)?([\w.-]+)(?: [^\]]{0,200})?\][#$%] (.+)$/, // [user@host dir]# command
  /^(?:[\w.-]+@)([\w.-]+):[^#$]{0,200}[#$] (.+)$/, // user@host:dir$ command
  /^([\w.-]+)[#$%>] (.+)$/, // host$ command
  /^([\w.-]+): ((?:ethtool|cat|lspci|ip|show_gids|ibstat\w*|nvidia-smi|df|ulimit|lsmod|ss|sysctl|dmesg|numactl)\b.*)$/,
  /^()[$#+] (\S.*)$/, // $ command
] as const;

const VARIABLE = /(?:^|\s)(?:-x\s+|--export=\S*?|-e\s+)?([A-Z][A-Z0-9_]*)=(\S*)/g;
const PROCESSES = /\s(?:-np|-n|--n|-c|--ntasks)[= ](\d+)\b/;
const LAUNCHER = /\b(?:mpirun|mpiexec|srun|prun|orterun|torchrun)\b/;

export function commandLine(text: string, at: CommandLine['at']): CommandLine {
  const environment = new Map<string, string>();
  for (const [, name, value] of text.matchAll(VARIABLE)) environment.set(name!, value!);
  const processes = LAUNCHER.test(text) ? PROCESSES.exec(text)?.[1] : undefined;
  return { text, at, environment, processes: processes === undefined ? undefined : Number(processes) };
}

/** A shell that does not have the program: the output that was to be here is not. */
const NOT_FOUND =
  /^(?:\S+: (?:line \d+: )?[\w./-]{1,100}: command|\S*sh: (?:line )?\d+: [\w./-]{1,100}:) not found$/;

export function shellReader(context: FileContext): LineReader {
  return (line) => {
    if (line.endsWith('not found') && line.length < 300 && NOT_FOUND.test(line))
      return kind(context, 'shell');
    if (line.length > 2000 || !/[#$%>:+]/.test(line.slice(0, 300))) return false;
    for (const pattern of PROMPTS) {
      const found = pattern.exec(line);
      if (found === null) continue;
      const [, host = '', text = ''] = found;
      // `# nccl-tests version`, `#   size  count` and Markdown are no prompts.
      if (line.startsWith('#')) return false;
      if (host !== '') context.host = host;
      context.command = commandLine(text, here(context));
      context.job.commands.push({ host: host === '' ? undefined : host, text, at: here(context) });
      return kind(context, 'shell');
    }
    return false;
  };
}
