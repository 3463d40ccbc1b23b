/** What communicators cost: memory of an idle rank, and nothing that stays after closing. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { CONNECTED_NAMES, supports } from '#src/collectives/registry.js';
import { createLocalCommunicators } from '#src/communicator/communicator.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { FaultRanks, residentBytes } from './fault-ranks.js';
import { tuttiRun } from './tutti-run.js';

const MB = 1e6;
const ranks = new FaultRanks();
afterEach(() => ranks.end());

/** Resident bytes of a Node process that does nothing but listen to its parent. */
async function bareNode(): Promise<number> {
  const program = "process.on('message', () => {}); process.send('ready')";
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  await once(child, 'message');
  const bytes = residentBytes(child.pid!);
  child.kill();
  await once(child, 'exit');
  return bytes;
}

describe.runIf(process.platform === 'linux')('an idle rank', () => {
  it('takes less than 100 MB beyond a bare Node process', async () => {
    const bare = await bareNode();
    const [first] = await ranks.start(2, 'rest');
    const { result } = await first!.said('end');
    const beyond = (residentBytes(first!.child.pid!) - bare) / MB;
    expect(result).toBe('rested');
    expect(beyond).toBeGreaterThan(0);
    expect(beyond).toBeLessThan(100);
  });
});

describe('making and closing communicators again and again', () => {
  it('between processes leaves no memory, descriptors or threads behind', async () => {
    const { code, stdout, stderr } = await tuttiRun(2, 'many-communicators.mjs', ['60']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const line of stdout.trimEnd().split('\n')) {
      const { descriptors, threads, megabytes } = JSON.parse(line.slice(line.indexOf('{')));
      expect(descriptors).toBeLessThanOrEqual(2);
      expect(threads).toBeLessThanOrEqual(0);
      expect(megabytes).toBeLessThan(12);
    }
  });

  it('between threads leaves no memory, descriptors or threads behind', async () => {
    const { code, stdout, stderr } = await tuttiRun(1, 'many-communicators.mjs', ['60', 'threads']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { descriptors, threads, megabytes } = JSON.parse(stdout.slice(stdout.indexOf('{')));
    expect(descriptors).toBeLessThanOrEqual(2);
    expect(threads).toBeLessThanOrEqual(0);
    expect(megabytes).toBeLessThan(12);
  });

  it('with each algorithm takes memory for its connections at its first call only, and gives all back [C06-24]', async () => {
    const free = () => HostDevice.shared().freeBytes;
    const options = { ranksPerNode: 2, timeoutMs: 20_000 };
    // The first use of the device starts executors, which stay.
    for (const comm of await createLocalCommunicators(4, options)) await comm.close();
    const before = free();
    for (const algorithm of CONNECTED_NAMES) {
      const collective = supports(algorithm, 'allReduce') ? 'allReduce' : 'allGather';
      const other = collective === 'allReduce' ? 'allGather' : 'allReduce';
      const list = `Ring;${collective}:${algorithm}`;
      const comms = await createLocalCommunicators(4, { ...options, algorithm: list });
      const call = (name: 'allReduce' | 'allGather') =>
        Promise.all(
          comms.map((comm) => {
            const send = new Float32Array(40).fill(1);
            return comm[name](send, new Float32Array(name === 'allGather' ? 160 : 40));
          }),
        );
      await call(other);
      const joined = free();
      await call(other);
      expect(free(), `${algorithm} is not used yet`).toBe(joined);
      await call(collective);
      const used = free();
      expect(used, `${algorithm} is used`).toBeLessThan(joined);
      await call(collective);
      expect(free(), `${algorithm} is used again`).toBe(used);
      await Promise.all(comms.map((comm) => comm.close()));
      expect(free(), algorithm).toBe(before);
    }
  });

  it.runIf(process.platform === 'linux')('leaves nothing in /dev/shm', () => {
    expect(readdirSync('/dev/shm').filter((name) => /tutti/i.test(name))).toEqual([]);
  });
});
