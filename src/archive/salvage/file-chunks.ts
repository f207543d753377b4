/**
 * Locates the chunks of a damaged `blpk` file: by its offset table, else by walking from chunk to chunk, else (on
 * request) by a search for Blosc headers. Reads only; must not know which array the file belongs to.
 */

import { isEqual } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS, loadDigest } from "../../bytes/checksum.ts";
import { HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import {
  type BlpkHeader,
  CHECKSUM_NAMES,
  decodeFileHeader,
  FILE_HEADER_LENGTH,
} from "../../format/header.ts";
import { parseJson } from "../../format/json.ts";
import {
  decodeSection,
  decodeSectionHeader,
  metadataKind,
  SECTION_HEADER_LENGTH,
} from "../../format/metadata.ts";
import type { ChecksumName, JsonValue } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { PlacedChunk } from "../places/sequence.ts";
import { type Flaw, findFlaw, headerIn, isFlaw, readHeaderAt } from "./chunk-check.ts";

/** A table of unknown length is searched this far for its end, in bytes. */
const MAX_TABLE = 8 << 20;
/** Bytes searched at a time. */
const WINDOW = 1 << 20;
const ENTRY = 8;
/** Table entries read at a time. */
const BATCH = 4096;
const OPEN_BRACE = 0x7b;

/** What the caller knows of the file. */
export interface ChunkFileFacts {
  /** Chunks that the file should hold, if the array's metadata give it. */
  readonly count?: number | undefined;
  /** Most decoded bytes of a chunk. */
  readonly maxNbytes: number;
  /** Searches for Blosc headers if nothing else locates the chunks. */
  readonly scan: boolean;
}

/** A chunk's place in a file, or why there is none. */
export type ChunkSpot =
  | { readonly offset: number; readonly flaw?: undefined }
  | { readonly offset?: undefined; readonly flaw: Flaw };

export interface FileChunks {
  readonly key: string;
  readonly path: string;
  readonly size: number;
  /** Undefined if it cannot be read. */
  readonly header: BlpkHeader | undefined;
  readonly checksum: ChecksumName;
  /** The value of the metadata section, if there is an intact one. */
  readonly metadata: JsonValue | undefined;
  /** True if there is, or should be, a metadata section that cannot be read. */
  readonly lostMetadata: boolean;
  readonly places: readonly ChunkSpot[];
  /** True if the number of chunks was stated, and not only counted. */
  readonly isCounted: boolean;
  /** Offsets of intact chunks whose position is unknown. */
  readonly unplaced: readonly number[];
  /** Other problems, as text without the path. */
  readonly problems: readonly string[];
}

/** Finds the chunks of the file at a key; undefined if the file is missing. */
export async function findFileChunks(
  store: ReadableStore,
  key: string,
  facts: ChunkFileFacts,
): Promise<FileChunks | undefined> {
  const info = await store.stat(key);
  return info === undefined ? undefined : new Search(store, key, info.size, facts).run();
}

/** A chunk's place in the form that archive readers use. */
export function placedChunk(file: FileChunks, offset: number, index: number, nbytes: number): PlacedChunk {
  return placeAt(file, file.checksum, { offset, index, nbytes });
}

function placeAt(
  { key, size }: Pick<FileChunks, "key" | "size">,
  checksum: ChecksumName,
  { offset, index, nbytes }: { readonly offset: number; readonly index: number; readonly nbytes: number },
): PlacedChunk {
  const available = size - offset;
  return {
    index,
    key,
    offset,
    nbytes,
    ctbytes: undefined,
    available,
    endsObject: true,
    checksum,
    prologue: 0,
  };
}

class Search {
  readonly #store: ReadableStore;
  readonly #facts: ChunkFileFacts;
  readonly #problems: string[] = [];
  readonly #unplaced: number[] = [];
  readonly #file: { readonly key: string; readonly path: string; readonly size: number };
  #header: BlpkHeader | undefined;
  #checksum: ChecksumName | undefined;
  #metadata: JsonValue | undefined;
  #lostMetadata = false;
  #isRawJson = false;
  /** Where a walk met something other than a chunk. */
  #stoppedAt: number | undefined;

  constructor(store: ReadableStore, key: string, size: number, facts: ChunkFileFacts) {
    this.#store = store;
    this.#facts = facts;
    this.#file = { key, path: store.describe(key), size };
  }

  async run(): Promise<FileChunks> {
    const { size } = this.#file;
    this.#header = await this.#readHeader();
    this.#checksum = this.#header?.checksum;
    const begin = await this.#readMetadata(this.#header?.headerLength ?? FILE_HEADER_LENGTH);
    const table = await this.#findTable(begin);
    // Without a header the file may be of version 1, whose chunks start at byte 16.
    const from = table.end ?? (this.#header === undefined ? await this.#firstOf([begin, 16]) : begin);
    this.#checksum ??= await this.#findChecksum(table.offsets.find((at) => at !== undefined) ?? from);
    const stated = this.#header?.nchunks ?? -1;
    const known = this.#facts.count ?? (stated >= 0 ? stated : undefined);
    // A count that no file of this size can have is damage.
    const total = known !== undefined && known * HEADER_LENGTH <= size * 64 ? known : undefined;
    const leads = table.offsets.some((at) => at !== undefined);
    if (this.#header?.offsets === true && stated < 0)
      this.#problems.push("the header does not count its chunks");
    if (this.#header?.offsets === true && !leads && total !== 0)
      this.#problems.push("the offsets lead to no chunk; chunks are taken in the order in which they lie");
    const places = leads ? await this.#byTable(table, total) : await this.#inOrder(from, total);
    return {
      ...this.#file,
      header: this.#header,
      checksum: this.#checksum,
      metadata: this.#metadata,
      lostMetadata: this.#lostMetadata,
      places,
      isCounted: total !== undefined,
      unplaced: this.#unplaced,
      problems: this.#problems,
    };
  }

  async #read(offset: number, length: number): Promise<Uint8Array> {
    const { key, size } = this.#file;
    const range = { offset, length: Math.max(0, Math.min(length, size - offset)) };
    return range.length === 0
      ? new Uint8Array(0)
      : ((await this.#store.getRange(key, range)) ?? new Uint8Array(0));
  }

  async #readHeader(): Promise<BlpkHeader | undefined> {
    const { path } = this.#file;
    try {
      return decodeFileHeader(await this.#read(0, FILE_HEADER_LENGTH), path);
    } catch (error) {
      if (!isFlaw(error)) throw error;
      this.#problems.push(`the header cannot be read: ${error.summary}`);
      return undefined;
    }
  }

  /** Reads the metadata section at a byte, if there is one; returns where it ends. */
  async #readMetadata(at: number): Promise<number> {
    const { path } = this.#file;
    const head = await this.#read(at, SECTION_HEADER_LENGTH);
    if (this.#header === undefined && head[0] === OPEN_BRACE) return this.#endOfJson(at);
    const isSection = head.length >= 8 && metadataKind(head) === "bloscpack";
    if (this.#header === undefined ? !isSection : !this.#header.metadata) return at;
    let end = at;
    this.#isRawJson = !isSection;
    try {
      if (isSection) {
        const { sectionLength } = decodeSectionHeader(head, path, at);
        end = at + sectionLength;
        this.#metadata = (await decodeSection(await this.#read(at, sectionLength), path, at)).value;
      } else {
        const length = Math.max(0, this.#header?.metaSize ?? 0);
        end = at + length;
        this.#metadata = parseJson(await this.#read(at, Math.min(length, WINDOW)), path);
      }
    } catch (error) {
      if (!isFlaw(error)) throw error;
      this.#lostMetadata = true;
      this.#problems.push(`the metadata cannot be read: ${error.summary}`);
    }
    return Math.min(end, this.#file.size);
  }

  /** Where JSON text at a byte ends, if no header gives its length; the byte itself if no end is found. */
  async #endOfJson(at: number): Promise<number> {
    const text = new TextDecoder("latin1").decode(await this.#read(at, WINDOW));
    let depth = 0;
    for (const { 0: part, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}]/gs)) {
      if (part === "{") depth++;
      else if (part === "}" && --depth === 0) return at + index + 1;
    }
    return at;
  }

  /**
   * Reads the offset table at a byte: an offset for each chunk, undefined if the entry does not lead into the file.
   * `end` is where the first chunk of a file with chunks in order starts; undefined without a table.
   */
  async #findTable(at: number): Promise<{ offsets: (number | undefined)[]; end: number | undefined }> {
    const header = this.#header;
    if (header !== undefined && !header.offsets) return { offsets: [], end: undefined };
    const { size } = this.#file;
    // With raw JSON metadata, the field of the spare entries is the length of the text.
    const spare = header === undefined || this.#isRawJson ? 0 : Math.max(0, header.maxAppChunks);
    const fits = Math.floor((size - at) / ENTRY);
    let count = header?.nchunks ?? -1;
    let end: number | undefined;
    if (count < 0 || count + spare > fits) {
      // A chunk starts where the table ends, so the lowest offset gives the table's length.
      const first = await this.#lowestEntry(at, fits);
      if (first !== undefined && (await this.#isChunk(first))) {
        end = first;
        count = (first - at) / ENTRY;
      } else if (header === undefined) return { offsets: [], end: undefined };
      else if (count >= 0) {
        // The file is truncated inside its table, or a count is damaged.
        count = Math.min(count, fits);
        end = count + spare > fits ? await this.#endOfTable(at) : at + ENTRY * (count + spare);
      } else return { offsets: [], end: await this.#endOfTable(at) };
    } else end = at + ENTRY * (count + spare);
    const entries = await this.#entries(at, count);
    const least = end ?? at;
    const offsets = entries.map((entry) =>
      entry >= least && entry + HEADER_LENGTH <= size ? entry : undefined,
    );
    if (header === undefined || header.nchunks < 0) {
      // Entries after the last chunk's offset are spare.
      while (offsets.length > 0 && offsets.at(-1) === undefined) offsets.pop();
    }
    return { offsets, end: end ?? at };
  }

  /** The lowest offset in a table of unknown length, if the table can end there. */
  async #lowestEntry(at: number, fits: number): Promise<number | undefined> {
    let lowest = this.#file.size;
    for (let i = 0; i < fits && at + i * ENTRY < lowest; i += BATCH)
      for (const [j, entry] of (await this.#entries(at + i * ENTRY, BATCH)).entries())
        if (at + (i + j) * ENTRY < lowest && entry > at) lowest = Math.min(lowest, entry);
    return lowest < this.#file.size && (lowest - at) % ENTRY === 0 ? lowest : undefined;
  }

  async #entries(at: number, count: number): Promise<number[]> {
    const bytes = await this.#read(at, count * ENTRY);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Array.from({ length: Math.floor(bytes.length / ENTRY) }, (_, i) =>
      Number(view.getBigInt64(i * ENTRY, true)),
    );
  }

  /** Looks for the end of the offset table: the first multiple of 8 bytes after its start at which a whole chunk begins. */
  async #endOfTable(at: number): Promise<number | undefined> {
    const window = await this.#read(at, MAX_TABLE);
    for (let i = 0; i + HEADER_LENGTH <= window.length; i += ENTRY)
      if (headerIn(window.subarray(i, i + HEADER_LENGTH), this.#file.size - at - i) !== undefined)
        if (await this.#isChunk(at + i)) return at + i;
    return undefined;
  }

  /** The first of the places where a chunk starts; if there is none, the first place. */
  async #firstOf(places: readonly number[]): Promise<number> {
    for (const at of places) if (await this.#isChunk(at)) return at;
    const [first = 0] = places;
    return first;
  }

  /** True if an intact chunk starts at a byte. */
  async #isChunk(offset: number): Promise<boolean> {
    const { key, size } = this.#file;
    const header = await readHeaderAt(this.#store, key, offset, size);
    return header !== undefined && this.#mayBe(header) && (await this.#isWhole(offset, header));
  }

  #mayBe({ nbytes }: ChunkHeader): boolean {
    return nbytes <= this.#facts.maxNbytes;
  }

  async #isWhole(offset: number, { nbytes }: ChunkHeader): Promise<boolean> {
    const checksum = this.#checksum ?? "None";
    const place = placeAt(this.#file, checksum, { offset, index: 0, nbytes });
    return (await findFlaw(this.#store, place)) === undefined;
  }

  /** Finds out which digest follows a chunk, if no header says so. */
  async #findChecksum(offset: number): Promise<ChecksumName> {
    const { key, size } = this.#file;
    const header = await readHeaderAt(this.#store, key, offset, size);
    if (header === undefined) return "None";
    const longest = Math.max(...CHECKSUM_NAMES.map((name) => DIGEST_LENGTHS[name]));
    const bytes = await this.#read(offset, header.ctbytes + longest);
    const [chunk, stored] = [bytes.subarray(0, header.ctbytes), bytes.subarray(header.ctbytes)];
    for (const name of CHECKSUM_NAMES) {
      const length = DIGEST_LENGTHS[name];
      if (length === 0 || length > stored.length) continue;
      if (isEqual((await loadDigest(name))(chunk), stored.subarray(0, length))) return name;
    }
    return "None";
  }

  /** Places chunks at their offsets, and those whose offset leads to no chunk where the chunk before, or the table (`end`), ends. */
  async #byTable(
    { offsets, end }: { readonly offsets: readonly (number | undefined)[]; readonly end: number | undefined },
    total: number | undefined,
  ): Promise<ChunkSpot[]> {
    const taken = new Set(offsets);
    const places: ChunkSpot[] = [];
    const count = Math.max(offsets.length, total ?? 0);
    for (let i = 0; i < count; i++) {
      const stored = offsets[i];
      if (stored !== undefined && (await this.#mayStart(stored))) {
        places.push({ offset: stored });
        continue;
      }
      const before = places[i - 1]?.offset;
      const next = i === 0 ? end : before === undefined ? undefined : await this.#endOf(before);
      const mayWalk = next !== undefined && next < this.#file.size && !taken.has(next);
      const isThere = mayWalk && this.#header?.version !== 4 && (await this.#isChunk(next));
      if (isThere)
        this.#problems.push(
          `chunk ${i} has no right offset; it was found where the ${i === 0 ? "offsets end" : "one before it ends"}`,
        );
      if (isThere) places.push({ offset: next });
      else places.push(stored === undefined ? { flaw: this.#lost(i, next) } : { offset: stored });
    }
    return places;
  }

  /** True if a header at a byte may be that of a chunk. */
  async #mayStart(offset: number): Promise<boolean> {
    const { key, size } = this.#file;
    const header = await readHeaderAt(this.#store, key, offset, size);
    return header !== undefined && this.#mayBe(header);
  }

  /** Where the next chunk after the one at `offset` starts, in a file whose chunks are in order. */
  async #endOf(offset: number): Promise<number | undefined> {
    const { key, size } = this.#file;
    const header = await readHeaderAt(this.#store, key, offset, size);
    if (header === undefined) return undefined;
    return this.#skipZeros(offset + header.ctbytes + DIGEST_LENGTHS[this.#checksum ?? "None"]);
  }

  #lost(index: number, at: number | undefined): Flaw {
    const { path, size } = this.#file;
    const isCut = at !== undefined && at + HEADER_LENGTH > size;
    return {
      code: isCut ? "TRUNCATED" : "INCOMPLETE",
      reason: isCut
        ? `the file ends at byte ${size}, before chunk ${index}`
        : `the position of chunk ${index} is unknown, or it was never written`,
      path,
      ...(at === undefined ? {} : { offset: at }),
    };
  }

  /**
   * Places chunks in physical order. If that cannot be their order, none gets a place: in a file of version 4 only the
   * offsets give the order, and in any file only the last chunk may be shorter.
   */
  async #inOrder(from: number, total: number | undefined): Promise<ChunkSpot[]> {
    // Entries of -1 that no field counts may follow a table.
    const isThere = this.#header?.offsets !== true || (await this.#isChunk(from));
    const start = isThere ? from : ((await this.#endOfTable(from)) ?? from);
    const places = await this.#byWalk(start, total);
    const lengths: number[] = [];
    for (const { offset } of places) {
      if (offset === undefined) continue;
      const header = await readHeaderAt(this.#store, this.#file.key, offset, this.#file.size);
      lengths.push(header?.nbytes ?? 0);
    }
    const most = Math.max(...lengths);
    const isOrder = this.#header?.version !== 4 && lengths.slice(0, -1).every((length) => length === most);
    if (isOrder || lengths.length < 2) return places;
    this.#problems.push("the chunks are not stored in order, and nothing else gives their order");
    return places.map(({ offset }, i) => {
      if (offset !== undefined) this.#unplaced.push(offset);
      return { flaw: this.#lost(i, undefined) };
    });
  }

  /** Walks from chunk to chunk. What follows an unreadable header has no place, unless a search finds it. */
  async #byWalk(from: number, total: number | undefined): Promise<ChunkSpot[]> {
    const { key, size } = this.#file;
    const runs: number[][] = [[]];
    let at: number | undefined = from;
    let found = 0;
    while (at !== undefined && found < (total ?? Number.POSITIVE_INFINITY)) {
      const start: number = await this.#skipZeros(at);
      if (start >= size) break;
      const header: ChunkHeader | undefined = await readHeaderAt(this.#store, key, start, size);
      const digest = DIGEST_LENGTHS[this.#checksum ?? "None"];
      if (header !== undefined && this.#mayBe(header)) {
        runs.at(-1)?.push(start);
        found++;
        at = start + header.ctbytes + digest;
        continue;
      }
      this.#stoppedAt ??= start;
      if (!this.#facts.scan) {
        this.#problems.push(
          `what is at byte ${start} is not a chunk, and the position of the next one is unknown; {scan: true} searches for it`,
        );
        break;
      }
      at = await this.#search(start + 1);
      if (at !== undefined) {
        this.#problems.push(
          `a search found a chunk at byte ${at}, after byte ${start}, where none could be read`,
        );
        runs.push([]);
      }
    }
    return this.#placeRuns(runs, total);
  }

  /** Gives places to the runs of chunks between gaps. If the sizes of the gaps are not certain, only the first run gets places. */
  #placeRuns(runs: readonly (readonly number[])[], total: number | undefined): ChunkSpot[] {
    const gaps = runs.length - 1;
    const found = runs.reduce((sum, run) => sum + run.length, 0);
    const missing = Math.max(0, (total ?? found) - found);
    const places: ChunkSpot[] = [];
    const leave = (count: number): void => {
      for (let i = 0; i < count; i++) places.push({ flaw: this.#lost(places.length, this.#stoppedAt) });
    };
    const isCertain = total !== undefined && (gaps === 0 || gaps === 1 || gaps === missing);
    runs.forEach((run, i) => {
      if (i > 0 && isCertain) leave(gaps === 1 ? missing : 1);
      if (i === 0 || isCertain) for (const offset of run) places.push({ offset });
      else this.#unplaced.push(...run);
    });
    if (total !== undefined) leave(total - places.length);
    return places;
  }

  /** The next byte from `from` on at which an intact chunk starts. */
  async #search(from: number): Promise<number | undefined> {
    const { size } = this.#file;
    for (let start = from; start + HEADER_LENGTH <= size; start += WINDOW) {
      const bytes = await this.#read(start, WINDOW + HEADER_LENGTH);
      for (let i = bytes.indexOf(2); i >= 0 && i < WINDOW; i = bytes.indexOf(2, i + 1)) {
        if (i + HEADER_LENGTH > bytes.length) break;
        const header = headerIn(bytes.subarray(i, i + HEADER_LENGTH), size - start - i);
        // An empty chunk proves nothing: it is only 16 bytes, which can occur by chance.
        if (header === undefined || header.nbytes === 0 || !this.#mayBe(header)) continue;
        if (await this.#isWhole(start + i, header)) return start + i;
      }
    }
    return undefined;
  }

  /** Reserved bytes are zero, and no Blosc header starts with a zero. */
  async #skipZeros(from: number): Promise<number> {
    const { size } = this.#file;
    for (let at = from; at < size; ) {
      const bytes = await this.#read(at, 65536);
      const step = bytes.findIndex((byte) => byte !== 0);
      if (step >= 0) return at + step;
      at += Math.max(1, bytes.length);
    }
    return size;
  }
}
