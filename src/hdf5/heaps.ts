/**
 * Where HDF5 stores many small things: local, global and fractal heaps, and B-trees of version 2.
 *
 * Knows how their blocks are found; must not know their content, except for the length of records.
 */
import { type Fields, type Hdf5File, keepByte } from "./file.ts";

/** What is refused, as few programs can write it. */
export const IN_SHARED_HEAP = "a message that several objects share in a heap";

/** Most levels and blocks of a tree; real files stay far below. */
export const MAX_DEPTH = 32;
export const MAX_NODES = 1_000_000;

/** Objects of a heap that are looked up at a time. */
const AT_ONCE = 1000;

/** The names of an old group: text by offset. */
export class LocalHeap {
  readonly #data: Fields;

  private constructor(data: Fields) {
    this.#data = data;
  }

  static async open(file: Hdf5File, address: number): Promise<LocalHeap> {
    const fields = await file.fields(address, 8 + 2 * file.lengthSize + file.offsetSize, "a local heap");
    fields.expect("HEAP");
    fields.skip(4);
    const length = fields.size("length of the heap");
    fields.size("free list");
    return new LocalHeap(
      await file.fields(fields.someAddress("data of the heap"), length, "data of a local heap"),
    );
  }

  text(offset: number): string {
    this.#data.at = offset;
    return this.#data.text("name in a local heap", keepByte);
  }

  /** True if the name at an offset comes before another in the order of their bytes. */
  isBefore(offset: number, name: Uint8Array): boolean {
    this.#data.at = offset;
    for (const byte of name) {
      const own = this.#data.uint8("name in a local heap");
      if (own !== byte) return own < byte;
    }
    return false;
  }
}

/** Reads a global heap: the bytes of values of variable length, by their index. */
async function readHeap(file: Hdf5File, address: number): Promise<ReadonlyMap<number, Uint8Array>> {
  const head = await file.fields(address, 8 + file.lengthSize, "a global heap");
  head.expect("GCOL");
  head.skip(4);
  const length = head.size("length of the heap");
  const heap = await file.fields(address, length, "a global heap");
  heap.at = head.at;
  heap.pad(0);
  const found = new Map<number, Uint8Array>();
  while (heap.left >= 8 + file.lengthSize) {
    const id = heap.uint16("index of an object");
    heap.skip(6);
    const size = heap.size("length of an object");
    heap.pad(0);
    if (id === 0) break;
    found.set(id, heap.bytes(size, "an object of the heap"));
    heap.skip((8 - (size % 8)) % 8);
  }
  return found;
}

/** Most global heaps to keep. */
const MAX_KEPT = 64;

/** Global heaps that were read, by address. */
export type KeptHeaps = Map<number, ReadonlyMap<number, Uint8Array>>;

/** Reads with few requests the global heaps that items of `step` bytes refer to at these places; of many, as much as is kept. */
export async function prepareHeaps(
  file: Hdf5File,
  items: Fields,
  step: number,
  places: readonly number[],
): Promise<void> {
  const found = new Set<number>();
  for (let item = 0; item < items.length; item += step)
    for (const place of places) {
      items.at = item + place;
      const length = items.uint32("length of a value");
      const address = items.address("heap of a value");
      if (address !== undefined && length > 0) found.add(address);
    }
  await file.prepare([...found]);
}

/**
 * The bytes of a value of variable length, from the item that refers to it. `size`: bytes of one of the value's parts. Throws the codes
 * of damage.
 */
export async function readHeapValue(
  file: Hdf5File,
  item: Fields,
  size: number,
  kept: KeptHeaps = new Map(),
): Promise<Uint8Array> {
  const length = size * item.uint32("length of a value");
  const address = item.address("heap of a value");
  const index = item.uint32("index of a value");
  if (address === undefined || length === 0) return new Uint8Array(0);
  let heap = kept.get(address);
  if (heap === undefined) {
    if (kept.size >= MAX_KEPT) kept.clear();
    heap = await readHeap(file, address);
    kept.set(address, heap);
  }
  const bytes = heap.get(index);
  if (bytes === undefined || bytes.length < length)
    throw item.bad("a value in a heap", `${length} bytes`, bytes?.length ?? "none");
  return bytes.subarray(0, length);
}

/** Bytes needed for numbers up to `most`. */
function bytesFor(most: number): number {
  return Math.floor(Math.log2(Math.max(1, most)) / 8) + 1;
}

/** The block table of a fractal heap. */
interface TableFacts {
  readonly width: number;
  readonly start: number;
  readonly maxDirect: number;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
  /** Undefined if it has only objects that are too long for blocks. */
  readonly root: number | undefined;
  readonly rows: number;
  /** Tree of the objects that are too long for blocks. */
  readonly huge: number | undefined;
  /** Bytes of an id, without its flags. */
  readonly idBytes: number;
}

/** A fractal heap, which holds the links and attributes of groups with many of them. */
export class FractalHeap {
  readonly #file: Hdf5File;
  readonly #facts: TableFacts;
  /** Records of the objects outside of the blocks, by their numbers, once they were read. */
  readonly #huge = new Map<number, Fields>();

  private constructor(file: Hdf5File, facts: TableFacts) {
    this.#file = file;
    this.#facts = facts;
  }

  static async open(file: Hdf5File, address: number): Promise<FractalHeap> {
    const fields = await file.upTo(address, 256, "a fractal heap");
    fields.expect("FRHP");
    fields.skip(1);
    const idBytes = fields.uint16("length of an id") - 1;
    const filters = fields.uint16("length of the filters");
    if (filters > 0)
      throw fields.unsupported("a group whose links or attributes are compressed", "filters", filters);
    fields.skip(1);
    const maxManaged = fields.uint32("length of an object");
    fields.size("huge objects");
    const huge = fields.address("huge objects");
    fields.size("free space");
    fields.address("free space");
    for (let i = 0; i < 8; i++) fields.size("counts of the heap");
    const width = fields.uint16("width of the table");
    const start = fields.size("length of the first block");
    const maxDirect = fields.size("length of a direct block");
    const maxHeap = fields.uint16("bits of the heap");
    fields.uint16("rows at first");
    const root = fields.address("root block");
    const rows = fields.uint16("rows of the root block");
    fields.checkSum(fields.at, "a fractal heap");
    if (width === 0 || start === 0 || maxDirect < start)
      throw fields.bad("the table of the heap", "blocks", width * start);
    return new FractalHeap(file, {
      width,
      start,
      maxDirect,
      offsetBytes: Math.ceil(maxHeap / 8),
      lengthBytes: bytesFor(Math.min(maxDirect, maxManaged)),
      root,
      rows,
      huge,
      idBytes,
    });
  }

  /**
   * The objects whose ids are at `idAt` in the records of a tree, in the order of the heap: that of the tree reads the file's pages many
   * times. `hash`: only those with this hash, which the records begin with.
   */
  async *objectsOf(tree: number, idAt: number, hash?: number): AsyncGenerator<Fields> {
    const { idBytes, offsetBytes } = this.#facts;
    const ids: { readonly id: Fields; readonly offset: number }[] = [];
    const hashOf = (record: Fields | undefined): number | undefined => {
      if (record === undefined || hash === undefined) return hash;
      const found = record.uint32("hash of a name");
      record.at = 0;
      return found;
    };
    const skips = (low: Fields | undefined, high: Fields | undefined): boolean =>
      hash !== undefined && ((hashOf(low) ?? 0) > hash || (hashOf(high) ?? 0) < hash);
    // What the ids lead through is requested at the same time as the tree.
    const block = this.#addressOf(0).catch(() => undefined);
    for await (const record of recordsOf(this.#file, tree, skips)) {
      if (hashOf(record) !== hash) continue;
      record.skip(idAt);
      const id = record.part(1 + idBytes, "id of an object");
      const isInBlocks = ((id.uint8("id of an object") >> 4) & 3) === 0;
      ids.push({ id, offset: isInBlocks ? id.uint(offsetBytes, "offset in the heap") : 0 });
      id.at = 0;
      // The flags of an attribute follow its id.
      if (record.left > 0 && (record.uint8("flags of an attribute") & 2) !== 0)
        throw record.unsupported(IN_SHARED_HEAP, "shared message", "an attribute");
    }
    await block;
    ids.sort((a, b) => a.offset - b.offset);
    for (const [i, { id }] of ids.entries()) {
      if (i % AT_ONCE === 0) await this.#prepare(ids.slice(i, i + AT_ONCE).map(({ offset }) => offset));
      yield this.#read(id);
    }
  }

  async #prepare(offsets: readonly number[]): Promise<void> {
    const addresses: number[] = [];
    for (const offset of offsets) addresses.push(await this.#addressOf(offset));
    await this.#file.prepare(addresses);
  }

  async #addressOf(offset: number): Promise<number> {
    const { root = 0, rows } = this.#facts;
    return rows === 0 ? root + offset : this.#find(offset, root, { rows, first: 0 }, 0);
  }

  /** The fields of an object, by its id. */
  async #read(id: Fields): Promise<Fields> {
    const { offsetBytes, lengthBytes, root, rows, start } = this.#facts;
    const flags = id.uint8("id of an object");
    const type = (flags >> 4) & 3;
    if (type === 2) return id.part((flags & 15) + 1, "a tiny object");
    if (type === 1) return this.#readHuge(id);
    if (type !== 0) throw id.bad("type of an object in a heap", "0 to 2", type);
    const offset = id.uint(offsetBytes, "offset in the heap");
    const length = id.uint(lengthBytes, "length of an object");
    if (root === undefined) throw id.bad("root block", "an address", "none");
    const address = await this.#addressOf(offset);
    if (rows === 0 && offset + length > start)
      throw id.bad("length of an object", `at most ${start - offset}`, length);
    return this.#file.fields(address, length, "an object of a heap");
  }

  /** The id of an object outside of the blocks holds its place, if that fits, or the number of its record in a tree. */
  async #readHuge(id: Fields): Promise<Fields> {
    const { huge, idBytes } = this.#facts;
    const { offsetSize, lengthSize } = this.#file;
    const what = "a long object of a heap";
    const read = (fields: Fields): Promise<Fields> =>
      this.#file.fields(fields.someAddress(what), fields.size(`length of ${what}`), what);
    if (idBytes >= offsetSize + lengthSize) return read(id);
    const wanted = id.uint(Math.min(8, idBytes), `number of ${what}`);
    if (huge !== undefined && this.#huge.size === 0)
      for await (const record of recordsOf(this.#file, huge)) {
        record.skip(offsetSize + lengthSize);
        this.#huge.set(record.size(`number of ${what}`), record);
      }
    const found = this.#huge.get(wanted);
    if (found === undefined) throw id.bad(`number of ${what}`, "one in the tree of the heap", wanted);
    found.at = 0;
    return read(found);
  }

  /** The address of an offset. `block` is an indirect block whose first byte is `first` in the heap. */
  async #find(
    offset: number,
    block: number,
    { rows, first }: { rows: number; first: number },
    depth: number,
  ): Promise<number> {
    const { width, start, maxDirect, offsetBytes } = this.#facts;
    const { offsetSize } = this.#file;
    const length = 9 + offsetSize + offsetBytes + rows * width * offsetSize;
    const fields = await this.#file.summed(block, length, "a block of a heap", "FHIB");
    if (depth > MAX_DEPTH) throw fields.bad("depth of the heap", `at most ${MAX_DEPTH}`, depth);
    fields.skip(1 + offsetSize + offsetBytes);
    let at = first;
    for (let row = 0; row < rows; row++) {
      const size = row === 0 ? start : start * 2 ** (row - 1);
      for (let column = 0; column < width; column++) {
        const child = fields.address("a block of the heap");
        if (offset >= at && offset < at + size) {
          if (child === undefined) throw fields.bad("a block of the heap", "an address", "none");
          if (size <= maxDirect) return child + offset - at;
          const below = Math.log2(size / (start * width)) + 1;
          return this.#find(offset, child, { rows: below, first: at }, depth + 1);
        }
        at += size;
      }
    }
    throw fields.bad("offset in the heap", `below ${at}`, offset);
  }
}

/** The records of a B-tree of version 2, in order. `skips` leaves out nodes, by the records before and after their own. */
export async function* recordsOf(
  file: Hdf5File,
  address: number,
  skips?: (low: Fields | undefined, high: Fields | undefined) => boolean,
): AsyncGenerator<Fields> {
  const { offsetSize, lengthSize } = file;
  const head = await file.summed(address, 22 + offsetSize + lengthSize, "a B-tree", "BTHD");
  head.skip(2);
  const nodeSize = head.uint32("length of a node");
  const recordSize = head.uint16("length of a record");
  const depth = head.uint16("depth of the tree");
  head.skip(2);
  const root = head.address("root of the tree");
  const count = head.uint16("records of the root");
  if (root === undefined || count === 0) return;
  if (depth > MAX_DEPTH || recordSize === 0)
    throw head.bad("depth of the tree", `at most ${MAX_DEPTH}`, depth);
  const most = [Math.floor((nodeSize - 10) / recordSize)];
  const countBytes = bytesFor(most[0] as number);
  const sums = [most[0] as number];
  const sumBytes = [0];
  for (let level = 1; level <= depth; level++) {
    const pointer = offsetSize + countBytes + (sumBytes[level - 1] as number);
    const records = Math.floor((nodeSize - 10 - pointer) / (recordSize + pointer));
    most.push(records);
    sums.push((records + 1) * (sums[level - 1] as number) + records);
    sumBytes.push(bytesFor(sums[level] as number));
  }
  let nodes = 0;
  yield* walk(root, count, depth);

  async function* walk(node: number, records: number, level: number): AsyncGenerator<Fields> {
    const fields = await file.fields(node, nodeSize, "a node of a B-tree");
    fields.expect(level === 0 ? "BTLF" : "BTIN");
    if (++nodes > MAX_NODES) throw fields.bad("nodes of the tree", `at most ${MAX_NODES}`, nodes);
    const perChild = offsetSize + countBytes + (level > 1 ? (sumBytes[level - 1] as number) : 0);
    fields.checkSum(
      6 + records * recordSize + (level > 0 ? (records + 1) * perChild : 0),
      "a node of a B-tree",
    );
    fields.skip(2);
    const own = Array.from({ length: records }, () => fields.part(recordSize, "a record"));
    if (level === 0) {
      yield* own;
      return;
    }
    const children = Array.from({ length: records + 1 }, (_, i) => {
      const child = fields.someAddress("a node of the tree");
      const below = fields.uint(countBytes, "records of a node");
      if (level > 1) fields.skip(sumBytes[level - 1] as number);
      return { child, below, isSkipped: skips?.(own[i - 1], own[i]) === true };
    });
    await file.prepare(children.filter(({ isSkipped }) => !isSkipped).map(({ child }) => child));
    for (const [i, { child, below, isSkipped }] of children.entries()) {
      const record = own[i];
      if (!isSkipped) yield* walk(child, below, level - 1);
      if (record !== undefined) yield record;
    }
  }
}
