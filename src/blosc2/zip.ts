/** A zip archive of uncompressed members as a store. Knows the directory of an archive; must not know what members hold. */
import type { OpenOptions } from "../archive/kinds/types.ts";
import { hex32 } from "../bytes/arrays.ts";
import { startCrc32 } from "../bytes/checksum.ts";
import { SuperchunkError } from "../errors.ts";
import { resolveRange } from "../store/key.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";

/** The end record has 22 bytes, then a comment of at most 65,535. */
const END = 22;
const MAX_TAIL = END + 65_535 + 20;
const END_64 = 56;
const ENTRY = 46;
const LOCAL = 30;
/** Most bytes of a directory. */
const MAX_DIRECTORY = 256 << 20;
const SIGNATURES = {
  end: 0x0605_4b50,
  locator: 0x0706_4b50,
  end64: 0x0606_4b50,
  entry: 0x0201_4b50,
  local: 0x0403_4b50,
} as const;
const NONE = 0xffff_ffff;
/** Id of the extra field with 64-bit sizes. */
const SIZES_64 = 1;

type ZipOptions = StoreOptions & Pick<OpenOptions, "damaged" | "onDamage">;

interface Entry {
  readonly header: number;
  readonly size: number;
  readonly method: number;
  readonly crc32: number;
  /** Offset of its bytes, once that is known. */
  start?: number;
}

/** Bytes to read at a time for a checksum. */
const PIECE = 4 << 20;
/** Bytes to read at once for a member's header and what follows it, the header of a frame. */
const AHEAD = 8192;
/** Such reads to keep: small members share them, and are read in the order of their names. */
const PARTS = 255;

/** Parts of the file that were read and are kept, to save requests. */
class KeptParts {
  readonly #read: (range: ByteRange, options?: StoreOptions) => Promise<Uint8Array | undefined>;
  readonly #size: number;
  #parts: readonly { readonly offset: number; readonly bytes: Uint8Array }[] = [];

  constructor(store: ReadableStore, key: string, size: number) {
    this.#read = (range, options) => store.getRange(key, range, options);
    this.#size = size;
  }

  /** Reads bytes, and keeps them with those after them, up to `ahead` bytes in all. The end of the file is kept permanently. */
  async get(
    { offset, length }: { readonly offset: number; readonly length: number },
    ahead: number,
    options?: StoreOptions,
  ): Promise<Uint8Array | undefined> {
    const known = this.#parts.find(
      (part) => part.offset <= offset && offset + length <= part.offset + part.bytes.length,
    );
    if (known !== undefined) return known.bytes.slice(offset - known.offset, offset - known.offset + length);
    const most = Math.min(Math.max(length, ahead), Math.max(0, this.#size - offset));
    const bytes = await this.#read({ offset, length: Math.max(length, most) }, options);
    if (bytes === undefined || ahead < length) return bytes;
    this.#parts = [...this.#parts.slice(0, 1), ...this.#parts.slice(1).slice(-PARTS), { offset, bytes }];
    return bytes.slice(0, length);
  }
}

export class ZipStore implements ReadableStore {
  readonly #store: ReadableStore;
  readonly #key: string;
  readonly #info: ObjectInfo;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #parts: KeptParts;
  /** Checksums of the bytes of members. */
  readonly #sums = new Map<string, string>();

  private constructor(
    { store, key, info }: { readonly store: ReadableStore; readonly key: string; readonly info: ObjectInfo },
    parts: KeptParts,
    entries: ReadonlyMap<string, Entry>,
  ) {
    this.#store = store;
    this.#key = key;
    this.#info = info;
    this.#parts = parts;
    this.#entries = entries;
  }

  /**
   * Reads the directory. If it is missing because the archive is truncated, members are found by their own headers, if the options allow
   * damage.
   *
   * @throws NOT_FOUND, BAD_MAGIC for what is not an archive, TRUNCATED, BAD_FIELD, LIMIT
   */
  static async open(store: ReadableStore, key: string, options: ZipOptions = {}): Promise<ZipStore> {
    const info = await store.stat(key, options);
    const path = store.describe(key);
    if (info === undefined) throw new SuperchunkError("NOT_FOUND", "the file does not exist", { path });
    const parts = new KeptParts(store, key, info.size);
    const bad = (what: string, offset: number): SuperchunkError =>
      new SuperchunkError(
        "BAD_FIELD",
        `${what} of the zip archive leads outside its ${info.size} bytes; it is damaged or truncated`,
        { path, offset, field: what },
      );
    const part = async (offset: number, length: number, what: string): Promise<DataView> => {
      if (offset < 0 || length < 0 || offset + length > info.size) throw bad(what, offset);
      if (length > MAX_DIRECTORY)
        throw new SuperchunkError(
          "LIMIT",
          `the directory has ${length} bytes; ${MAX_DIRECTORY} is the limit`,
          { path },
        );
      const bytes = await parts.get({ offset, length }, length, options);
      if (bytes?.length === length) return new DataView(bytes.buffer, bytes.byteOffset, length);
      throw new SuperchunkError("STALE", "the file changed while it was read; try again", { path });
    };
    const tailAt = Math.max(0, info.size - MAX_TAIL);
    const tail = await part(tailAt, info.size - tailAt, "the end");
    let end = tail.byteLength - END;
    while (end >= 0 && tail.getUint32(end, true) !== SIGNATURES.end) end--;
    if (end < 0) {
      const { damaged = "stop", onDamage } = options;
      const found = damaged === "stop" ? undefined : await membersOf(parts, info.size, options);
      if (found === undefined || found.entries.size === 0)
        throw new SuperchunkError(
          "BAD_MAGIC",
          'it has the name of a store of Blosc2, but is not a zip archive, or is truncated; look for a complete copy, or convert its first members with {damaged: "fill"}',
          { path },
        );
      const lost = [`members from byte ${found.end} on: the archive is truncated, without a directory`];
      onDamage?.({ path, holes: [], problems: [], lost });
      return new ZipStore({ store, key, info }, parts, found.entries);
    }
    let [count, length, from] = [
      tail.getUint16(end + 10, true),
      tail.getUint32(end + 12, true),
      tail.getUint32(end + 16, true),
    ];
    // 65,535 members, the most, need no longer end.
    const locator = end - 20;
    if (locator >= 0 && tail.getUint32(locator, true) === SIGNATURES.locator) {
      const place = Number(tail.getBigUint64(locator + 8, true));
      const long = await part(place, END_64, "the longer end");
      if (long.getUint32(0, true) !== SIGNATURES.end64) throw bad("the longer end", place);
      count = Number(long.getBigUint64(32, true));
      [length, from] = [Number(long.getBigUint64(40, true)), Number(long.getBigUint64(48, true))];
    }
    const directory = await part(from, length, "the directory");
    const entries = new Map<string, Entry>();
    for (let at = 0, i = 0; i < count; i++) {
      if (at + ENTRY > length || directory.getUint32(at, true) !== SIGNATURES.entry)
        throw bad("an entry", from + at);
      const [nameLength, extraLength, commentLength] = [28, 30, 32].map((field) =>
        directory.getUint16(at + field, true),
      );
      const nameAt = at + ENTRY;
      const extraAt = nameAt + (nameLength ?? 0);
      const next = extraAt + (extraLength ?? 0) + (commentLength ?? 0);
      if (next > length) throw bad("an entry", from + at);
      const name = new TextDecoder().decode(
        new Uint8Array(directory.buffer, directory.byteOffset + nameAt, nameLength),
      );
      const sizes = longSizes(
        directory,
        { from: extraAt, to: extraAt + (extraLength ?? 0) },
        [24, 20, 42].map((field) => directory.getUint32(at + field, true)),
      );
      const [, size = 0, header = 0] = sizes;
      const [method, crc32] = [directory.getUint16(at + 10, true), directory.getUint32(at + 16, true)];
      entries.set(name, { header, size, method, crc32 });
      at = next;
    }
    return new ZipStore({ store, key, info }, parts, entries);
  }

  names(): Iterable<string> {
    return this.#entries.keys();
  }

  describe(key: string): string {
    const own = this.#store.describe(this.#key);
    return key === "" ? own : `${own}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const size = this.#entries.get(key)?.size;
    return size === undefined ? undefined : this.getRange(key, { offset: 0, length: size }, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const { offset, length } = resolveRange(range, entry.size, key);
    const start = await this.#startOf(key, entry, options);
    return length === 0 ? new Uint8Array(0) : this.#parts.get({ offset: start + offset, length }, 0, options);
  }

  /** Its version is that of the file now, so that readers notice that another file has taken its place. */
  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const now = this.#store.pinsVersions === true ? this.#info : await this.#store.stat(this.#key, options);
    return { size: entry.size, version: `${now?.version}:${key}` };
  }

  async *list(): AsyncGenerator<ListEntry> {
    for (const name of this.#entries.keys()) if (!name.includes("/")) yield { name, kind: "object" };
  }

  /** Compares a member, which is read once, with its checksum in the archive. @throws CHECKSUM_MISMATCH */
  async compareSum(key: string, options?: StoreOptions): Promise<void> {
    const { size = 0, crc32 = 0 } = this.#entries.get(key) ?? {};
    let found = this.#sums.get(key);
    if (found === undefined) {
      const sum = await startCrc32();
      for (let offset = 0; offset < size; offset += PIECE) {
        const piece = { offset, length: Math.min(PIECE, size - offset) };
        sum.update((await this.getRange(key, piece, options)) ?? new Uint8Array(0));
      }
      found = hex32(sum.digest());
      this.#sums.set(key, found);
    }
    const expected = hex32(crc32);
    if (expected === found) return;
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the crc32 of the ${size} bytes of this member of the zip archive is 0x${found}, not 0x${expected}; look for another copy`,
      { path: this.describe(key), field: "crc32", expected: `0x${expected}`, found: `0x${found}` },
    );
  }

  /** Finds the start of a member's bytes: its own header has the length of the names before them. */
  async #startOf(key: string, entry: Entry, options?: StoreOptions): Promise<number> {
    if (entry.start !== undefined) return entry.start;
    const path = this.describe(key);
    if (entry.method !== 0)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "the member of the zip archive is compressed; unpack the archive",
        { path, field: "method", found: entry.method },
      );
    const bytes = await this.#parts.get({ offset: entry.header, length: LOCAL }, AHEAD, options);
    const head = new DataView(
      bytes?.buffer ?? new ArrayBuffer(0),
      bytes?.byteOffset ?? 0,
      bytes?.length ?? 0,
    );
    const isHeader = head.byteLength === LOCAL && head.getUint32(0, true) === SIGNATURES.local;
    const start = isHeader ? entry.header + LOCAL + head.getUint16(26, true) + head.getUint16(28, true) : 0;
    if (!isHeader || start + entry.size > this.#info.size)
      throw new SuperchunkError(
        "BAD_FIELD",
        "the directory of the zip archive leads to no member; it is damaged or truncated",
        { path, offset: entry.header },
      );
    entry.start = start;
    return start;
  }
}

/** Finds the whole members from the start of an archive on, by their own headers, and the byte after them. */
async function membersOf(
  parts: KeptParts,
  size: number,
  options: StoreOptions,
): Promise<{ readonly entries: ReadonlyMap<string, Entry>; readonly end: number }> {
  const entries = new Map<string, Entry>();
  for (let header = 0; ; ) {
    const length = Math.min(AHEAD, size - header);
    const bytes = length < LOCAL ? undefined : await parts.get({ offset: header, length }, AHEAD, options);
    if (bytes === undefined) return { entries, end: header };
    const head = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const [nameEnd, extra] = [LOCAL + head.getUint16(26, true), head.getUint16(28, true)];
    // Without sizes in the header, the next member cannot be found.
    const isKnown = head.getUint32(0, true) === SIGNATURES.local && (head.getUint16(6, true) & 8) === 0;
    if (!isKnown || nameEnd + extra > length) return { entries, end: header };
    const short = [head.getUint32(22, true), head.getUint32(18, true)];
    const [, stored = 0] = longSizes(head, { from: nameEnd, to: nameEnd + extra }, short);
    const start = header + nameEnd + extra;
    if (start + stored > size) return { entries, end: header };
    const name = new TextDecoder().decode(bytes.subarray(LOCAL, nameEnd));
    const [method, crc32] = [head.getUint16(8, true), head.getUint32(14, true)];
    entries.set(name, { header, size: stored, method, crc32, start });
    header = start + stored;
  }
}

/** Decoded size, stored size and offset of an entry. Values that do not fit in 32 bits are taken from its extra fields. */
function longSizes(
  view: DataView,
  { from, to }: { readonly from: number; readonly to: number },
  short: readonly number[],
): number[] {
  const sizes = [...short];
  for (let at = from; at + 4 <= to; ) {
    const [kind, length] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    let next = at + 4;
    if (kind === SIZES_64)
      for (const [i, size] of sizes.entries())
        if (size === NONE && next + 8 <= Math.min(to, at + 4 + length)) {
          sizes[i] = Number(view.getBigUint64(next, true));
          next += 8;
        }
    at += 4 + length;
  }
  return sizes;
}
