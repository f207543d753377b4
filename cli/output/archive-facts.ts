/** The facts of an archive that `info` and `ls` print, as JSON. Field names are API. */
import type { JsonObject, JsonValue, OpenOptions, ReadableArray, ReadableSummary } from "../../src/index.ts";
import { columnNamesOf, type Subject } from "../input/opening.ts";
import { ratioOf } from "../input/units.ts";
import { jsonDType, knownBytes } from "./layout.ts";

/** Size and compression of chunks: `nchunks`, `chunkLength` or `chunkBytes`, `cname`, `clevel`, `shuffle`, `typesize`. */
export type ChunkFacts = Omit<ReadableSummary, "checksum">;

/** One column of a table, or of an array with column folders; one array of a group. */
export interface ColumnFacts {
  readonly name: string;
  readonly dtype: JsonValue;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly chunks: ChunkFacts;
  /** Null for values of variable length. */
  readonly nbytes: number | null;
  readonly cbytes: number;
  readonly ratio: number | null;
  readonly checksum: string | null;
  readonly attrs: JsonObject;
}

/**
 * An archive as `info --json` prints it. `shape` is the length for bytes, and the number of rows for tables and for groups
 * that are like tables; empty for other groups.
 */
export interface ArchiveFacts extends Pick<ColumnFacts, "dtype" | "shape" | "checksum" | "attrs"> {
  readonly path: string;
  readonly dialect: Subject["dialect"];
  readonly kind: Subject["kind"];
  readonly order: "C" | "F" | null;
  readonly chunks: ChunkFacts | null;
  /** Uncompressed bytes; null for an array of values of variable length, and without those of such arrays for a group. */
  readonly nbytes: number | null;
  /** Stored bytes of the archive, including headers and metadata. */
  readonly cbytes: number;
  /** `nbytes / cbytes`; null if nothing is stored. */
  readonly ratio: number | null;
  readonly fillValue: JsonValue;
  /** For Zarr arrays with dimension names. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  readonly columns: readonly ColumnFacts[] | null;
  readonly warnings: readonly string[];
  /** What else the archive is in place: `zarr3` if it is linked. */
  readonly views?: readonly string[];
}

/** Collects all facts for `info`. Reads metadata, and one chunk header of each array. */
export async function describeArchive(
  path: string,
  archive: Subject,
  options: OpenOptions,
): Promise<ArchiveFacts> {
  const { dialect, kind, nbytes, attrs, warnings } = archive;
  const cbytes = await archive.storedBytes(options);
  const array = archive.kind === "array" ? archive : undefined;
  const summary =
    archive.kind === "array" || archive.kind === "bytes" ? await archive.summary(options) : undefined;
  const names = columnNamesOf(archive);
  const hasColumns = names.length > 0 || kind === "table" || kind === "group";
  const columns: ColumnFacts[] = [];
  if (archive.kind !== "bytes")
    for (const name of names) columns.push(await describeColumn(name, archive.column(name), options));
  const isWhole = columns.every((column) => column.nbytes !== null);
  return {
    path,
    dialect,
    kind,
    dtype: array === undefined ? null : jsonDType(array),
    shape: shownShape(archive),
    order: array?.order ?? null,
    chunks: summary === undefined ? null : chunksOf(summary),
    nbytes: knownBytes(nbytes),
    cbytes,
    ratio: isWhole ? ratioOf(nbytes, cbytes) : null,
    checksum: checksumOf(summary?.checksum),
    fillValue: array?.fillValue ?? null,
    dimensionNames: array?.dimensionNames,
    attrs,
    columns: hasColumns ? columns : null,
    warnings,
  };
}

function shownShape(archive: Subject): readonly number[] {
  if (archive.kind === "array") return archive.shape;
  if (archive.kind === "bytes") return [archive.nbytes];
  // The levels of an image of OME-NGFF are not columns, although they may be equally long along the first axis.
  const isImage = archive.kind === "group" && ["multiscales", "ome"].some((name) => name in archive.attrs);
  return archive.length === undefined || isImage ? [] : [archive.length];
}

async function describeColumn(
  name: string,
  column: ReadableArray,
  options: OpenOptions,
): Promise<ColumnFacts> {
  const cbytes = await column.storedBytes(options);
  const summary = await column.summary(options);
  return {
    name,
    dtype: jsonDType(column),
    shape: column.shape,
    order: column.order,
    chunks: chunksOf(summary),
    nbytes: knownBytes(column.nbytes),
    cbytes,
    ratio: ratioOf(column.nbytes, cbytes),
    checksum: checksumOf(summary.checksum),
    attrs: column.attrs,
  };
}

/** The summary without the checksum, which has a separate field. */
function chunksOf({ checksum: _, ...chunks }: ReadableSummary): ChunkFacts {
  return chunks;
}

function checksumOf(checksum: string | undefined): string | null {
  return checksum === undefined || checksum === "None" ? null : checksum;
}
