/**
 * Prints what detection finds out about this machine, or a recorded one, as JSON: for people who look into a problem, and
 * to check the reading of NVML on a machine with GPUs.
 *
 * usage: node dist/topology/detect/print-facts.js [RECORDING]
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { writeXml } from '../xml/write.js';
import { detectTopology } from './detect.js';
import { liveMachine } from './machine.js';
import { recordedMachine } from './recorded-machine.js';

try {
  const [path] = process.argv.slice(2);
  const machine = path === undefined ? liveMachine() : recordedMachine(path);
  const { source, cpu, nvml, nvmlProblem, interfaces } = machine;
  const log: string[] = [];
  const env = path === undefined ? process.env : machine.environment;
  const xml = detectTopology({
    machine,
    env,
    log: (level, subsystem, text) => log.push(`${level} ${subsystem} ${text}`),
  });
  const hostHash = `0x${machine.hostHash.toString(16)}`;
  const queuePairs = Object.fromEntries(machine.queuePairs);
  const lines = writeXml(xml).split('\n');
  const facts = { source, hostHash, cpu, interfaces, queuePairs, nvmlProblem, nvml, log, xml: lines };
  console.log(JSON.stringify(facts, undefined, 2));
} catch (error) {
  if (!TuttiError.is(error)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
