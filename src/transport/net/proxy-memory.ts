/** Memory that a proxy shares with the programs of its rank, and where in it things are. */
export class ProxyMemory<Layout> {
  readonly layout: Layout;
  protected readonly buffer: SharedArrayBuffer;
  protected readonly i32: Int32Array;

  constructor(buffer: SharedArrayBuffer, layout: Layout) {
    this.layout = layout;
    this.buffer = buffer;
    this.i32 = new Int32Array(buffer);
  }
}
