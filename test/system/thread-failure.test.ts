import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { threadFailure } from '#src/system/thread-failure.js';

const run = promisify(execFile);

/** Ends with what a thread fails with that is started when no descriptor is left. */
const NO_DESCRIPTORS = `
const { openSync } = require('node:fs');
const { Worker } = require('node:worker_threads');
try { for (;;) openSync('/dev/null'); } catch {}
new Worker('0', { eval: true }).on('error', (error) => { console.log(error.message); process.exit(); });
`;

describe('a thread that fails', () => {
  it('because the system refused something is an error of the system, with the remedy', async () => {
    const command = 'ulimit -n 64; exec "$0" -e "$1"';
    const { stdout } = await run('/bin/sh', ['-c', command, process.execPath, NO_DESCRIPTORS]);
    const cause = new Error(stdout.trim());
    const failure = threadFailure("the executor's thread", undefined, cause);
    expect(failure).toMatchObject({ code: 'systemError', cause });
    expect(failure.message).toContain('EMFILE');
    expect(failure.message).toContain('ulimit -n');
    const refused = new Error("EMFILE: too many open files, open '/a/worker.js'");
    expect(threadFailure('it', 1, refused).code).toBe('systemError');
  });

  it('for another reason, or ends by itself, is a mistake of the library', () => {
    const cause = new Error('Each is not defined');
    expect(threadFailure('it', 1, cause)).toMatchObject({
      code: 'internalError',
      message: 'it failed: Each is not defined',
    });
    expect(threadFailure('it', 7)).toMatchObject({
      code: 'internalError',
      message: 'it ended by itself with exit code 7',
    });
  });
});
