/**
 * The few calls of the NVIDIA driver that the checks here need: load PTX, run a kernel over one piece of memory,
 * read it back. Errors carry the driver's own name and text.
 */
import { createRequire } from 'node:module';

const koffi = createRequire(import.meta.url)('koffi');

const DEVICE_MAPPED = 2; // CU_MEMHOSTALLOC_DEVICEMAP
const COMPUTE_CAPABILITY_MAJOR = 75;
const COMPUTE_CAPABILITY_MINOR = 76;
const JIT_ERROR_LOG = 5; // CU_JIT_ERROR_LOG_BUFFER
const JIT_ERROR_LOG_SIZE = 6;

/** Where the first byte of an array lies; asking for its buffer first moves small arrays out of the collected heap. */
function addressOf(array) {
  if (array.buffer.byteLength === 0) throw new Error('an empty array has no address');
  return koffi.address(array);
}

export class Gpu {
  #calls = new Map();
  #library;

  constructor(ordinal = 0) {
    this.#library = koffi.load('libcuda.so.1');
    this.#call('int cuInit(uint32_t flags)', 0);
    const device = [0];
    this.#call('int cuDeviceGet(_Out_ int *device, int ordinal)', device, ordinal);
    const context = [0n];
    this.#call('int cuDevicePrimaryCtxRetain(_Out_ uintptr_t *context, int device)', context, device[0]);
    this.#call('int cuCtxSetCurrent(uintptr_t context)', context[0]);
    const attribute = (which) => {
      const value = [0];
      this.#call(
        'int cuDeviceGetAttribute(_Out_ int *value, int which, int device)',
        value,
        which,
        device[0],
      );
      return value[0];
    };
    this.capability = [attribute(COMPUTE_CAPABILITY_MAJOR), attribute(COMPUTE_CAPABILITY_MINOR)];
    const name = Buffer.alloc(128);
    this.#call('int cuDeviceGetName(_Out_ uint8_t *name, int bytes, int device)', name, 128, device[0]);
    this.name = name.toString('latin1').split('\0')[0];
    const version = [0];
    this.#call('int cuDriverGetVersion(_Out_ int *version)', version);
    this.driver = version[0];
    // Two words of host memory that kernels reach: the abort word and where statuses go.
    const host = [0n];
    this.#call(
      'int cuMemHostAlloc(_Out_ uintptr_t *p, size_t bytes, uint32_t flags)',
      host,
      65536,
      DEVICE_MAPPED,
    );
    this.host = host[0];
    this.words = new Uint32Array(koffi.view(host[0], 65536));
  }

  #call(declaration, ...args) {
    let f = this.#calls.get(declaration);
    if (f === undefined) this.#calls.set(declaration, (f = this.#library.func(declaration)));
    const code = f(...args);
    if (code === 0) return;
    const text = [null];
    const what = this.#library.func('int cuGetErrorString(int code, _Out_ const char **text)');
    what(code, text);
    throw new Error(`${declaration.split('(')[0].split(' ')[1]}: error ${code}, ${text[0]}`);
  }

  /** Loads PTX text; the driver compiles it. The error log is part of the error. */
  load(text) {
    const log = Buffer.alloc(16384);
    const options = Int32Array.of(JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE);
    const values = BigUint64Array.of(BigInt(addressOf(log)), BigInt(log.length));
    const image = Buffer.from(`${text}\0`, 'latin1');
    const module = [0n];
    const declaration =
      'int cuModuleLoadDataEx(_Out_ uintptr_t *module, uintptr_t image, uint32_t count, uintptr_t options, uintptr_t values)';
    try {
      this.#call(declaration, module, addressOf(image), 2, addressOf(options), addressOf(values));
    } catch (error) {
      throw new Error(`${error.message}\n${log.toString('latin1').split('\0')[0]}`);
    }
    return module[0];
  }

  unload(module) {
    this.#call('int cuModuleUnload(uintptr_t module)', module);
  }

  #function(module, name) {
    const f = [0n];
    this.#call(
      'int cuModuleGetFunction(_Out_ uintptr_t *f, uintptr_t module, const char *name)',
      f,
      module,
      name,
    );
    return f[0];
  }

  /**
   * Runs a kernel whose descriptor is a copy of `memory` on the GPU. `meanwhile` is called until the kernel ends and
   * may write `words[0]`, the abort word. Result: the memory afterwards and the statuses of the blocks.
   */
  async run(module, name, { grid, block, memory, meanwhile = () => {} }) {
    const f = this.#function(module, name);
    const device = [0n];
    this.#call('int cuMemAlloc_v2(_Out_ uintptr_t *p, size_t bytes)', device, memory.length);
    try {
      this.#call(
        'int cuMemcpyHtoD_v2(uintptr_t to, uintptr_t from, size_t bytes)',
        device[0],
        addressOf(memory),
        memory.length,
      );
      this.words.fill(0);
      const base = BigInt(this.host);
      const parameters = BigUint64Array.of(BigInt(device[0]), base, base + 64n);
      const first = BigInt(addressOf(parameters));
      const pointers = BigUint64Array.of(first, first + 8n, first + 16n);
      this.#call(
        'int cuLaunchKernel(uintptr_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared, uintptr_t stream, uintptr_t parameters, uintptr_t extra)',
        f,
        grid,
        1,
        1,
        block,
        1,
        1,
        0,
        0,
        addressOf(pointers),
        0,
      );
      const query = this.#library.func('int cuStreamQuery(uintptr_t stream)');
      const end = Date.now() + 20_000;
      while (query(0) === 600) {
        if (Date.now() > end) throw new Error(`${name} does not end`);
        meanwhile(this.words);
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      this.#call('int cuCtxSynchronize()');
      const result = new Uint8Array(memory.length);
      this.#call(
        'int cuMemcpyDtoH_v2(uintptr_t to, uintptr_t from, size_t bytes)',
        addressOf(result),
        device[0],
        memory.length,
      );
      return { memory: result, statuses: this.words.slice(16, 16 + grid) };
    } finally {
      this.#call('int cuMemFree_v2(uintptr_t p)', device[0]);
    }
  }
}
