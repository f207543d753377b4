/**
 * Plans the conversion of several archives as one: arrays of the same name are joined along the first dimension.
 *
 * Chunks that fit the cells of one grid are copied. Those that a short chunk before them has shifted are recoded. Must not write.
 */
import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import type { ChunkPlace } from "../../archive/places/sequence.ts";
import { at, elementsOf, pushAll } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import type { LayoutOptions } from "../pipeline.ts";
import type { SourceArchive, SourceArray, UnevenChunks } from "../sources/source-array.ts";
import { type ArrayJob, addCopies, countCopies, planArray } from "./array-job.ts";
import {
  assertConvertible,
  type ConversionJobs,
  type JobOptions,
  nameJobs,
  planJobs,
} from "./conversion-jobs.ts";
import type { CellCopies } from "./grid.ts";

/**
 * Plans the conversion of archives of one store as one, in their order.
 *
 * Throws `BAD_ARGUMENT` if their arrays, types or further dimensions differ from the first one's, `UNSUPPORTED` for arrays
 * without dimensions or in Fortran order, and with `recode: false` for chunks that do not fit.
 */
export async function planJoined(archives: readonly Archive[], options: JobOptions): Promise<ConversionJobs> {
  const planned: ConversionJobs[] = [];
  // Which chunks can be copied, and into which grid, is decided for all archives together.
  const alone = { ...options, recode: true, grid: "regular" } as const;
  for (const archive of archives) planned.push(await planJobs(archive, alone));
  for (const jobs of planned) assertConvertible(jobs);
  const [first] = planned;
  if (first === undefined)
    throw new SuperchunkError("BAD_ARGUMENT", "there are no archives to join", { field: "concat" });
  for (const { archive, arrays } of planned) {
    const wanted = listNodes(first.arrays);
    const found = listNodes(arrays);
    if (found !== wanted)
      throw unlike(archive.store.describe(archive.path), "has other arrays than the first", wanted, found);
  }
  const arrays: ArrayJob[] = [];
  for (const [i, job] of first.arrays.entries()) {
    const parts = planned.flatMap((each) => each.arrays[i] ?? []);
    for (const part of parts) assertAlike(job, part);
    arrays.push(
      await joinJobs(
        job,
        parts.map(({ source }) => source),
        options,
      ),
    );
  }
  return {
    ...first,
    arrays: nameJobs(arrays, first.groups, options.isMember === true),
    notes: [...new Set(planned.flatMap(({ notes }) => notes))],
  };
}

function listNodes(arrays: readonly ArrayJob[]): string {
  return arrays.map(({ node }) => (node === "" ? "(the root)" : node)).join(", ");
}

async function joinJobs(
  first: ArrayJob,
  parts: readonly SourceArray[],
  options: LayoutOptions & OpenOptions,
): Promise<ArrayJob> {
  const filled = parts.filter(({ shape }) => at(shape, 0) > 0);
  const [head = first.source] = filled;
  const rows = filled.reduce((sum, { shape }) => sum + at(shape, 0), 0);
  const { uneven, chunkBytes } =
    filled.length === 0 ? { uneven: undefined, chunkBytes: head.archive.chunkBytes } : findJoinedCuts(filled);
  const joined: SourceArray = {
    ...first.source,
    archive: joinSources(
      head.archive,
      filled.map(({ archive }) => archive),
      chunkBytes,
    ),
    shape: [rows, ...head.shape.slice(1)],
    chunkLength: head.chunkLength,
    ...(uneven === undefined ? {} : { uneven }),
  };
  const job = await planArray(first.node, joined, options);
  // Only the first plan knows names that had to be changed.
  const withAttributes = (document: JsonObject): JsonObject => {
    const { attributes } = first.document;
    return attributes === undefined ? document : { ...document, attributes };
  };
  return {
    ...job,
    document: withAttributes(job.document),
    chunkDocument: withAttributes(job.chunkDocument),
    notes: [...new Set([...job.notes, ...first.notes])],
  };
}

function assertAlike({ source: first, document: wanted }: ArrayJob, other: ArrayJob): void {
  const part = other.source;
  const path = describe(part.archive);
  if (part.shape.length === 0 || (part.order === "F" && part.shape.length > 1))
    throw new SuperchunkError(
      "UNSUPPORTED",
      part.shape.length === 0
        ? "it is one value without dimensions, so it cannot be joined; convert it by itself"
        : "its values are in Fortran order, not row by row, so it cannot be joined along the first dimension; convert it by itself",
      { path, field: "concat" },
    );
  if (part.archive.kind === "bytes")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it holds plain bytes without a data type, so it cannot be joined; convert it by itself",
      { path, field: "concat" },
    );
  const members: readonly (readonly [string, JsonValue, JsonValue])[] = [
    ["dtype", formatDType(first.dtype), formatDType(part.dtype)],
    ["further dimensions", first.shape.slice(1), part.shape.slice(1)],
    // As Zarr has it: formats that store no default value, such as Bloscpack's, have that of the data type.
    ["fill value", wanted["fill_value"] ?? null, other.document["fill_value"] ?? null],
  ];
  for (const [name, ...both] of members) {
    const [left = "", right = ""] = both.map((each) => stringifyJson(each));
    if (left !== right)
      throw unlike(path, `has another ${name} than ${describe(first.archive)}`, left, right);
  }
}

function describe({ store, path }: Pick<SourceArchive, "store" | "path">): string {
  return store.describe(path);
}

function unlike(path: string, what: string, expected: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `it ${what}, so they cannot be joined: expected ${expected}, found ${found}`,
    { path, field: "concat", expected, found },
  );
}

interface JoinedCuts {
  /** Uncompressed bytes of a whole chunk in the joined grid. */
  readonly chunkBytes: number;
  /** Undefined if every chunk is a cell of that grid, in order. */
  readonly uneven: UnevenChunks | undefined;
}

/** Finds the cuts of arrays that each have values; there is at least one. */
function findJoinedCuts(parts: readonly SourceArray[]): JoinedCuts {
  const first = parts[0]?.archive;
  // Archives of one short chunk each, all of the same length, have a grid of that length.
  for (const own of [first?.chunkBytes ?? 1, first?.nbytes ?? 1])
    if (isWhole(parts, own)) return { chunkBytes: own, uneven: undefined };
  // An only chunk may be as short as its rows, so its length does not count for the others.
  const many = parts.find(({ archive }) => archive.nchunks > 1);
  const { chunkBytes } = (many ?? parts[0])?.archive ?? { chunkBytes: 1 };
  const uneven = {
    reason: whyUneven(parts, chunkBytes),
    copies: copiesOf(parts, chunkBytes),
    lengths: lengthsOf(parts),
  };
  return { chunkBytes, uneven };
}

function isWhole(parts: readonly SourceArray[], chunkBytes: number): boolean {
  const copies = copiesOf(parts, chunkBytes);
  const chunks = parts.reduce((sum, { archive }) => sum + archive.nchunks, 0);
  return copies.length === 1 && countCopies(copies) === chunks;
}

/** Cells of `chunkBytes` that are unchanged chunks of a part. */
function copiesOf(parts: readonly SourceArray[], chunkBytes: number): readonly CellCopies[] {
  const copies: CellCopies[] = [];
  let start = 0;
  let chunk = 0;
  for (const [i, { archive }] of parts.entries()) {
    const { nbytes, nchunks } = archive;
    if (start % chunkBytes === 0) {
      const cell = start / chunkBytes;
      addCopies(copies, { cell, chunk, times: fittingChunks(archive, chunkBytes, i === parts.length - 1) });
    }
    start += nbytes;
    chunk += nchunks;
  }
  return copies;
}

/** Chunks of a part that are whole cells if the part begins on a cell border. Only the last cell of all may be short. */
function fittingChunks(archive: SourceArray["archive"], chunkBytes: number, isLast: boolean): number {
  const { nbytes, nchunks } = archive;
  if (!hasCellLength(archive, chunkBytes)) return 0;
  return isLast ? nchunks : Math.min(nchunks, Math.floor(nbytes / chunkBytes));
}

/** True if the chunks of a part are as long as cells; an only chunk may be shorter. */
function hasCellLength(
  { nbytes, nchunks, chunkBytes: own, chunkStarts }: SourceArray["archive"],
  chunkBytes: number,
): boolean {
  if (chunkStarts !== undefined) return false;
  return own === chunkBytes || (nchunks === 1 && nbytes <= chunkBytes);
}

/** Rows of each chunk; undefined if a chunk ends within a row. */
function lengthsOf(parts: readonly SourceArray[]): readonly LengthRun[] | undefined {
  const lengths: LengthRun[] = [];
  for (const { archive, dtype, shape, uneven } of parts) {
    if (uneven !== undefined) {
      if (uneven.lengths === undefined) return undefined;
      pushAll(lengths, uneven.lengths);
      continue;
    }
    const { nbytes, nchunks, chunkBytes } = archive;
    const rowBytes = dtype.itemSize * elementsOf(shape.slice(1));
    if (nchunks > 1 && chunkBytes % rowBytes !== 0) return undefined;
    const last = nbytes - (nchunks - 1) * chunkBytes;
    lengths.push(
      { length: chunkBytes / rowBytes, times: nchunks - 1 },
      { length: last / rowBytes, times: 1 },
    );
  }
  return lengths;
}

/** Describes the first part that does not fit. */
function whyUneven(parts: readonly SourceArray[], chunkBytes: number): string {
  for (const [i, { archive, shape }] of parts.entries()) {
    const path = archive.store.describe(archive.path);
    const isLast = i === parts.length - 1;
    if (!hasCellLength(archive, chunkBytes))
      return `${path} has chunks of ${archive.chunkBytes} bytes, and others of ${chunkBytes}`;
    if (!isLast && archive.nbytes % chunkBytes !== 0)
      return `the last chunk of ${path} is short, with ${shape[0]} rows in all, and Zarr's regular grid has no short chunk in the middle`;
  }
  return "the chunks are of unequal lengths";
}

/**
 * Arrays of one store, read as one. Chunks and bytes are numbered through all of them. Each of `parts` has values; `chunkBytes` is the size
 * of a whole chunk in the joined grid. Messages name the part that they concern.
 */
function joinSources(
  first: SourceArchive,
  parts: readonly SourceArchive[],
  chunkBytes: number,
): SourceArchive {
  const nchunks = parts.reduce((sum, part) => sum + part.nchunks, 0);
  const chunksIn = (from = 0, end = nchunks): Generator<Overlap> =>
    overlaps(parts, from, end, (part) => part.nchunks);
  return {
    kind: "array",
    store: first.store,
    path: first.path,
    joinedFrom: parts,
    chunkBytes,
    nchunks,
    nbytes: parts.reduce((sum, part) => sum + part.nbytes, 0),
    /** The first array's summary; each part knows how its own chunks are compressed. */
    async summary(options = {}) {
      const summaries = await Promise.all(parts.slice(0, 1).map((part) => part.summary(options)));
      return { ...summaries[0], nchunks };
    },
    /** The parts may have chunks of different lengths. */
    chunkBytesAt(index) {
      for (const { part } of chunksIn(index, index + 1)) return part.chunkBytes;
      return chunkBytes;
    },
    async readBytes(start, end, options = {}) {
      const whole = new Uint8Array(end - start);
      for (const { part, from, first: own, last } of overlaps(parts, start, end, ({ nbytes }) => nbytes))
        whole.set(await part.readBytes(own, last, options), from + own - start);
      return whole;
    },
    async *encodedChunks(from, end, options = {}) {
      for (const each of chunksIn(from, end)) yield* each.part.encodedChunks(each.first, each.last, options);
    },
    async chunkPlaces(from, end, options = {}) {
      const places: ChunkPlace[] = [];
      for (const each of chunksIn(from, end))
        for (const place of await each.part.chunkPlaces(each.first, each.last, options))
          places.push({ ...place, index: place.index + each.from });
      return places;
    },
    async *listChunks(options = {}) {
      for (const each of chunksIn(options.first, options.end)) {
        const own = { ...options, first: each.first, end: each.last };
        for await (const info of each.part.listChunks(own)) yield { ...info, index: info.index + each.from };
      }
    },
  };
}

/** A part that a range touches: where the part begins in the whole, and the range within it. */
interface Overlap {
  readonly part: SourceArchive;
  readonly from: number;
  readonly first: number;
  readonly last: number;
}

function* overlaps(
  parts: readonly SourceArchive[],
  start: number,
  end: number,
  lengthOf: (part: SourceArchive) => number,
): Generator<Overlap> {
  let from = 0;
  for (const part of parts) {
    const length = lengthOf(part);
    const first = Math.max(0, start - from);
    const last = Math.min(length, end - from);
    if (first < last) yield { part, from, first, last };
    from += length;
  }
}
