/** Marks the command as executable after a build: npx runs the file itself where its link is older than the build. */
import { chmodSync } from 'node:fs';

chmodSync(new URL('../dist/cli/main.js', import.meta.url), 0o755);
