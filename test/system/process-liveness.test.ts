import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import {
  isAlive,
  isStopped,
  isThreadAlive,
  ownIdentity,
  type ProcessIdentity,
} from '#src/system/process-liveness.js';

/** A process whose name holds what separates the fields of /proc/PID/stat. */
async function oddlyNamed(): Promise<{ child: ChildProcess; identity: ProcessIdentity }> {
  const program = `
    process.title = 'a) Z (1 2';
    import('#src/system/process-liveness.js').then((m) => {
      console.log(JSON.stringify(m.ownIdentity()));
      setInterval(() => {}, 1000);
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: new URL('../..', import.meta.url),
  });
  const [text] = await once(child.stdout!, 'data');
  return { child, identity: JSON.parse(String(text)) as ProcessIdentity };
}

describe.skipIf(process.platform !== 'linux')('a process', () => {
  it('lives for itself', () => {
    expect(ownIdentity().pid).toBe(process.pid);
    expect(ownIdentity().startTime).toBeGreaterThan(0);
    expect(isAlive(ownIdentity())).toBe(true);
  });

  it('lives until it is killed, whatever its name', async () => {
    const { child, identity } = await oddlyNamed();
    expect(identity.pid).toBe(child.pid);
    expect(readFileSync(`/proc/${child.pid}/stat`, 'utf8')).toContain('(a) Z (1 2)');
    expect(isAlive(identity)).toBe(true);
    expect(isStopped(identity)).toBe(false);
    child.kill('SIGSTOP');
    expect(isAlive(identity)).toBe(true);
    while (!isStopped(identity)) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(isStopped({ ...identity, startTime: identity.startTime - 1 })).toBe(false);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(isAlive(identity)).toBe(false);
    expect(isStopped(identity)).toBe(false);
  });

  it('is dead when its number now names a process that started at another time', () => {
    const own = ownIdentity();
    expect(isAlive({ ...own, startTime: own.startTime - 1 })).toBe(false);
  });

  it('of another process-number namespace cannot be judged and counts as alive', () => {
    expect(isAlive({ pid: 4194305, startTime: 1, namespace: 'pid:[1]' })).toBe(true);
  });

  it('is dead while it is a zombie that nobody has waited for', async () => {
    // The shell starts a child, tells its number, and becomes a program that never waits for it.
    const parent = spawn('sh', ['-c', 'sleep 0.05 & echo $!; exec sleep 5'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [text] = await once(parent.stdout!, 'data');
    const pid = Number(String(text));
    const state = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0];
    while (state() !== 'Z') await new Promise((resolve) => setTimeout(resolve, 10));
    expect(isAlive({ pid, startTime: 0, namespace: ownIdentity().namespace })).toBe(false);
    parent.kill('SIGKILL');
    await once(parent, 'exit');
  });
});

describe.skipIf(process.platform !== 'linux')('a thread', () => {
  it('lives until it ends', async () => {
    const program = `
      const { parentPort } = require('node:worker_threads');
      import('#src/system/process-liveness.js').then((m) => parentPort.postMessage(m.ownThread()));
      parentPort.on('message', () => parentPort.close());`;
    const worker = new Worker(program, { eval: true });
    const [thread] = (await once(worker, 'message')) as [number];
    expect(thread).toBeGreaterThan(0);
    expect(isThreadAlive(thread)).toBe(true);
    worker.postMessage('end');
    await once(worker, 'exit');
    expect(isThreadAlive(thread)).toBe(false);
  });

  it('whose number is not known counts as alive', () => {
    expect(isThreadAlive(0)).toBe(true);
  });
});
