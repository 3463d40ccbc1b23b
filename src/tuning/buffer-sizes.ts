/**
 * Buffers of a connection for each protocol, and the step of sends and receives.
 *
 * (NCCL 2.30.7, init.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { CpuArch } from '../topology/system/node.js';
import type { NcclProtocol } from './names.js';
import type { TuningSettings } from './settings.js';

/** Slots of a buffer. */
const STEPS = 8;

/** LL: 512 threads, 8 lines of 16 bytes each. LL128: 640 threads, 120 64-bit words. Simple: 4 MiB. */
const DEFAULTS: Readonly<Record<NcclProtocol, number>> = {
  LL: STEPS * 512 * 8 * 16,
  LL128: STEPS * 640 * 120 * 8,
  Simple: 4 << 20,
};

const VARIABLES: Readonly<Record<NcclProtocol, string>> = {
  LL: 'NCCL_LL_BUFFSIZE',
  LL128: 'NCCL_LL128_BUFFSIZE',
  Simple: 'NCCL_BUFFSIZE',
};

/**
 * Bytes below which a slot has no room for the smallest piece that a protocol moves (16 bytes of data and as many of
 * flags, 1920 of every 2048, 512): nothing could ever be sent.
 */
const MINIMUM: Readonly<Record<NcclProtocol, number>> = {
  LL: STEPS * 32,
  LL128: STEPS * 2048,
  Simple: STEPS * 512,
};

/**
 * Bytes of a connection's buffers.
 *
 * @throws TuttiError invalidUsage for a buffer that is too small to move anything
 */
export function bufferSizes(settings: TuningSettings): Readonly<Record<NcclProtocol, number>> {
  const size = (protocol: NcclProtocol, asked: number | undefined): number => {
    const bytes = asked ?? DEFAULTS[protocol];
    if (bytes >= MINIMUM[protocol]) return bytes;
    throw new TuttiError(
      'invalidUsage',
      `${VARIABLES[protocol]}=${bytes} leaves no room in the ${STEPS} slots of a ${protocol} buffer; use ` +
        `${MINIMUM[protocol]} or more, or unset it for ${DEFAULTS[protocol]}`,
    );
  };
  return {
    LL: size('LL', settings.llBuffer),
    LL128: size('LL128', settings.ll128Buffer),
    Simple: size('Simple', settings.simpleBuffer),
  };
}

export interface P2pChunkFacts {
  readonly nNodes: number;
  readonly isAllNvlink: boolean;
  readonly cpuArch: number;
  /** Lowest compute capability times 10. */
  readonly minSm: number;
  /** Bytes of the Simple buffer. */
  readonly simpleBuffer: number;
  /** Chunk of the communicator whose resources this one shares. */
  readonly parent?: number | undefined;
}

/** Bytes of one step of a send. */
export function p2pChunkSize(facts: P2pChunkFacts, settings: TuningSettings): number {
  const { nNodes, isAllNvlink, cpuArch, minSm, simpleBuffer, parent } = facts;
  let chunk = isAllNvlink ? settings.p2pNvlinkChunk : settings.p2pPciChunk;
  if (nNodes > 1) {
    const wide = cpuArch === CpuArch.ARM && minSm >= 100;
    chunk = settings.p2pNetChunk * (wide ? 2 : 1);
  }
  if (chunk * STEPS > simpleBuffer) chunk = Math.floor(simpleBuffer / STEPS);
  return Math.min(chunk, parent ?? chunk);
}
