/**
 * Host and port in the text forms that people meet: `host:port` and `[v6%interface]:port` are read
 * (NCCL_COMM_ID), `10.0.0.1<1234>` is printed, as in NCCL's log lines.
 */
import { isIPv6 } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';

export interface SocketAddress {
  /** Name, IPv4 address, or IPv6 address with optional `%zone`; no brackets. */
  host: string;
  port: number;
}

/** `10.0.0.1<1234>`, NCCL's way to print an address. */
export function formatSocketAddress({ host, port }: SocketAddress): string {
  return `${host}<${port}>`;
}

/** A port as written by a person or a launcher; undefined when it is not an integer from 1 to 65535. */
export function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port >= 1 && port <= 65535 ? port : undefined;
}

/**
 * Reads `host:port` or `[v6]:port` or `[v6%interface]:port`.
 * @param source name of the variable or option, for the message
 * @throws TuttiError invalidArgument
 */
export function parseSocketAddress(text: string, source: string): SocketAddress {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d+)$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = match === null ? undefined : parsePort(match[3]!);
  if (host === undefined || port === undefined || (match?.[1] !== undefined && !isIPv6(host))) {
    throw new TuttiError(
      'invalidArgument',
      `${source}='${text}' is not an address; write 'host:port' or '[ipv6]:port' with a port from 1 to 65535.`,
    );
  }
  return { host, port };
}

/** True for a host that only processes of the same machine can reach. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^(::ffff:)?127\./.test(host);
}
