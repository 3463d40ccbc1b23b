/**
 * The unique id: 128 bytes that one rank makes and all ranks get, by whatever way they have (a file, MPI, an
 * environment variable). It says where the root is and carries the secret of the communicator, so whoever has
 * it may take part: treat it like a password.
 *
 *     byte   0  'TUTTI-ID'          8
 *            8  version             1
 *            9  family, 4 or 6      1
 *           10  port, big endian    2
 *           12  address             16   (IPv4: the first 4)
 *           28  zone of a link-local IPv6 address, zero-padded name   16
 *           44  zero                20
 *           64  secret              32
 *           96  zero                32
 */
import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { bindableAddress, chooseBootstrapInterface, listNetworkInterfaces } from '../system/interfaces.js';
import { SECRET_BYTES } from './handshake.js';
import { formatIpAddress, parseIpAddress } from './ip-address.js';
import { Root } from './root.js';
import type { SocketAddress } from './socket-address.js';

export const UNIQUE_ID_BYTES = 128;

const MAGIC = new TextEncoder().encode('TUTTI-ID');
const VERSION = 1;
const VERSION_AT = 8;
const FAMILY_AT = 9;
const PORT_AT = 10;
const ADDRESS_AT = 12;
const ZONE_AT = 28;
/** Longest interface name of Linux with its final zero. */
const ZONE_BYTES = 16;
const SECRET_AT = 64;

export interface UniqueIdContent extends SocketAddress {
  secret: Uint8Array;
}

/** @throws TuttiError invalidArgument when `host` is no numeric address or the zone name is too long */
export function encodeUniqueId({ host, port, secret }: UniqueIdContent): Uint8Array {
  const [numeric = '', zone = ''] = host.split('%');
  const address = parseIpAddress(numeric);
  const zoneName = new TextEncoder().encode(zone);
  if (zoneName.length >= ZONE_BYTES) {
    throw new TuttiError(
      'invalidArgument',
      `The zone '${zone}' of the root's address is longer than 15 bytes.`,
    );
  }
  const id = new Uint8Array(UNIQUE_ID_BYTES);
  id.set(MAGIC);
  id[VERSION_AT] = VERSION;
  id[FAMILY_AT] = address.length === 4 ? 4 : 6;
  new DataView(id.buffer).setUint16(PORT_AT, port);
  id.set(address, ADDRESS_AT);
  id.set(zoneName, ZONE_AT);
  id.set(secret, SECRET_AT);
  return id;
}

/**
 * Reads a unique id. The bytes may lie anywhere (any offset); the content is a copy.
 * @throws TuttiError invalidArgument that says what is wrong
 */
export function decodeUniqueId(id: Uint8Array): UniqueIdContent {
  const invalid = (why: string): TuttiError =>
    new TuttiError(
      'invalidArgument',
      `This is not a unique id: ${why}. Pass the .id of what createUniqueId gave.`,
    );
  if (!(id instanceof Uint8Array)) throw invalid(`a Uint8Array is needed, ${typeof id} was given`);
  if (id.length !== UNIQUE_ID_BYTES)
    throw invalid(`it has ${id.length} bytes, ${UNIQUE_ID_BYTES} are needed`);
  if (MAGIC.some((byte, index) => id[index] !== byte)) throw invalid("it does not begin with 'TUTTI-ID'");
  if (id[VERSION_AT] !== VERSION) {
    throw invalid(`its version is ${id[VERSION_AT]}, this library reads version ${VERSION}`);
  }
  const family = id[FAMILY_AT];
  if (family !== 4 && family !== 6) throw invalid(`its address family is ${family}, 4 or 6 is needed`);
  const padding = [id.subarray(ZONE_AT + ZONE_BYTES, SECRET_AT), id.subarray(SECRET_AT + SECRET_BYTES)];
  if (padding.some((part) => part.some((byte) => byte !== 0))) throw invalid('its padding is not zero');
  const port = new DataView(id.buffer, id.byteOffset).getUint16(PORT_AT);
  if (port === 0) throw invalid('its port is 0');
  const zoneBytes = id.subarray(ZONE_AT, ZONE_AT + ZONE_BYTES);
  const zone = new TextDecoder().decode(zoneBytes.subarray(0, zoneBytes.indexOf(0)));
  const address = formatIpAddress(id.subarray(ADDRESS_AT, ADDRESS_AT + (family === 4 ? 4 : 16)));
  return {
    host: zone === '' ? address : `${address}%${zone}`,
    port,
    // Not id.slice: that of a Node Buffer shares memory.
    secret: new Uint8Array(id.subarray(SECRET_AT, SECRET_AT + SECRET_BYTES)),
  };
}

/** Text form for environment variables and files: base64url, 171 characters. */
export function formatUniqueId(id: Uint8Array): string {
  decodeUniqueId(id);
  return Buffer.from(id).toString('base64url');
}

/**
 * Inverse of `formatUniqueId`.
 * @throws TuttiError invalidArgument
 */
export function parseUniqueId(text: string): Uint8Array {
  const trimmed = text.trim();
  if (!/^[A-Za-z0-9_-]+$/.test(trimmed)) {
    throw new TuttiError(
      'invalidArgument',
      'The text of the unique id holds characters other than A-Z, a-z, 0-9, - and _; was it cut or quoted?',
    );
  }
  const id = new Uint8Array(Buffer.from(trimmed, 'base64url'));
  decodeUniqueId(id);
  return id;
}

export interface CreateUniqueIdOptions {
  /**
   * Address or name of this machine that the other ranks can reach. Default: the interface that
   * NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY select; loop-back only when there is nothing better.
   */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** For launchers: serve one communicator per generation until closed, rather than one in all. */
  reusable?: boolean;
  /** Time a connection has to prove that it knows the secret, ms (default 10 s). */
  handshakeTimeoutMs?: number;
}

export interface UniqueIdRoot {
  /** 128 bytes to give to every rank. */
  readonly id: Uint8Array;
  /** Stops listening. A communicator that runs already goes on. */
  close(): void;
}

/**
 * Makes a unique id and starts its root in this process: call it at one rank (or in a launcher) and give the
 * id to all. The root serves exactly one communicator; it does not keep the process alive.
 * @throws TuttiError systemError when the address cannot be used, invalidUsage when no interface fits
 */
export async function createUniqueId(options: CreateUniqueIdOptions = {}): Promise<UniqueIdRoot> {
  const { port = 0, reusable = false, handshakeTimeoutMs } = options;
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new TuttiError('invalidArgument', `port is ${port}; it must be an integer from 0 (any) to 65535.`);
  }
  if (options.host === '0.0.0.0' || options.host === '::') {
    throw new TuttiError(
      'invalidArgument',
      `host is ${options.host}; name one address of this machine that the other ranks can reach.`,
    );
  }
  const host =
    options.host === undefined
      ? bindableAddress(chooseBootstrapInterface(listNetworkInterfaces(), process.env))
      : await numericHost(options.host);
  const secret = new Uint8Array(randomBytes(SECRET_BYTES));
  const root = await Root.start({
    host,
    port,
    secret,
    reusable,
    closeWhenIdle: !reusable,
    ...(handshakeTimeoutMs === undefined ? {} : { handshakeTimeoutMs }),
  });
  return { id: encodeUniqueId({ ...root.address, secret }), close: () => root.close() };
}

async function numericHost(host: string): Promise<string> {
  if (isIP(host.split('%')[0]!) !== 0) return host;
  try {
    return (await lookup(host)).address;
  } catch (cause) {
    throw new TuttiError('invalidArgument', `The host name '${host}' cannot be resolved.`, { cause });
  }
}
