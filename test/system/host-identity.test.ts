import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { hostHash, processHash } from '#src/system/host-identity.js';

const MODULE = fileURLToPath(new URL('../../dist/system/host-identity.js', import.meta.url));

function inAnotherProcess(): { host: bigint; process: bigint } {
  const script = `import { hostHash, processHash } from ${JSON.stringify(MODULE)}; console.log(hostHash({}), processHash())`;
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const [host, own] = out
    .trim()
    .split(' ')
    .map((text) => BigInt(text.replace('n', '')));
  return { host: host!, process: own! };
}

test('two processes of one host have the same host hash and different process hashes', () => {
  const other = inAnotherProcess();
  expect(other.host).toBe(hostHash({}));
  expect(other.process).not.toBe(processHash());
  expect(processHash()).toBe(processHash());
});

test('NCCL_HOSTID replaces the identity of the host', () => {
  expect(hostHash({ NCCL_HOSTID: 'a' })).toBe(hostHash({ NCCL_HOSTID: 'a' }));
  expect(hostHash({ NCCL_HOSTID: 'a' })).not.toBe(hostHash({ NCCL_HOSTID: 'b' }));
  expect(hostHash({ NCCL_HOSTID: 'a' })).not.toBe(hostHash({}));
  expect(hostHash({ NCCL_HOSTID: '' })).toBe(hostHash({}));
});
