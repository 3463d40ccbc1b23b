/**
 * Two (or more) GPUs of one process with the few driver calls that measurements of device programs need: areas, buffers,
 * modules, launches, graphs, events. Every wait has a time limit, after which the programs are told to give up.
 */
import { createRequire } from 'node:module';
import { areaLayout } from '#src/collectives/gpu/area.js';
import { gpuWork, writeGpuWork } from '#src/collectives/gpu/work.js';
import { compilePtx } from '#src/kernel/ptx/compile.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';

const koffi = createRequire(import.meta.url)('koffi');

const DEVICE_MAPPED = 3; // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
const NOT_READY = 600; // CUDA_ERROR_NOT_READY
const ALREADY_ENABLED = 704; // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
const RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
const MULTIPROCESSORS = 16; // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
const STATUS_OFFSET = 64;

/** Seconds that a wait may take. */
const LIMIT_SECONDS = 15;

const addressOf = (array) => {
  void array.buffer.byteLength;
  return koffi.address(array);
};

const library = koffi.load('libcuda.so.1');
const functions = new Map();

function raw(declaration) {
  let f = functions.get(declaration);
  if (f === undefined) functions.set(declaration, (f = library.func(declaration)));
  return f;
}

function call(declaration, ...args) {
  const code = raw(declaration)(...args);
  if (code === 0) return;
  const text = [null];
  raw('int cuGetErrorString(int code, _Out_ const char **text)')(code, text);
  throw new Error(`${declaration.split('(')[0].split(' ')[1]}: error ${code}, ${text[0]}`);
}

/** A call that gives a pointer or handle. */
function handle(declaration, ...args) {
  const out = [0n];
  call(declaration, out, ...args);
  return BigInt(out[0]);
}

const launchKernel = raw(
  'int cuLaunchKernel(uintptr_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared, uintptr_t stream, uintptr_t parameters, uintptr_t extra)',
);

const launchExtended = raw(
  'int cuLaunchKernelEx(uintptr_t config, uintptr_t f, uintptr_t parameters, uintptr_t extra)',
);

/** Bytes of CUlaunchConfig and CUlaunchAttribute. */
const CONFIG_BYTES = 56;
const ATTRIBUTE_BYTES = 72;
const PROGRAMMATIC_STREAM_SERIALIZATION = 6;

class Rank {
  constructor(rank, ordinal) {
    this.rank = rank;
    this.device = Number(
      handle('int cuDeviceGet(_Out_ uintptr_t *device, int ordinal)', ordinal) & 0xffffffffn,
    );
    this.context = handle('int cuDevicePrimaryCtxRetain(_Out_ uintptr_t *context, int device)', this.device);
    this.enter();
    const value = [0];
    call(
      'int cuDeviceGetAttribute(_Out_ int *value, int which, int device)',
      value,
      MULTIPROCESSORS,
      this.device,
    );
    this.multiprocessors = value[0];
    const name = Buffer.alloc(128);
    call('int cuDeviceGetName(_Out_ uint8_t *name, int bytes, int device)', name, 128, this.device);
    this.name = name.toString('latin1').split('\0')[0];
    this.stream = handle('int cuStreamCreate(_Out_ uintptr_t *stream, uint32_t flags)', 1);
    this.begin = handle('int cuEventCreate(_Out_ uintptr_t *event, uint32_t flags)', 0);
    this.end = handle('int cuEventCreate(_Out_ uintptr_t *event, uint32_t flags)', 0);
    this.host = handle(
      'int cuMemHostAlloc(_Out_ uintptr_t *p, size_t bytes, uint32_t flags)',
      4096,
      DEVICE_MAPPED,
    );
    this.words = new Uint32Array(koffi.view(this.host, 4096));
    this.words.fill(0);
    this.functions = new Map();
  }

  enter() {
    call('int cuCtxSetCurrent(uintptr_t context)', this.context);
  }

  alloc(bytes) {
    this.enter();
    const p = handle('int cuMemAlloc_v2(_Out_ uintptr_t *p, size_t bytes)', bytes);
    call('int cuMemsetD8_v2(uintptr_t p, uint8_t value, size_t bytes)', p, 0, bytes);
    return p;
  }

  upload(to, array) {
    this.enter();
    call(
      'int cuMemcpyHtoD_v2(uintptr_t to, uintptr_t from, size_t bytes)',
      to,
      addressOf(array),
      array.byteLength,
    );
  }

  download(array, from) {
    this.enter();
    call(
      'int cuMemcpyDtoH_v2(uintptr_t to, uintptr_t from, size_t bytes)',
      addressOf(array),
      from,
      array.byteLength,
    );
  }

  fill(at, value, bytes) {
    this.enter();
    call('int cuMemsetD8_v2(uintptr_t p, uint8_t value, size_t bytes)', at, value, bytes);
  }

  copyOnDevice(to, from, bytes) {
    this.enter();
    call('int cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t bytes)', to, from, bytes);
  }

  load(key, text, name) {
    let f = this.functions.get(key);
    if (f !== undefined) return f;
    this.enter();
    const log = Buffer.alloc(8192);
    const options = Int32Array.of(5, 6); // the error log and its size
    const values = BigUint64Array.of(BigInt(addressOf(log)), BigInt(log.length));
    const image = Buffer.from(`${text}\0`, 'latin1');
    let module;
    try {
      module = handle(
        'int cuModuleLoadDataEx(_Out_ uintptr_t *module, uintptr_t image, uint32_t count, uintptr_t options, uintptr_t values)',
        addressOf(image),
        2,
        addressOf(options),
        addressOf(values),
      );
    } catch (error) {
      throw new Error(`${key}: ${error.message}\n${log.toString('latin1').split('\0')[0]}`);
    }
    f = handle(
      'int cuModuleGetFunction(_Out_ uintptr_t *f, uintptr_t module, const char *name)',
      module,
      name,
    );
    this.functions.set(key, f);
    return f;
  }
}

/** GPUs as ranks of one team. */
export class GpuRanks {
  constructor(count, { shareDevice = false } = {}) {
    call('int cuInit(uint32_t flags)', 0);
    const version = [0];
    call('int cuDriverGetVersion(_Out_ int *version)', version);
    this.driver = version[0];
    this.ranks = Array.from({ length: count }, (_, rank) => new Rank(rank, shareDevice ? 0 : rank));
    const enable = raw('int cuCtxEnablePeerAccess(uintptr_t context, uint32_t flags)');
    for (const a of this.ranks) {
      for (const b of this.ranks) {
        if (a.device === b.device) continue;
        a.enter();
        const code = enable(b.context, 0);
        if (code !== 0 && code !== ALREADY_ENABLED)
          throw new Error(`peer access ${a.rank} to ${b.rank}: ${code}`);
      }
    }
    this.team = {
      ranks: count,
      multiprocessors: Math.min(...this.ranks.map((r) => r.multiprocessors)),
      ranksPerDevice: shareDevice ? count : 1,
      addressing: 'plain',
      wholeLines: true,
    };
    this.areas = this.ranks.map((r) => r.alloc(areaLayout(count).bytes));
    this.texts = new Map();
  }

  /** A launch of a collective on one rank, ready to be repeated. */
  prepare(rank, launch, args) {
    const { size } = gpuWork(this.ranks.length);
    return this.prepareWith(rank, launch, size, (view) => {
      writeGpuWork(view, 0, launch.share, { self: rank, areas: this.areas, ...args });
    });
  }

  /** A launch of messages on one rank. */
  prepareMessages(rank, launch) {
    return this.prepareWith(rank, launch, launch.compile.descriptorBytes, (view) => {
      launch.write(view, 0, this.areas);
    });
  }

  prepareWith(rank, launch, size, write) {
    const r = this.ranks[rank];
    let compiled = this.texts.get(launch.key);
    if (compiled === undefined) {
      const program = launch.build(ptxTraits());
      const text = compilePtx(program, { arch: 'sm_90', ...launch.compile });
      compiled = { name: program.name, text: this.edit(text) };
      this.texts.set(launch.key, compiled);
    }
    const f = r.load(launch.key, compiled.text, compiled.name);
    const block = new ArrayBuffer(size);
    write(new DataView(block));
    const start = BigInt(addressOf(new Uint8Array(block)));
    const words = new BigUint64Array(2);
    words.set([r.host, r.host + BigInt(STATUS_OFFSET)]);
    const first = BigInt(addressOf(words));
    const pointers = BigUint64Array.of(start, first, first + 8n);
    const config = new ArrayBuffer(CONFIG_BYTES + ATTRIBUTE_BYTES);
    const view = new DataView(config);
    const at = BigInt(addressOf(new Uint8Array(config)));
    [launch.blocks, 1, 1, launch.threads, 1, 1, 0].forEach((value, i) => {
      view.setUint32(4 * i, value, true);
    });
    view.setBigUint64(32, r.stream, true);
    view.setBigUint64(40, at + BigInt(CONFIG_BYTES), true);
    view.setUint32(48, 1, true);
    view.setUint32(CONFIG_BYTES, PROGRAMMATIC_STREAM_SERIALIZATION, true);
    view.setUint32(CONFIG_BYTES + 8, 1, true);
    const keep = [block, words, pointers, config];
    return { f, launch, r, keep, config: at, parameters: addressOf(pointers) };
  }

  /** Changes the text of programs, for experiments. */
  edit = (text) => text;

  /** Forgets programs, so that they are compiled anew. */
  forget() {
    this.texts.clear();
    for (const r of this.ranks) r.functions.clear();
  }

  /** Launches of a stream may begin before the one before is over. */
  overlap = false;

  fire({ f, launch, r, parameters, config }) {
    const code = this.overlap
      ? launchExtended(config, f, parameters, 0)
      : launchKernel(f, launch.blocks, 1, 1, launch.threads, 1, 1, 0, r.stream, parameters, 0);
    if (code !== 0) throw new Error(`cuLaunchKernel ${launch.key}: error ${code}`);
  }

  /** Waits for all streams; tells the programs to give up when that takes too long. */
  finish(what) {
    const query = raw('int cuStreamQuery(uintptr_t stream)');
    const end = Date.now() + 1000 * LIMIT_SECONDS;
    for (const r of this.ranks) {
      r.enter();
      let code = query(r.stream);
      while (code === NOT_READY) {
        if (Date.now() > end) {
          for (const other of this.ranks) other.words[0] = 1;
          throw new Error(`${what}: rank ${r.rank} did not end in ${LIMIT_SECONDS} s`);
        }
        code = query(r.stream);
      }
      if (code !== 0) throw new Error(`${what}: rank ${r.rank} failed with error ${code}`);
      if (r.words.subarray(STATUS_OFFSET / 4).some((w) => w !== 0)) throw new Error(`${what}: bad status`);
    }
  }

  /** Fills and uploads go through the default stream; programs do not wait for it. */
  settle() {
    for (const r of this.ranks) {
      r.enter();
      call('int cuCtxSynchronize()');
    }
  }

  runOnce(prepared, what) {
    this.settle();
    for (const p of prepared) {
      p.r.enter();
      this.fire(p);
    }
    this.finish(what);
  }

  timed(what, calls, enqueue) {
    for (const r of this.ranks) {
      r.enter();
      call('int cuEventRecord(uintptr_t event, uintptr_t stream)', r.begin, r.stream);
    }
    enqueue();
    for (const r of this.ranks) {
      r.enter();
      call('int cuEventRecord(uintptr_t event, uintptr_t stream)', r.end, r.stream);
    }
    this.finish(what);
    const times = this.ranks.map((r) => {
      r.enter();
      const ms = [0];
      call('int cuEventElapsedTime(_Out_ float *ms, uintptr_t begin, uintptr_t end)', ms, r.begin, r.end);
      return (ms[0] * 1000) / calls;
    });
    return Math.max(...times);
  }

  /** Microseconds of a copy by the copy engines, all ranks to the next one at a time, `calls` of each. */
  timeCopies(sends, recvs, bytes, calls) {
    const copy = raw(
      'int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream)',
    );
    const once = (count) => {
      for (let i = 0; i < count; i++) {
        this.ranks.forEach((r, rank) => {
          r.enter();
          copy(recvs[(rank + 1) % this.ranks.length], sends[rank], bytes, r.stream);
        });
      }
    };
    this.settle();
    once(1);
    this.finish('copies');
    return this.timed('copies', calls, () => once(calls));
  }

  /**
   * Microseconds of an exchange of `bytes` by the copy engines in both directions with a copy at home beside, between two
   * meetings: by kernels, or by values that streams write and wait for. From streams and in graphs, where that goes.
   */
  timeEngines(sends, recvs, bytes, { kernels, parts, launches }) {
    const copy = raw(
      'int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream)',
    );
    const write = raw(
      'int cuStreamWriteValue32_v2(uintptr_t stream, uintptr_t address, uint32_t value, uint32_t flags)',
    );
    const wait = raw(
      'int cuStreamWaitValue32_v2(uintptr_t stream, uintptr_t address, uint32_t value, uint32_t flags)',
    );
    const record = raw('int cuEventRecord(uintptr_t event, uintptr_t stream)');
    const waitEvent = raw('int cuStreamWaitEvent(uintptr_t stream, uintptr_t event, uint32_t flags)');
    const ok = (code, what) => {
      if (code !== 0) throw new Error(`${what}: error ${code}`);
    };
    for (const r of this.ranks) {
      r.enter();
      r.side ??= Array.from({ length: 2 }, () => ({
        stream: handle('int cuStreamCreate(_Out_ uintptr_t *stream, uint32_t flags)', 1),
        event: handle('int cuEventCreate(_Out_ uintptr_t *event, uint32_t flags)', 2),
      }));
      r.fork ??= handle('int cuEventCreate(_Out_ uintptr_t *event, uint32_t flags)', 2);
      r.flags ??= r.alloc(256);
    }
    const meet = (r, rank, word) => {
      if (kernels !== undefined) {
        this.fire(kernels[rank]);
        return;
      }
      const peer = this.ranks[(rank + 1) % this.ranks.length];
      const at = BigInt(128 * word);
      ok(write(r.stream, peer.flags + at, 1, 0), 'write');
      ok(wait(r.stream, r.flags + at, 1, 0), 'wait');
      ok(write(r.stream, r.flags + at, 0, 0), 'reset');
    };
    const one = (r, rank) => {
      const peer = (rank + 1) % this.ranks.length;
      const own = BigInt(bytes * rank);
      meet(r, rank, 0);
      record(r.fork, r.stream);
      const part = bytes / parts;
      for (let p = 1; p < parts; p++) {
        const { stream } = r.side[p];
        ok(waitEvent(stream, r.fork, 0), 'fork');
        ok(copy(recvs[peer] + own + BigInt(p * part), sends[rank] + BigInt(p * part), part, stream), 'copy');
        record(r.side[p].event, stream);
      }
      ok(waitEvent(r.side[0].stream, r.fork, 0), 'fork');
      ok(copy(recvs[rank] + own, sends[rank], bytes, r.side[0].stream), 'copy at home');
      record(r.side[0].event, r.side[0].stream);
      ok(copy(recvs[peer] + own, sends[rank], part, r.stream), 'copy');
      for (let p = 0; p < parts; p++) ok(waitEvent(r.stream, r.side[p].event, 0), 'join');
      meet(r, rank, 1);
    };
    const each = (count) => {
      for (let i = 0; i < count; i++) {
        this.ranks.forEach((r, rank) => {
          r.enter();
          one(r, rank);
        });
      }
    };
    this.settle();
    each(3);
    this.finish('engines');
    const stream = Number(this.timed('engines', 10, () => each(10)).toFixed(2));
    const a = new Uint32Array(4096);
    const b = new Uint32Array(4096);
    this.ranks[0].download(a, sends[0] + BigInt(bytes - 16384));
    this.ranks[1].download(b, recvs[1] + BigInt(bytes - 16384));
    if (a.some((value, i) => value !== b[i])) throw new Error('wrong copy');
    const prepared = this.ranks.map((r, rank) => ({ r, run: () => one(r, rank) }));
    const fire = this.fire;
    this.fire = (p) => (p.run === undefined ? fire.call(this, p) : p.run());
    try {
      return {
        stream,
        graph: Number(this.timeGraph(prepared, 'engines', { calls: 10, launches }).toFixed(2)),
      };
    } catch (error) {
      return { stream, graph: stream, note: error.message };
    } finally {
      this.fire = fire;
    }
  }

  /** Microseconds of a launch of a kernel given as text, with (source, target, bytes) as its parameters, on all ranks. */
  timeText(name, text, { blocks, threads, sends, recvs, bytes, calls }) {
    const launches = this.ranks.map((r, rank) => {
      const f = r.load(`text ${name}`, text, name);
      const values = BigUint64Array.of(sends[rank], recvs[(rank + 1) % this.ranks.length], BigInt(bytes));
      const first = BigInt(addressOf(values));
      const pointers = BigUint64Array.of(first, first + 8n, first + 16n);
      return { r, f, parameters: addressOf(pointers), keep: [values, pointers] };
    });
    const once = (count) => {
      for (let i = 0; i < count; i++) {
        for (const { r, f, parameters } of launches) {
          r.enter();
          const code = launchKernel(f, blocks, 1, 1, threads, 1, 1, 0, r.stream, parameters, 0);
          if (code !== 0) throw new Error(`${name}: error ${code}`);
        }
      }
    };
    this.settle();
    once(1);
    this.finish(name);
    return this.timed(name, calls, () => once(calls));
  }

  /** Microseconds of a call in graphs of `calls` calls. */
  timeGraph(prepared, what, { calls = 20, launches = 5 } = {}) {
    const graphs = prepared.map((p) => {
      p.r.enter();
      call('int cuStreamBeginCapture_v2(uintptr_t stream, int mode)', p.r.stream, RELAXED);
      for (let i = 0; i < calls; i++) this.fire(p);
      const out = [0n];
      call('int cuStreamEndCapture(uintptr_t stream, _Out_ uintptr_t *graph)', p.r.stream, out);
      const exec = handle(
        'int cuGraphInstantiateWithFlags(_Out_ uintptr_t *exec, uintptr_t graph, uint64_t flags)',
        BigInt(out[0]),
        0,
      );
      return { p, graph: BigInt(out[0]), exec };
    });
    this.settle();
    const launchAll = () => {
      for (const { p, exec } of graphs) {
        p.r.enter();
        call('int cuGraphLaunch(uintptr_t exec, uintptr_t stream)', exec, p.r.stream);
      }
    };
    launchAll();
    this.finish(what);
    const best = [];
    for (let i = 0; i < 3; i++) {
      best.push(
        this.timed(what, calls * launches, () => {
          for (let j = 0; j < launches; j++) launchAll();
        }),
      );
    }
    for (const { p, graph, exec } of graphs) {
      p.r.enter();
      call('int cuGraphExecDestroy(uintptr_t exec)', exec);
      call('int cuGraphDestroy(uintptr_t graph)', graph);
    }
    return best.sort((a, b) => a - b)[1];
  }

  /** Microseconds of a call when one rank after the other has all its calls launched: all are far apart at first. */
  timeSkewed(prepared, what, calls = 50) {
    this.settle();
    return this.timed(what, calls, () => {
      for (const p of prepared) {
        p.r.enter();
        for (let i = 0; i < calls; i++) this.fire(p);
        const end = process.hrtime.bigint() + 500_000n;
        while (process.hrtime.bigint() < end);
      }
    });
  }

  /** Microseconds of a call launched on streams from this one thread. */
  timeStream(prepared, what, calls = 100) {
    const loop = (count) => {
      for (let i = 0; i < count; i++) {
        for (const p of prepared) {
          p.r.enter();
          this.fire(p);
        }
      }
    };
    loop(5);
    this.finish(what);
    return this.timed(what, calls, () => loop(calls));
  }
}
