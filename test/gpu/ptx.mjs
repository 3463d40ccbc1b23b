/**
 * Runs every operation of device programs on a GPU and compares it with the reference, bit for bit.
 *
 * Usage: node test/gpu/ptx.mjs --tools FOLDER [--arch sm_70,sm_80,...] [--seed N] [--scale N] [--out FILE]
 *                              [--device gpu|interpreter]
 * FOLDER is what test/gpu/prepare.mjs wrote. Each architecture's text is loaded on the GPU at hand, so that the
 * ways without newer instructions are run too. `--device interpreter` runs the same cases in the interpreter, which
 * checks the cases themselves and needs no GPU. Result: one JSON object; exit status 1 when something differs.
 */
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Machine } from '#src/kernel/interpreter/machine.js';
import { capability, PTX_ARCHITECTURES } from '#src/kernel/ptx/architecture.js';
import { compilePtx } from '#src/kernel/ptx/compile.js';
import { elementCases } from './element-cases.mjs';
import { programCases } from './program-cases.mjs';

const { values } = parseArgs({
  options: {
    tools: { type: 'string', default: '.gputest' },
    arch: { type: 'string', default: 'sm_70,sm_75,sm_80,sm_89,sm_90,sm_100' },
    seed: { type: 'string', default: '1' },
    scale: { type: 'string', default: '1' },
    out: { type: 'string' },
    device: { type: 'string', default: 'gpu' },
  },
});

/** Threads that the interpreter runs at most. */
const MOST_THREADS = 4000;

const tool = (name) => import(pathToFileURL(`${values.tools}/${name}.mjs`));
const tools = { ...(await tool('evaluate')), ...(await tool('random-program')) };
const options = { seed: Number(values.seed), scale: Number(values.scale) };
const start = Date.now();
const cases = [...elementCases(options), ...programCases(tools, options)];
const report = {
  seed: options.seed,
  scale: options.scale,
  cases: cases.length,
  prepareMs: Date.now() - start,
  runs: [],
};

/** One case's differences, as an entry of the report. */
function note(failures, name, differences) {
  if (differences.length > 0)
    failures.push({ name, count: differences.length, first: differences.slice(0, 5) });
}

async function onGpu() {
  const { Gpu } = await import('./driver.mjs');
  const gpu = new Gpu();
  report.gpu = gpu.name;
  report.driver = gpu.driver;
  report.capability = gpu.capability.join('.');
  const [major, minor] = gpu.capability;
  for (const arch of values.arch.split(',')) {
    if (capability(arch) > 10 * major + minor) continue;
    const begin = Date.now();
    const failures = [];
    let module;
    try {
      module = gpu.load(
        compilePtx(
          cases.map((c) => c.program),
          { arch },
        ),
      );
    } catch (error) {
      report.runs.push({ arch, error: error.message });
      continue;
    }
    const loadMs = Date.now() - begin;
    let elements = 0;
    for (const one of cases) {
      const { program, check } = one;
      try {
        const { memory, statuses } = await gpu.run(module, program.name, one);
        note(failures, program.name, check(memory, statuses));
        elements += one.elements;
      } catch (error) {
        // The context is of no use after this.
        failures.push({ name: program.name, error: error.message });
        report.runs.push({ arch, loadMs, elements, failures });
        return;
      }
    }
    gpu.unload(module);
    report.runs.push({ arch, loadMs, runMs: Date.now() - begin - loadMs, elements, failures });
  }
}

function inInterpreter() {
  const failures = [];
  let elements = 0;
  let skipped = 0;
  for (const { program, grid, block, memory, check, abort, gpuOnly, elements: count } of cases) {
    if (gpuOnly || grid * block > MOST_THREADS) {
      skipped++;
      continue;
    }
    const machine = new Machine({ seed: options.seed, memory: 'strong', maxSteps: 1e9 });
    const descriptor = machine.region('memory', memory.length, 0, { zeroed: true });
    machine.writeArray(descriptor, memory);
    const launched = machine.launch(program, { rank: 0, descriptor, blocks: grid, threads: block });
    if (abort) machine.abort(0, { atStep: 500 });
    try {
      machine.run();
      const ends = (b) => launched.statuses.slice(b * block, (b + 1) * block);
      const statuses = Uint32Array.from(
        { length: grid },
        (_, b) => ends(b).find((status) => status !== 0) ?? 0,
      );
      const view = machine.view(descriptor);
      note(
        failures,
        program.name,
        check(new Uint8Array(view.buffer, view.byteOffset, memory.length).slice(), statuses),
      );
    } catch (error) {
      failures.push({ name: program.name, error: error.message });
    }
    elements += count;
  }
  report.runs.push({ arch: 'interpreter', elements, skipped, failures });
}

if (values.device === 'interpreter') inInterpreter();
else await onGpu();
report.architectures = PTX_ARCHITECTURES;
report.totalMs = Date.now() - start;
const text = JSON.stringify(report, null, 2);
if (values.out !== undefined) writeFileSync(values.out, `${text}\n`);
console.log(text.length > 11000 ? `${text.slice(0, 11000)} ...` : text);
process.exit(report.runs.length > 0 && report.runs.every((r) => r.failures?.length === 0) ? 0 : 1);
