/**
 * Builds the peer programs into bench/peers/build/ (ignored by git), each only when its source is newer.
 *
 * usage: node bench/peers/build.js [--install]     --install: get the packages with apt-get first (as root)
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, 'build');

/** Debian's packages: compilers and headers of both peers. */
const PACKAGES = ['gcc', 'g++', 'openmpi-bin', 'libopenmpi-dev', 'libgloo-dev'];

const PEERS = {
  openmpi: {
    source: 'openmpi-allreduce.c',
    command: ['mpicc', '-O3', '-march=native', '-Wall', '-Wextra'],
    libraries: [],
  },
  openmpiMessages: {
    source: 'openmpi-messages.c',
    command: ['mpicc', '-O3', '-march=native', '-Wall', '-Wextra'],
    libraries: [],
  },
  gloo: {
    source: 'gloo-allreduce.cc',
    command: ['g++', '-std=c++14', '-O3', '-march=native', '-Wall', '-Wextra'],
    libraries: ['-lgloo', '-lpthread'],
  },
};

const changed = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function build({ source, command: [compiler, ...flags], libraries }) {
  const from = join(here, source);
  const to = join(folder, source.replace(/\.\w+$/, ''));
  if (changed(to) > changed(from)) return { path: to };
  mkdirSync(folder, { recursive: true });
  const { error, status, stderr } = spawnSync(compiler, [...flags, from, '-o', to, ...libraries], {
    encoding: 'utf8',
  });
  if (error?.code === 'ENOENT') return { missing: `${compiler} is not installed` };
  if (error !== undefined) return { missing: error.message };
  if (status !== 0) return { missing: `${compiler} failed:\n${stderr.trim()}` };
  return { path: to };
}

/**
 * Builds what can be built.
 * @returns {Record<'openmpi' | 'openmpiMessages' | 'gloo', { path: string, missing?: undefined } | { missing: string, path?: undefined }>}
 */
export function buildPeers() {
  return Object.fromEntries(Object.entries(PEERS).map(([name, peer]) => [name, build(peer)]));
}

/** How to get what is missing. */
export const REMEDY = `apt-get install -y ${PACKAGES.join(' ')}   (or: node bench/peers/build.js --install)`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--install')) {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    spawnSync('apt-get', ['update', '-q'], { stdio: 'inherit', env });
    spawnSync('apt-get', ['install', '-y', '-q', '--no-install-recommends', ...PACKAGES], {
      stdio: 'inherit',
      env,
    });
  }
  for (const [name, { path, missing }] of Object.entries(buildPeers())) {
    if (path !== undefined) console.log(`${name}: ${path}`);
    else {
      console.error(`${name}: ${missing}\n  ${REMEDY}`);
      process.exitCode = 1;
    }
  }
}
