/**
 * Opens a recorded machine: a file that `recordMachine` made, or any archive or directory that holds a copy of /sys.
 *
 * A copy of /sys alone (`tar czf sys.tgz --hard-dereference /sys/...`) tells less than a recording: no GPU facts, and
 * interfaces only as far as /sys/class/net shows which are up. The tree may stand one or two folders down.
 */
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { TuttiError } from '../../errors/tutti-error.js';
import type { NetworkInterface } from '../../system/interfaces.js';
import { cInteger } from '../c-integer.js';
import { hashText } from '../hash.js';
import type { Environment } from '../settings.js';
import { archiveTree } from './archive-tree.js';
import { type CpuFacts, readCpuFacts } from './cpu-facts.js';
import { directoryTree } from './directory-tree.js';
import { readInput } from './input-file.js';
import type { Machine } from './machine.js';
import { type FileTree, MachineFiles } from './machine-files.js';
import { checkNvmlFacts, type NvmlFacts } from './nvml-facts.js';
import { lineOf } from './sysfs-text.js';
import { readArchive } from './tar.js';

/** Where a recording keeps what is not a file of the machine. */
export const FACTS_FILE = 'tutti-machine.json';

/** Version of the form of that file. */
export const FACTS_VERSION = 1;

/** Bytes of an archive file: recordings have some ten thousand, a whole /sys a few million. */
const MAX_FILE_BYTES = 64 << 20;

/** Folders between the start of an archive or directory and the tree, at most. */
const MAX_DEPTH = 2;

/** What a recording tells beside the machine's files. */
export interface RecordedFacts {
  readonly cpu: CpuFacts | undefined;
  readonly nvml: NvmlFacts | undefined;
  /** Why there are no facts of NVML; empty where there are some or a recording does not say. */
  readonly nvmlProblem: string;
  readonly interfaces: readonly NetworkInterface[];
  readonly queuePairs: ReadonlyMap<string, number>;
  readonly hostHash: bigint;
  readonly environment: Environment;
}

/**
 * The machine that `path` describes, a file (.tgz, .tar) or a directory.
 *
 * @throws TuttiError invalidArgument where it cannot be read or describes no machine.
 */
export function recordedMachine(path: string): Machine {
  const whole = treeAt(path);
  const prefix = rootOf(whole);
  if (prefix === undefined) {
    throw new TuttiError(
      'invalidArgument',
      `${path} describes no machine: it has neither sys/class nor sys/devices, at its top or up to ${MAX_DEPTH} ` +
        'folders down; `tutti topo --record FILE` makes one that does',
    );
  }
  const tree = below(whole, prefix);
  const files = new MachineFiles(tree);
  const facts = factsOf(files, path);
  return {
    source: basename(path),
    tree,
    files,
    ...facts,
    nvmlProblem:
      facts.nvmlProblem || (facts.nvml === undefined ? `${basename(path)} holds no facts of NVML` : ''),
  };
}

function treeAt(path: string): FileTree {
  try {
    if (statSync(path).isDirectory()) return directoryTree(path);
    return archiveTree(readArchive(readInput(path, MAX_FILE_BYTES), path), path);
  } catch (cause) {
    if (TuttiError.is(cause)) throw cause;
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('invalidArgument', `cannot open the recorded machine ${path}: ${text}`, { cause });
  }
}

/** The folder that stands for the machine's root directory: the highest one with a part of /sys. */
function rootOf(tree: FileTree): string | undefined {
  const isDirectory = (path: string) => tree.entry(path)?.kind === 'directory';
  let level = [''];
  for (let depth = 0; depth <= MAX_DEPTH; depth++) {
    const found = level.find((at) => isDirectory(`${at}/sys/class`) || isDirectory(`${at}/sys/devices`));
    if (found !== undefined) return found;
    level = level.flatMap((at) =>
      (tree.names(at === '' ? '/' : at) ?? []).map((name) => `${at}/${name}`).filter(isDirectory),
    );
  }
  return undefined;
}

function below(tree: FileTree, prefix: string): FileTree {
  if (prefix === '') return tree;
  return {
    entry: (path) => tree.entry(prefix + path),
    text: (path) => tree.text(prefix + path),
    names: (path) => tree.names(prefix + path),
  };
}

function factsOf(files: MachineFiles, path: string): RecordedFacts {
  const text = files.text(`/${FACTS_FILE}`);
  if (text === undefined) return factsOfTree(files);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(text, 'latin1').toString('utf8'));
  } catch (cause) {
    throw new TuttiError('invalidArgument', `${FACTS_FILE} in ${path} is not JSON text`, { cause });
  }
  return checkFacts(value, `${FACTS_FILE} in ${path}`);
}

/** Without facts: what the files themselves tell. */
function factsOfTree(files: MachineFiles): RecordedFacts {
  return {
    cpu: readCpuFacts(files),
    nvml: undefined,
    nvmlProblem: '',
    interfaces: interfacesOf(files),
    queuePairs: new Map(),
    hostHash: hashText(''),
    environment: {},
  };
}

/** IFF_UP and IFF_LOOPBACK of the flags of an interface. */
const UP = 0x1n;
const LOOPBACK = 0x8n;

/** Interfaces that were up, in the kernel's order. A copy of /sys has no addresses; made-up ones stand for them. */
function interfacesOf(files: MachineFiles): NetworkInterface[] {
  const folder = '/sys/class/net';
  const number = (name: string, file: string) => cInteger(lineOf(files, `${folder}/${name}/${file}`) ?? '');
  return files
    .names(folder)
    .filter((name) => files.realPath(`${folder}/${name}/flags`) !== undefined)
    .filter((name) => (number(name, 'flags') & UP) !== 0n)
    .filter((name) => /^(up|unknown)$/.test(lineOf(files, `${folder}/${name}/operstate`) ?? 'unknown'))
    .sort((a, b) => Number(number(a, 'ifindex') - number(b, 'ifindex')))
    .map((name, index) => ({
      name,
      ...replacementAddress(index, 'IPv4'),
      internal: (number(name, 'flags') & LOOPBACK) !== 0n,
    }));
}

/** An address of the ranges that are reserved for documentation (RFC 5737, RFC 3849). */
export function replacementAddress(
  index: number,
  family: NetworkInterface['family'],
): Pick<NetworkInterface, 'address' | 'family' | 'prefixLength'> {
  return family === 'IPv4'
    ? { address: `192.0.2.${(index % 254) + 1}`, family, prefixLength: 24 }
    : { address: `2001:db8::${(index + 1).toString(16)}`, family, prefixLength: 64 };
}

type Form = (value: unknown) => boolean;
const isText: Form = (value) => typeof value === 'string' && value.length <= 253;
/** A list in a variable may name every device of a machine. */
const isVariable: Form = (value) => typeof value === 'string' && value.length <= 4096;
const isNumber: Form = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isAbsentOr =
  (form: Form): Form =>
  (value) =>
    value === undefined || form(value);
const isObject: Form = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

const CPU_FIELDS: Readonly<Record<keyof CpuFacts, Form>> = {
  arch: (value) => typeof value === 'string' && /^\w{1,32}$/.test(value),
  vendor: isAbsentOr((value) => typeof value === 'string' && /^[ !#-~]{1,253}$/.test(value)),
  family: isAbsentOr(isNumber),
  model: isAbsentOr(isNumber),
  name: isAbsentOr(isText),
};

const INTERFACE_FIELDS: Readonly<Record<keyof NetworkInterface, Form>> = {
  // A name is one part of a path; the kernel allows 15 characters.
  name: (value) => typeof value === 'string' && /^[!#-.0-~]{1,64}$/.test(value) && !/^\.+$/.test(value),
  address: isText,
  family: (value) => value === 'IPv4' || value === 'IPv6',
  prefixLength: (value) => isNumber(value) && (value as number) <= 128,
  internal: (value) => typeof value === 'boolean',
};

/** Interfaces at most, so that a damaged record cannot ask for more. */
const MAX_INTERFACES = 4096;

/** Checks the facts of a recording, field by field. */
function checkFacts(value: unknown, place: string): RecordedFacts {
  const refuse = (what: string): never => {
    throw new TuttiError('invalidArgument', `${place} has no valid ${what}`);
  };
  if (!isObject(value)) refuse('form: an object is needed');
  const facts = value as Record<string, unknown>;
  if (facts.format !== 'tutti machine') refuse("format: it must be 'tutti machine'");
  if (facts.version !== FACTS_VERSION) {
    const found = JSON.stringify(facts.version)?.slice(0, 20);
    refuse(`version: it is ${found}, this version of tutti reads ${FACTS_VERSION}`);
  }
  const check = (what: string, one: unknown, fields: Readonly<Record<string, Form>>): void => {
    if (!isObject(one)) refuse(what);
    for (const [name, form] of Object.entries(fields)) {
      if (!form((one as Record<string, unknown>)[name])) refuse(`${name} of ${what}`);
    }
  };
  if (facts.cpu !== undefined) check('cpu', facts.cpu, CPU_FIELDS);
  const { interfaces, hostHash, environment = {}, queuePairs = {}, nvmlProblem = '' } = facts;
  if (!Array.isArray(interfaces) || interfaces.length > MAX_INTERFACES) {
    return refuse('list of interfaces');
  }
  for (const one of interfaces) check('an interface', one, INTERFACE_FIELDS);
  if (typeof hostHash !== 'string' || !/^0x[0-9a-f]{1,16}$/.test(hostHash)) return refuse('hostHash');
  if (!isObject(environment) || !Object.values(environment as object).every(isVariable))
    refuse('environment');
  if (!isText(nvmlProblem)) refuse('nvmlProblem');
  if (!isObject(queuePairs) || !Object.values(queuePairs as object).every(isNumber)) refuse('queuePairs');
  return {
    cpu: facts.cpu as CpuFacts | undefined,
    nvml: facts.nvml === undefined ? undefined : checkNvmlFacts(facts.nvml, place),
    nvmlProblem: nvmlProblem as string,
    interfaces: interfaces as NetworkInterface[],
    queuePairs: new Map(Object.entries(queuePairs as Record<string, number>)),
    hostHash: BigInt(hostHash),
    environment: environment as Environment,
  };
}
