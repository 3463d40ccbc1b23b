/**
 * Replaces names, addresses, identifiers and secrets in texts, each by the same stand-in everywhere, so that files can be
 * shown to others and still tell the same story: hosts stay apart, addresses of one IPv4 network stay in one network,
 * link-local stays link-local, and every line keeps its number.
 *
 * What is recognised is replaced; no pattern knows every name, so the result is to be looked through.
 */
import { isDistinct, withoutNames } from './names.js';
import { withoutSecrets } from './secrets.js';

export type ReplacedKind =
  | 'host'
  | 'domain'
  | 'IPv4 address'
  | 'IPv6 address'
  | 'MAC address'
  | 'UUID'
  | 'GUID'
  | 'serial number'
  | 'bucket'
  | 'user'
  | 'secret';

export interface Replacement {
  readonly kind: ReplacedKind;
  readonly original: string;
  readonly standIn: string;
}

const IPV4 = /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)/g;
const MAC = /(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])/g;
const UUID = /\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b/g;
/** Also behind the name of an interface, as NCCL writes it: `eth0:fe80::1%eth0<0>`. */
const IPV6 =
  /(?<![0-9A-Za-z:.])([A-Za-z][\w.-]{0,31}:)??((?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,7}:)(?![0-9A-Za-z:]|\.\d)/g;

/** IPv4 inside IPv6, written in groups: `...:ffff:0a3c:0e0b`. */
const MAPPED = /^(?:0{1,4}:){5}ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i;

/** Addresses of InfiniBand ports as `ip addr` shows them, and GUIDs in octets. */
const OCTETS =
  /(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){7}(?:(?:[0-9A-Fa-f]{2}:){12})?[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])/g;
/** `Node GUID: 0x946d...`, `node_guid: 946d:ae03:...`, `guid="0x946d..."`. */
const GUID =
  /(guid["']?\s{0,8}[:=]?\s{0,8}["']?)(0x[0-9a-f]{16}|[0-9a-f]{16}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?![\w:])/gi;
const SERIAL =
  /(\bserial(?:[ _-]?(?:number|no\.?|num))?["']?\s{0,30}[:=]?\s{0,8}["']?)((?=[A-Z-]{0,20}[\da-f])[A-Z0-9][A-Z0-9-]{5,40}(?![\w/]))/gi;
const BUCKET = /((?:s3|gs|gcs|abfss?|r2):\/\/)([\w.-]+)/g;

/** Words that are names of users as well as of everything else: replaced only where a user must stand. */
const COMMON =
  /^(?:admin|centos|cluster|cuda|data|debian|default|docker|gpu|host|info|jenkins|job|master|model|mpi|mpiuser|nccl|net|node|nvidia|python|rank|ray|runner|slurm|spark|test|tests|torch|train|trainer|training|ubuntu|warn|work|worker)$/i;

export class Anonymiser {
  readonly #standIns = new Map<string, Replacement>();
  /** Everything that stands for something: no stand-in gets another one. */
  readonly #given = new Set<string>();
  /** Names to replace wherever they stand, with what stands for them. */
  readonly #words = new Map<string, string>();
  #pattern: RegExp | undefined;
  /** Numbers that were given in each network, by the stand-in of the network. */
  readonly #counts = new Map<string, number>();

  /** @param hosts names of hosts, which no pattern tells from other words */
  constructor(hosts: readonly string[]) {
    const names = [...new Set(hosts)].filter((name) => name.length > 1);
    // Short names first: `node7.example.org` is then node7 in a domain.
    for (const name of names.sort((a, b) => a.length - b.length)) this.#word(name, this.#host(name));
  }

  /** Looks for names and secrets, so that `apply` replaces them also where nothing around tells what they are. */
  learn(text: string): void {
    this.#named(text);
  }

  /** A text without names and addresses; as many lines as before. */
  apply(text: string): string {
    const result = this.#named(text)
      .replace(
        BUCKET,
        (_, scheme: string, name: string) => scheme + this.#numbered('bucket', name, (n) => `bucket-${n}`),
      )
      .replace(UUID, (found) =>
        this.#numbered('UUID', found, (n) => `00000000-0000-0000-0000-${String(n).padStart(12, '0')}`),
      )
      .replace(GUID, (_, before: string, found: string) => before + this.#guid(found))
      .replace(OCTETS, (found) => this.#guid(found))
      .replace(SERIAL, (whole, before: string, found: string) =>
        /\d/.test(found)
          ? before + this.#numbered('serial number', found, (n) => `S${String(n).padStart(7, '0')}`)
          : whole,
      )
      .replace(MAC, (found) =>
        /^(?:ff:){5}ff$|^(?:00:){5}00$/i.test(found)
          ? found
          : this.#numbered('MAC address', found, (n) => `02:00:00:00:${hex(n >> 8)}:${hex(n & 255)}`),
      )
      .replace(IPV6, (whole: string, label: string | undefined, found: string) => {
        const name = label ?? '';
        if (isIpv6(whole)) return this.#ipv6(whole);
        return isIpv6(found) ? name + this.#ipv6(found) : whole;
      })
      .replace(IPV4, (found) => this.#ipv4(found));
    const words = this.#wordPattern();
    return words === undefined ? result : result.replace(words, (found) => this.#words.get(found)!);
  }

  #named(text: string): string {
    const open = withoutSecrets(text, {
      secret: (found) => this.#secret(found),
      user: (name) => this.#user(name),
    });
    return withoutNames(open, {
      host: (name) => {
        const standIn = this.#host(name);
        if (isDistinct(name)) this.#word(name, standIn);
        return standIn;
      },
      user: (name) => this.#user(name),
    });
  }

  #word(name: string, standIn: string): void {
    if (name === standIn || this.#words.has(name)) return;
    this.#words.set(name, standIn);
    this.#pattern = undefined;
  }

  #wordPattern(): RegExp | undefined {
    if (this.#words.size === 0) return undefined;
    const words = [...this.#words.keys()]
      .sort((a, b) => b.length - a.length)
      .map((name) => name.replace(/[.*+?^${}()|[\]\\-]/g, '\\$&'));
    this.#pattern ??= new RegExp(`(?<![A-Za-z0-9])(?:${words.join('|')})(?![A-Za-z0-9])`, 'g');
    return this.#pattern;
  }

  /** A host of a domain keeps its own name's stand-in in the domain's. */
  #host(name: string): string {
    if (this.#given.has(name)) return name;
    const known = this.#standIns.get(`host ${name}`) ?? this.#standIns.get(`domain ${name}`);
    if (known !== undefined) return known.standIn;
    const [first = name, ...rest] = name.split('.');
    if (rest.length === 0) return this.#add('host', name, `host-${this.#next('host')}x`);
    if (rest.length === 1 && !/\d/.test(first) && !this.#standIns.has(`host ${first}`)) {
      return this.#add('domain', name, `domain-${this.#next('domain')}.example`);
    }
    // One label alone, as in `node7.local`, tells nothing.
    const domain = rest.length === 1 ? rest[0]! : this.#domain(rest.join('.'));
    return this.#add('host', name, `${this.#host(first)}.${domain}`);
  }

  #domain(name: string): string {
    const standIn = this.#numbered('domain', name, (n) => `domain-${n}.example`);
    this.#word(name, standIn);
    return standIn;
  }

  #user(name: string): string {
    if (this.#given.has(name)) return name;
    const standIn = this.#numbered('user', name, (n) => `user${n}`);
    if (name.length >= 4 && !COMMON.test(name)) this.#word(name, standIn);
    return standIn;
  }

  #secret(found: string): string {
    if (this.#given.has(found)) return found;
    const standIn = this.#numbered('secret', found, (n) => `[secret-${n}]`);
    if (found.length >= 6 && /\d/.test(found) && /[A-Za-z]/.test(found)) this.#word(found, standIn);
    return standIn;
  }

  /** In the form of the original: with or without `0x`, in groups or in octets, of a port with what stands before it. */
  #guid(found: string): string {
    const digits = found.replace(/^0x/i, '').replaceAll(':', '').toLowerCase();
    const key = digits.slice(-16);
    const standIn = this.#numbered('GUID', key, (n) =>
      (0x0200n * 2n ** 48n + BigInt(n)).toString(16).padStart(16, '0'),
    );
    if (!found.includes(':')) return (/^0x/i.test(found) ? '0x' : '') + standIn;
    const width = found.indexOf(':');
    const whole = digits.length > 16 ? `00000000fe80${'0'.repeat(12)}${standIn}` : standIn;
    return whole.match(new RegExp(`.{${width}}`, 'g'))!.join(':');
  }

  /** What was replaced, by kind and in order of first appearance. */
  get replacements(): Replacement[] {
    return [...this.#standIns.values()];
  }

  #add(kind: Replacement['kind'], original: string, standIn: string): string {
    this.#standIns.set(`${kind} ${original}`, { kind, original, standIn });
    this.#given.add(standIn);
    return standIn;
  }

  #numbered(kind: Replacement['kind'], original: string, make: (n: number) => string): string {
    const key = KEEPS_CASE.has(kind) ? original : original.toLowerCase();
    const known = this.#standIns.get(`${kind} ${key}`);
    return known?.standIn ?? this.#add(kind, key, make(this.#next(kind)));
  }

  #next(network: string): number {
    const count = (this.#counts.get(network) ?? 0) + 1;
    this.#counts.set(network, count);
    return count;
  }

  /** Networks of 16 and 24 bits are numbered, so that what was in one stays in one. */
  #ipv4(text: string): string {
    const parts = text.split('.').map(Number) as [number, number, number, number];
    const [a] = parts;
    // Local, unspecified and masks are the same for everybody; and numbers above 255 are no addresses.
    if (parts.some((part) => part > 255) || a === 127 || a === 0 || a === 255) return text;
    const known = this.#standIns.get(`IPv4 address ${text}`);
    if (known !== undefined) return known.standIn;
    const wide = this.#network(`${parts[0]}.${parts[1]}`, 'wide');
    const narrow = this.#network(`${parts[0]}.${parts[1]}.${parts[2]}`, `narrow ${wide}`);
    const host = this.#next(`hosts ${wide}.${narrow}`);
    return this.#add('IPv4 address', text, `10.${wide % 256}.${narrow % 256}.${host % 256}`);
  }

  readonly #networks = new Map<string, number>();

  #network(prefix: string, among: string): number {
    const known = this.#networks.get(prefix);
    if (known !== undefined) return known;
    const number = this.#next(among);
    this.#networks.set(prefix, number);
    return number;
  }

  #ipv6(text: string): string {
    if (text === '::1' || /^::ffff$/i.test(text)) return text;
    const groups = text.split(':').length;
    const mapped = MAPPED.exec(text);
    if (mapped !== null) {
      const [high, low] = [Number.parseInt(mapped[1]!, 16), Number.parseInt(mapped[2]!, 16)];
      const [a, b, c, d] = this.#ipv4(`${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`)
        .split('.')
        .map(Number);
      return `0000:0000:0000:0000:0000:ffff:${hex(a!)}${hex(b!)}:${hex(c!)}${hex(d!)}`;
    }
    const full = expanded(text);
    const network = /^fe80/i.test(full) ? 'fe80' : 'fd00';
    const short = this.#numbered('IPv6 address', full, (n) => `${network}::${n.toString(16)}`);
    if (groups < 8 || text.includes('::')) return short;
    return `${network}:0000:0000:0000:0000:0000:0000:${short.slice(6).padStart(4, '0')}`;
  }
}

const KEEPS_CASE: ReadonlySet<ReplacedKind> = new Set(['user', 'secret', 'serial number', 'bucket']);

/** Networks that are in use: others have the form of names in C++, as `c10d::add`. */
const IN_USE = /^(?:[23][0-9a-f]{3}|f[cdef][0-9a-f]{2}|64|0{0,4}):/i;

/** Eight groups, or fewer with one gap; eight pairs of digits are no address of IP. */
function isIpv6(text: string): boolean {
  if (!/^[0-9a-f:]+$/i.test(text) || /^:(?!:)|[^:]:$|:::|::.*::/.test(text)) return false;
  const groups = text.split(':');
  if (text.includes('::')) return groups.length <= 9 && IN_USE.test(text);
  return groups.length === 8 && groups.some((group) => group.length !== 2);
}

const hex = (byte: number): string => (byte & 255).toString(16).padStart(2, '0');

/** Eight groups of four digits. */
function expanded(text: string): string {
  const [front = '', back] = text.split('::');
  const head = front === '' ? [] : front.split(':');
  const tail = back === undefined || back === '' ? [] : back.split(':');
  const zeros =
    back === undefined ? [] : new Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0');
  return [...head, ...zeros, ...tail].map((group) => group.padStart(4, '0').toLowerCase()).join(':');
}
