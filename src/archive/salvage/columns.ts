/**
 * Finds the chunks of one column of a damaged array, each intact or with a flaw: in numbered superchunks, in the files of a
 * carray, or in one Bloscpack file. Knows where each layout stores its chunks; must not know how holes are handled.
 */
import { HEADER_LENGTH } from "../../codec/index.ts";
import { FIRST_LOOSE, type StoredLayout } from "../../format/layout.ts";
import {
  carrayChunkName,
  parseCarrayChunkName,
  parseSuperchunkName,
  superchunkName,
} from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { LongOptions } from "../kinds/types.ts";
import { LayoutIndex } from "../places/layout-files.ts";
import { type PlacedChunk, PROLOGUE } from "../places/sequence.ts";
import { type Flaw, findFlaw, readHeaderAt, type Slot } from "./chunk-check.ts";
import { placedChunk } from "./chunk-walk.ts";
import { type FileChunks, findFileChunks } from "./file-chunks.ts";

/** What the metadata, or the caller, say of a column. */
export interface ColumnToFind {
  /** Folder of its chunks. */
  readonly key: string;
  /** Decoded bytes of a full chunk. */
  readonly chunkBytes: number;
  /** Decoded bytes of the column; undefined if unknown. */
  readonly nbytes: number | undefined;
  readonly scan: boolean;
  /** Progress counts checked chunks. */
  readonly long: LongOptions;
}

export interface FoundColumn {
  readonly slots: readonly Slot[];
  /** Decoded bytes of a full chunk. */
  readonly chunkBytes: number;
  /** Describes objects, and chunks in objects, whose position in the column is unknown. */
  readonly unplaced: readonly string[];
  readonly problems: readonly string[];
}

/** Decoded bytes of a column, up to the end of its last chunk. */
export function bytesOf({ slots, chunkBytes }: FoundColumn): number {
  const last = slots.length - 1;
  return last < 0 ? 0 : last * chunkBytes + (slots[last]?.nbytes ?? 0);
}

/** A chunk's place, before it is known whether the chunk is intact. */
type Candidate = { readonly place: PlacedChunk } | { readonly flaw: Flaw };

/** Finds the chunks of a carray: each file's name gives the chunk's position. */
export async function findCarrayChunks(store: ReadableStore, facts: ColumnToFind): Promise<FoundColumn> {
  const numbers = await numbersIn(store, facts.key, parseCarrayChunkName);
  const keyOf = (index: number): string => joinKey(facts.key, carrayChunkName(index));
  const candidateOf = async (index: number): Promise<Candidate> => {
    const key = keyOf(index);
    const path = store.describe(key);
    const size = (await store.stat(key))?.size;
    if (size === undefined) return { flaw: { code: "INCOMPLETE", reason: "the file is missing", path } };
    const header = await readHeaderAt(store, key, PROLOGUE, size);
    if (header === undefined) {
      const isCut = size < PROLOGUE + 16;
      const reason = isCut
        ? `the file ends at byte ${size}, inside its headers`
        : `what is at byte ${PROLOGUE} is not a whole Blosc chunk`;
      return { flaw: { code: isCut ? "TRUNCATED" : "BAD_CHUNK", reason, path, offset: PROLOGUE } };
    }
    // The file header adds nothing to the name and the chunk.
    const { nbytes } = header;
    const bytes = {
      offset: PROLOGUE,
      nbytes,
      ctbytes: undefined,
      available: size - PROLOGUE,
      endsObject: true,
    };
    return { place: { index, key, ...bytes, prologue: 0, checksum: "None" } };
  };
  const candidates: Candidate[] = [];
  const { chunkBytes } = facts;
  const count = chunksIn(facts.nbytes, chunkBytes) ?? (numbers.at(-1) ?? -1) + 1;
  for (let index = 0; index < count; index++) {
    facts.long.signal?.throwIfAborted();
    candidates.push(await candidateOf(index));
  }
  const left = numbers.filter((number) => number >= count).map((number) => store.describe(keyOf(number)));
  const slots = await checkAll(store, candidates, facts);
  return { slots, chunkBytes, unplaced: left, problems: [] };
}

/** Finds the chunks of one Bloscpack file. `given` is the decoded size of all of them, if its metadata give it. */
export async function findBloscpackChunks(
  store: ReadableStore,
  file: FileChunks,
  given: number | undefined,
  long: LongOptions & { readonly scan?: boolean | undefined },
): Promise<FoundColumn> {
  const { key, header, path } = file;
  const own = await lengthsOf(store, file);
  const first = await fullChunk(store, file, own, given);
  const isKnown = given !== undefined && given > 0 && first.chunkBytes > 0;
  const count = isKnown ? Math.ceil(given / first.chunkBytes) : file.places.length;
  const facts = { ...long, count, maxNbytes: 0x7fff_ffff, scan: long.scan === true };
  // A count in the header that the shape contradicts is damage.
  const found = count === file.places.length ? file : ((await findFileChunks(store, key, facts)) ?? file);
  const lengths = found === file ? own : await lengthsOf(store, found);
  const { chunkBytes, problems } = found === file ? first : await fullChunk(store, found, lengths, given);
  const candidates = found.places.slice(0, count).map(({ offset, flaw }, i): Candidate => {
    if (flaw !== undefined) return { flaw };
    return { place: placedChunk(found, offset, i, lengths.get(i) ?? chunkBytes) };
  });
  const ending = candidates.at(-1);
  const isWhole = ending !== undefined && "place" in ending && !(await findFlaw(store, ending.place));
  // An intact last chunk gives its own length.
  const lastChunk = isWhole ? -1 : (header?.lastChunk ?? -1);
  const stated = lastChunk < 0 ? undefined : Math.max(0, count - 1) * chunkBytes + lastChunk;
  const rest = found.places.slice(count).flatMap(({ offset }) => offset ?? []);
  return {
    slots: await checkAll(store, candidates, { chunkBytes, nbytes: given ?? stated, long }),
    chunkBytes,
    unplaced: [
      ...[...found.unplaced, ...rest].map((offset) => `the chunk at byte ${offset} of ${path}`),
      ...(found.rest === undefined ? [] : [`what follows byte ${found.rest} of ${path}`]),
    ],
    problems: [...found.problems.map((problem) => `${path}: ${problem}`), ...problems],
  };
}

/** Decoded bytes of the chunks of a file whose headers can be read. */
async function lengthsOf(store: ReadableStore, file: FileChunks): Promise<Map<number, number>> {
  const lengths = new Map<number, number>();
  for (const [i, { offset }] of file.places.entries()) {
    const chunk = offset === undefined ? undefined : await readHeaderAt(store, file.key, offset, file.size);
    if (chunk !== undefined) lengths.set(i, chunk.nbytes);
  }
  return lengths;
}

/** Decoded bytes of a full chunk: as the header says, unless an intact chunk, or the bytes of all of them, contradict it and none agrees. */
async function fullChunk(
  store: ReadableStore,
  file: FileChunks,
  lengths: ReadonlyMap<number, number>,
  given: number | undefined,
): Promise<Pick<FoundColumn, "chunkBytes" | "problems">> {
  const { header, path, key, size } = file;
  const last = file.places.length - 1;
  const full = [...lengths].filter(([i]) => i < last || last === 0);
  const { chunkSize: stated = -1, lastChunk = -1 } = header ?? {};
  if (stated <= 0 || last <= 0) {
    const [loose] = file.unplaced;
    const found = loose === undefined ? undefined : await readHeaderAt(store, key, loose, size);
    return { chunkBytes: full[0]?.[1] ?? found?.nbytes ?? given ?? Math.max(0, lastChunk), problems: [] };
  }
  if (full.some(([, length]) => length === stated)) return { chunkBytes: stated, problems: [] };
  const contradicted = (length: number, by: string): Pick<FoundColumn, "chunkBytes" | "problems"> => {
    const problem = `${path}: the header's chunk-size is ${stated}, but ${by} ${length} bytes`;
    return { chunkBytes: length, problems: [problem] };
  };
  // The last chunk is not longer than a full one.
  for (const [i, length] of [
    ...full,
    ...[...lengths].filter(([i, length]) => i === last && length > stated),
  ]) {
    const offset = file.places[i]?.offset;
    if (offset === undefined || (await findFlaw(store, placedChunk(file, offset, i, length)))) continue;
    return contradicted(length, `chunk ${i} is intact and has`);
  }
  const ending = lengths.get(last) ?? 0;
  const each = given === undefined ? Number.NaN : (given - ending) / last;
  return each !== stated && ending > 0 && each >= ending && Number.isInteger(each)
    ? contradicted(each, "the shape and the last chunk leave")
    : { chunkBytes: stated, problems: [] };
}

export interface SuperchunksToFind extends ColumnToFind {
  readonly layout: StoredLayout | undefined;
  /** Chunks of a full superchunk, if the array declares it. */
  readonly superchunklen: number | undefined;
}

/** Finds the chunks in a folder of superchunks: by the layout in `meta/sizes`, else in the order of their numbers. */
export async function findSuperchunkChunks(
  store: ReadableStore,
  facts: SuperchunksToFind,
): Promise<FoundColumn> {
  const numbers = await numbersIn(store, facts.key);
  const found =
    facts.layout === undefined
      ? await byNumber(store, numbers, facts)
      : await byLayout(store, facts.layout, facts);
  const slots = await checkAll(store, found.candidates, facts);
  return { slots, chunkBytes: facts.chunkBytes, unplaced: found.unplaced, problems: found.problems };
}

/** The numbers in the names of a folder's objects, in order. */
export async function numbersIn(
  store: ReadableStore,
  folder: string,
  parse: (name: string) => number | undefined = parseSuperchunkName,
): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { name, kind } of store.list(folder)) {
    const number = kind === "object" ? parse(name) : undefined;
    if (number !== undefined) numbers.push(number);
  }
  return numbers.sort((a, b) => a - b);
}

interface FoundCandidates {
  readonly candidates: Candidate[];
  readonly unplaced: string[];
  readonly problems: string[];
}

async function byLayout(
  store: ReadableStore,
  layout: StoredLayout,
  { key: folder, chunkBytes, scan, long }: SuperchunksToFind,
): Promise<FoundCandidates> {
  const index = new LayoutIndex(layout);
  const files = new Map<number, FileChunks | undefined>();
  const candidates: Candidate[] = [];
  const problems: string[] = [];
  for (let i = 0; i < index.nchunks; i++) {
    const { number, inFile, needed } = index.find(i);
    const key = joinKey(folder, superchunkName(number));
    if (!files.has(number)) {
      long.signal?.throwIfAborted();
      const file = await findFileChunks(store, key, { ...long, count: needed, maxNbytes: chunkBytes, scan });
      files.set(number, file);
      for (const problem of file?.problems ?? []) problems.push(`${store.describe(key)}: ${problem}`);
    }
    candidates.push(candidateIn(files.get(number), inFile, i, chunkBytes, store.describe(key)));
  }
  return { candidates, unplaced: [], problems };
}

function candidateIn(
  file: FileChunks | undefined,
  inFile: number,
  index: number,
  chunkBytes: number,
  path: string,
): Candidate {
  if (file === undefined) return { flaw: { code: "INCOMPLETE", reason: "the file is missing", path } };
  const place = file.places[inFile];
  if (place?.offset !== undefined) return { place: placedChunk(file, place.offset, index, chunkBytes) };
  const reason = `the file has no chunk ${inFile}`;
  return { flaw: place?.flaw ?? { code: "INCOMPLETE", reason, path } };
}

/** Goes through the superchunks in order. How many chunks each should hold is known from itself, or from all the others. */
async function byNumber(
  store: ReadableStore,
  numbers: readonly number[],
  { key: folder, chunkBytes, nbytes, scan, long, superchunklen }: SuperchunksToFind,
): Promise<FoundCandidates> {
  const candidates: Candidate[] = [];
  const unplaced: string[] = [];
  const problems: string[] = [];
  const total = chunksIn(nbytes, chunkBytes);
  const plain = numbers.filter((number) => number < FIRST_LOOSE);
  const highest = plain.at(-1) ?? 0;
  const files: (FileChunks | undefined)[] = [];
  for (let number = 1; number <= highest; number++) {
    long.signal?.throwIfAborted();
    const key = joinKey(folder, superchunkName(number));
    const file = await findFileChunks(store, key, {
      ...long,
      count: number < highest ? superchunklen : undefined,
      maxNbytes: chunkBytes,
      scan,
    });
    if (file === undefined) problems.push(`${store.describe(key)} is missing`);
    for (const problem of file?.problems ?? []) problems.push(`${store.describe(key)}: ${problem}`);
    files.push(file);
  }
  const counts = files.map((file, i) => {
    if (superchunklen !== undefined && i < files.length - 1) return superchunklen;
    return file?.isCounted === true || (file?.unplaced.length === 0 && isWalked(file))
      ? file.places.length
      : undefined;
  });
  const unknown = counts.flatMap((count, i) => (count === undefined ? [i] : []));
  const known = counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  const [single] = unknown;
  if (single !== undefined && unknown.length === 1 && total !== undefined && total > known)
    counts[single] = total - known;
  for (const [i, count] of counts.entries()) {
    const file = files[i];
    const key = joinKey(folder, superchunkName(i + 1));
    if (count === undefined) {
      // The chunks of this file have positions, but those of later files do not.
      if (file !== undefined)
        for (const { offset } of file.places)
          if (offset !== undefined)
            candidates.push({ place: placedChunk(file, offset, candidates.length, chunkBytes) });
      for (let rest = i + 1; rest < files.length; rest++)
        if (files[rest] !== undefined)
          unplaced.push(store.describe(joinKey(folder, superchunkName(rest + 1))));
      break;
    }
    for (let inFile = 0; inFile < count; inFile++)
      candidates.push(candidateIn(file, inFile, candidates.length, chunkBytes, store.describe(key)));
  }
  for (const number of numbers)
    if (number >= FIRST_LOOSE) unplaced.push(store.describe(joinKey(folder, superchunkName(number))));
  const path = store.describe(joinKey(folder, superchunkName(highest + 1)));
  if (total !== undefined)
    for (const reason = "the file is missing"; candidates.length < total; )
      candidates.push({ flaw: { code: "INCOMPLETE", reason, path } });
  return { candidates: total === undefined ? candidates : candidates.slice(0, total), unplaced, problems };
}

/** True if a walk found chunk after chunk up to the end of the file. */
function isWalked({ places, problems }: FileChunks): boolean {
  return places.length > 0 && problems.length === 0;
}

function chunksIn(nbytes: number | undefined, chunkBytes: number): number | undefined {
  if (nbytes === undefined) return undefined;
  return chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);
}

/** Checks every chunk. The last one may be shorter than the others, and may hold more than counts. */
async function checkAll(
  store: ReadableStore,
  candidates: readonly Candidate[],
  { chunkBytes, nbytes, long }: Pick<ColumnToFind, "chunkBytes" | "nbytes" | "long">,
): Promise<Slot[]> {
  const slots: Slot[] = [];
  const last = candidates.length - 1;
  for (const [i, candidate] of candidates.entries()) {
    long.signal?.throwIfAborted();
    const needed = nbytes === undefined ? undefined : Math.min(chunkBytes, nbytes - i * chunkBytes);
    slots.push(await checkOne(store, candidate, { chunkBytes, needed, isLast: i === last }));
    long.onProgress?.({ done: i + 1, total: candidates.length, unit: "chunks" });
  }
  return slots;
}

async function checkOne(
  store: ReadableStore,
  candidate: Candidate,
  wanted: { readonly chunkBytes: number; readonly needed: number | undefined; readonly isLast: boolean },
): Promise<Slot> {
  const { chunkBytes, needed, isLast } = wanted;
  const expected = needed ?? chunkBytes;
  if ("flaw" in candidate) return { nbytes: expected, flaw: candidate.flaw };
  const { place } = candidate;
  const { key, offset, available } = place;
  const header = await readHeaderAt(store, key, offset, offset + available);
  // If the file's end cuts a chunk off, its header still gives its full length.
  const own = header?.nbytes ?? (await statedLength(store, place, chunkBytes)) ?? place.nbytes;
  const least = isLast ? (needed ?? 0) : chunkBytes;
  if (own < least || own > chunkBytes) {
    const reason = `nbytes at byte ${offset + 4} is ${own}, but the chunk should have ${expected}`;
    return { nbytes: expected, flaw: { code: "BAD_FIELD", reason, path: store.describe(key), offset } };
  }
  const flaw = await findFlaw(store, { ...place, nbytes: own });
  return flaw === undefined
    ? {
        nbytes: needed ?? own,
        ctbytes: header?.ctbytes ?? 0,
        place: own === place.nbytes ? place : { ...place, nbytes: own },
      }
    : { nbytes: expected, flaw };
}

/** Decoded bytes according to the header of a truncated chunk; undefined if they cannot be right. */
async function statedLength(
  store: ReadableStore,
  { key, offset }: PlacedChunk,
  chunkBytes: number,
): Promise<number | undefined> {
  const bytes = await store.getRange(key, { offset, length: HEADER_LENGTH });
  if (bytes?.length !== HEADER_LENGTH) return undefined;
  const stated = new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);
  return stated <= chunkBytes ? stated : undefined;
}
