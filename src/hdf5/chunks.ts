/** Finds the chunks of an HDF5 dataset, from every kind of index. Must not know filters. */
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
}

/** Lists the chunks of a dataset. Throws the codes of damage; LIMIT for too many chunks. */
export async function listHdf5Chunks(
  file: Hdf5File,
  dataset: Hdf5Dataset,
  layout: ChunkedLayout,
): Promise<Hdf5Chunks> {
  const { shape, type } = dataset;
  const { chunks: lengths, address, index } = layout;
  const counts = shape.map((extent, d) => Math.ceil(extent / (lengths[d] as number)));
  const most = dataset.maxShape.map((extent, d) => extent && Math.ceil(extent / (lengths[d] as number)));
  const nbytes = elementsOf(lengths) * type.size;
  const walk: Walk = { file, dataset, layout, counts, most, nbytes, chunks: new Map() };
  if (address === undefined) return walk.chunks;
  if (index.kind === "single" && counts.some((count) => count > 1))
    throw new SuperchunkError(
      "BAD_FIELD",
      `the dataset has ${counts.join(" x ")} chunks, but an index of one; the file is damaged`,
      { path: file.path, field: "index of the chunks", expected: 1, found: counts.join() },
    );
  const place = { address, size: index.size ?? nbytes, mask: index.mask };
  if (index.kind === "single") add(walk, new Array(shape.length).fill(0), place);
  else if (index.kind === "tree-1") await walkTree(walk, address, { left: MAX_NODES }, { depth: 0 });
  else if (index.kind === "tree-2") await walkTree2(walk, address);
  else if (index.kind === "fixed") await walkFixed(walk, address);
  else if (index.kind === "extensible") await walkExtensible(walk, address);
  else {
    const total = most.reduce<number>((product, count) => product * (count ?? 1), 1);
    if (total > MAX_CHUNKS)
      throw new SuperchunkError("LIMIT", `a dataset of ${total} chunks; ${MAX_CHUNKS} is the limit`, {
        path: file.path,
        expected: MAX_CHUNKS,
        found: total,
      });
    for (let i = 0; i < total; i++)
      add(walk, positionAt(walk, i), { address: address + i * nbytes, size: nbytes, mask: 0 });
  }
  return walk.chunks;
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

/** The grid position of a chunk number. Numbers follow the C order of the maximum shape, with the unlimited dimension first. */
function positionAt({ most }: Walk, index: number): number[] {
  const endless = most.indexOf(undefined);
  const order = most.map((_, d) => d).filter((d) => d !== endless);
  if (endless >= 0) order.unshift(endless);
  const at = most.map(() => 0);
  let rest = index;
  for (const d of order.reverse()) {
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
  let next = readKey(entries, layout);
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
    if (level > 0) await walkTree(walk, child, nodes, { low: at, high: next.at, depth: depth + 1 });
    else add(walk, at.slice(0, -1), { address: child, size, mask });
  }
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
function isBefore(place: readonly number[], other: readonly number[]): boolean {
  const d = place.findIndex((index, i) => index !== other[i]);
  return d >= 0 && (place[d] as number) < (other[d] as number);
}

async function walkTree2(walk: Walk, address: number): Promise<void> {
  const { file, dataset, nbytes } = walk;
  const rank = dataset.shape.length;
  let before: readonly number[] = [-1];
  for await (const record of recordsOf(file, address)) {
    needRoom(walk, record);
    const child = record.someAddress("address of a chunk");
    const sizeBytes = record.left - 4 - 8 * rank;
    const isFiltered = sizeBytes > 0 && dataset.filters.length > 0;
    const size = isFiltered ? record.uint(sizeBytes, "length of a chunk") : nbytes;
    const mask = isFiltered ? record.uint32("filters left out") : 0;
    const at = dataset.shape.map(() => record.uint(8, "offset of a chunk"));
    if (!isBefore(before, at))
      throw record.bad("offset of a chunk", `later than ${before.join()}`, at.join());
    before = at;
    add(walk, at, { address: child, size, mask });
  }
}

/** Adds the chunks of `count` elements, starting with chunk number `first`. */
function addElements(
  walk: Walk,
  fields: Fields,
  { first, count, entry }: { first: number; count: number; entry: number },
): void {
  const { file, nbytes } = walk;
  needRoom(walk, fields, count);
  for (let i = 0; i < count; i++) {
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
  const head = await file.fields(address, 12 + file.lengthSize + file.offsetSize, "an index of chunks");
  head.expect("FAHD");
  head.checkSum(head.length - 4, "an index of chunks");
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
  const start = await file.fields(block, prefix + bitBytes + 4, "an index of chunks");
  start.expect("FADB");
  start.checkSum(prefix + bitBytes, "an index of chunks");
  start.at = prefix;
  const bits = start.bytes(bitBytes, "pages");
  for (let page = 0; page < pages; page++) {
    const first = page * perPage;
    if (!hasBit(bits, page)) continue;
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
  const length = prefix + count * entry;
  const fields = await walk.file.fields(address, length + 4, "an index of chunks");
  if (signature !== undefined) fields.expect(signature);
  fields.checkSum(length, "an index of chunks");
  fields.at = prefix;
  addElements(walk, fields, { first, count: Math.max(0, Math.min(count, used - first)), entry });
}

function hasBit(bits: Uint8Array, index: number): boolean {
  return (((bits[index >> 3] as number) >> (7 - (index & 7))) & 1) === 1;
}

async function walkExtensible(walk: Walk, address: number): Promise<void> {
  const { file } = walk;
  const { offsetSize } = file;
  const head = await file.fields(address, 16 + 6 * file.lengthSize + offsetSize, "an index of chunks");
  head.expect("EAHD");
  head.checkSum(head.length - 4, "an index of chunks");
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
  const fields = await file.fields(
    root,
    10 + offsetSize + inIndex * entry + (directBlocks + superBlocks) * offsetSize,
    "an index of chunks",
  );
  fields.expect("EAIB");
  fields.checkSum(fields.length - 4, "an index of chunks");
  fields.skip(2 + offsetSize);
  addElements(walk, fields.part(inIndex * entry, "chunks"), {
    first: 0,
    count: Math.min(inIndex, used),
    entry,
  });
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
      const block = addresses[directBlocks + s - direct];
      if (block === undefined) {
        first += blocks * count;
        continue;
      }
      const length = 6 + offsetSize + offsetBytes + blocks * (bitBytes + offsetSize);
      const found = await file.fields(block, length + 4, "an index of chunks");
      found.expect("EASB");
      found.checkSum(length, "an index of chunks");
      found.skip(2 + offsetSize + offsetBytes);
      bits = found.bytes(blocks * bitBytes, "pages");
      own = Array.from({ length: blocks }, () => found.address("block of chunks"));
    }
    for (const [b, block] of own.entries()) {
      const here = first + b * count;
      if (block === undefined || here >= used) continue;
      const prefix = 6 + offsetSize + offsetBytes;
      if (pagesOf(count) === 0) {
        await addBlock(walk, block, { prefix, signature: "EADB", first: here, count, entry, used });
        continue;
      }
      for (let page = 0; page < pagesOf(count); page++) {
        // The bits of all blocks follow one another, although there are whole bytes for each block.
        if (bits !== undefined && !hasBit(bits, b * pagesOf(count) + page)) continue;
        const at = block + prefix + 4 + page * (perPage * entry + 4);
        await addBlock(walk, at, { prefix: 0, first: here + page * perPage, count: perPage, entry, used });
      }
    }
    first += blocks * count;
  }
}
