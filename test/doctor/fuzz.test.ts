/** Any text is read without a crash, in time that grows with its length only, and nothing in it is run. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { diagnose } from '#src/doctor/diagnose.js';
import { readJob } from '#src/doctor/read/read-job.js';
import { jsonReport } from '#src/doctor/report/json.js';
import { RULES } from '#src/doctor/rules/registry.js';
import { effort } from '../effort.js';
import { CASES, examine } from './case-files.js';

const RUNS = effort(150, 3000);

const TEXTS = [
  ...CASES.flatMap(({ files }) => [...files.values()]),
  ...RULES.flatMap(({ example }) => example.map(({ text }) => text)),
];

/** A place in a text and what is done there. */
const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 0, max: 200 }),
  text: fc.oneof(
    fc.string(),
    fc.constantFrom('\n', '\0', '{', '[', '"', '99999999999999999999', '-1', '%', '\u001b['),
  ),
});

function edited(text: string, edits: readonly { at: number; length: number; text: string }[]): string {
  return edits.reduce((result, one) => {
    const at = Math.floor(one.at * result.length);
    return result.slice(0, at) + one.text + result.slice(at + one.length);
  }, text);
}

describe('a damaged file', () => {
  it('is read and judged without an exception, and the report is JSON', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom(...TEXTS), fc.array(edit, { maxLength: 8 })), {
          minLength: 1,
          maxLength: 4,
        }),
        async (parts) => {
          const files = parts.map(([text, edits], i) => [`file${i}`, edited(text, edits)] as const);
          const { job, verdicts } = await examine(files);
          const lengths = new Map<string, number>(
            files.map(([name, text]) => [name, text.split('\n').length]),
          );
          for (const { evidence } of verdicts) {
            expect(evidence.length).toBeGreaterThan(0);
            for (const { file, line } of evidence) {
              expect(line).toBeGreaterThan(0);
              expect(line).toBeLessThanOrEqual(lengths.get(file)!);
            }
          }
          expect(() => JSON.parse(JSON.stringify(jsonReport(job, verdicts)))).not.toThrow();
        },
      ),
      { numRuns: RUNS },
    );
  });

  it('gives the same verdicts in pieces of any size', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...CASES),
        fc.integer({ min: 1, max: 5000 }),
        async ({ files }, size) => {
          const pieces = (text: string) =>
            Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
              text.slice(i * size, (i + 1) * size),
            );
          const job = await readJob([...files].map(([name, text]) => ({ name, text: pieces(text) })));
          expect(diagnose(job)).toEqual((await examine(files)).verdicts);
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe('a pickle', () => {
  it('is refused with a reason and not run', async () => {
    const pickle = '\ufffd\u0004\ufffd\u0000cos\nsystem\n(S"echo no"\ntR.';
    const { job, verdicts } = await examine([['dump.pkl', pickle]]);
    expect(job.files[0]!.problems.join()).toMatch(/pickle.*refused/);
    expect(verdicts).toEqual([]);
  });
});

/** Beginnings that lead into a reader, and what is then repeated. */
const HEADS = [
  '',
  'n:1:1 [0] NCCL INFO ',
  'n:1:1 [0] x.cc:1 NCCL WARN ',
  'n:1:1 [0] NCCL INFO Channel 00/0 : ',
  'n:1:1 [0] NCCL INFO AllReduce: opCount 1 ',
  'n:1:1 [0] NCCL INFO NET/IB : Using [0]',
  'n:1:1 [0] NCCL INFO NET/Plugin: undefined symbol',
  'n:1:1 [0] x.cc:1 NCCL WARN Call to ibv_modify_qp failed with ',
  '[rank0]: ',
  '# ',
  '$ ',
  '{"a":',
  '<system>',
  'NCCL version 1 compiled with CUDA\n#0-0 (ab) ERROR\n  ',
  '\tGPU0\tGPU1\nGPU0\t',
];
const UNITS = [
  ':',
  'a',
  'a.',
  '0',
  '0 ',
  ' ',
  '1.',
  '[0]',
  'a:1:1 [0] ',
  'count 1 datatype 1 comm ',
  'A=b ',
  '[',
  '{"a":',
  '<a>',
  'x.Error',
  '1/22/333/4444',
  'undefined symbol.so: ',
];

/** Characters of one input, and the longest line that a quadratic search would suffer from. */
const LENGTH = 32_000;
const LINE = 16_000;
/** 10 MB in 2 s are 6 ms for one input; a quadratic search takes a second. The rest is for a busy machine. */
const LIMIT_MS = 150;

describe('hostile text', () => {
  it('takes time in proportion to its length', async () => {
    const slow: string[] = [];
    for (const head of HEADS) {
      for (const unit of UNITS) {
        const line = head + unit.repeat(LINE / unit.length);
        const text = `${line}\n`.repeat(Math.floor(LENGTH / LINE));
        const before = process.cpuUsage();
        diagnose(await readJob([{ name: 'hostile', text: [text] }]));
        const { user, system } = process.cpuUsage(before);
        const ms = (user + system) / 1000;
        if (ms > LIMIT_MS) slow.push(`${head}${unit}: ${ms} ms`);
      }
    }
    expect(slow).toEqual([]);
  });
});
