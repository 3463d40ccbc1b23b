/**
 * Whose output it is: where a line does not tell the host, the name of its file does, or the job has only one.
 */
import { hostsOfRun } from '../model/bench.js';
import type { Job } from '../model/job.js';
import type { Place } from '../model/place.js';

/** Words in names of files that are tools and kinds of content, not hosts. */
const TOOL_WORDS = new Set(
  (
    'show_gids gids gid nccl log logs txt out err stdout stderr json xml topo topology lspci vvv vv ibstat ibstatus ' +
    'ibv_devinfo nvidia smi nvlink nvidia-smi df shm lsmod ethtool counters host net dmesg ulimit sysctl ip addr ' +
    'rank worker node task job all_reduce all_reduce_perf bench perf trace dump flight ncclras ras status'
  ).split(' '),
);

/** Hosts that the job names itself. */
export function knownHosts(job: Job): string[] {
  const names = new Set<string>();
  for (const { host } of job.processes) names.add(host);
  for (const run of job.benches) for (const host of hostsOfRun(run)) names.add(host);
  for (const { host } of job.commands) if (host !== undefined) names.add(host);
  for (const { host } of job.dumps) if (host !== undefined) names.add(host);
  return [...names];
}

/** Every host that a fact of the job belongs to, also those that only names of files tell. */
export function allHosts(job: Job): string[] {
  const facts = [
    job.matrices,
    job.pci,
    job.gids,
    job.ports,
    job.links,
    job.counters,
    job.values,
    job.sockets,
    job.mounts,
    job.modules,
    job.interfaces,
    job.kernelEvents,
    job.events,
  ].flatMap((list): (string | undefined)[] => list.map(({ host }) => host));
  const paired = job.pairRows.flatMap(({ hosts }) => hosts);
  const names = [...knownHosts(job), ...facts, ...paired];
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** Fills in hosts that no line told. */
export function attributeHosts(job: Job): void {
  const known = knownHosts(job);
  const byFile = new Map<string, string | undefined>();
  const hostOf = (file: string): string | undefined => {
    if (!byFile.has(file)) byFile.set(file, hostOfFile(file, job, known));
    return byFile.get(file);
  };
  const fill = (facts: Iterable<{ host: string | undefined; readonly at: Place }>): void => {
    for (const fact of facts) fact.host ??= hostOf(fact.at.file);
  };
  fill(job.matrices);
  fill(job.pci);
  fill(job.gids);
  fill(job.ports);
  fill(job.links);
  fill(job.counters);
  fill(job.values);
  fill(job.sockets);
  fill(job.mounts);
  fill(job.modules);
  fill(job.interfaces);
  fill(job.kernelEvents);
  fill(job.memory);
  // One file of output per host is usual; a single file may hold the output of all.
  const isPerHost = new Set(job.events.map(({ at }) => at.file)).size > 1;
  for (const event of job.events) {
    // The machine that failed is another than the one that tells of it.
    if (event.kind === 'nodeFailure') continue;
    event.host ??= hostOf(event.at.file) ?? (isPerHost ? hostOfStem(event.at.file) : undefined);
  }
}

function hostOfFile(file: string, job: Job, known: readonly string[]): string | undefined {
  const writers = new Set(
    [...(job.files.find(({ name }) => name === file)?.processes ?? [])].map(({ host }) => host),
  );
  if (writers.size === 1) return [...writers][0];
  const name = file.replace(/^.*[/\\]/, '');
  const named = known.filter((host) => isWordOf(host, name)).sort((a, b) => b.length - a.length);
  if (named.length > 0) return named[0];
  const word = hostWord(name, job, known);
  if (word !== undefined) return word;
  return known.length === 1 ? known[0] : undefined;
}

/** A word of a name that is like a known host, or that stands where other files have another one. */
function hostWord(name: string, job: Job, known: readonly string[]): string | undefined {
  const words = wordsOf(name).filter((word) => !isToolWord(word));
  const [word] = words;
  if (word === undefined || words.length > 1) return undefined;
  if (known.some((host) => pattern(host) === pattern(word))) return word;
  const [before, after] = [name.slice(0, name.indexOf(word)), name.slice(name.indexOf(word) + word.length)];
  const isSeries = job.files.some(({ name: path }) => {
    const other = path.replace(/^.*[/\\]/, '');
    const isAlike =
      other.startsWith(before) && other.endsWith(after) && other.length > before.length + after.length;
    return other !== name && before !== '' && isAlike;
  });
  return isSeries ? word : undefined;
}

/** Names of one series of hosts differ in numbers. */
const pattern = (name: string): string => name.replace(/\d+/g, '#');

/** The host stands in the name as a word of its own. */
function isWordOf(host: string, name: string): boolean {
  const at = name.indexOf(host);
  if (at < 0) return false;
  const isEdge = (character: string | undefined): boolean =>
    character === undefined || !/[\w-]/.test(character);
  return isEdge(name[at - 1]) && isEdge(name[at + host.length]);
}

const wordsOf = (name: string): string[] => name.split('.').filter((word) => word !== '');

const isToolWord = (word: string): boolean =>
  TOOL_WORDS.has(word.toLowerCase()) ||
  /^\d+$/.test(word) ||
  word.toLowerCase().split(/[-_]/).every(isToolPart);

/** `rank0` is no host; `node17` is one. */
const isToolPart = (part: string): boolean =>
  /^(?:node|host|worker)\d/.test(part)
    ? false
    : TOOL_WORDS.has(part.replace(/\d+$/, '')) || /^\d+$/.test(part);

/** For logs that name no host at all: `node-b.out` is taken to come from node-b. */
function hostOfStem(file: string): string | undefined {
  const [stem] = wordsOf(file.replace(/^.*[/\\]/, ''));
  return stem !== undefined && /[a-z]/i.test(stem) && !TOOL_WORDS.has(stem.toLowerCase()) ? stem : undefined;
}
