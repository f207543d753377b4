/**
 * Locates the chunks of a damaged `blpk` file: by its offset table, else by walking from chunk to chunk, else (on
 * request) by a search for Blosc headers. Reads only; must not know which array the file belongs to.
 */

import { pushAll } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { type BlpkHeader, decodeFileHeader, FILE_HEADER_LENGTH } from "../../format/header.ts";
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
import {
  type Flaw,
  findChecksum,
  findFlaw,
  headerIn,
  isFlaw,
  jsonLength,
  readHeaderAt,
  startOfTable,
} from "./chunk-check.ts";

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
export function placedChunk(
  { key, size, checksum }: Pick<FileChunks, "key" | "size" | "checksum">,
  offset: number,
  index: number,
  nbytes: number,
): PlacedChunk {
  const place = { key, offset, index, nbytes, ctbytes: undefined, available: size - offset };
  return { ...place, endsObject: true, checksum, prologue: 0 };
}

/** Undefined for an entry that does not lead into the file. `isCounted` is false if the header does not give its length, or a wrong one. */
interface OffsetTable {
  readonly offsets: (number | undefined)[];
  readonly end: number | undefined;
  readonly isCounted: boolean;
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
    const { key, size } = this.#file;
    this.#header = await this.#readHeader();
    this.#checksum = this.#header?.checksum;
    const begin = await this.#readMetadata(this.#header?.headerLength ?? FILE_HEADER_LENGTH);
    const table = await this.#findTable(begin);
    // Without a header the file may be of version 1, whose chunks start at byte 16.
    const from = table.end ?? (this.#header === undefined ? await this.#firstOf([begin, 16]) : begin);
    const sample = table.offsets.find((at) => at !== undefined) ?? from;
    const found = await findChecksum(this.#store, key, sample, size);
    if (this.#header !== undefined && found !== "None" && found !== this.#checksum)
      this.#problems.push(`the header names the checksum ${this.#checksum}, but the chunks have ${found}`);
    if (this.#header === undefined || found !== "None") this.#checksum = found;
    const stated = this.#header?.nchunks ?? -1;
    const counted = stated >= 0 && !table.isCounted ? table.offsets.length : stated;
    const known = this.#facts.count ?? counted;
    // A count that no file of this size can have is damage.
    const total = known >= 0 && known * HEADER_LENGTH <= size * 64 ? known : undefined;
    const leads = table.offsets.some((at) => at !== undefined);
    if (this.#header?.offsets === true && stated < 0)
      this.#problems.push("the header does not count its chunks");
    if (this.#header?.offsets === true && !leads && total !== 0)
      this.#problems.push("no offset leads to a chunk; chunks are taken in the order they are stored in");
    if (stated >= 0 && !table.isCounted)
      this.#problems.push(`the header counts ${stated} chunks, but the offsets show ${counted}`);
    const start = leads ? from : await this.#firstOf([from, begin]);
    const places = await (leads ? this.#byTable(table, total) : this.#inOrder(start, total));
    return {
      ...this.#file,
      header: this.#header,
      checksum: this.#checksum ?? "None",
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
    try {
      return decodeFileHeader(await this.#read(0, FILE_HEADER_LENGTH), this.#file.path);
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
    if (this.#header === undefined && head[0] === OPEN_BRACE)
      return at + jsonLength(await this.#read(at, WINDOW));
    const isSection = head.length >= 8 && metadataKind(head) === "bloscpack";
    if (!isSection && this.#header?.metadata !== true) return at;
    let end: number | undefined;
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
      end = await this.#endOfLost(at, end);
    }
    return Math.min(end, this.#file.size);
  }

  /** Where damaged metadata end: where the table starts that leads to its own end, else as they say, else at their start. */
  async #endOfLost(at: number, stated = at): Promise<number> {
    const { nchunks = -1, maxAppChunks = 0, offsets } = this.#header ?? {};
    if (offsets !== true) return (await this.#isChunk(stated)) ? stated : at;
    if (nchunks <= 0) return stated;
    const length = ENTRY * (nchunks + Math.max(0, maxAppChunks));
    const start = startOfTable(await this.#read(at, MAX_TABLE), at, length);
    return start === undefined ? stated : at + start;
  }

  /**
   * Reads the offset table at a byte: an offset for each chunk, undefined if the entry does not lead into the file.
   * `end` is where the first chunk of a file with chunks in order starts; undefined without a table.
   */
  async #findTable(at: number): Promise<OffsetTable> {
    const header = this.#header;
    if (header !== undefined && !header.offsets) return { offsets: [], end: undefined, isCounted: true };
    const { size } = this.#file;
    // With raw JSON metadata, the field of the spare entries is the length of the text.
    const spare = header === undefined || this.#isRawJson ? 0 : Math.max(0, header.maxAppChunks);
    const fits = Math.floor((size - at) / ENTRY);
    let count = header?.nchunks ?? -1;
    let end = count < 0 || count + spare > fits ? undefined : at + ENTRY * (count + spare);
    let isCounted = count >= 0;
    if (end === undefined || (header?.version === 3 && !(await this.#isChunk(end)))) {
      // A chunk starts where the table ends, so the lowest offset gives the table's length.
      const first = await this.#lowestEntry(at, fits);
      if (first !== undefined && first !== end && (await this.#isChunk(first))) {
        end = first;
        count = (first - at) / ENTRY;
        isCounted = false;
      } else if (end !== undefined) {
        // The counts are right, and the first chunk is damaged.
      } else if (header === undefined) return { offsets: [], end: undefined, isCounted };
      else if (count >= 0) {
        // The file is truncated inside its table, or a count is damaged.
        count = Math.min(count, fits);
        end = count + spare > fits ? await this.#endOfTable(at) : at + ENTRY * (count + spare);
      } else return { offsets: [], end: await this.#endOfTable(at), isCounted };
    }
    const entries = await this.#entries(at, count);
    const least = end ?? at;
    const offsets = entries.map((entry) =>
      entry >= least && entry + HEADER_LENGTH <= size ? entry : undefined,
    );
    if (!isCounted) {
      // Entries after the last chunk's offset are spare.
      while (offsets.length > 0 && offsets.at(-1) === undefined) offsets.pop();
    }
    return { offsets, end: end ?? at, isCounted };
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
    const file = { ...this.#file, checksum: this.#checksum ?? ("None" as const) };
    return (await findFlaw(this.#store, placedChunk(file, offset, 0, nbytes))) === undefined;
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
          `the offset of chunk ${i} is wrong; the chunk was found where the ${i === 0 ? "offsets end" : "one before it ends"}`,
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
    const isSure = this.#header?.offsets !== true && !this.#lostMetadata;
    const isThere = isSure || (await this.#isChunk(from));
    const start = isThere ? from : ((await this.#search(from)) ?? from);
    const skipped = await this.#read(from, Math.min(start - from, MAX_TABLE));
    const places = await this.#byWalk(start, total, !skipped.every((byte) => byte === 0xff));
    const lengths: number[] = [];
    for (const { offset } of places) {
      if (offset === undefined) continue;
      const header = await readHeaderAt(this.#store, this.#file.key, offset, this.#file.size);
      lengths.push(header?.nbytes ?? 0);
    }
    const most = lengths.reduce((a, b) => Math.max(a, b), 0);
    const isOrder = this.#header?.version !== 4 && lengths.slice(0, -1).every((length) => length === most);
    const isShort = lengths.length > 1 && (lengths.at(-1) ?? most) < most;
    const walked = places.slice(0, lengths.length);
    // A shorter chunk is the last one, whatever the header counts.
    if (
      isOrder &&
      isShort &&
      this.#facts.count === undefined &&
      walked.every(({ flaw }) => flaw === undefined)
    )
      return walked;
    if (isOrder || lengths.length < 2) return places;
    this.#problems.push("the chunks are not stored in order, and nothing else gives their order");
    return places.map(({ offset }, i) => {
      if (offset !== undefined) this.#unplaced.push(offset);
      return { flaw: this.#lost(i, undefined) };
    });
  }

  /** Walks from chunk to chunk. If it is late, there may be chunks before. What follows an unreadable header has no place, unless a search finds it. */
  async #byWalk(from: number, total: number | undefined, isLate: boolean): Promise<ChunkSpot[]> {
    const { key, size } = this.#file;
    const runs: number[][] = isLate ? [[], []] : [[]];
    let at: number | undefined = from;
    let found = 0;
    let before: number | undefined;
    while (at !== undefined && found < (this.#facts.count ?? Number.POSITIVE_INFINITY)) {
      const start: number = await this.#skipZeros(at);
      if (start >= size) break;
      // If the last counted chunk is not the last one by its length, those that follow count too.
      const isOver = found >= (total ?? Number.POSITIVE_INFINITY);
      if (isOver && (before === this.#header?.lastChunk || !(await this.#isChunk(start)))) break;
      const header: ChunkHeader | undefined = await readHeaderAt(this.#store, key, start, size);
      const digest = DIGEST_LENGTHS[this.#checksum ?? "None"];
      if (header !== undefined && this.#mayBe(header)) {
        runs.at(-1)?.push(start);
        found++;
        before = header.nbytes;
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
    if (total !== undefined && found > total)
      this.#problems.push(`the header counts ${total} chunks, but ${found} follow one another`);
    return this.#placeRuns(runs, total === undefined ? undefined : Math.max(total, found));
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
      else pushAll(this.#unplaced, run);
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
