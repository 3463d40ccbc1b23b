/**
 * A rank under remote control: the test sends {id, method, args} over IPC and gets {id, value} or {id, error}.
 * Losses and aborts are collected and can be asked for.
 */
import { Bootstrap } from '../../../dist/bootstrap/bootstrap.js';
import { createUniqueId } from '../../../dist/bootstrap/unique-id.js';

let bootstrap;
let root;
const sockets = new Map();
const lost = [];
const aborted = [];

const text = (bytes) => Buffer.from(bytes).toString('utf8');

function read(socket, count) {
  return new Promise((resolve, reject) => {
    socket.ref();
    let received = Buffer.alloc(0);
    socket.on('close', () => reject(new Error('closed')));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length >= count) resolve(received.toString('utf8'));
    });
    socket.resume();
  });
}

const methods = {
  async createId(options = {}) {
    root = await createUniqueId({ host: '127.0.0.1', ...options });
    return Buffer.from(root.id).toString('base64url');
  },
  async connect({ id, ...options }) {
    lost.length = 0;
    aborted.length = 0;
    bootstrap = await Bootstrap.connect({ ...options, id: new Uint8Array(Buffer.from(id, 'base64url')) });
    bootstrap.onPeerLost((rank, reason) => lost.push({ rank, reason }));
    bootstrap.onAbort((rank, reason) => aborted.push({ rank, reason }));
    return {
      rootRank: bootstrap.rootRank,
      processIds: bootstrap.members.map((member) => member.processId),
    };
  },
  async allGather({ data, label, ...options }) {
    return (await bootstrap.allGather(Buffer.from(data), label, options)).map(text);
  },
  barrier: ({ label, ...options }) => bootstrap.barrier(label, options),
  async broadcast({ data, root: from, label }) {
    return text(await bootstrap.broadcast(Buffer.from(data), from, label));
  },
  async peer({ rank, purpose, ...options }) {
    sockets.set(`${rank} ${purpose}`, await bootstrap.peerConnection(rank, purpose, options));
  },
  write: ({ rank, purpose, data }) => void sockets.get(`${rank} ${purpose}`).write(data),
  read: ({ rank, purpose, count }) => read(sockets.get(`${rank} ${purpose}`), count),
  close: () => bootstrap.close(),
  abort: ({ reason }) => bootstrap.abort(reason),
  events: () => ({ lost, aborted }),
  exit: () => process.disconnect(),
};

process.on('message', async ({ id, method, args }) => {
  const reply = { id };
  try {
    reply.value = await methods[method](args);
  } catch (error) {
    reply.error = { code: error.code, message: error.message, rank: error.rank };
  }
  if (process.connected) process.send(reply);
});
process.send({ ready: true });
