/** Starts two ranks when no descriptor is left, and prints what is said of it and which rank failed. */
import { closeSync, openSync } from 'node:fs';
import { Output } from '#src/cli/run/output.js';
import { RankGroup } from '#src/cli/run/rank-group.js';

const output = new Output(process.stdout, () => {});
const said = [];
const held = [];
try {
  for (;;) held.push(openSync('/dev/null'));
} catch {}
const group = new RankGroup({
  command: process.execPath,
  arguments: ['-e', ''],
  environments: [{}, {}],
  graceMs: 1000,
  stdout: output,
  stderr: output,
  report: (message) => said.push(message),
});
await group.done;
for (const descriptor of held) closeSync(descriptor);
console.log(JSON.stringify({ said, failure: group.firstFailure }));
