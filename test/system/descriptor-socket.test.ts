import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DescriptorSocket } from '#src/system/descriptor-socket.js';
import { libc } from '#src/system/libc.js';

const openDescriptors = () => readdirSync('/proc/self/fd').length;

/** Runs with two sockets; nothing may stay open. */
function withTwo(act: (a: DescriptorSocket, b: DescriptorSocket) => void): void {
  const before = openDescriptors();
  const a = new DescriptorSocket();
  const b = new DescriptorSocket();
  try {
    act(a, b);
  } finally {
    a.close();
    b.close();
  }
  expect(openDescriptors()).toBe(before);
}

const inode = (fd: number) => fstatSync(fd, { bigint: true }).ino;

describe.skipIf(libc() === null)('descriptors through a socket', () => {
  it('arrive in order, of the same files, and are closed after use', () => {
    withTwo((a, b) => {
      const c = libc()!;
      const files = Array.from({ length: 300 }, () => c.memfdCreate('test', 1));
      const token = DescriptorSocket.token();
      expect(a.send(b.name, token, files)).toBe(300);
      const inodes = files.map(inode);
      for (const file of files) c.close(file);
      const held = openDescriptors();
      b.receive(token, 300, (fds) => {
        expect(fds.map(inode)).toEqual(inodes);
      });
      expect(openDescriptors()).toBe(held);
    });
  });

  it('are found by their token, whoever else has sent something before', () => {
    withTwo((a, b) => {
      const [one, other] = ['/proc/self/stat', '/proc/version'].map((path) => openSync(path, 'r'));
      const tokens = [DescriptorSocket.token(), DescriptorSocket.token()];
      a.send(b.name, 'garbage', [one!]);
      a.send(b.name, tokens[0]!, [one!]);
      a.send(b.name, tokens[1]!, [other!]);
      for (const fd of [one!, other!]) closeSync(fd);
      b.receive(tokens[1]!, 1, ([fd]) => {
        const text = Buffer.alloc(5);
        readSync(fd!, text);
        expect(text.toString()).toBe('Linux');
      });
      expect(() => b.receive(tokens[0]!, 2, () => {})).toThrow('1 of 2 descriptors have come');
      expect(() => b.receive(tokens[1]!, 1, () => {})).toThrow('0 of 1 descriptors have come');
    });
  });

  it('wait while the receiver has no room, and go nowhere when it is gone', () => {
    withTwo((a, b) => {
      const file = openSync('/proc/version', 'r');
      const tokens: string[] = [];
      // The system holds so many datagrams of a socket (net.unix.max_dgram_qlen).
      while (tokens.length < 5000) {
        const token = DescriptorSocket.token();
        if (a.send(b.name, token, [file]) === 0) break;
        tokens.push(token);
      }
      expect(tokens.length).toBeGreaterThan(0);
      if (tokens.length < 5000) {
        b.receive(tokens[0]!, 1, () => {});
        expect(a.send(b.name, DescriptorSocket.token(), [file])).toBe(1);
      }
      b.close();
      expect(() => a.send(b.name, DescriptorSocket.token(), [file])).toThrow('ECONNREFUSED');
      closeSync(file);
    });
  });
});
