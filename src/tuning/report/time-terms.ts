/**
 * What a predicted time consists of: latency, which does not depend on the size, and what the bytes take.
 *
 * Both are asked of the cost model itself, once with tables in which bytes cost nothing and once with tables without
 * latency, so they are what the model added up, with every correction that it applies at a size.
 */
import { MAX_F32 } from '../arithmetic.js';
import type { TuningCall } from '../call.js';
import { callTime } from '../call-time.js';
import type { TuningTables } from '../model.js';
import { CELLS, FunctionId } from '../names.js';

/** Microseconds and GB/s. */
export interface TimeTerms {
  readonly latency: number;
  readonly bytes: number;
  /** Bytes of the message over what they take, at this size. */
  readonly bandwidth: number;
  /** Part of the table's bandwidth that counts at this size: trees lose some at medium sizes. */
  readonly efficiency: number;
  /** By what the table's latency is multiplied at this size: rings with Simple wait for each other from some size on. */
  readonly latencyFactor: number;
}

export class TimeTermModel {
  readonly #tables: TuningTables;
  readonly #withoutBytes: TuningTables;
  readonly #withoutLatency: TuningTables;

  constructor(tables: TuningTables) {
    this.#tables = tables;
    const free = tables.bandwidths.map((bandwidth) => (bandwidth === 0 ? 0 : MAX_F32));
    this.#withoutBytes = { ...tables, bandwidths: free };
    this.#withoutLatency = { ...tables, latencies: new Float32Array(tables.latencies.length) };
  }

  /** Terms of a candidate; undefined where the model has none. */
  of(call: TuningCall, cell: number): TimeTerms | undefined {
    const entry = FunctionId[call.function] * CELLS + cell;
    const raw = this.#tables.bandwidths[entry]!;
    if (raw === 0) return undefined;
    const latency = callTime(this.#withoutBytes, call, cell);
    const bytes = callTime(this.#withoutLatency, call, cell);
    const rawLatency = this.#tables.latencies[entry]!;
    const once = callTime(this.#withoutBytes, { ...call, pipelined: 1 }, cell);
    const bandwidth = bytes > 0 ? call.bytes / bytes / 1e3 : raw;
    return {
      latency,
      bytes,
      bandwidth,
      efficiency: rounded(bandwidth / raw),
      latencyFactor: rawLatency === 0 ? 1 : rounded(once / rawLatency),
    };
  }
}

/** Factors of the model have two digits; the rest is what single precision loses. */
const rounded = (factor: number): number => Number(factor.toPrecision(4));
