/** A thread that checks golden files: gets {job, aspects}, answers with the result of test/topology/golden/check.ts. */
import { register } from 'node:module';
import { parentPort } from 'node:worker_threads';

register('./golden-loader.js', import.meta.url);
const { checkFile } = await import('../test/topology/golden/check.ts');

parentPort.on('message', ({ job, aspects }) => {
  parentPort.postMessage(checkFile(job, aspects));
});
