/**
 * Which networks NCCL found, which it took, and which plugins it could not load.
 */
import type { Hca, NcclProcess, SocketInterface } from '../../model/process.js';
import { type FileContext, here } from '../file-context.js';

const BOOTSTRAP = /^Bootstrap ?: Using (?:\[\d+\])?([^:\s]+):(\S+?)<\d+>/;
const HCA = /\[\d+\]([^\s:[\]]+):(\d+)(?:\/(\w+)(\/SHARP)?)?/g;
/** `NET/Socket: using Ethernet interface eth0`, as descriptions of older versions have it. */
const ETHERNET = /^NET\/Socket ?: using (?:Ethernet )?interface ([\w.-]+)/i;
/** An adapter of a list in newer versions may be a fusion of two: `mlx5_0+mlx5_1:1`. */
const INTERFACE = /\[\d+\]([^\s:[\]]+):(\S+?)<\d+>/g;
const USING = /^Using network (.+)$/;
/** `libnccl-net-ofi.so: libfabric.so.1: cannot open shared object file: No such file or directory` */
const MISSING = /([\w.+/-]+\.so[\w.]*): cannot open shared object file/;
const SYMBOL = /([\w.+/-]+\.so[\w.]*): (undefined symbol: [\w@.]+)/;
const OPENED =
  /(?:when loading |^NET\/Plugin ?: (?:dlopen of |Failed to load )?|^TUNER\/Plugin ?: )([\w.+/-]*\.so[\w.]*)/;

const MAX_FAILURES = 16;

/** The loader's messages hold some paths; longer text is something else. */
const MAX_MESSAGE = 1500;

export function readNetwork(process: NcclProcess, text: string, context: FileContext): boolean {
  if (text.startsWith('Bootstrap')) return readBootstrap(process, text, context);
  if (text.startsWith('NET/')) {
    if (text.startsWith('NET/IB : No device found')) process.noIbDevice ??= here(context);
    else if (/^NET\/(?:IB|OFI|[A-Za-z]\w*) : Using \[0\]/.test(text)) readUsing(process, text, context);
    else if (/^NET\/\w*Plugin/.test(text)) readLibrary(process, text, context);
    else if (text.includes('async event') || text.includes('initialization failed'))
      return false; // a trouble
    else if (text.startsWith('NET/Socket') && ETHERNET.test(text)) {
      const name = ETHERNET.exec(text)![1]!;
      process.sockets ??= { value: [{ name, address: '' }], at: here(context) };
      process.network ??= { value: 'Socket', at: here(context) };
    } else if (text.startsWith('NET/IB : GPU Direct RDMA Disabled')) process.gpuDirectOff ??= here(context);
    return true;
  }
  const using = USING.exec(text);
  if (using !== null) {
    process.network ??= { value: using[1]!.trim(), at: here(context) };
    return true;
  }
  return false;
}

function readBootstrap(process: NcclProcess, text: string, context: FileContext): boolean {
  const found = BOOTSTRAP.exec(text);
  if (found === null) return text.startsWith('Bootstrap timings');
  process.bootstrap ??= { name: found[1]!, address: found[2]!, at: here(context) };
  return true;
}

function readUsing(process: NcclProcess, text: string, context: FileContext): void {
  if (text.startsWith('NET/Socket')) {
    const interfaces: SocketInterface[] = [];
    for (const [, name, address] of text.matchAll(INTERFACE))
      interfaces.push({ name: name!, address: address! });
    process.sockets ??= { value: interfaces, at: here(context) };
    return;
  }
  const list = text.includes('; OOB ') ? text.slice(0, text.indexOf('; OOB ')) : text;
  const hcas: Hca[] = [];
  for (const [, name, port, link, sharp] of list.matchAll(HCA)) {
    hcas.push({
      name: name!,
      port: Number(port),
      link: link ?? 'IB',
      ...(sharp === undefined ? {} : { hasSharp: true }),
    });
  }
  if (hcas.length > 0) process.hcas ??= { value: hcas, at: here(context) };
}

function readLibrary(process: NcclProcess, text: string, context: FileContext): void {
  if (process.libraryFailures.length >= MAX_FAILURES) return;
  const isMissing = text.includes('cannot open shared object file') || text.includes('undefined symbol');
  if (!isMissing || text.length > MAX_MESSAGE) return;
  const missing = MISSING.exec(text) ?? SYMBOL.exec(text);
  if (missing === null) return;
  const library = OPENED.exec(text)?.[1] ?? missing[1]!;
  process.libraryFailures.push({
    library,
    missing: missing[1]!,
    reason: missing[2] ?? 'cannot open shared object file',
    at: here(context),
  });
}
