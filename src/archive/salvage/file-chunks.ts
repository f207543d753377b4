/**
 * Locates the chunks of a damaged `blpk` file: by its offset table, else by walking from chunk to chunk. What a field says counts only
 * if chunks agree with it. Reads only; must not know which array the file belongs to.
 */

import { pushAll } from "../../bytes/arrays.ts";
import { HEADER_LENGTH } from "../../codec/index.ts";
import {
  type BlpkHeader,
  decodeFileHeader,
  FILE_HEADER_LENGTH,
  MAGIC,
  OPTION_METADATA,
  OPTION_OFFSETS,
  UNUSED,
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
import type { LongOptions } from "../kinds/types.ts";
import { type Flaw, findChecksum, isFlaw, jsonLength, startOfTable } from "./chunk-check.ts";
import { ChunkProbe, type Gap, type ProbedFile, type Walked } from "./chunk-walk.ts";

/** A table of unknown length is searched this far for its end, in bytes. */
const MAX_TABLE = 8 << 20;
/** Longest raw JSON metadata that are read, in bytes. */
const WINDOW = 1 << 20;
/** Chunks that are asked for their checksum. */
const SAMPLES = 8;
const ENTRY = 8;
/** Table entries read at a time. */
const BATCH = 4096;
const OPEN_BRACE = 0x7b;

/** What the caller knows of the file. */
export interface ChunkFileFacts extends LongOptions {
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

export interface FileChunks extends ProbedFile {
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
  /** Where bytes start that may have been chunks. */
  readonly rest: number | undefined;
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

/** Undefined for an entry that does not lead into the file. `isCounted` is false if the header does not give its length, or a wrong one. */
interface OffsetTable {
  readonly offsets: (number | undefined)[];
  readonly end: number;
  readonly isCounted: boolean;
}

/** For fields of a file header: where they are, and bytes that say nothing, so that the other fields can be read. */
const NEUTRAL: { readonly [field: string]: readonly [at: number, byte: number, length: number] } = {
  checksum: [6, 0, 1],
  "chunk-size": [8, 0xff, 4],
  "last-chunk": [12, 0xff, 4],
  nchunks: [16, 0xff, 8],
  "max-app-chunks": [24, 0, 8],
  "meta-size": [24, 0, 8],
};
/** Where the chunks of version 1 start. */
const BARE = 16;
/** What a chunk at the end of a table counts, in entries that lead to chunks. */
const SURE = 3;

class Search {
  readonly #store: ReadableStore;
  readonly #facts: ChunkFileFacts;
  readonly #problems: string[] = [];
  readonly #unplaced: number[] = [];
  readonly #file: ProbedFile;
  readonly #probe: ChunkProbe;
  #header: BlpkHeader | undefined;
  /** False if a field of the header is damaged. */
  #isSound = true;
  #metadata: JsonValue | undefined;
  #lostMetadata = false;
  #isRawJson = false;
  #rest: number | undefined;

  constructor(store: ReadableStore, key: string, size: number, facts: ChunkFileFacts) {
    this.#store = store;
    this.#facts = facts;
    this.#file = { key, path: store.describe(key), size };
    this.#probe = new ChunkProbe(store, this.#file, facts.maxNbytes, facts);
  }

  async run(): Promise<FileChunks> {
    this.#header = await this.#readHeader();
    const headerLength = this.#header?.headerLength ?? FILE_HEADER_LENGTH;
    const begin = await this.#readMetadata(headerLength);
    const table = await this.#findTable(begin, headerLength);
    const leads = table.offsets.some((at) => at !== undefined);
    const isAtEnd = leads || (await this.#probe.isChunk(table.end));
    const from = isAtEnd ? table.end : this.#lostMetadata ? headerLength : begin;
    await this.#settleChecksum([...table.offsets.filter((at) => at !== undefined), from], from);
    const { nchunks: stated = -1, offsets: isListed = false } = this.#header ?? {};
    const counted = stated >= 0 && !table.isCounted ? table.offsets.length : stated;
    const known = this.#facts.count ?? counted;
    const total = known >= 0 && known * HEADER_LENGTH <= this.#file.size * 64 ? known : undefined;
    if (total === undefined && counted >= 0) this.#absent(0, Number.POSITIVE_INFINITY);
    if (isListed && stated < 0) this.#problems.push("the header does not count its chunks");
    if (isListed && !leads && total !== 0)
      this.#problems.push("no offset leads to a chunk; chunks are taken in the order they are stored in");
    if (stated >= 0 && stated !== counted)
      this.#problems.push(`the header counts ${stated} chunks, but the offsets show ${counted}`);
    const places = await (leads ? this.#byTable(table, total) : this.#inOrder(from, total));
    return {
      ...this.#file,
      header: this.#header,
      checksum: this.#probe.checksum,
      metadata: this.#metadata,
      lostMetadata: this.#lostMetadata,
      places,
      isCounted: total !== undefined,
      unplaced: this.#unplaced,
      rest: this.#rest,
      problems: this.#problems,
    };
  }

  /** Reads the header. A damaged field says nothing; undefined if too much is damaged. */
  async #readHeader(): Promise<BlpkHeader | undefined> {
    const bytes = (await this.#probe.read(0, FILE_HEADER_LENGTH)).slice();
    // A later version has its number of chunks there, which does not look like a chunk.
    const isBare = await this.#probe.isChunk(BARE);
    if (isBare && new DataView(bytes.buffer).getUint32(4, true) !== 1)
      this.#problems.push(
        `the header is not of version 1, but chunks start at byte ${BARE}, as in version 1`,
      );
    if (isBare) bytes.set([1, 0, 0, 0], 4);
    for (let fields = 0; ; fields++) {
      try {
        return decodeFileHeader(bytes, this.#file.path);
      } catch (error) {
        if (!isFlaw(error)) throw error;
        if (this.#isSound) this.#problems.push(`the header cannot be read: ${error.summary}`);
        this.#isSound = false;
        const { field = "" } = error.details;
        const [, , , , version = 0, options = 0] = bytes;
        const neutral = isBare && field === "nchunks" ? ([8, 0xff, 8] as const) : NEUTRAL[field];
        if (fields === 3 || bytes.length < FILE_HEADER_LENGTH) return undefined;
        if (field === "magic" && [1, 2, 3].includes(version)) bytes.set(MAGIC);
        else if (field === "magic") return undefined;
        else if (!isBare && version !== 3) bytes[4] = 3;
        else if (field === "options") bytes[5] = options & (OPTION_OFFSETS | OPTION_METADATA);
        else if (neutral === undefined) return undefined;
        else bytes.fill(neutral[1], neutral[0], neutral[0] + neutral[2]);
      }
    }
  }

  /** Finds out which checksum the chunks have: as some of them show, else as the header says. */
  async #settleChecksum(samples: readonly number[], from: number): Promise<void> {
    const { key, size } = this.#file;
    const named = this.#header?.checksum;
    let found: ChecksumName | undefined;
    for (const at of samples.slice(0, SAMPLES)) found ??= await findChecksum(this.#store, key, at, size);
    if (this.#facts.scan)
      for (let i = 0, at: number | undefined = from; found === undefined && i < SAMPLES; i++) {
        at = await this.#probe.search(at);
        if (at === undefined) break;
        found = await findChecksum(this.#store, key, at++, size);
      }
    if (named !== undefined && found !== undefined && found !== named)
      this.#problems.push(`the header names the checksum ${named}, but the chunks have ${found}`);
    this.#probe.checksum = found ?? named ?? "None";
  }

  /** Reads the metadata section at a byte, if there is one; returns where it ends. */
  async #readMetadata(at: number): Promise<number> {
    const { path } = this.#file;
    const head = await this.#probe.read(at, SECTION_HEADER_LENGTH);
    if (this.#header === undefined && head[0] === OPEN_BRACE)
      return at + jsonLength(await this.#probe.read(at, WINDOW));
    const isSection = head.length >= 8 && metadataKind(head) === "bloscpack";
    if (!isSection && (this.#header?.metadata !== true || (await this.#probe.isChunk(at)))) return at;
    let end: number | undefined;
    this.#isRawJson = !isSection;
    try {
      if (isSection) {
        const { sectionLength } = decodeSectionHeader(head, path, at);
        end = at + sectionLength;
        this.#metadata = (await decodeSection(await this.#probe.read(at, sectionLength), path, at)).value;
      } else {
        const length = Math.max(0, this.#header?.metaSize ?? 0);
        end = at + length;
        this.#metadata = parseJson(await this.#probe.read(at, Math.min(length, WINDOW)), path);
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
    if (offsets !== true) return (await this.#probe.isChunk(stated)) ? stated : at;
    if (nchunks <= 0) return stated;
    const length = ENTRY * (nchunks + Math.max(0, maxAppChunks));
    const start = startOfTable(await this.#probe.read(at, MAX_TABLE), at, length);
    return start === undefined ? stated : at + start;
  }

  /**
   * Reads the offset table at a byte: an offset for each chunk, undefined if the entry does not lead into the file. Which of the
   * possible lengths it has is decided by how many of its entries lead to chunks, whatever the header says. If none does, it is looked for
   * after the header, where metadata that lie about their length precede it.
   */
  async #findTable(at: number, headerLength: number): Promise<OffsetTable> {
    const header = this.#header;
    const isListed = header?.offsets === true;
    if (header?.version === 1 || (!isListed && (await this.#probe.isChunk(at))))
      return { offsets: [], end: at, isCounted: true };
    // With raw JSON metadata, the field of the spare entries is the length of the text.
    const spare = header === undefined || this.#isRawJson ? 0 : Math.max(0, header.maxAppChunks);
    const fits = Math.floor((this.#file.size - at) / ENTRY);
    const count = isListed ? header.nchunks : -1;
    const stated = (count < 0 ? [] : [count + spare, count]).filter((entries) => entries <= fits);
    const ends = stated.map((entries) => at + ENTRY * entries);
    for (const end of ends)
      if (header?.version === 4 || (await this.#probe.isChunk(end)))
        return { offsets: await this.#offsets(at, count, end), end, isCounted: true };
    let best: { readonly count: number; readonly end: number; readonly score: number } | undefined;
    const first = await this.#probe.search(at, at + MAX_TABLE);
    const starts = first === undefined || (first - at) % ENTRY !== 0 ? [] : [first];
    for (const end of [...ends, ...(await this.#possibleEnds(at, fits)), ...starts]) {
      const rated = await this.#rateTable(at, ends.includes(end) ? count : (end - at) / ENTRY, end);
      if (rated !== undefined && rated.score > (best?.score ?? Number.NEGATIVE_INFINITY)) best = rated;
    }
    if (best !== undefined) {
      const isCounted = ends.includes(best.end);
      this.#isSound = false;
      const offsets = await this.#offsets(at, best.count, best.end);
      // Entries after the last chunk's offset are spare.
      while (!isCounted && offsets.length > 0 && offsets.at(-1) === undefined) offsets.pop();
      return { offsets, end: best.end, isCounted };
    }
    const moved = isListed && at > headerLength ? await this.#endOfLost(headerLength, at) : at;
    if (moved !== at) return this.#findTable(moved, moved);
    // The file is truncated inside its table, or no entry is right.
    return { offsets: [], end: ends[0] ?? at, isCounted: true };
  }

  /** A possible table with how many of its entries lead to a chunk, or to its own end, less those that lead elsewhere; undefined if those are more. */
  async #rateTable(
    at: number,
    count: number,
    end: number,
  ): Promise<{ readonly count: number; readonly end: number; readonly score: number } | undefined> {
    let [hits, misses] = [0, 0];
    for (const entry of await this.#entries(at, count))
      if (entry === end || (entry > end && (await this.#probe.headerAt(entry)) !== undefined)) hits++;
      else if (entry !== UNUSED) misses++;
    if (hits === 0 || hits < misses) return undefined;
    return { count, end, score: hits - misses + ((await this.#probe.isChunk(end)) ? SURE : 0) };
  }

  /** Where a table of unknown length can end: its first chunk starts there. */
  async #possibleEnds(at: number, fits: number): Promise<readonly number[]> {
    const ends = new Set<number>();
    let last = this.#file.size;
    for (let i = 0; i < Math.min(fits, MAX_TABLE / ENTRY) && at + i * ENTRY < last; i += BATCH)
      for (const [j, entry] of (await this.#entries(at + i * ENTRY, BATCH)).entries()) {
        if (entry <= at + (i + j) * ENTRY || entry >= last || (entry - at) % ENTRY !== 0) continue;
        ends.add(entry);
        if (await this.#probe.isChunk(entry)) last = entry;
      }
    return [...ends].sort((a, b) => a - b).slice(0, SAMPLES);
  }

  async #entries(at: number, count: number): Promise<number[]> {
    const bytes = await this.#probe.read(at, count * ENTRY);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Array.from({ length: Math.floor(bytes.length / ENTRY) }, (_, i) =>
      Number(view.getBigInt64(i * ENTRY, true)),
    );
  }

  /** The entries of a table that lead into the file; of those that lead to one place, none. */
  async #offsets(at: number, count: number, end: number): Promise<(number | undefined)[]> {
    const entries = await this.#entries(at, count);
    const times = new Map<number, number>();
    for (const entry of entries) times.set(entry, (times.get(entry) ?? 0) + 1);
    return entries.map((entry) =>
      entry >= end && entry + HEADER_LENGTH <= this.#file.size && times.get(entry) === 1 ? entry : undefined,
    );
  }

  /** Places chunks at their offsets, and those whose offset leads to no chunk where the chunk before, or the table (`end`), ends. */
  async #byTable({ offsets, end }: OffsetTable, total: number | undefined): Promise<ChunkSpot[]> {
    const probe = this.#probe;
    const { size } = this.#file;
    const taken = new Set(offsets);
    const isInOrder = this.#header?.version !== 4;
    const places: ChunkSpot[] = [];
    for (let i = 0, count = offsets.length + this.#absent(offsets.length, total); i < count; i++) {
      const stored = offsets[i];
      if (stored !== undefined && (await probe.headerAt(stored)) !== undefined) {
        places.push({ offset: stored });
        continue;
      }
      const before = places[i - 1]?.offset;
      const next = i === 0 ? end : before === undefined ? undefined : await probe.endOf(before);
      const mayWalk = isInOrder && next !== undefined && next < size && !taken.has(next);
      const isNext = mayWalk && (await probe.isChunk(next));
      const there = isNext ? next : isInOrder ? await this.#between(offsets, i, before ?? end) : undefined;
      if (there !== undefined)
        this.#problems.push(
          `the offset of chunk ${i} is wrong; the chunk was found ${isNext ? (i === 0 ? "where the offsets end" : "where the one before it ends") : `at byte ${there}`}`,
        );
      if (there !== undefined) places.push({ offset: there });
      else places.push(stored === undefined ? { flaw: this.#lost(i, next) } : { offset: stored });
    }
    if (isInOrder && this.#facts.count === undefined && !this.#isSound) await this.#afterTable(places);
    return places;
  }

  /** On request, looks for a chunk without an offset: the chunks from there on lead, one after the other, to the next offset. */
  async #between(
    offsets: readonly (number | undefined)[],
    index: number,
    from: number,
  ): Promise<number | undefined> {
    if (!this.#facts.scan) return undefined;
    const ahead = offsets.findIndex((offset, i) => i > index && offset !== undefined);
    const to = offsets[ahead] ?? this.#file.size;
    const found = await this.#probe.search(from, to);
    let [at, steps] = [found, 0];
    for (; at !== undefined && at < to; steps++) at = await this.#probe.endOf(at);
    return at === to && steps === (ahead < 0 ? offsets.length : ahead) - index ? found : undefined;
  }

  /** Adds the chunks after the last one with an offset, if nothing says reliably that there are none. */
  async #afterTable(places: ChunkSpot[]): Promise<void> {
    const last = places.at(-1)?.offset;
    const from = last === undefined ? undefined : await this.#probe.endOf(last);
    if (from === undefined || from >= this.#file.size) return;
    const more = await this.#inOrder(from, undefined);
    if (more.length > 0)
      this.#problems.push(`the chunks from byte ${from} on (${more.length}) have no right offset`);
    pushAll(places, more);
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
    const { count, scan } = this.#facts;
    const probe = this.#probe;
    const isBegun = this.#header?.offsets === false && !this.#lostMetadata;
    const start = isBegun || (await probe.isChunk(from)) ? from : ((await probe.search(from)) ?? from);
    const walked: (number | Gap)[] = [...(await probe.walk(start, { count: total, most: count, scan }))];
    // Entries that no field counts may follow a table.
    const skipped = await probe.read(from, Math.min(start - from, MAX_TABLE));
    if (skipped.some((byte) => byte !== 0xff && byte !== 0)) walked.unshift({ from, to: start });
    const model = await probe.modelOf(walked);
    const gaps = walked.filter((item) => typeof item !== "number");
    for (const { from: start, to } of gaps)
      this.#problems.push(
        scan || to < this.#file.size
          ? `${to < this.#file.size ? `a search found a chunk at byte ${to}, after` : "a search found no chunk after"} byte ${start}, where none could be read`
          : `what is at byte ${start} is not a chunk, and the position of the next one is unknown; {scan: true} searches for it`,
      );
    // If the shape counts as many chunks as were found, none is lost, whatever the bytes between them look like.
    const areAll = count !== undefined && walked.length - gaps.length >= count;
    const counts = areAll
      ? new Map(gaps.map((gap) => [gap, 0]))
      : await probe.countGaps(walked, model, { total, isBegun });
    const places = await this.#placeWalked(walked, counts, total);
    const offsets = places.flatMap(({ offset }) => offset ?? []);
    const most = model?.nbytes;
    let isOrder = this.#header?.version !== 4 || offsets.length < 2;
    for (const [i, offset] of offsets.entries())
      if (i < offsets.length - 1 && (await probe.headerAt(offset))?.nbytes !== most)
        isOrder &&= !(await probe.isChunk(offset));
    if (isOrder) return places;
    this.#problems.push(
      this.#header?.offsets === false && this.#header.chunkSize === -1
        ? "the chunks have unequal lengths, and a repair places only equal ones; if all are intact, decompress reads them"
        : "the chunks are not stored in order, and nothing else gives their order",
    );
    return places.map(({ offset }, i) => {
      if (offset !== undefined) this.#unplaced.push(offset);
      return { flaw: this.#lost(i, undefined) };
    });
  }

  /** Gives places to the chunks of a walk. After a gap of unknown length, none is certain. */
  async #placeWalked(
    walked: Walked,
    counts: ReadonlyMap<Gap, number | undefined>,
    total: number | undefined,
  ): Promise<ChunkSpot[]> {
    const places: ChunkSpot[] = [];
    const last = walked.at(-1);
    const gap = walked.find((item) => typeof item !== "number");
    const leave = (count: number): void => {
      for (let i = 0; i < count; i++) places.push({ flaw: this.#lost(places.length, gap?.from) });
    };
    let isCertain = true;
    let found = 0;
    for (const item of walked) {
      if (typeof item === "number") {
        found++;
        if (isCertain) places.push({ offset: item });
        else this.#unplaced.push(item);
      } else if (item !== last || found > 0) {
        const count = counts.get(item);
        isCertain &&= count !== undefined;
        if (isCertain) leave(count ?? 0);
      }
    }
    const isSettled = total !== undefined && (this.#isSound || this.#facts.count !== undefined);
    const isEnd = await this.#isEnd(walked);
    if (total !== undefined && (isEnd ? places.length !== total : places.length > total))
      this.#problems.push(`the header counts ${total} chunks, but there are ${places.length}`);
    if (last !== undefined && typeof last !== "number" && last.to === this.#file.size)
      if (found === 0 || !isSettled || places.length > total) this.#rest = last.from;
    if (!isEnd) leave(this.#absent(places.length, total));
    return places;
  }

  /** Chunks that are missing after the `found` ones. A count of very many more is damage: listing them would fill the memory. */
  #absent(found: number, total = 0): number {
    const absent = Math.max(0, total - found);
    if (absent <= Math.max(1 << 16, found * 63) || this.#facts.count !== undefined) return absent;
    const text = `${this.#header?.nchunks} chunks, which do not fit into the ${this.#file.size} bytes of the file`;
    this.#problems.push(`the header counts ${text}; the count is ignored`);
    return 0;
  }

  /** True if a walk ends with an intact chunk that is shorter than the others: it is the last one, whatever the header counts. */
  async #isEnd(walked: Walked): Promise<boolean> {
    const [first, last] = [walked.find((item) => typeof item === "number"), walked.at(-1)];
    if (this.#facts.count !== undefined || first === undefined || typeof last !== "number" || first === last)
      return false;
    const [full, short] = [await this.#probe.headerAt(first), await this.#probe.headerAt(last)];
    return (short?.nbytes ?? 0) < (full?.nbytes ?? 0) && (await this.#probe.isChunk(last));
  }
}
