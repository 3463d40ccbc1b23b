/**
 * Refuses text that has no meaning outside the place where somebody wrote it: paths of a machine, folders and
 * pages beside the repository, hosts of package registries, conflict markers. Reads every file that git tracks
 * or would track.
 *
 * usage: node scripts/check-text.js [REPOSITORY]     exit status 1 and one line per place
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What is refused, and why. Written as patterns that do not match their own source. */
const REFUSED = [
  [/\.\.\/shared(?![-.\w])/, 'a folder beside the repository'],
  [/(?<![\w.*}])\/(?:work|root)\//, 'a path of one machine'],
  [/\/tmp\/[n]otes/, 'a path of one machine'],
  [
    /\b(?:DESIGN|HOUSE|CRAFT|DEPENDENCIES)\.[m]d\b|\bDESIGN [s]ection/,
    'a page that is not in the repository',
  ],
  [/\bregistry\.[a-z.-]+\.(?:org|com|net|io|dev)\b|\bnpm\.pkg\.[g]ithub/, 'the host of a package registry'],
  [
    /"resolved": "[h]ttp/,
    'a package address in the lock file; npm config set omit-lockfile-registry-resolved true',
  ],
  [/^(?:<{7}|>{7}) /, 'a conflict marker'],
];

const root = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..');
const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
const files = execFileSync('git', list, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 }).split('\0');
let places = 0;
let count = 0;
for (const file of files) {
  const path = join(root, file);
  if (file === '' || !existsSync(path)) continue;
  const text = readFileSync(path, 'utf8');
  if (text.includes('\0')) continue;
  count++;
  if (!REFUSED.some(([pattern]) => new RegExp(pattern, 'm').test(text))) continue;
  for (const [index, line] of text.split('\n').entries()) {
    for (const [pattern, what] of REFUSED) {
      const match = pattern.exec(line);
      if (match === null) continue;
      console.error(`${file}:${index + 1}: '${match[0]}' is ${what}`);
      places++;
    }
  }
}
if (places > 0) process.exitCode = 1;
else console.log(`text: ${count} files, nothing that belongs to one place only`);
