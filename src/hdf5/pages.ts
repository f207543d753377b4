/**
 * The bytes of a file in pages that are kept, read with few requests: over a network, a request costs far more than some extra bytes.
 *
 * Knows positions and what was read before; must not know what the bytes mean.
 */
import { keepLast } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { groupRanges } from "../store/key.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";

/** Bytes of a page, and pages to keep. */
const PAGE = 16 << 10;
const PAGES = 1024;
/** Bytes of the first request over a network: they hold the metadata of most files, and take about as long as another request. */
const HEAD = 256 << 10;
/** Bytes that most structures do not exceed. */
const STRUCTURE = 4096;
/** Fewer places than these are read with what is around them. */
const FEW = 3;
/** Least bytes of a request for metadata. */
const LEAST = 64 << 10;
/** Over a network, bytes of requests that are longer than needed: about as many are read to open a file. */
const AROUND = 1 << 20;
/** Most bytes of a request for bytes that follow those of the one before it. */
const MOST = 4 << 20;

/** One file of a store, which must exist. */
export class Pages {
  readonly info: ObjectInfo;
  readonly #read: (offset: number, length: number) => Promise<Uint8Array>;
  readonly #isRemote: boolean;
  readonly #kept = new Map<number, Promise<Uint8Array>>();
  /** Bytes that were read around places far from the others. */
  #spent: number;
  /** The first page of the last request, and the one after it. */
  #last: readonly [number, number] = [0, 0];
  /** The page after the last request, and its number of pages. */
  #next = 0;
  #count = 0;

  private constructor(store: ReadableStore, key: string, info: ObjectInfo) {
    this.info = info;
    this.#isRemote = store.getHead !== undefined;
    this.#spent = this.#isRemote ? HEAD : AROUND;
    this.#read = async (offset, length) => {
      const bytes = await store.getRange(key, { offset, length });
      if (bytes?.length === length) return bytes;
      throw new SuperchunkError("STALE", "the file changed while it was read; try again", {
        path: store.describe(key),
      });
    };
  }

  /** Opens a file; undefined if it does not exist. Over a network its first bytes come with its size. */
  static async open(store: ReadableStore, key: string, options: StoreOptions): Promise<Pages | undefined> {
    const head = await store.getHead?.(key, HEAD, options);
    const info = head?.info ?? (await store.stat(key, options));
    if (info === undefined) return undefined;
    const pages = new Pages(store, key, info);
    if (head !== undefined && head.bytes.length === Math.min(HEAD, info.size))
      pages.#keep(0, Math.ceil(head.bytes.length / PAGE), Promise.resolve(head.bytes));
    return pages;
  }

  /** Reads bytes of the file, all of which must exist. */
  async get(position: number, length: number): Promise<Uint8Array> {
    const first = Math.floor(position / PAGE);
    const last = Math.floor((position + Math.max(1, length) - 1) / PAGE);
    const reading: Promise<Uint8Array>[] = [];
    for (let page = first; page <= last; page++) {
      if (!this.#kept.has(page)) this.#fetchAround(page, last);
      reading.push(this.#kept.get(page) as Promise<Uint8Array>);
    }
    const [page, ...more] = await Promise.all(reading);
    const start = position - first * PAGE;
    const bytes = page?.subarray(start, start + length) ?? new Uint8Array(0);
    if (more.length === 0) return bytes;
    const out = new Uint8Array(length);
    out.set(bytes);
    for (const [i, part] of more.entries()) {
      const from = (i + 1) * PAGE - start;
      out.set(part.subarray(0, length - from), from);
    }
    return out;
  }

  /**
   * A copy of bytes that came with the last request, once for each request, which saves one for a short chunk next to what led to it; of a
   * file that came as a whole, of any bytes. Undefined for others: of many chunks, each that is there would be a gap between requests
   * that are joined.
   */
  find(position: number, length: number, isAlone: boolean): Promise<Uint8Array> | undefined {
    const [from, end] = this.#last;
    const isThere =
      length > 0 && position >= from * PAGE && position + length <= Math.min(end * PAGE, this.info.size);
    const isWhole = from === 0 && end * PAGE >= this.info.size;
    if (!this.#isRemote || !isThere || !(isWhole || isAlone)) return undefined;
    if (!isWhole) this.#last = [0, 0];
    return this.get(position, length).then((bytes) => bytes.slice());
  }

  /** Reads what is needed soon, with few requests at the same time. Parts that are too many to keep, or do not exist, are left out. */
  async prepare(positions: readonly number[]): Promise<void> {
    const last = Math.floor((this.info.size - 1) / PAGE);
    const pages = new Set<number>();
    for (const position of positions) {
      const page = Math.floor(position / PAGE);
      // What begins at the end of a page goes on in the next one.
      for (const each of position % PAGE > PAGE - STRUCTURE ? [page, page + 1] : [page])
        if (each <= last && pages.size < PAGES / 4) pages.add(each);
    }
    const missing = [...pages].filter((page) => !this.#kept.has(page));
    if (positions.length < FEW) {
      for (const page of missing) if (!this.#kept.has(page)) this.#fetchAround(page, page);
      await Promise.all(missing.map((page) => this.#kept.get(page)));
      return;
    }
    const ranges = missing.map((page) => ({ offset: page * PAGE, length: PAGE }));
    let room = PAGES / 2;
    const reading: Promise<unknown>[] = [];
    for (const group of groupRanges(ranges, HEAD, MOST)) {
      const from = (group[0]?.offset ?? 0) / PAGE;
      const count = (group.at(-1)?.offset ?? 0) / PAGE + 1 - from;
      room -= count;
      if (room < 0) break;
      this.#fetch(from, count);
      reading.push(this.#kept.get(from) as Promise<Uint8Array>);
    }
    await Promise.all(reading);
  }

  /** Requests a page, with those up to `last` and others around it that are not kept. */
  #fetchAround(page: number, last: number): void {
    const { size } = this.info;
    const all = Math.ceil(size / PAGE);
    const isNext = page >= this.#next && page - this.#next <= Math.max(LEAST / PAGE, this.#count / 4);
    const window = isNext ? Math.min(MOST / PAGE, this.#count * 2) : Math.ceil(this.#around() / PAGE);
    let from = page;
    const least = Math.max(0, isNext ? page : Math.min(page - (window >> 2), all - window));
    while (from > least && !this.#kept.has(from - 1)) from--;
    // Most structures are short; of a long one, as much as is kept.
    const most = Math.min(all, from + PAGES / 2, Math.max(last + 1, from + window));
    let end = page + 1;
    while (end < most && !this.#kept.has(end)) end++;
    if (!isNext) this.#spent += (end - from) * PAGE;
    this.#fetch(from, end - from);
  }

  /**
   * Bytes to read at a place far from the others. The first requests bring all or most of a short file. In a long one, the first places
   * lead elsewhere, to those that lie near one another.
   */
  #around(): number {
    const { size } = this.info;
    const rest = AROUND - this.#spent;
    if (rest <= 0) return LEAST;
    return size <= AROUND ? size : Math.max(LEAST, (size > 2 * AROUND ? this.#spent : rest) / 3);
  }

  #fetch(from: number, count: number): void {
    const start = from * PAGE;
    this.#next = from + count;
    this.#count = count;
    this.#keep(from, count, this.#read(start, Math.min(count * PAGE, this.info.size - start)));
  }

  #keep(from: number, count: number, reading: Promise<Uint8Array>): void {
    this.#last = [from, from + count];
    for (let i = 0; i < count; i++) {
      const page = reading.then((bytes) => bytes.subarray(i * PAGE, (i + 1) * PAGE));
      keepLast(this.#kept, from + i, page, PAGES);
      page.catch(() => this.#kept.get(from + i) === page && this.#kept.delete(from + i));
    }
  }
}
