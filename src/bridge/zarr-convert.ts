/**
 * Zarr of any version into Zarr v3, by copying chunks as they are stored: documents are translated, payloads not looked into.
 *
 * Knows trees of nodes, and how a conversion is put at its place; must not know what shards hold.
 */
import type { LongOptions } from "../array/types.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { stringifyJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { WritableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/array.ts";
import type { ZarrGroup } from "../zarr/group.ts";
import { DOCUMENT } from "../zarr/metadata-v3.ts";
import { openZarrArray } from "../zarr/open.ts";
import { swapItems } from "../zarr/swap-items.ts";
import type { ConversionPlan, ConvertResult, PlannedArray } from "./convert-options.ts";
import { type DestinationOptions, finishDestination, prepareDestination } from "./destination.ts";
import { copyObjects, v3Document } from "./transformer-convert.ts";
import { firstDifference } from "./way-back/verify-back.ts";
import { consolidate, groupDocument } from "./zarr-metadata.ts";

/** How a conversion is run. */
export interface ZarrConvertOptions extends DestinationOptions, LongOptions {
  /** Read the whole result back and compare it with the source. */
  readonly verify?: boolean | undefined;
}

/** A node with its path below the root. */
interface NamedNode {
  readonly path: string;
  readonly node: ZarrArray | ZarrGroup;
}

/** What {@link convertZarr} would do, without writing. Throws what opening the nodes throws. */
export async function planZarrConversion(root: ZarrArray | ZarrGroup): Promise<ConversionPlan> {
  const arrays: PlannedArray[] = [];
  const groups: string[] = [];
  for await (const { path, node } of nodesOf("", root)) {
    if (node.kind === "group") groups.push(path);
    else arrays.push(planArray(path, node));
  }
  return {
    source: root.store.describe(root.path),
    kind: root.kind,
    arrays,
    groups,
    renamed: [],
    nbytes: arrays.reduce((total, { nbytes }) => total + nbytes, 0),
  };
}

function planArray(path: string, array: ZarrArray): PlannedArray {
  const { shape, nbytes, chunkShape, shardShape, model } = array;
  const count = (lengths: readonly number[]): number =>
    shape.reduce((product, extent, d) => product * Math.ceil(extent / (lengths[d] ?? 1)), 1);
  const facts = {
    node: path,
    source: array.store.describe(array.path),
    nbytes,
    chunks: count(chunkShape),
    shards: model.axes.reduce((product, axis) => product * axis.count, 1),
    shape,
    chunkShape,
    ...(shardShape === undefined ? {} : { shardShape }),
    notes: [],
  };
  try {
    const dataType: JsonValue = v3Document(array)["data_type"] ?? null;
    return { ...facts, action: nbytes === 0 ? "empty" : "copy", dataType };
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return { ...facts, action: "refuse", reason: error.summary };
  }
}

/**
 * Converts a node and all below it to Zarr v3 at `prefix` of a store. Arrays' documents follow their chunks, and groups'
 * their members, the root's last, with all others consolidated in it.
 *
 * @throws UNSUPPORTED for what Zarr v3 has no words for (zlib, filters, data types), before anything is written; CONFLICT as
 * `convertArchive` does; the codes of damage
 */
export async function convertZarr(
  root: ZarrArray | ZarrGroup,
  target: WritableStore,
  prefix: string,
  options: ZarrConvertOptions = {},
): Promise<ConvertResult> {
  const started = performance.now();
  const nodes: { path: string; node: ZarrArray | ZarrGroup; document: JsonObject }[] = [];
  for await (const { path, node } of nodesOf("", root))
    nodes.push({
      path,
      node,
      document: node.kind === "array" ? v3Document(node) : groupDocument(node.attrs),
    });
  const source = {
    location: root.store.describe(root.path),
    documents: Object.fromEntries(nodes.map(({ path, document }) => [`/${path}`, document])),
  };
  const state = await prepareDestination(target, prefix, { source, options: { to: "zarr3" } }, options);
  const done = { arrays: 0, groups: 0, chunks: 0, shards: 0, kept: 0, written: 0, nbytes: 0 };
  const total = nodes.reduce((sum, { node }) => sum + (node.kind === "array" ? node.nbytes : 0), 0);
  for (const { path, node, document } of nodes) {
    if (node.kind === "group") continue;
    const key = joinKey(prefix, path);
    await copyObjects(node, document, target, key, {
      signal: options.signal,
      keep: state === "unfinished",
      onObject: (chunks, nbytes, isKept) => {
        done.chunks += chunks;
        done.shards++;
        if (isKept) done.kept++;
        else done.written += nbytes;
      },
    });
    done.written += await putDocument(target, key, document, options);
    if (options.verify === true) await compare(node, target, key, options.signal);
    done.arrays++;
    done.nbytes += node.nbytes;
    options.onProgress?.({ done: done.nbytes, total, label: node.store.describe(node.path) });
  }
  const below = new Map(
    nodes.flatMap(({ path, document }) => (path === "" ? [] : [[path, document] as const])).sort(byPath),
  );
  for (const { path, node, document } of [...nodes].reverse()) {
    if (node.kind === "array") continue;
    const own = path === "" ? consolidate(document, below) : document;
    done.written += await putDocument(target, joinKey(prefix, path), own, options);
    done.groups++;
  }
  await finishDestination(target, prefix);
  return {
    arrays: done.arrays,
    groups: done.groups,
    chunksCopied: done.chunks,
    chunksPadded: 0,
    chunksRecoded: 0,
    shards: done.shards,
    shardsKept: done.kept,
    bytesWritten: done.written,
    nbytes: done.nbytes,
    seconds: (performance.now() - started) / 1000,
    verified: options.verify === true,
    notes: [],
    renamed: [],
  };
}

function byPath([a]: readonly [string, JsonObject], [b]: readonly [string, JsonObject]): number {
  return a < b ? -1 : 1;
}

/** A node and all below it, groups before their members. */
async function* nodesOf(path: string, node: ZarrArray | ZarrGroup): AsyncGenerator<NamedNode> {
  yield { path, node };
  if (node.kind === "array") return;
  for (const name of await node.members()) yield* nodesOf(joinKey(path, name), await node.open(name));
}

/** Replaces a document of an unfinished run. Returns its size. */
async function putDocument(
  target: WritableStore,
  path: string,
  document: JsonObject,
  { signal }: ZarrConvertOptions,
): Promise<number> {
  const bytes = new TextEncoder().encode(stringifyJson(document, { indent: 2 }));
  await target.put(joinKey(path, DOCUMENT), bytes, { signal });
  return bytes.length;
}

/** Throws `BAD_FIELD` where the values of the copy are others. */
async function compare(
  source: ZarrArray,
  target: WritableStore,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const copy = await openZarrArray(target, path, { signal });
  const at = await firstDifference(littleEndian(source, signal), littleEndian(copy, signal));
  if (at === undefined) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source from byte ${at} on. Report it; the source is unchanged`,
    { path: target.describe(path), offset: at, field: "values" },
  );
}

/** Values as version 3 has them in memory; in version 2 they are as they are stored. */
async function* littleEndian(array: ZarrArray, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  const isBig = array.dtype.byteOrder === "big";
  for await (const piece of array.streamBytes({ signal }))
    yield isBig ? swapItems(piece, array.dtype) : piece;
}
