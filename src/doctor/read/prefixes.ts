/**
 * What launchers, containers and collectors of logs put before the lines of a program.
 */

/** Forms of prefixes, each at the beginning of what the ones before it have left. */
const FORMS: readonly RegExp[] = [
  // Times: of container logs, of loggers.
  /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? /,
  // CRI, behind its time: `stdout F `.
  /^std(?:out|err) [FP] /,
  // mpirun: `[1,0]<stdout>:`, `[1,0]<stdout> (host):`, `[prterun-host-123@1,0]<stdout>:`.
  /^\[(?:[\w.-]{1,200}@)?\d+,\d+\](?:<std(?:out|err)>)?(?: \([\w.-]{1,200}\))?: ?/,
  // kubectl logs --prefix and stern.
  /^\[pod\/[^\]]{1,200}\] /,
  // docker compose: `worker-0-1  | `; loggers: `INFO 2025-05-01 10:00:00,123 | node0 | `.
  /^(?:(?:DEBUG|INFO|WARNING|ERROR) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \| )?[\w.-]{1,200} *\| /,
  // journald and syslog, but not what the kernel says.
  /^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,200} (?!kernel:)[\w./-]{1,100}(?:\[\d+\])?: /,
  // Ray: `(RayTrainWorker pid=1000, ip=10.0.0.1) `.
  /^\([\w.:-]{1,100}(?:,? (?:rank|pid|ip|index)=[\w.:-]{1,60})+(?:, [\w.:-]+=[\w.:-]+){0,4}\) /,
  // Quoted in mails and issues.
  /^> ?/,
];

/** Prefixes that stand before each other. */
const MAX_DEPTH = 4;

/** The line without one prefix after the other; nothing for a line without. */
export function* withoutPrefixes(line: string): Generator<string> {
  let rest = line;
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const found = FORMS.map((form) => form.exec(rest)).find((one) => one !== null);
    if (found === undefined || found === null) return;
    rest = rest.slice(found[0].length);
    yield rest;
  }
}

const TIMES =
  /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d/g;

/** A prefix without its time: the same for all lines of one process. */
export const timeless = (prefix: string): string =>
  /\d:\d\d/.test(prefix) ? prefix.replace(TIMES, '') : prefix;
