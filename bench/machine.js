/** Facts of the machine that a result needs to be read: what it is, never what it is called. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, freemem, release, totalmem, type } from 'node:os';

/** A file of the kernel, trimmed, or 'unknown' where there is none. */
function fact(path) {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}

/** @returns {Record<string, string | number>} */
export function machineFacts() {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    freeGiB: Math.round(freemem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    hypervisor: /^flags.*\bhypervisor\b/m.test(fact('/proc/cpuinfo')) ? 'yes' : 'no',
    loadAverage: fact('/proc/loadavg').split(' ').slice(0, 3).join(' '),
    node: process.version,
  };
}
