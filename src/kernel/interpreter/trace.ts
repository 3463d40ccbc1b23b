/** The last accesses of a run, for the report of a fault. */

import type { Region } from './region.js';
import type { Thread } from './thread.js';

interface Entry {
  readonly thread: Thread;
  readonly site: number;
  readonly verb: string;
  readonly region: Region;
  readonly at: number;
  readonly bytes: number;
  readonly late: boolean;
  /** Known once the access is over: a store is noted just before its bytes move. */
  value: string;
}

export class Trace {
  readonly #entries: Entry[] = [];

  constructor(readonly length: number) {}

  access(thread: Thread, verb: string, region: Region, at: number, bytes: number, late: boolean): void {
    this.#complete();
    this.#entries.push({ thread, site: thread.site, verb, region, at, bytes, late, value: '' });
    if (this.#entries.length > this.length) this.#entries.shift();
  }

  #complete(): void {
    const last = this.#entries.at(-1);
    if (last === undefined || last.value !== '') return;
    if (last.late) last.value = 'an older value';
    else {
      let hex = '';
      for (let i = last.bytes - 1; i >= 0; i--) {
        hex += last.region.view
          .getUint8(last.at + i)
          .toString(16)
          .padStart(2, '0');
      }
      last.value = `0x${hex}`;
    }
  }

  lines(): string[] {
    this.#complete();
    return this.#entries.map(({ thread: t, site, verb, region, at, value }) => {
      const who = `rank ${t.rank} block ${t.block} thread ${t.index}`;
      return `${who}: ${verb} ${region.name}+0x${at.toString(16)} = ${value} (${t.sites[site]!.place})`;
    });
  }
}
