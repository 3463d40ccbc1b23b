/** The 128 bytes and their text. */
import { SocketAddress as NodeSocketAddress } from 'node:net';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatIpAddress, parseIpAddress } from '#src/bootstrap/ip-address.js';
import {
  createUniqueId,
  decodeUniqueId,
  encodeUniqueId,
  formatUniqueId,
  parseUniqueId,
} from '#src/bootstrap/unique-id.js';

const secrets = fc.uint8Array({ minLength: 32, maxLength: 32 });
const hosts = fc.oneof(
  fc.ipV4(),
  fc.uint8Array({ minLength: 16, maxLength: 16 }).map(formatIpAddress),
  fc.constant('fe80::1%eth0'),
);

test('what goes in comes out, as bytes at any offset and as text [C03-03]', () => {
  fc.assert(
    fc.property(
      hosts,
      fc.integer({ min: 1, max: 65535 }),
      secrets,
      fc.nat(7),
      (host, port, secret, offset) => {
        const id = encodeUniqueId({ host, port, secret });
        expect(id).toHaveLength(128);
        const unaligned = Buffer.alloc(128 + 8).subarray(offset, offset + 128);
        unaligned.set(id);
        const content = decodeUniqueId(unaligned);
        expect(content).toEqual({ host, port, secret });
        unaligned.fill(0);
        expect(content.secret).toEqual(secret);
        const text = formatUniqueId(id);
        expect(text).toMatch(/^[\w-]{171}$/);
        expect(parseUniqueId(` ${text}\n`)).toEqual(id);
      },
    ),
  );
});

test('IPv6 addresses are written as the system writes them', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(0, 0, 1, 0xab, 0xffff), { minLength: 8, maxLength: 8 }),
      (groups) => {
        const text = groups.map((group) => group.toString(16)).join(':');
        // The system writes the old IPv4-compatible and -mapped forms with dots.
        fc.pre(groups.slice(0, 5).some((group) => group !== 0));
        const written = formatIpAddress(parseIpAddress(text));
        expect(written).toBe(new NodeSocketAddress({ address: text, family: 'ipv6' }).address);
        expect(parseIpAddress(written)).toEqual(parseIpAddress(text));
      },
    ),
  );
  expect(formatIpAddress(parseIpAddress('::ffff:10.0.0.1'))).toBe('::ffff:a00:1');
  expect(() => parseIpAddress('localhost')).toThrow("'localhost' is not an IPv4 or IPv6 address");
});

describe('what is no unique id is refused with the reason', () => {
  const good = encodeUniqueId({ host: '10.0.0.1', port: 1234, secret: new Uint8Array(32).fill(7) });
  const broken = (at: number, value: number): Uint8Array => {
    const id = good.slice();
    id[at] = value;
    return id;
  };
  test.each([
    [good.slice(1), 'it has 127 bytes, 128 are needed'],
    [broken(0, 0), "does not begin with 'TUTTI-ID'"],
    [broken(8, 9), 'its version is 9'],
    [broken(9, 5), 'its address family is 5'],
    [broken(127, 1), 'its padding is not zero'],
    [broken(50, 1), 'its padding is not zero'],
    [encodeUniqueId({ host: '1.2.3.4', port: 0, secret: new Uint8Array(32) }), 'its port is 0'],
    ['text' as unknown as Uint8Array, 'a Uint8Array is needed, string was given'],
  ])('case %#', (id, text) => {
    expect(() => decodeUniqueId(id)).toThrow(text);
  });

  test('text with foreign characters or cut short', () => {
    expect(() => parseUniqueId('"abc"')).toThrow(/characters other than/);
    expect(() => parseUniqueId(formatUniqueId(good).slice(0, -4))).toThrow(/it has 125 bytes/);
  });
});

describe('createUniqueId', () => {
  test('makes a different secret each time and an address that others can reach', async () => {
    const [first, second] = [await createUniqueId(), await createUniqueId()];
    try {
      expect(decodeUniqueId(first.id).secret).not.toEqual(decodeUniqueId(second.id).secret);
      expect(decodeUniqueId(first.id).port).not.toBe(0);
      expect(decodeUniqueId(first.id).host).not.toBe('0.0.0.0');
    } finally {
      first.close();
      second.close();
    }
  });

  test('says which address or port cannot be used', async () => {
    const first = await createUniqueId({ host: '127.0.0.1' });
    const { port } = decodeUniqueId(first.id);
    await expect(createUniqueId({ host: '127.0.0.1', port })).rejects.toThrow(
      `Cannot listen at 127.0.0.1<${port}>: another process uses this port`,
    );
    first.close();
    await expect(createUniqueId({ host: '203.0.113.1' })).rejects.toThrow(/does not have that address/);
    await expect(createUniqueId({ host: '0.0.0.0' })).rejects.toThrow(/name one address of this machine/);
    await expect(createUniqueId({ port: 70000 })).rejects.toThrow('port is 70000');
    // The port is free again.
    (await createUniqueId({ host: '127.0.0.1', port })).close();
  });
});
