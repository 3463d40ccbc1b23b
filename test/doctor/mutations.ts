/**
 * Ways to say the same: files as other launchers, terminals, hosts and versions would have left them. Every mutation
 * gives files and the answer that is right for them.
 */
import type { Case, Cited, Expected } from './case-files.js';

export interface Mutated {
  readonly files: ReadonlyMap<string, string>;
  readonly expected: Expected;
}

export type Mutation = (one: Case) => Mutated;

const HEADER = /^(?:\[[\d: -]+\] )?[\w.-]+:\d+:\d+ \[\d+\]/;

const isLog = (text: string): boolean => text.split('\n').some((line) => HEADER.test(line));

const mapLines = (text: string, change: (line: string, i: number) => string): string =>
  text.split('\n').map(change).join('\n');

/** Lines of NCCL's log with something before them. */
const prefixed =
  (prefix: (i: number) => string): Mutation =>
  ({ files, expected }) => ({
    expected,
    files: new Map(
      [...files].map(([name, text]) => [
        name,
        isLog(text) ? mapLines(text, (line, i) => (line === '' ? line : prefix(i) + line)) : text,
      ]),
    ),
  });

/** Every line of every text file changed, documents left as they are. */
const everyLine =
  (change: (line: string, i: number) => string): Mutation =>
  ({ files, expected }) => ({
    expected,
    files: new Map([...files].map(([name, text]) => [name, mapLines(text, change)])),
  });

/** Another name for every host of the case, in files, names of files and answer alike. */
const renamed: Mutation = (one) => {
  const names = hostsOf(one);
  const pairs = names.map((name, i) => [name, `zeta-${String.fromCharCode(97 + i)}x`] as const);
  const change = (text: string): string =>
    pairs.reduce((result, [from, to]) => result.replaceAll(from, to), text);
  return {
    files: new Map([...one.files].map(([name, text]) => [change(name), change(text)])),
    expected: JSON.parse(change(JSON.stringify(one.expected))) as Expected,
  };
};

/** Names of hosts that logs and tables of a case show, longest first. */
export function hostsOf({ files }: Case): string[] {
  const found = new Set<string>();
  for (const text of files.values()) {
    for (const [, host] of text.matchAll(/^(?:\[[\d: -]+\] )?([\w.-]+):\d+:\d+ \[/gm)) found.add(host!);
    for (const [, host] of text.matchAll(/Pid +\d+ on +(\S+) device/g)) found.add(host!);
    for (const [, host] of text.matchAll(/"host": "([^"]+)"/g)) found.add(host!);
  }
  return [...found].filter((host) => /[a-z]/.test(host)).sort((a, b) => b.length - a.length);
}

/** All logs of NCCL in one file, taken in turns: as the output of a launcher is. */
const interleaved: Mutation = ({ files, expected }) => {
  const logs = [...files]
    .filter(([, text]) => isLog(text))
    .map(([name, text]) => [name, text.split('\n')] as const);
  const lines: string[] = [];
  const places = new Map<string, number>();
  const longest = Math.max(0, ...logs.map(([, all]) => all.length));
  for (let i = 0; i < longest; i++) {
    for (const [name, all] of logs) {
      if (all[i] === undefined) continue;
      lines.push(all[i]!);
      places.set(`${name}:${i + 1}`, lines.length);
    }
  }
  const move = (one: Cited): Cited => {
    const line = places.get(`${one.file}:${one.line}`);
    return line === undefined ? one : { file: 'all.log', line };
  };
  return {
    files: new Map([
      ...[...files].filter(([, text]) => !isLog(text)),
      ...(logs.length === 0 ? [] : [['all.log', lines.join('\n')] as const]),
    ]),
    expected: {
      ...expected,
      verdicts: expected.verdicts.map((one) => ({
        ...one,
        evidence: one.evidence.map(move),
        consequences: (one.consequences ?? []).map((other) => ({
          ...other,
          evidence: other.evidence.map(move),
        })),
      })),
    },
  };
};

/** Other process and thread numbers, and source lines of another version. */
const renumbered = everyLine((line) =>
  line
    .replace(
      /^((?:\[[\d: -]+\] )?[\w.-]+):(\d+):(\d+) /,
      (_, host: string, pid: string, tid: string) =>
        `${host}:${Number(pid) + 70_000}:${Number(tid) + 70_000} `,
    )
    .replace(
      /\b(\w+\/?\w+\.cc):(\d+)/g,
      (_, file: string, number: string) => `${file}:${Number(number) + 17}`,
    ),
);

/** NCCL 2.30 writes the function behind the source line of warnings, and the rank before the name of the call. */
const newer = everyLine((line) =>
  line
    .replace(/(\w+\.cc:\d+) NCCL WARN/, '$1 (someFunction) NCCL WARN')
    .replace(/NCCL INFO (ncclComm\w+ comm \S+ rank (\d+))/, 'NCCL INFO [Rank $2] $1'),
);

export const MUTATIONS: Readonly<Record<string, Mutation>> = {
  'with the prefix of mpirun -tag-output': prefixed((i) => `[1,${i % 3}]<stdout>:`),
  'with the prefix of srun -l': prefixed((i) => ` ${i % 3}: `),
  'with the prefix of kubectl logs': prefixed(() => '[pod/trainer-0/pytorch] '),
  'with the time stamps of a container log': prefixed(() => '2026-10-14T08:51:37.123456789Z '),
  'with Windows line ends': everyLine((line) => `${line}\r`),
  'with colours': everyLine((line) =>
    line === '' || line.startsWith('{') || line.startsWith('<') || /^\s*["[\]{}<]/.test(line)
      ? line
      : `\u001b[32m${line}\u001b[0m`,
  ),
  'with other hosts': renamed,
  'with all logs in one file': interleaved,
  'with other processes and source lines': renumbered,
  'in the words of a newer version': newer,
};
