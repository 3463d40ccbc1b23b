/** Whoever does not know the secret disturbs nobody, whatever he sends. Ranks and strangers share this process. */
import { createHmac } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MAX_PENDING_HANDSHAKES } from '#src/bootstrap/authenticated-listener.js';
import { Bootstrap } from '#src/bootstrap/bootstrap.js';
import { encodeFrame } from '#src/bootstrap/frame.js';
import {
  createUniqueId,
  decodeUniqueId,
  encodeUniqueId,
  type UniqueIdRoot,
} from '#src/bootstrap/unique-id.js';

let root: UniqueIdRoot;
let sockets: Socket[];

beforeEach(async () => {
  sockets = [];
  root = await createUniqueId({ host: '127.0.0.1', handshakeTimeoutMs: 400 });
});
afterEach(() => {
  root.close();
  for (const socket of sockets) socket.destroy();
});

function stranger(host = '127.0.0.1', port = decodeUniqueId(root.id).port): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => resolve(socket));
    socket.on('error', () => {});
    sockets.push(socket);
  });
}

function closed(socket: Socket): Promise<void> {
  socket.resume();
  return new Promise((resolve) => (socket.closed ? resolve() : socket.once('close', () => resolve())));
}

async function ranksMeet(size = 3): Promise<void> {
  const ranks = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      Bootstrap.connect({ id: root.id, rank, size, timeoutMs: 10_000 }),
    ),
  );
  await Promise.all(ranks.map((rank) => rank.barrier('all here')));
  await Promise.all(ranks.map((rank) => rank.close()));
}

const HELLO = encodeFrame(Uint8Array.of(1), Buffer.from('tuttiCtl'), Uint8Array.of(1, 1), new Uint8Array(32));

describe('the root drops, and the ranks still meet', () => {
  test('an HTTP request', async () => {
    const socket = await stranger();
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await closed(socket);
    await ranksMeet();
  });

  test('an oversized frame, as soon as its length is there', async () => {
    const socket = await stranger();
    socket.write(Uint8Array.of(0, 0, 0, 0x7f));
    await closed(socket);
    await ranksMeet();
  });

  test('an idle connection, when its time is over', async () => {
    const socket = await stranger();
    const begin = performance.now();
    await ranksMeet();
    await closed(socket);
    expect(performance.now() - begin).toBeLessThan(1500);
  });

  test('a connection that sends one byte now and then (slowloris)', async () => {
    const socket = await stranger();
    const begin = performance.now();
    let at = 0;
    const drip = setInterval(() => socket.write(HELLO.subarray(at, ++at)), 60);
    await closed(socket);
    clearInterval(drip);
    expect(at).toBeLessThan(HELLO.length);
    expect(performance.now() - begin).toBeLessThan(1500);
    await ranksMeet();
  });

  test('a stranger that greets correctly and then sends a made-up proof', async () => {
    const socket = await stranger();
    socket.write(HELLO);
    const challenge = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
    expect(challenge.length).toBe(4 + 1 + 32);
    const proof = createHmac('sha256', 'guess').update(challenge).digest();
    const answer = new Promise<Buffer>((resolve) => socket.once('data', resolve));
    socket.write(encodeFrame(Uint8Array.of(3), proof, Uint8Array.of(1, 2, 3)));
    expect([...(await answer).subarray(4)]).toEqual([5, 1]);
    await closed(socket);
    await ranksMeet();
  });

  test('a replay of a recorded handshake: the nonce has changed', async () => {
    // A proxy records what an honest rank sends.
    const { port, secret } = decodeUniqueId(root.id);
    const recorded: Buffer[] = [];
    const proxy = createServer((client) => {
      const upstream = connect(port, '127.0.0.1');
      for (const socket of [client, upstream]) socket.on('error', () => {});
      client.on('data', (chunk) => recorded.push(chunk));
      client.pipe(upstream).pipe(client);
      client.on('close', () => upstream.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const proxyPort = (proxy.address() as { port: number }).port;
    const throughProxy = encodeUniqueId({ host: '127.0.0.1', port: proxyPort, secret });
    const honest = await Promise.all([
      Bootstrap.connect({ id: throughProxy, rank: 0, size: 2, timeoutMs: 5000 }),
      Bootstrap.connect({ id: root.id, rank: 1, size: 2, timeoutMs: 5000 }),
    ]);
    const [hello, proof] = recorded as [Buffer, Buffer];
    expect(Buffer.concat(recorded).includes(Buffer.from(secret))).toBe(false);

    const socket = await stranger();
    socket.write(hello);
    await new Promise((resolve) => socket.once('data', resolve));
    const answer = new Promise<Buffer>((resolve) => socket.once('data', resolve));
    socket.write(proof);
    expect([...(await answer).subarray(4)]).toEqual([5, 1]);
    await Promise.all(honest.map((rank) => rank.close()));
    proxy.close();
  });

  test('a flood of garbage from many connections, in bounded memory', async () => {
    const garbage = Buffer.alloc(1 << 20, 0xa5);
    const before = process.memoryUsage.rss();
    const flood = await Promise.all(Array.from({ length: 50 }, () => stranger()));
    for (const socket of flood) socket.write(garbage);
    await ranksMeet(4);
    await Promise.all(flood.map(closed));
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 << 20);
  });

  test('more idle connections than may be pending: the oldest go, ranks come through', async () => {
    const crowd = await Promise.all(Array.from({ length: MAX_PENDING_HANDSHAKES + 20 }, () => stranger()));
    await ranksMeet();
    await Promise.all(crowd.map(closed));
  });
});

test.each(['::1', undefined])('a root at %s is reached, and ranks reach each other', async (host) => {
  root.close();
  root = await createUniqueId(host === undefined ? {} : { host });
  const ranks = await Promise.all(
    [0, 1].map((rank) => Bootstrap.connect({ id: root.id, rank, size: 2, timeoutMs: 5000 })),
  );
  expect(ranks[0]!.members.map((member) => member.listenHost)).toEqual(
    Array(2).fill(decodeUniqueId(root.id).host),
  );
  const pair = await Promise.all([ranks[0]!.peerConnection(1, 'x'), ranks[1]!.peerConnection(0, 'x')]);
  for (const socket of pair) socket.destroy();
  await Promise.all(ranks.map((rank) => rank.close()));
});

test("a stranger at a rank's own listener is dropped, and the pair still connects", async () => {
  const ranks = await Promise.all(
    [0, 1].map((rank) => Bootstrap.connect({ id: root.id, rank, size: 2, timeoutMs: 5000 })),
  );
  const { listenHost, listenPort } = ranks[0]!.members[0]!;
  const socket = await stranger(listenHost, listenPort);
  socket.write('garbage that is long enough to be a frame header');
  await closed(socket);
  // A greeting meant for a root is refused here as well.
  const wrongRole = await stranger(listenHost, listenPort);
  wrongRole.write(HELLO);
  await closed(wrongRole);
  const [left, right] = await Promise.all([
    ranks[0]!.peerConnection(1, 'data'),
    ranks[1]!.peerConnection(0, 'data'),
  ]);
  expect(left.isPaused() && right.isPaused()).toBe(true);
  const received = new Promise<string>((resolve) => left.on('data', (chunk) => resolve(chunk.toString())));
  left.resume();
  right.write('through');
  expect(await received).toBe('through');
  for (const each of [left, right]) each.destroy();
  await Promise.all(ranks.map((rank) => rank.close()));
});

describe('a rank that meets something else at the address of the root says so', () => {
  async function withServer(serve: (socket: Socket) => void, check: (id: Uint8Array) => Promise<void>) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      serve(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    try {
      await check(encodeUniqueId({ host: '127.0.0.1', port, secret: new Uint8Array(32).fill(3) }));
    } finally {
      server.close();
    }
  }
  const join = (id: Uint8Array, env: Record<string, string> = {}) =>
    Bootstrap.connect({ id, rank: 0, size: 1, timeoutMs: 2000, env });

  test('another program', () =>
    withServer(
      (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
      async (id) => {
        await expect(join(id)).rejects.toThrow(/The root at 127\.0\.0\.1<\d+> is not the expected process/);
      },
    ));

  test('a root that does not know the secret', () =>
    withServer(
      (socket) => {
        let frames = 0;
        socket.on('data', () => {
          const answer = frames++ === 0 ? Uint8Array.of(2) : Uint8Array.of(4);
          socket.write(encodeFrame(answer, new Uint8Array(32).fill(9)));
        });
      },
      async (id) => {
        await expect(join(id)).rejects.toThrow(/does not know the secret of the unique id/);
      },
    ));

  test('something that hangs up: tried again as the rule says, then reported with the count', () =>
    withServer(
      (socket) => socket.destroy(),
      async (id) => {
        const env = { NCCL_SOCKET_RETRY_CNT: '3', NCCL_SOCKET_RETRY_SLEEP_MSEC: '10' };
        await expect(join(id, env)).rejects.toThrow(/was not reached in 4 attempts/);
      },
    ));
});

test('nobody listens: the number of tries and the pauses between them follow the rule', async () => {
  const { secret, port } = decodeUniqueId(root.id);
  root.close();
  const id = encodeUniqueId({ host: '127.0.0.1', port, secret });
  const env = { NCCL_SOCKET_RETRY_CNT: '4', NCCL_SOCKET_RETRY_SLEEP_MSEC: '20' };
  const begin = performance.now();
  await expect(Bootstrap.connect({ id, rank: 0, size: 1, env })).rejects.toMatchObject({
    code: 'remoteError',
    message: expect.stringMatching(/^The root at .* was not reached in 5 attempts: .*ECONNREFUSED/),
  });
  // 20 + 40 + 60 + 80 ms of pauses.
  expect(performance.now() - begin).toBeGreaterThanOrEqual(195);
  expect(performance.now() - begin).toBeLessThan(1000);
  await expect(Bootstrap.connect({ id, rank: 0, size: 1, timeoutMs: 250, env: {} })).rejects.toMatchObject({
    code: 'timeout',
    message: expect.stringMatching(/was not reached within 250 ms \(2 attempts\)/),
  });
});

test('a signal ends the waiting at once, and the others learn that the rank is gone [C03-06]', async () => {
  const controller = new AbortController();
  const other = Bootstrap.connect({ id: root.id, rank: 0, size: 3, timeoutMs: 10_000 });
  const waiting = Bootstrap.connect({
    id: root.id,
    rank: 1,
    size: 3,
    timeoutMs: 10_000,
    signal: controller.signal,
  });
  setTimeout(() => controller.abort(new Error('changed my mind')), 100);
  await expect(waiting).rejects.toThrow('changed my mind');
  await expect(other).rejects.toMatchObject({ code: 'remoteError', rank: 1 });
});

test('a contribution beyond the limit and a wrong rank are refused before anything is sent', async () => {
  const rank = await Bootstrap.connect({ id: root.id, rank: 0, size: 1 });
  await expect(rank.allGather(new Uint8Array((16 << 20) + 1), 'big')).rejects.toThrow(
    /'big' was given 16777217 bytes/,
  );
  await expect(rank.peerConnection(0, 'self')).rejects.toThrow(/peer is 0/);
  await expect(rank.broadcast(new Uint8Array(1), 1, 'b')).rejects.toThrow(/root is 1/);
  await expect(rank.allGather(new Uint8Array(1), 'a', { among: [0, 4] })).rejects.toThrow(/among holds 4/);
  await expect(rank.allGather(new Uint8Array(1), 'a', { timeoutMs: 0 })).rejects.toThrow(/timeoutMs is 0/);
  const large = new Uint8Array(16 << 20).fill(5);
  const [same] = await rank.allGather(large, 'large');
  expect(Buffer.compare(same!, large)).toBe(0);
  await rank.close();
  await rank.close();
  await expect(rank.barrier('late')).rejects.toThrow('The communicator of rank 0 is closed');
});
