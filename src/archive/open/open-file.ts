/** Opens a single `blpk` file: plain bytes, or a numpy array. */

import { elementsOf, isShape } from "../../bytes/arrays.ts";
import { SuperchunkError, valueOr } from "../../errors.ts";
import { parseDType, safeText } from "../../format/dtype.ts";
import { BUSY_VERSION, detectFile, HEADER_V3 } from "../../format/header.ts";
import { isObject } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { Dialect, JsonObject, JsonValue } from "../../format/types.ts";
import { statFile } from "../../store/key.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import { type ArchiveParts, PlainArray, PlainBytes } from "../kinds/chunked-archive.ts";
import type { ArrayArchive, BytesArchive, OpenOptions } from "../kinds/types.ts";
import { openBlpkFile } from "../places/blpk-file.ts";
import { bloscpackSequence } from "../places/blpk-sequence.ts";
import type { ChunkSequence } from "../places/sequence.ts";

/**
 * Opens the file at `key`, which exists. `known` is what the store has just said of it. An interrupted change in place
 * is read as completed. [FR-03]
 */
export async function openFile(
  inner: ReadableStore,
  key: string,
  options: OpenOptions,
  known?: ObjectInfo,
): Promise<ArrayArchive | BytesArchive> {
  const path = inner.describe(key);
  const [innerInfo, innerHead] = await Promise.all([
    known ?? statFile(inner, key, options),
    inner.getRange(key, { offset: 0, length: 32 }, options),
  ]);
  const store =
    innerHead?.[HEADER_V3.version.at] === BUSY_VERSION
      ? await (await import("../places/journal.ts")).withJournal(inner, key, innerHead, options)
      : inner;
  const isChanged = store !== inner;
  const info = isChanged ? await store.stat(key, options) : innerInfo;
  const head = isChanged ? await store.getRange(key, { offset: 0, length: 32 }, options) : innerHead;
  if (info === undefined || head === undefined)
    throw new SuperchunkError("NOT_FOUND", "no such file", { path });
  const { dialect: detected } = detectFile(head, path, info.size);
  // A superchunk opened alone, without its array.
  const dialect = detected === "superchunk-file" ? "blz-superchunk" : detected;
  const file = await openBlpkFile(store, key, info.size, Number.POSITIVE_INFINITY, options.signal);
  const sequence = await bloscpackSequence(store, file, options.signal);
  const { version } = info;
  return showFile({ store, key, dialect, sequence, metadata: file.metadata?.value, version }, options);
}

export interface FileParts {
  readonly store: ReadableStore;
  readonly key: string;
  readonly dialect: Dialect;
  readonly sequence: ChunkSequence;
  /** Value of the metadata section, if there is one. */
  readonly metadata: JsonValue | undefined;
  /** Version that was opened; undefined for what is left of a damaged file. */
  readonly version?: string;
}

/** Makes the archive of a file whose chunks and metadata have been found: an array if its metadata describe one. */
export async function showFile(file: FileParts, options: OpenOptions): Promise<ArrayArchive | BytesArchive> {
  const { store, key, dialect, sequence, version } = file;
  const metadata = metadataObject(file.metadata);
  const parts: ArchiveParts = {
    dialect,
    store,
    path: key,
    attrs: metadata,
    metadata,
    ...(await filledOf(metadata)),
    metadataKeys: [],
    sequence,
    verify: options.verify ?? true,
    decoder: options.decoder,
    cut: { chunkBytes: sequence.chunkBytes },
    clevel: undefined,
    identity: version === undefined ? undefined : { key, version },
  };
  return isNumpy(metadata) ? numpyArray(parts, store.describe(key)) : new PlainBytes(parts);
}

export function isNumpy(metadata: JsonObject): boolean {
  return metadata["container"] === "numpy";
}

/** Metadata can be any JSON value; one that is not an object is wrapped. */
export function metadataObject(value: JsonValue | undefined): JsonObject {
  if (value === undefined) return {};
  return isObject(value) ? value : { metadata: value };
}

const ARRAY_KEYS = new Set(["container", "dtype", "shape", "order"]);

/** Member of a file's metadata with the rows that a repair filled (bytes, for plain bytes). [FM.3-03] */
export const FILLED = "superchunk-filled";

/** Rows that a repair filled, and warnings about them; nothing if the member has another form. */
async function filledOf(metadata: JsonObject): Promise<Pick<ArchiveParts, "filled" | "warnings">> {
  const stored = metadata[FILLED];
  if (stored === undefined) return { warnings: [] };
  const { filledText, parseFilled } = await import("../../format/layout.ts");
  return valueOr({ warnings: [] }, "any", () => {
    const { filled = [] } = parseFilled({ filled: stored }, "");
    return { filled, warnings: filled.map(filledText) };
  });
}

function numpyArray(parts: ArchiveParts, path: string): ArrayArchive {
  const { metadata } = parts;
  const fail = (field: string, expected: string, found: unknown): SuperchunkError =>
    new SuperchunkError(
      "BAD_FIELD",
      `${field} in the metadata is ${safeText(found)}, expected ${expected}. The metadata section is damaged`,
      { path, offset: 32, field, expected, found },
    );
  const {
    dtype: stored,
    shape: dimensions,
    order = "C",
  } = metadata as { dtype?: JsonValue; shape?: JsonValue; order?: JsonValue };
  if (stored === undefined) throw fail("dtype", "a numpy data type", stored);
  if (order !== "C" && order !== "F") throw fail("order", '"C" or "F"', order);
  if (!isShape(dimensions)) throw fail("shape", "a list of sizes", dimensions);
  const dtype = parseDType(stored, path);
  const shape = dimensions;
  const expected = elementsOf(shape) * dtype.itemSize;
  const { nbytes, chunkBytes, nchunks, starts } = parts.sequence;
  if (dtype.kind !== "object" && expected !== nbytes)
    throw fail("shape", `one of ${nbytes} bytes, as nchunks, chunk-size and last-chunk count`, shape);
  const storedShape = order === "F" ? [...shape].reverse() : shape;
  const row = elementsOf(storedShape.slice(1)) * dtype.itemSize;
  const whole = nchunks === 1 ? storedShape[0] : undefined;
  const isCutInRows = starts === undefined && row > 0 && chunkBytes % row === 0;
  const chunkLength = whole ?? (isCutInRows ? chunkBytes / row : undefined);
  const own = Object.entries(metadata).filter(([key]) => !ARRAY_KEYS.has(key));
  const attrs = keepFloats(Object.fromEntries(own), metadata);
  return new PlainArray({ ...parts, attrs }, { dtype, shape, order, fillValue: undefined, chunkLength });
}
