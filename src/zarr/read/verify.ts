/** Reads and decodes everything that is stored of an array. Knows what counts as damage; must not know how chunks are read. */

import type { Finding, Identity, LongOptions, VerifyReport } from "../../archive/kinds/types.ts";
import { whileUnchanged } from "../../archive/kinds/unchanged.ts";
import { allocate, at, defined, elementsOf } from "../../bytes/arrays.ts";
import { isUnreadable, SuperchunkError, valueOr } from "../../errors.ts";
import { objectOf, parseJson, stringifyJson } from "../../format/json.ts";
import { V2_DOCUMENTS } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { isGenerating, type ReadableStore } from "../../store/types.ts";
import { stridesOf } from "../../values/selection.ts";
import { leafOf } from "../codecs/chain.ts";
import { isChecksum } from "../codecs/stage.ts";
import type { ArrayModel } from "../document/model.ts";
import type { ChunkReading } from "./reading.ts";
import { type ListedChunk, listStoredChunks, storedPositions } from "./stored-chunks.ts";

/** The array to verify, and how its values are read. */
export interface VerifiedArray {
  readonly store: ReadableStore;
  readonly model: ArrayModel;
  readonly reading: ChunkReading;
  /** Bytes of all values. */
  readonly nbytes: number;
}

/** Of larger chunks, only the part inside the array is allocated: a document alone is not trusted. */
const MOST_PADDED = 1 << 30;
/** Most bytes of values of variable length at a time, as items. */
const MOST_VARIABLE = 64 << 20;

/** Reads every stored chunk, and reports damage. Throws other errors: I/O errors, aborts, and `STALE` if the array was replaced. */
export function verifyChunks(array: VerifiedArray, options: LongOptions): Promise<VerifyReport> {
  const verify = async (): Promise<VerifyReport> => {
    const report = await decodeChunks(array, options);
    // What is taken for damage may be the chunks of another array.
    if (!report.ok) await refuseReplaced(array, options);
    return report;
  };
  return whileUnchanged(array.store, identitiesOf(array.model), verify, options);
}

/** Members of the documents, of all versions, that say how the chunks are stored. */
const LAYOUT =
  "shape data_type dtype chunk_grid chunks codecs compressor filters order storage_transformers".split(" ");

/** Throws `STALE` if another array, or another file, has taken the place of the array since it was opened. */
async function refuseReplaced(
  { store, model }: Pick<VerifiedArray, "store" | "model">,
  options: LongOptions,
): Promise<void> {
  for (const { key } of identitiesOf(model)) {
    // The entry document of a hierarchy of the older transformer says nothing of its arrays.
    if (model.dialect === "zarr3-transformer" && key.endsWith("zarr.json")) continue;
    const { version, opened } = (await store.stat(key, options)) ?? {};
    const bytes = opened === undefined ? await store.get(key, options) : undefined;
    const isReplaced =
      opened === undefined
        ? bytes !== undefined && layoutOf(readDocument(bytes)) !== layoutOf(model.document)
        : version !== opened;
    if (isReplaced)
      throw new SuperchunkError(
        "STALE",
        "another array has taken its place since it was opened; open it again",
        {
          path: store.describe(model.path),
        },
      );
  }
}

/** A document that is damaged now was not when the array was opened. */
function readDocument(bytes: Uint8Array): JsonObject {
  return valueOr({}, "any", () => objectOf(parseJson(bytes, "")));
}

/** Copies of a document may have their members in another order. */
function layoutOf(document: JsonObject): string {
  const sorted = (value: JsonValue): JsonValue =>
    Array.isArray(value)
      ? value.map(sorted)
      : typeof value === "object" && value !== null
        ? Object.fromEntries(
            Object.entries(value)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map(([name, each]) => [name, sorted(each)]),
          )
        : value;
  return stringifyJson(LAYOUT.map((name) => sorted(document[name] ?? null)));
}

/** The documents that another array in the same place would replace. */
export function identitiesOf({ metadataKeys }: ArrayModel): readonly Identity[] {
  return metadataKeys.filter((key) => !key.endsWith(V2_DOCUMENTS.attributes)).map((key) => ({ key }));
}

async function decodeChunks(array: VerifiedArray, options: LongOptions): Promise<VerifyReport> {
  const { store, model, reading } = array;
  const { cache } = reading;
  const { signal, onProgress } = options;
  const findings: Finding[] = model.warnings.map((message) => ({
    severity: "warning",
    code: "WARNING",
    message,
    path: store.describe(model.path),
  }));
  const found = { chunks: 0, nbytes: 0, cbytes: 0, digests: 0 };
  const { serializer, stages } = model.chain;
  // The index of a shard that is made from another format says nothing of what is stored.
  const isStored = serializer.kind === "sharding" && stages.length === 0 && model.shownAs === undefined;
  const ofIndex = isStored ? serializer.index.checksums : 0;
  const ofChunk = leafOf(model.chain).stages.filter(({ name }) => isChecksum(name)).length;
  for await (const position of storedPositions(store, model, signal)) {
    signal?.throwIfAborted();
    try {
      let isThere = false;
      for await (const chunk of listStoredChunks(store, onlyChunk(model, position), cache, signal)) {
        isThere = true;
        found.chunks++;
        found.cbytes += chunk.nbytes;
        try {
          if (await decodeStored(array, chunk, signal)) found.digests += ofChunk;
          found.nbytes += elementsOf(countsWithin(chunk, model)) * model.dtype.itemSize;
        } catch (error) {
          findings.push(findingOf(error));
        }
        onProgress?.({ done: found.nbytes, total: array.nbytes });
      }
      if (isThere) found.digests += ofIndex;
    } catch (error) {
      findings.push(findingOf(error));
    }
  }
  try {
    if (isGenerating(store)) found.digests += (await store.compareSums?.(model.path, { signal })) ?? 0;
  } catch (error) {
    findings.push(findingOf(error));
  }
  return { ok: findings.every(({ severity }) => severity !== "error"), ...found, findings };
}

/** Turns an error into a finding; rethrows errors that are not about stored bytes. */
function findingOf(error: unknown): Finding {
  if (!isUnreadable(error)) throw error;
  const { path, chunk, offset, field, expected, found } = error.details;
  return {
    severity: "error",
    code: error.code,
    message: error.message,
    ...defined({ path, chunk, offset, field, expected, found }),
  };
}

/** The same array with a grid of one chunk, so that a damaged shard does not hide the others. */
export function onlyChunk(model: ArrayModel, position: readonly number[]): ArrayModel {
  return {
    ...model,
    axes: model.axes.map((axis, d) => ({
      ...axis,
      count: 1,
      startOf: () => axis.startOf(at(position, d)),
      lengthOf: () => axis.lengthOf(at(position, d)),
    })),
    chunkKey: () => model.chunkKey(position),
  };
}

/** Decodes a chunk including what is outside the array, since a writer that enlarges the array will use it. */
async function decodeStored(
  { model, reading, store }: VerifiedArray,
  chunk: ListedChunk,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { itemSize } = model.dtype;
  const isWhole = elementsOf(chunk.shape) * itemSize <= MOST_PADDED;
  const counts = isWhole ? chunk.shape : countsWithin(chunk, model);
  if (elementsOf(counts) === 0) return false;
  const [rows = 1, ...row] = counts;
  const isVariable = leafOf(model.chain).stages[0]?.decodeSpan !== undefined;
  const step = isVariable ? Math.max(1, Math.floor(MOST_VARIABLE / (elementsOf(row) * itemSize))) : rows;
  for (let done = 0; done < rows; done += step) {
    const part = counts.length === 0 ? [] : [Math.min(step, rows - done), ...row];
    const bytes = allocate(elementsOf(part) * itemSize, { path: store.describe(chunk.key) });
    const first = (d: number): number => at(chunk.start, d) + (d === 0 ? done : 0);
    const extents = part.map((count, d) => ({ start: first(d), count, step: 1 }));
    await reading.read(extents, { bytes, offset: 0, strides: stridesOf(part) }, signal);
  }
  return true;
}

/** How many of the chunk's items are inside the array, by dimension. */
function countsWithin({ start, shape }: ListedChunk, model: ArrayModel): readonly number[] {
  return shape.map((length, d) => Math.max(0, Math.min(length, at(model.shape, d) - at(start, d))));
}
