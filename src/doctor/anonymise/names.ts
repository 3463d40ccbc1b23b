/**
 * Names of hosts and users in texts, told by what stands around them: variables, command lines, addresses of services,
 * prompts, system logs, and names with a domain.
 */

export interface Naming {
  /** Gives what stands in place of a host. */
  readonly host: (name: string) => string;
  /** Gives what stands in place of a user. */
  readonly user: (name: string) => string;
}

const HOST = '[A-Za-z0-9](?:[\\w.-]{0,250}[A-Za-z0-9])?';

/** Variables and fields of hosts; the value of those with `=` may be any word. */
const HOST_FIELD = new RegExp(
  `((?<![A-Za-z0-9])(?:host(?:_?name)?|node_?name|submit_?host|(?:master|head|main)_?(?:addr(?:ess)?|host|node)|` +
    `coordinator(?:_addr(?:ess)?)?|rdzv[_-](?:endpoint|host)|server_?name)["']?\\s*(=|:)\\s*["']?)(${HOST})`,
  'gi',
);

/** Lists: `SLURM_NODELIST=gpu-[01-04]`, `-H a:8,b:8`. */
const HOST_LIST =
  /((?:node_?list|host_?list|(?<=\s)--hosts?|(?<=\s)-H|(?<=\s)--exclude)["']?(?: ?= ?|: ?| )["']?)([A-Za-z][\w.,:[\]-]{1,4000})/gi;
const LIST_ITEM = /(?<![\w\]-])([A-Za-z][\w.-]*(?:\[[\d,-]+\])?)/g;

/** Words before which a host stands that is only told by its form. */
const HOST_AFTER = new RegExp(
  `((?:(?<![\\w/])(?:ssh|scp|rsync|sftp|ping) +(?:-\\w+ +(?:\\d+ +)?){0,4}|(?<=[a-z]):\\/\\/|\\bsrun: error: |^\\[pod/|\\b(?:node is|connect(?:ed)? to|hosts?) ))(${HOST})`,
  'gim',
);

/** `May  1 10:00:00 node7 kernel:` and `2026-11-03T02:17:12+00:00 node7 kernel:`. */
const SYSTEM_LOG = new RegExp(
  `^((?:[A-Z][a-z]{2} [ \\d]\\d \\d\\d:\\d\\d:\\d\\d|\\d{4}-\\d\\d-\\d\\dT[\\d:.]+(?:Z|[+-]\\d\\d:?\\d\\d)) )(${HOST})(?= [\\w./-]+(?:\\[\\d+\\])?: )`,
  'gm',
);

/** `alice@node7`, in prompts, before paths, and after programs that log in. */
const AT_HOST = new RegExp(
  `((?:(?<![\\w/])(?:ssh|scp|rsync|sftp) +(?:-\\w+ +(?:\\d+ +)?){0,4}|(?<![\\w.@/-])))([A-Za-z_][\\w.-]{0,63})@(${HOST})(?=(:[~/]| [\\w~/.-]+\\][$#])|)`,
  'g',
);

const USER_FIELD =
  /((?<![A-Za-z0-9])(?:user(?:_?name)?|logname|job_?user|login|uid|owner|submitted by|user id)["']?(?: ?= ?|: ?| (?=[a-z]+\b by))["']?(?:\d+\()?)([A-Za-z_][\w-]{0,31})(?![\w.@-]*@)/gi;
const USER_FOLDER = /(\/(?:home|Users|users|user)\/)([\w.-]+)/g;

/** Last labels of names with a domain: with these, two labels are enough. */
const TOP =
  'com|org|net|edu|gov|mil|corp|local|lan|internal|intranet|private|localdomain|cluster|hpc|cloud|ac|svc';
/** With these, three labels: some are endings of files and names of modules as well. */
const COUNTRY =
  'ai|at|au|be|br|ca|ch|cn|co|cz|de|dev|dk|es|eu|fi|fr|hk|ie|il|in|io|it|jp|kr|lab|mx|nl|no|nz|pl|pt|ru|se|sg|sk|systems|tech|tr|tw|uk|us|za';
const FULL_NAME = new RegExp(
  `(?<![\\w./-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){1,8}(?:${TOP})(?:\\.(?:${COUNTRY}))?(?![\\w-]|\\.\\w|\\()|` +
    `(?<![\\w./-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){2,8}(?:${COUNTRY})(?![\\w-]|\\.\\w|\\()`,
  'g',
);

/** Domains that everybody's logs name, in links to documentation and packages. */
const PUBLIC =
  /(?:^|\.)(?:github\.com|githubusercontent\.com|gitlab\.com|pytorch\.org|python\.org|pypi\.org|nvidia\.com|nvcr\.io|docker\.(?:io|com)|ghcr\.io|quay\.io|huggingface\.co|wandb\.ai|open-mpi\.org|kernel\.org|kubernetes\.io|ubuntu\.com|debian\.org|redhat\.com|schedmd\.com|mellanox\.com|google\.com|googleapis\.com|amazonaws\.com|microsoft\.com|anaconda\.(?:org|com)|conda\.io|readthedocs\.io|stackoverflow\.com|tensorflow\.org|deepspeed\.ai|lightning\.ai|svc\.cluster\.local|cluster\.local)$/i;

const FILE =
  /\.(?:py|pyc|so|cc?|cpp|h|hpp|cuh?|js|ts|log|txt|out|err|json|ya?ml|toml|sh|xml|conf|cfg|gz|tar|zip|pt|bin|md)$/i;
const NO_HOST =
  /^(?:localhost(?:\..*)?|none|null|true|false|unknown|undefined|any|all|self|error|the|a|an|(?:eth|ib|ens|eno|enp|mlx\d?|bond|docker|veth|rank|default|cuda|gpu|cpu|numa|task|port|group)_?\d[\w.]*|\d[\d.:x]*|0x[\da-f]+)$/i;
const NO_USER =
  /^(?:root|user|users|nobody|unknown|none|null|true|false|name|error|id|is|in|of|not|defined|space|mode|the|program|function|code|data|shared|public|[\d.]+)$/i;

/** A word that tells by its form that it is a name. */
export const isDistinct = (name: string): boolean => /[\d.-]/.test(name) && /[A-Za-z]/.test(name);

const isHost = (name: string): boolean =>
  name.length > 1 && /[A-Za-z]/.test(name) && !NO_HOST.test(name) && !FILE.test(name) && !PUBLIC.test(name);

/** The text with names of hosts and users replaced where their surroundings tell them. */
export function withoutNames(text: string, { host, user }: Naming): string {
  return text
    .replace(AT_HOST, (whole, before: string, name: string, at: string, prompt: string | undefined) => {
      const isLogin = before !== '' || prompt !== undefined;
      const isMail = new RegExp(`^(?:${FULL_NAME.source})$`).test(at);
      if ((!isLogin && !isMail) || !/[A-Za-z]/.test(at)) return whole;
      const isService = name === 'git' || NO_USER.test(name);
      return `${before}${isService ? name : user(name)}@${isHost(at) ? host(at) : at}`;
    })
    .replace(HOST_FIELD, (whole, before: string, sign: string, name: string) =>
      isHost(name) && (isDistinct(name) || (sign === '=' && /=["']?$/.test(before)))
        ? before + host(name)
        : whole,
    )
    .replace(
      HOST_LIST,
      (_, before: string, list: string) =>
        before +
        list.replace(LIST_ITEM, (name: string) => (isHost(name) && isDistinct(name) ? host(name) : name)),
    )
    .replace(SYSTEM_LOG, (whole, before: string, name: string) =>
      isHost(name) && name !== 'stdout' && name !== 'stderr' ? before + host(name) : whole,
    )
    .replace(HOST_AFTER, (whole, before: string, name: string) =>
      isHost(name) && isDistinct(name) && !/^(?:s3|gs):/.test(before) ? before + host(name) : whole,
    )
    .replace(FULL_NAME, (name) => (isHost(name) ? host(name) : name))
    .replace(USER_FIELD, (whole, before: string, name: string) =>
      NO_USER.test(name) ? whole : before + user(name),
    )
    .replace(USER_FOLDER, (_, folder: string, name: string) => folder + user(name));
}
