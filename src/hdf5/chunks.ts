/** Finds the chunks of an HDF5 dataset, one or all, from every kind of index. Must not know filters. */
import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { Fields, Hdf5File } from "./file.ts";
import { MAX_DEPTH, MAX_NODES, recordsOf } from "./heaps.ts";
import type { Hdf5Dataset, Hdf5Layout } from "./objects.ts";

export interface Hdf5Chunk {
  /** Offset in the file. */
  readonly position: number;
  readonly size: number;
  /** Filters that the writer skipped: bit 0 is the first. */
  readonly mask: number;
}

/** The stored chunks by grid position: `"0.3"`, and `"0"` for an array without dimensions. */
export type Hdf5Chunks = ReadonlyMap<string, Hdf5Chunk>;

/** Most chunks of a dataset: their places are kept in memory. */
const MAX_CHUNKS = 20_000_000;
/** Most parts of an index to read one by one. Reading the whole index then costs less than more parts. */
const PARTS = 32;
/** Elements of a block that are read for one of them. */
const NEAR = 64;

export type ChunkedLayout = Extract<Hdf5Layout, { kind: "chunked" }>;

interface Walk {
  readonly file: Hdf5File;
  readonly dataset: Hdf5Dataset;
  readonly layout: ChunkedLayout;
  /** Chunks along each dimension. */
  readonly counts: readonly number[];
  /** The same for the maximum shape of the dataset, which the indexes count by. */
  readonly most: readonly (number | undefined)[];
  /** Bytes of a chunk without filters. */
  readonly nbytes: number;
  readonly chunks: Map<string, Hdf5Chunk>;
  /** The place of the only chunk that is wanted: a key in trees, a chunk number elsewhere. Undefined for all chunks. */
  readonly wanted: Place | undefined;
  /** The walk found all chunks from `low` on and before `high`. Other parts of the index were not read. */
  low?: Place | undefined;
  high?: Place | undefined;
  /** True if the wanted chunk would be in none of two neighbouring nodes. */
  hasGap?: boolean;
}

type Place = readonly number[];

/** The index of a dataset's chunks, which can be much longer than what is read for one of them. */
export class ChunkIndex {
  readonly #facts: Pick<Walk, "file" | "dataset" | "layout" | "counts" | "most" | "nbytes">;
  #parts: Walk[] = [];
  #reading: Promise<Walk> | undefined;
  #all: Promise<Hdf5Chunks> | undefined;

  constructor(file: Hdf5File, dataset: Hdf5Dataset, layout: ChunkedLayout) {
    const { shape, maxShape, type } = dataset;
    const { chunks: lengths } = layout;
    const counts = shape.map((extent, d) => Math.ceil(extent / (lengths[d] as number)));
    const most = maxShape.map((extent, d) => extent && Math.ceil(extent / (lengths[d] as number)));
    this.#facts = { file, dataset, layout, counts, most, nbytes: elementsOf(lengths) * type.size };
  }

  /** All stored chunks. Throws the codes of damage; LIMIT for too many chunks. */
  all(): Promise<Hdf5Chunks> {
    if (this.#all !== undefined) return this.#all;
    this.#all = this.#read(undefined).then(({ chunks }) => chunks);
    this.#all.then(
      () => (this.#parts = []),
      () => (this.#all = undefined),
    );
    return this.#all;
  }

  /** A stored chunk by its name in {@link Hdf5Chunks}, from only those parts of the index that lead to it. Throws the codes of damage. */
  async find(name: string): Promise<Hdf5Chunk | undefined> {
    if (this.#all !== undefined) return (await this.#all).get(name);
    const { counts, layout } = this.#facts;
    const at = counts.length === 0 ? [] : name.split(".").map(Number);
    // Names of documents, such as "zarr.json", are not positions either.
    if (at.length !== counts.length || !at.every((index, d) => index < (counts[d] as number)))
      return undefined;
    const { kind } = layout.index;
    const wanted = kind === "tree-1" ? [...at, 0] : kind === "tree-2" ? at : [numberOf(this.#facts, at)];
    const known = () => this.#parts.findLast(({ low, high }) => isInside(wanted, low, high));
    // Chunks that are read at the same time are mostly neighbours, which one part has.
    let part = known();
    if (part === undefined && this.#reading !== undefined) {
      await this.#reading.catch(() => undefined);
      part = known();
    }
    if (part === undefined && this.#parts.length < PARTS) part = await this.#readPart(wanted);
    return part === undefined || part.hasGap ? (await this.all()).get(name) : part.chunks.get(name);
  }

  #readPart(wanted: Place): Promise<Walk> {
    this.#reading = this.#read(wanted).then((part) => {
      this.#parts.push(part);
      return part;
    });
    return this.#reading;
  }

  async #read(wanted: Place | undefined): Promise<Walk> {
    const walk: Walk = { ...this.#facts, wanted, chunks: new Map() };
    await walkIndex(walk);
    return walk;
  }
}

/** Adds the wanted chunk and those stored with it, or all chunks. */
async function walkIndex(walk: Walk): Promise<void> {
  const { file, dataset, layout, counts, most, nbytes, wanted } = walk;
  const { address, index } = layout;
  if (address === undefined) return;
  if (index.kind === "single" && counts.some((count) => count > 1))
    throw new SuperchunkError(
      "BAD_FIELD",
      `the dataset has ${counts.join(" x ")} chunks, but an index of one; the file is damaged`,
      { path: file.path, field: "index of the chunks", expected: 1, found: counts.join() },
    );
  const place = { address, size: index.size ?? nbytes, mask: index.mask };
  if (index.kind === "single") add(walk, new Array(dataset.shape.length).fill(0), place);
  else if (index.kind === "tree-1") await walkTree(walk, address, { left: MAX_NODES }, { depth: 0 });
  else if (index.kind === "tree-2") await walkTree2(walk, address);
  else if (index.kind === "fixed") await walkFixed(walk, address);
  else if (index.kind === "extensible") await walkExtensible(walk, address);
  else {
    const total = most.reduce<number>((product, count) => product * (count ?? 1), 1);
    if (wanted === undefined && total > MAX_CHUNKS)
      throw new SuperchunkError("LIMIT", `a dataset of ${total} chunks; ${MAX_CHUNKS} is the limit`, {
        path: file.path,
        expected: MAX_CHUNKS,
        found: total,
      });
    const [first = 0] = wanted ?? [];
    const end = wanted === undefined ? total : first + 1;
    isBeside(walk, [first], [end]);
    for (let i = first; i < end; i++)
      add(walk, positionAt(walk, i), { address: address + i * nbytes, size: nbytes, mask: 0 });
  }
}

/** True if what lies from `low` on and before `high` is not wanted. The walk then ends before it, or starts after it. */
function isBeside(walk: Walk, low: Place | undefined, high: Place | undefined): boolean {
  const { wanted } = walk;
  if (wanted === undefined) return false;
  if (low !== undefined && isBefore(wanted, low)) {
    if (walk.high === undefined || isBefore(low, walk.high)) walk.high = low;
    return true;
  }
  if (low !== undefined && (walk.low === undefined || isBefore(walk.low, low))) walk.low = low;
  if (high !== undefined && !isBefore(wanted, high)) {
    if (walk.low === undefined || isBefore(walk.low, high)) walk.low = high;
    return true;
  }
  if (high !== undefined && (walk.high === undefined || isBefore(high, walk.high))) walk.high = high;
  return false;
}

function isInside(place: Place, low: Place | undefined, high: Place | undefined): boolean {
  return (low === undefined || !isBefore(place, low)) && (high === undefined || isBefore(place, high));
}

function add(
  { file, counts, chunks }: Walk,
  at: readonly number[],
  found: { address: number; size: number; mask: number },
): void {
  // Some indexes keep chunks that are outside of a shrunk dataset.
  if (at.some((index, d) => index >= (counts[d] as number))) return;
  const position = file.positionOf(found.address);
  chunks.set(at.length === 0 ? "0" : at.join("."), { position, size: found.size, mask: found.mask });
}

/** The dimensions as chunk numbers count them: in the C order of the maximum shape, with the unlimited dimension first. */
function orderOf({ most }: Pick<Walk, "most">): number[] {
  const endless = most.indexOf(undefined);
  const order = most.map((_, d) => d).filter((d) => d !== endless);
  return endless < 0 ? order : [endless, ...order];
}

/** The chunk number of a grid position. */
function numberOf({ most }: Pick<Walk, "most">, at: Place): number {
  return orderOf({ most }).reduce((number, d) => number * (most[d] || 1) + (at[d] as number), 0);
}

/** The grid position of a chunk number. */
function positionAt({ most }: Walk, index: number): number[] {
  const at = most.map(() => 0);
  let rest = index;
  for (const d of orderOf({ most }).reverse()) {
    const count = most[d];
    at[d] = count === undefined ? rest : rest % Math.max(1, count);
    rest = count === undefined ? 0 : Math.floor(rest / Math.max(1, count));
  }
  return at;
}

function needRoom(walk: Walk, fields: Fields, more = 1): void {
  if (walk.chunks.size + more > MAX_CHUNKS)
    throw fields.bad("chunks of a dataset", `at most ${MAX_CHUNKS}`, walk.chunks.size + more);
}

/** The grid positions of a node's chunks: from `low` on, and before `high`. */
interface TreePart {
  readonly low?: readonly number[];
  readonly high?: readonly number[];
  readonly depth: number;
}

async function walkTree(
  walk: Walk,
  address: number,
  nodes: { left: number },
  { low, high, depth }: TreePart,
): Promise<void> {
  const { file, layout } = walk;
  const head = await file.fields(address, 8, "a node of chunks");
  if (--nodes.left < 0 || depth > MAX_DEPTH)
    throw head.bad("the tree of chunks", "a tree", "one without an end");
  head.expect("TREE");
  const type = head.uint8("type of a node");
  if (type !== 1) throw head.bad("type of a node", 1, type);
  const level = head.uint8("level of a node");
  const used = head.uint16("entries of a node");
  needRoom(walk, head, used);
  const key = 8 * (layout.chunks.length + 2);
  const length = used * (key + file.offsetSize) + key;
  const entries = await file.fields(address + 8 + 2 * file.offsetSize, length, "a node of chunks");
  if (level > 0 && walk.wanted === undefined) await file.prepare(childrenIn(entries, { key, used }));
  let next = readKey(entries, layout);
  const first = next.at;
  if (low !== undefined && isBefore(next.at, low))
    throw entries.bad("offset of a chunk", `${low.join()} or later`, next.at.join());
  for (let i = 0; i < used; i++) {
    const { size, mask, at } = next;
    const child = entries.someAddress("address of a chunk");
    next = readKey(entries, layout);
    // HDF5 searches by these offsets, and does not find a chunk that is out of order.
    if (!isBefore(at, next.at) || (high !== undefined && isBefore(high, next.at)))
      throw entries.bad(
        "offset of a chunk",
        `between ${at.join()} and ${high?.join() ?? "the end"}`,
        next.at.join(),
      );
    if (!at.every(Number.isInteger) || at.at(-1) !== 0)
      throw entries.bad("offset of a chunk", `multiples of ${layout.chunks.join()}`, at.join());
    if (level === 0) add(walk, at.slice(0, -1), { address: child, size, mask });
    // The first and the last child also show that nothing lies before and after them.
    else if (!isBeside(walk, i === 0 ? low : at, i === used - 1 ? high : next.at))
      await walkTree(walk, child, nodes, { low: at, high: next.at, depth: depth + 1 });
  }
  // A node repeats the keys around its place in the node above it. Where it does not, a key is damaged, and its chunks are elsewhere.
  if (walk.wanted !== undefined && low !== undefined && isInside(walk.wanted, low, high))
    walk.hasGap ||= !isInside(walk.wanted, first, next.at);
}

/** The addresses of a node's children, each after a key; damaged ones are reported when they are followed. */
function childrenIn(entries: Fields, { key, used }: { key: number; used: number }): number[] {
  const start = entries.at;
  const found = Array.from({ length: used }, () => {
    entries.skip(key);
    return entries.address("address of a chunk");
  });
  entries.at = start;
  return found.filter((address) => address !== undefined);
}

/** Reads a key of a chunk tree. `at` is the grid position; the byte offset in an item, the last number, must be 0. */
function readKey(
  entries: Fields,
  { chunks }: ChunkedLayout,
): { readonly size: number; readonly mask: number; readonly at: readonly number[] } {
  const size = entries.uint32("length of a chunk");
  const mask = entries.uint32("filters left out");
  const at = [...chunks, 1].map((length) => entries.uint(8, "offset of a chunk") / length);
  return { size, mask, at };
}

/** True if a position comes before another in C order. */
function isBefore(place: Place, other: Place): boolean {
  const d = place.findIndex((index, i) => index !== other[i]);
  return d >= 0 && (place[d] as number) < (other[d] as number);
}

async function walkTree2(walk: Walk, address: number): Promise<void> {
  let before: Place = [-1];
  const skips = (low: Fields | undefined, high: Fields | undefined): boolean =>
    isBeside(walk, low && readRecord(walk, low).at, high && readRecord(walk, high).at);
  for await (const record of recordsOf(walk.file, address, skips)) {
    needRoom(walk, record);
    const { at, ...found } = readRecord(walk, record);
    if (!isBefore(before, at))
      throw record.bad("offset of a chunk", `later than ${before.join()}`, at.join());
    before = at;
    add(walk, at, found);
  }
}

function readRecord(
  { dataset, nbytes }: Walk,
  record: Fields,
): { readonly at: Place; readonly address: number; readonly size: number; readonly mask: number } {
  record.at = 0;
  const address = record.someAddress("address of a chunk");
  const sizeBytes = record.left - 4 - 8 * dataset.shape.length;
  const isFiltered = sizeBytes > 0 && dataset.filters.length > 0;
  const size = isFiltered ? record.uint(sizeBytes, "length of a chunk") : nbytes;
  const mask = isFiltered ? record.uint32("filters left out") : 0;
  return { at: dataset.shape.map(() => record.uint(8, "offset of a chunk")), address, size, mask };
}

/** Name of an index and its parts in messages. */
const INDEX = "an index of chunks";

/** Adds the chunks of `count` elements, starting with chunk number `first`, or of those near the wanted one. */
function addElements(
  walk: Walk,
  fields: Fields,
  { first, count, entry }: { first: number; count: number; entry: number },
): void {
  const { file, nbytes, wanted } = walk;
  needRoom(walk, fields, count);
  const from = wanted === undefined ? 0 : Math.floor(((wanted[0] as number) - first) / NEAR) * NEAR;
  const to = wanted === undefined ? count : Math.min(count, from + NEAR);
  isBeside(walk, [first + from], [first + from + NEAR]);
  fields.skip(from * entry);
  for (let i = from; i < to; i++) {
    const element = fields.part(entry, "a chunk");
    const address = element.address("address of a chunk");
    if (address === undefined) continue;
    const sizeBytes = entry - file.offsetSize - 4;
    const size = sizeBytes > 0 ? element.uint(sizeBytes, "length of a chunk") : nbytes;
    const mask = sizeBytes > 0 ? element.uint32("filters left out") : 0;
    add(walk, positionAt(walk, first + i), { address, size, mask });
  }
}

async function walkFixed(walk: Walk, address: number): Promise<void> {
  const { file } = walk;
  const head = await file.summed(address, 12 + file.lengthSize + file.offsetSize, INDEX, "FAHD");
  head.skip(2);
  const entry = head.uint8("length of an entry");
  const pageBits = head.uint8("bits of a page");
  const count = head.size("number of entries");
  const block = head.address("block of the index");
  if (block === undefined) return;
  const perPage = 2 ** pageBits;
  const prefix = 6 + file.offsetSize;
  if (count <= perPage) {
    await addBlock(walk, block, { prefix, signature: "FADB", first: 0, count, entry });
    return;
  }
  const pages = Math.ceil(count / perPage);
  const bitBytes = Math.ceil(pages / 8);
  const start = await file.summed(block, prefix + bitBytes + 4, INDEX, "FADB");
  start.at = prefix;
  const bits = start.bytes(bitBytes, "pages");
  const only = walk.wanted && Math.floor((walk.wanted[0] as number) / perPage);
  for (let page = only ?? 0; page < Math.min(pages, (only ?? pages) + 1); page++) {
    const first = page * perPage;
    if (isBeside(walk, [first], [first + perPage]) || !hasBit(bits, page)) continue;
    const at = block + start.length + page * (perPage * entry + 4);
    await addBlock(walk, at, { prefix: 0, first, count: Math.min(perPage, count - first), entry });
  }
}

/** Adds the chunks of a block or a page, whose entries are followed by a checksum. */
async function addBlock(
  walk: Walk,
  address: number,
  block: { prefix: number; signature?: string; first: number; count: number; entry: number; used?: number },
): Promise<void> {
  const { prefix, signature, first, count, entry, used = first + count } = block;
  const fields = await walk.file.summed(address, prefix + count * entry + 4, INDEX, signature);
  fields.at = prefix;
  addElements(walk, fields, { first, count: Math.max(0, Math.min(count, used - first)), entry });
}

function hasBit(bits: Uint8Array, index: number): boolean {
  return (((bits[index >> 3] as number) >> (7 - (index & 7))) & 1) === 1;
}

async function walkExtensible(walk: Walk, address: number): Promise<void> {
  const { file } = walk;
  const { offsetSize } = file;
  const head = await file.summed(address, 16 + 6 * file.lengthSize + offsetSize, INDEX, "EAHD");
  head.skip(2);
  const entry = head.uint8("length of an entry");
  const maxBits = head.uint8("bits of an index");
  const inIndex = head.uint8("entries of the index block");
  const least = head.uint8("entries of a block");
  const pointers = head.uint8("pointers of a block");
  const perPage = 2 ** head.uint8("bits of a page");
  for (let i = 0; i < 4; i++) head.size("counts of the index");
  const used = head.size("highest entry");
  head.size("entries");
  const root = head.address("block of the index");
  if (root === undefined) return;
  if (least === 0 || pointers === 0) throw head.bad("entries of a block", "1 or more", 0);
  const offsetBytes = Math.ceil(maxBits / 8);
  const supers = 1 + maxBits - Math.log2(least);
  const direct = 2 * Math.log2(pointers);
  const directBlocks = 2 * (pointers - 1);
  const superBlocks = Math.max(0, supers - direct);
  const rootLength = 10 + offsetSize + inIndex * entry + (directBlocks + superBlocks) * offsetSize;
  const fields = await file.summed(root, rootLength, INDEX, "EAIB");
  fields.skip(2 + offsetSize);
  const elements = fields.part(inIndex * entry, "chunks");
  if (!isBeside(walk, undefined, [inIndex]))
    addElements(walk, elements, { first: 0, count: Math.min(inIndex, used), entry });
  const addresses = Array.from({ length: directBlocks + superBlocks }, () =>
    fields.address("block of chunks"),
  );
  const pagesOf = (count: number): number => (count > perPage ? count / perPage : 0);
  let first = inIndex;
  let next = 0;
  for (let s = 0; s < supers && first < used; s++) {
    const blocks = 2 ** Math.floor(s / 2);
    const count = 2 ** Math.ceil(s / 2) * least;
    let own: (number | undefined)[];
    let bits: Uint8Array | undefined;
    const bitBytes = Math.ceil(pagesOf(count) / 8);
    if (s < direct) {
      own = addresses.slice(next, next + blocks);
      next += blocks;
    } else {
      const isSkipped = isBeside(walk, [first], [first + blocks * count]);
      const block = isSkipped ? undefined : addresses[directBlocks + s - direct];
      if (block === undefined) {
        first += blocks * count;
        continue;
      }
      const length = 6 + offsetSize + offsetBytes + blocks * (bitBytes + offsetSize);
      const found = await file.summed(block, length + 4, INDEX, "EASB");
      found.skip(2 + offsetSize + offsetBytes);
      bits = found.bytes(blocks * bitBytes, "pages");
      own = Array.from({ length: blocks }, () => found.address("block of chunks"));
    }
    if (walk.wanted === undefined) await file.prepare(own.filter((block) => block !== undefined));
    for (const [b, block] of own.entries()) {
      const here = first + b * count;
      if (isBeside(walk, [here], [here + count]) || block === undefined || here >= used) continue;
      const prefix = 6 + offsetSize + offsetBytes;
      if (pagesOf(count) === 0) {
        await addBlock(walk, block, { prefix, signature: "EADB", first: here, count, entry, used });
        continue;
      }
      for (let page = 0; page < pagesOf(count); page++) {
        if (isBeside(walk, [here + page * perPage], [here + (page + 1) * perPage])) continue;
        // The bits of all blocks follow one another, although there are whole bytes for each block.
        if (bits !== undefined && !hasBit(bits, b * pagesOf(count) + page)) continue;
        const at = block + prefix + 4 + page * (perPage * entry + 4);
        await addBlock(walk, at, { prefix: 0, first: here + page * perPage, count: perPage, entry, used });
      }
    }
    first += blocks * count;
  }
}
