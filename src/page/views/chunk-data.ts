/** The facts of a column's chunks. Knows numbers; must not know how they are drawn. */
import { type ChunkBatch, MOST_CHUNKS, STATE } from "../engine/protocol.ts";

/** The listed chunks, in typed arrays that grow: a slot for each, in list order. */
export class ChunkData {
  /** Chunks of the whole column, listed or not. */
  readonly total: number;
  count = 0;
  /** True once all stored chunks are listed. */
  isWhole = false;
  /** Slots by chunk number, plus one. For very many chunks, a map of the listed ones only. */
  readonly #slots: Uint32Array | Map<number, number>;
  index: Float64Array = new Float64Array(1024);
  offset: Float64Array = new Float64Array(1024);
  nbytes: Float64Array = new Float64Array(1024);
  cbytes: Float64Array = new Float64Array(1024);
  file: Uint32Array = new Uint32Array(1024);
  codec: Uint32Array = new Uint32Array(1024);
  state: Uint8Array = new Uint8Array(1024);
  words: readonly string[] = [];
  /** Numbers of the files and codecs seen, in their order. */
  readonly files: Set<number> = new Set();
  readonly codecs: Set<number> = new Set();
  readonly digests: Map<number, string> = new Map();
  /** When the files were written, by file number, in milliseconds since 1970; and the earliest and latest of these times. */
  readonly written: Map<number, number> = new Map();
  oldest: number = Number.POSITIVE_INFINITY;
  newest: number = Number.NEGATIVE_INFINITY;
  /** Greatest and least ratio and size of stored chunks. */
  mostRatio = 2;
  leastRatio = 1;
  mostBytes = 1;
  leastBytes: number = Number.POSITIVE_INFINITY;
  stored = 0;
  decoded = 0;

  constructor(total: number) {
    this.total = total;
    this.#slots = total <= MOST_CHUNKS ? new Uint32Array(total) : new Map();
  }

  /** Number of chunks that are not stored; 0 until that is known. */
  get absent(): number {
    return this.isWhole ? Math.max(0, this.total - this.count) : 0;
  }

  /** The slot of a chunk; undefined if it is not listed. */
  slotOf(chunk: number): number | undefined {
    const slot = this.#slots instanceof Map ? this.#slots.get(chunk) : this.#slots[chunk];
    return slot ? slot - 1 : undefined;
  }

  /** The state of a chunk, listed or not. */
  stateOf(chunk: number): number {
    const slot = this.slotOf(chunk);
    return slot === undefined ? (this.isWhole ? STATE.absent : STATE.unlisted) : (this.state[slot] as number);
  }

  /** Adds chunks. Returns true if the bounds grew, which changes the colours of existing cells. */
  add(batch: ChunkBatch): boolean {
    const bounds = (): string => `${this.leastRatio} ${this.mostRatio} ${this.leastBytes} ${this.mostBytes}`;
    const before = bounds();
    const { length } = batch.index;
    this.#reserve(this.count + length);
    for (let i = 0; i < length; i++) {
      const at = this.count + i;
      const [nbytes, cbytes] = [batch.nbytes[i] as number, batch.cbytes[i] as number];
      const chunk = batch.index[i] as number;
      if (this.#slots instanceof Map) this.#slots.set(chunk, at + 1);
      else this.#slots[chunk] = at + 1;
      this.state[at] = batch.state[i] as number;
      this.files.add(batch.file[i] as number);
      this.codecs.add(batch.codec[i] as number);
      const digest = batch.digest[i];
      if (digest !== undefined) this.digests.set(at, digest);
      this.stored += cbytes;
      this.decoded += nbytes;
      if (cbytes <= 0) continue;
      this.mostRatio = Math.max(this.mostRatio, nbytes / cbytes);
      this.leastRatio = Math.min(this.leastRatio, nbytes / cbytes);
      this.mostBytes = Math.max(this.mostBytes, cbytes);
      this.leastBytes = Math.min(this.leastBytes, cbytes);
    }
    for (const name of ["index", "offset", "nbytes", "cbytes", "file", "codec"] as const)
      this[name].set(batch[name], this.count);
    this.words = batch.words;
    this.count += length;
    return before !== bounds();
  }

  setWritten(file: number, at: number): void {
    this.written.set(file, at);
    this.oldest = Math.min(this.oldest, at);
    this.newest = Math.max(this.newest, at);
  }

  /** A cell for each file, with the sums of its chunks, and the slot of its first chunk here. */
  byFile(): { readonly data: ChunkData; readonly first: readonly number[] } {
    const groups = new Map<number, number>();
    const first: number[] = [];
    const sums: { nbytes: number; cbytes: number; states: number }[] = [];
    for (let cell = 0; cell < this.count; cell++) {
      const file = this.file[cell] as number;
      let group = groups.get(file);
      if (group === undefined) {
        group = first.push(cell) - 1;
        groups.set(file, group);
        sums.push({ nbytes: 0, cbytes: 0, states: 0 });
      }
      const sum = sums[group] as (typeof sums)[number];
      sum.nbytes += this.nbytes[cell] as number;
      sum.cbytes += this.cbytes[cell] as number;
      sum.states |= 1 << (this.state[cell] as number);
    }
    const data = new ChunkData(first.length);
    data.add({
      index: Float64Array.from(first.keys()),
      offset: new Float64Array(first.length),
      nbytes: Float64Array.from(sums, ({ nbytes }) => nbytes),
      cbytes: Float64Array.from(sums, ({ cbytes }) => cbytes),
      file: Uint32Array.from(first, (cell) => this.file[cell] as number),
      codec: Uint32Array.from(first, (cell) => this.codec[cell] as number),
      digest: [],
      words: this.words,
      state: new Uint8Array(first.length),
    });
    for (const [group, { states }] of sums.entries())
      data.state[group] =
        [STATE.missing, STATE.damaged, STATE.filled].find((state) => states & (1 << state)) ??
        (states === 1 << STATE.whole ? STATE.whole : STATE.unknown);
    for (const [file, at] of this.written) data.setWritten(file, at);
    return { data, first };
  }

  #reserve(count: number): void {
    if (count <= this.index.length) return;
    const room = Math.max(count, 2 * this.index.length);
    const grow = <T extends Float64Array | Uint32Array | Uint8Array>(old: T, made: T): T => {
      made.set(old);
      return made;
    };
    this.index = grow(this.index, new Float64Array(room));
    this.offset = grow(this.offset, new Float64Array(room));
    this.nbytes = grow(this.nbytes, new Float64Array(room));
    this.cbytes = grow(this.cbytes, new Float64Array(room));
    this.file = grow(this.file, new Uint32Array(room));
    this.codec = grow(this.codec, new Uint32Array(room));
    this.state = grow(this.state, new Uint8Array(room));
  }
}
