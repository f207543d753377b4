/**
 * Decides what becomes of the holes of a damaged array: which rows stay, which are filled, and the chunk sequence that
 * reads the result.
 *
 * Intact chunks are used as stored. A chunk whose start moves because rows are dropped, or that has filled rows, is
 * made on request. Must not know any dialect.
 */

import { at, countLeading, joinBytes } from "../../bytes/arrays.ts";
import { loadDigest } from "../../bytes/checksum.ts";
import { decode, encode } from "../../codec/index.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { mergeSpans, type RowSpan } from "../../format/layout.ts";
import type { ChecksumName } from "../../format/types.ts";
import { partOf } from "../../store/key.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import type { Hole, HolePolicy } from "../kinds/types.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk } from "../places/sequence.ts";
import type { FoundColumn } from "./columns.ts";

/** A column, and what its holes are counted in. */
export interface SalvagedColumn {
  readonly name: string | undefined;
  readonly found: FoundColumn;
  /** Bytes of a row: dropped and cut ranges end on rows. */
  readonly rowBytes: number;
  /** One item of the fill value, as stored. */
  readonly fill: Uint8Array;
  /** Key of the folder or file of its chunks. */
  readonly key: string;
  /** Compression and digest of newly made chunks: the same as for the intact ones. */
  readonly encoding: EncodeOptions;
  readonly checksum: ChecksumName;
}

/** Lists every hole of the columns, in order. `rows` is the length that all of them should have. */
export function listHoles(columns: readonly SalvagedColumn[], rows: number): Hole[] {
  const holes: Hole[] = [];
  for (const { name, found, rowBytes } of columns) {
    if (rowBytes === 0) continue;
    const column = name === undefined ? {} : { column: name };
    let end = 0;
    for (const [chunk, { nbytes, flaw }] of found.slots.entries()) {
      const start = chunk * found.chunkBytes;
      end = start + nbytes;
      if (flaw === undefined) continue;
      const to = Math.min(rows, Math.ceil(end / rowBytes));
      holes.push({ ...column, chunk, from: Math.floor(start / rowBytes), to, ...flaw });
    }
    const held = Math.floor(end / rowBytes);
    if (held >= rows) continue;
    const reason = `the column ends at row ${held}, and others at row ${rows}`;
    holes.push({
      ...column,
      chunk: found.slots.length,
      from: held,
      to: rows,
      code: "INCOMPLETE",
      reason,
      path: "",
    });
  }
  return holes;
}

/** The rows of `[0, rows)` that stay under a policy. */
export function keptRows(holes: readonly Hole[], rows: number, policy: HolePolicy): RowSpan[] {
  if (policy === "fill") return rows === 0 ? [] : [{ from: 0, to: rows }];
  const bad = mergeSpans(holes);
  if (policy === "cut") {
    const to = Math.min(rows, bad[0]?.from ?? rows);
    return to === 0 ? [] : [{ from: 0, to }];
  }
  const kept: RowSpan[] = [];
  let at = 0;
  for (const { from, to } of [...bad, { from: rows, to: rows }]) {
    if (from > at) kept.push({ from: at, to: Math.min(from, rows) });
    at = Math.max(at, to);
  }
  return kept;
}

export function countRows(spans: readonly RowSpan[]): number {
  return spans.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** Maps spans to their positions after all rows outside `kept` are removed. */
export function mapSpans(spans: readonly RowSpan[], kept: readonly RowSpan[]): RowSpan[] {
  const mapped: RowSpan[] = [];
  let at = 0;
  for (const { from, to } of kept) {
    for (const span of spans)
      mapped.push({ from: at + Math.max(span.from, from) - from, to: at + Math.min(span.to, to) - from });
    at += to - from;
  }
  return mergeSpans(mapped);
}

/** A column of a damaged array, read with its holes filled or closed. `rows` are those of the column that stay. */
export function salvagedSequence(
  source: ReadableStore,
  column: SalvagedColumn,
  rows: readonly RowSpan[],
): ChunkSequence {
  const { found, key, checksum } = column;
  const { chunkBytes, slots } = found;
  const bytes = new SalvagedBytes(source, column, rows);
  const { nbytes: total } = bytes;
  /** Begin of the keys of chunks that are made on request. */
  const prefix = `${key}/\0salvaged-`;
  let made: { readonly index: number; readonly chunk: Promise<Uint8Array> } | undefined;

  function placeNow(index: number): PlacedChunk {
    const nbytes = nbytesOfChunk(index, total, chunkBytes);
    const place = bytes.wholeAt(index, nbytes);
    if (place !== undefined) return { ...place, index };
    const facts = { offset: 0, ctbytes: undefined, available: nbytes + 65536, prologue: 0 };
    return { index, key: `${prefix}${index}`, nbytes, checksum, ...facts };
  }

  function chunkAt(index: number): Promise<Uint8Array> {
    if (made?.index !== index) made = { index, chunk: make(index) };
    return made.chunk;
  }

  async function make(index: number): Promise<Uint8Array> {
    const items = await bytes.read(index * chunkBytes, nbytesOfChunk(index, total, chunkBytes));
    const chunk = await encode(items, column.encoding);
    const digest = await loadDigest(checksum);
    return joinBytes([chunk, digest(chunk)]);
  }

  return {
    store: withMade(source, prefix, chunkAt),
    nbytes: total,
    chunkBytes,
    nchunks: chunkBytes === 0 ? 0 : Math.ceil(total / chunkBytes),
    hasChecksums: true,
    placeNow,
    places: async (first, end) => Array.from({ length: end - first }, (_, i) => placeNow(first + i)),
    async *keys() {
      yield* new Set(slots.flatMap(({ place }) => (place === undefined ? [] : [place.key])));
    },
    leftovers: async () => [],
  };
}

/** A range of the bytes that stay. */
interface KeptBytes extends RowSpan {
  /** What leads from there to the same byte of the column. */
  readonly shift: number;
}

/** Those of many ranges, in order and apart, that have bytes in `[from, to)`. */
function overlapping<T extends RowSpan>(spans: readonly T[], from: number, to: number): readonly T[] {
  const first = countLeading(spans.length, (i) => at(spans, i).to <= from);
  return spans.slice(
    first,
    countLeading(spans.length, (i) => at(spans, i).from < to),
  );
}

/** The bytes of a damaged column that stay, with the fill value where chunks are lost. */
class SalvagedBytes {
  /** Number of bytes that stay. */
  readonly nbytes: number;
  readonly #source: ReadableStore;
  readonly #column: SalvagedColumn;
  readonly #kept: readonly KeptBytes[];
  /** Byte ranges of the column that are filled: whole items. */
  readonly #filled: readonly RowSpan[];

  constructor(source: ReadableStore, column: SalvagedColumn, rows: readonly RowSpan[]) {
    const { rowBytes } = column;
    const kept: KeptBytes[] = [];
    let total = 0;
    for (const { from, to } of rows) {
      const end = total + (to - from) * rowBytes;
      kept.push({ from: total, to: end, shift: from * rowBytes - total });
      total = end;
    }
    this.nbytes = total;
    this.#source = source;
    this.#column = column;
    this.#kept = kept;
    this.#filled = filledBytes(column);
  }

  /** The place of a chunk that is used as stored: exactly that chunk stays. */
  wholeAt(index: number, nbytes: number): PlacedChunk | undefined {
    const { chunkBytes, slots } = this.#column.found;
    const [span, ...others] = this.#spansOf(index * chunkBytes, nbytes);
    if (span === undefined || others.length > 0 || span.from % chunkBytes !== 0) return undefined;
    const { place } = slots[span.from / chunkBytes] ?? {};
    const filled = overlapping(this.#filled, span.from, span.to);
    return place?.nbytes === nbytes && filled.length === 0 ? place : undefined;
  }

  /** `length` of the bytes that stay, from byte `start` of them on. */
  async read(start: number, length: number): Promise<Uint8Array> {
    const { chunkBytes } = this.#column.found;
    const out = new Uint8Array(length);
    let done = 0;
    for (const { from, to } of this.#spansOf(start, length))
      for (let at = from; at < to; ) {
        const end = Math.min(to, (Math.floor(at / chunkBytes) + 1) * chunkBytes);
        await this.#readPart(at, out.subarray(done, done + end - at));
        done += end - at;
        at = end;
      }
    return out;
  }

  /** Byte ranges of the column for a part of the bytes that stay. */
  #spansOf(start: number, length: number): RowSpan[] {
    const end = start + length;
    return overlapping(this.#kept, start, end).map(({ from, to, shift }) => {
      return { from: Math.max(start, from) + shift, to: Math.min(end, to) + shift };
    });
  }

  /** Reads bytes of the column from byte `at` on, all of one chunk, into `out`. */
  async #readPart(at: number, out: Uint8Array): Promise<void> {
    const { found, fill } = this.#column;
    const index = Math.floor(at / found.chunkBytes);
    const place = found.slots[index]?.place;
    if (place !== undefined) {
      const start = at - index * found.chunkBytes;
      out.set((await this.#decode(place)).subarray(start, start + out.length));
    }
    const item = fill.length > 0 ? fill : Uint8Array.of(0);
    for (const { from, to } of overlapping(this.#filled, at, at + out.length))
      for (let i = Math.max(at, from); i < Math.min(at + out.length, to); i++)
        out[i - at] = item[i % item.length] as number;
  }

  async #decode({ key, offset, available, nbytes }: PlacedChunk): Promise<Uint8Array> {
    const length = Math.min(available, nbytes + 16);
    const bytes = await this.#source.getRange(key, { offset, length });
    if (bytes !== undefined) return decode(bytes, { maxNbytes: nbytes });
    throw new SuperchunkError("STALE", "the file was removed while it was read; try again", {
      path: this.#source.describe(key),
    });
  }
}

/** Byte ranges of a column without values: of lost chunks, and after the last chunk. They are extended to whole items. */
function filledBytes({ found: { slots, chunkBytes }, fill }: SalvagedColumn): RowSpan[] {
  const item = Math.max(1, fill.length);
  const end = slots.reduce((sum, { nbytes }, i) => Math.max(sum, i * chunkBytes + nbytes), 0);
  const flawed = slots.flatMap(({ nbytes, flaw }, i) =>
    flaw === undefined ? [] : [{ from: i * chunkBytes, to: i * chunkBytes + nbytes }],
  );
  return mergeSpans(
    [...flawed, { from: end, to: Number.MAX_SAFE_INTEGER }].map(({ from, to }) => ({
      from: Math.floor(from / item) * item,
      to: to === Number.MAX_SAFE_INTEGER ? to : Math.ceil(to / item) * item,
    })),
  );
}

/** A store that also serves the chunks that a sequence makes. Supports only what reading an archive needs. */
function withMade(
  store: ReadableStore,
  prefix: string,
  chunk: (index: number) => Promise<Uint8Array>,
): ReadableStore {
  const made = (key: string): Promise<Uint8Array> | undefined =>
    key.startsWith(prefix) ? chunk(Number(key.slice(prefix.length))) : undefined;
  return {
    describe: (key) => (key.startsWith(prefix) ? "a chunk made for lost rows" : store.describe(key)),
    get: async (key, options) => made(key) ?? store.get(key, options),
    async getRange(key, range, options) {
      const bytes = await made(key);
      return bytes === undefined ? store.getRange(key, range, options) : partOf(bytes, range, key);
    },
    async stat(key, options): Promise<ObjectInfo | undefined> {
      const bytes = await made(key);
      return bytes === undefined ? store.stat(key, options) : { size: bytes.length, version: key };
    },
    list: (folder, options) => store.list(folder, options),
    ...(store.close === undefined ? {} : { close: () => store.close?.() ?? Promise.resolve() }),
  };
}
