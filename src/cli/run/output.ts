/**
 * One output stream of `tutti run` that all ranks write to. When its reader is slow the ranks' pipes are not
 * read, so the ranks wait rather than our memory grow. When its reader is gone the owner is told once.
 *
 * Node writes to pipes and terminals synchronously: a reader that pauses (`| less`) would stop this process, and
 * with it the signals and the root of the ranks. So the stream is made asynchronous while ranks write to it.
 */
import type { Readable, Writable } from 'node:stream';
import { styleText } from 'node:util';
import { LinePrefixer } from './line-prefixer.js';

/** Rank prefixes cycle through these; red is left to errors. */
const COLORS = ['cyan', 'green', 'yellow', 'magenta', 'blue'] as const;

type OutputStream = Writable & { isTTY?: boolean };

/** Files are written synchronously whatever one asks, and have no such handle. */
function setBlocking(stream: OutputStream, blocking: boolean): void {
  (stream as { _handle?: { setBlocking?(blocking: boolean): void } })._handle?.setBlocking?.(blocking);
}

export class Output {
  readonly #stream: OutputStream;
  readonly #waiting = new Set<Readable>();
  readonly #prefixes: boolean;
  readonly #onError: (error: Error) => void;
  #broken = false;

  /**
   * @param onBroken called when nobody reads any more (EPIPE) or writing fails
   * @param prefixes whether lines begin with the rank's number
   */
  constructor(stream: OutputStream, onBroken: () => void, prefixes = true) {
    this.#prefixes = prefixes;
    this.#stream = stream;
    this.#onError = () => {
      // Nobody will drain the stream: what the ranks still say is read and dropped, so that they can end.
      this.#broken = true;
      this.#resume();
      onBroken();
    };
    stream.on('error', this.#onError);
    stream.on('drain', this.#resume);
    setBlocking(stream, false);
  }

  readonly #resume = (): void => {
    for (const source of this.#waiting) source.resume();
    this.#waiting.clear();
  };

  /** Copies `source` line by line with the rank's prefix until it ends. */
  attach(source: Readable, rank: number): void {
    const colored = this.#stream.isTTY === true && process.env.NO_COLOR === undefined;
    const label = `[${rank}]`;
    // Whether to colour is decided above for this stream; Node would look at its standard output.
    const style = { validateStream: false };
    const shown = colored ? styleText(COLORS[rank % COLORS.length]!, label, style) : label;
    const prefix = this.#prefixes ? `${shown} ` : '';
    const prefixer = new LinePrefixer(prefix, (lines) => {
      if (this.#broken || this.#stream.destroyed || this.#stream.write(lines) || this.#broken) return;
      source.pause();
      this.#waiting.add(source);
    });
    source.on('data', (chunk: Buffer) => prefixer.push(chunk));
    source.once('close', () => {
      this.#waiting.delete(source);
      prefixer.flush();
    });
    // A pipe that breaks is as good as one that ends.
    source.on('error', () => {});
  }

  /** Waits until everything is written, then leaves the stream as it was. */
  async finish(): Promise<void> {
    if (!this.#broken && !this.#stream.destroyed) {
      await new Promise<void>((resolve) => this.#stream.write('', () => resolve()));
    }
    setBlocking(this.#stream, true);
    this.#stream.off('drain', this.#resume);
    this.#stream.off('error', this.#onError);
  }
}
