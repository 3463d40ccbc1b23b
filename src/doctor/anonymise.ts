/**
 * Replaces names and addresses in texts, each by the same stand-in everywhere, so that files can be shown to strangers
 * and still tell the same story: hosts stay apart, addresses of one network stay in one network, link-local stays
 * link-local, and every line keeps its number.
 */

export interface Replacement {
  readonly kind: 'host' | 'IPv4 address' | 'IPv6 address' | 'MAC address' | 'UUID' | 'user';
  readonly original: string;
  readonly standIn: string;
}

const IPV4 = /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)/g;
const MAC = /(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])/g;
const UUID = /\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b/g;
const IPV6 = /(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![0-9A-Za-z:]|\.\d)/g;
const USER = /(\/home\/|\/Users\/)([\w.-]+)/g;

/** IPv4 inside IPv6, written in groups: `...:ffff:0a3c:0e0b`. */
const MAPPED = /^(?:0{1,4}:){5}ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i;

export class Anonymiser {
  readonly #standIns = new Map<string, Replacement>();
  readonly #hosts: RegExp | undefined;
  /** Numbers that were given in each network, by the stand-in of the network. */
  readonly #counts = new Map<string, number>();

  /** @param hosts names of hosts, which no pattern tells from other words */
  constructor(hosts: readonly string[]) {
    const names = [...new Set(hosts)].filter((name) => name.length > 1).sort((a, b) => b.length - a.length);
    for (const [i, name] of names.entries()) this.#add('host', name, `host-${i + 1}x`);
    const words = names.map((name) => name.replace(/[.*+?^${}()|[\]\\-]/g, '\\$&'));
    this.#hosts =
      names.length === 0
        ? undefined
        : new RegExp(`(?<![A-Za-z0-9])(?:${words.join('|')})(?![A-Za-z0-9])`, 'g');
  }

  /** A text without names and addresses; as many lines as before. */
  apply(text: string): string {
    let result = text
      .replace(UUID, (found) =>
        this.#numbered('UUID', found, (n) => `00000000-0000-0000-0000-${String(n).padStart(12, '0')}`),
      )
      .replace(MAC, (found) =>
        this.#numbered('MAC address', found, (n) => `02:00:00:00:${hex(n >> 8)}:${hex(n & 255)}`),
      )
      .replace(IPV6, (found) => this.#ipv6(found))
      .replace(IPV4, (found) => this.#ipv4(found))
      .replace(
        USER,
        (_, folder: string, name: string) => folder + this.#numbered('user', name, (n) => `user${n}`),
      );
    if (this.#hosts !== undefined)
      result = result.replace(this.#hosts, (found) => this.#standIns.get(`host ${found}`)!.standIn);
    return result;
  }

  /** What was replaced, by kind and in order of first appearance. */
  get replacements(): Replacement[] {
    return [...this.#standIns.values()];
  }

  #add(kind: Replacement['kind'], original: string, standIn: string): string {
    this.#standIns.set(`${kind} ${original}`, { kind, original, standIn });
    return standIn;
  }

  #numbered(kind: Replacement['kind'], original: string, make: (n: number) => string): string {
    const key = kind === 'user' ? original : original.toLowerCase();
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
    const groups = text.split(':').length;
    const isAddress = text.includes('::') || groups === 8;
    if (!isAddress || text === '::1' || /^::ffff$/i.test(text)) return text;
    const mapped = MAPPED.exec(text);
    if (mapped !== null) {
      const [high, low] = [Number.parseInt(mapped[1]!, 16), Number.parseInt(mapped[2]!, 16)];
      const [a, b, c, d] = this.#ipv4(`${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`)
        .split('.')
        .map(Number);
      return `0000:0000:0000:0000:0000:ffff:${hex(a!)}${hex(b!)}:${hex(c!)}${hex(d!)}`;
    }
    const full = expanded(text);
    const known = this.#standIns.get(`IPv6 address ${full}`);
    const n = known === undefined ? this.#next('IPv6 address') : Number(known.standIn);
    if (known === undefined) this.#add('IPv6 address', full, String(n));
    const isLocal = /^fe80/i.test(full);
    const last = n.toString(16).padStart(4, '0');
    if (groups === 8 && !text.includes('::'))
      return `${isLocal ? 'fe80' : 'fd00'}:0000:0000:0000:0000:0000:0000:${last}`;
    return `${isLocal ? 'fe80' : 'fd00'}::${n.toString(16)}`;
  }
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
