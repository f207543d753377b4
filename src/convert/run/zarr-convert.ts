/**
 * Zarr of any version into Zarr v3, by copying chunks as they are stored where that can be: documents are translated.
 *
 * Knows trees of nodes, and how a conversion is put at its place; must not know what shards hold.
 */
import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { DOCUMENT } from "../../zarr/document/metadata-v3.ts";
import { consolidate, encodeDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import { openZarrArray } from "../../zarr/read/open.ts";
import type { ConvertResult } from "../plan/convert-options.ts";
import { notesOnAttributes } from "../plan/zarr-attributes.ts";
import { failureAt, planZarrJobs, type ZarrJobs, type ZarrPlanOptions } from "../plan/zarr-jobs.ts";
import { recodeObjects } from "../targets/recode-objects.ts";
import { copyObjects } from "../targets/transformer-convert.ts";
import {
  checkDestination,
  type DestinationOptions,
  deleteTree,
  finishDestination,
  prepareDestination,
} from "./destination.ts";
import { failureOf, type NodeFailure } from "./failure.ts";
import { compareZarr } from "./zarr-compare.ts";

/** How a conversion is run. */
export interface ZarrConvertOptions extends DestinationOptions, LongOptions, ZarrPlanOptions {
  /** Read the whole result back and compare it with the source. */
  readonly verify?: boolean | undefined;
  /** What encodes chunks that cannot be copied (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** What a conversion of Zarr did. */
export interface ZarrConvertResult extends ConvertResult {
  /** Nodes that were left out, with `skipFailed`. */
  readonly failures: readonly NodeFailure[];
}

/**
 * Converts a node and all below it to Zarr v3 at `prefix` of a store. Chunks are copied as they are stored, or, where Zarr
 * v3 has no name for their codec or no words for their items, compressed anew with Blosc. Arrays' documents follow their
 * chunks, and groups' their members, the root's last, with all others consolidated in it.
 *
 * @throws UNSUPPORTED for what Zarr v3 has no words for (filters, data types), and with `recode: false` for what cannot be
 * copied, before anything is written (see `skipFailed`); CONFLICT as `convertArchive` does; the codes of damage
 */
export async function convertZarr(
  root: ZarrArray | ZarrGroup,
  target: WritableStore,
  prefix: string,
  options: ZarrConvertOptions = {},
): Promise<ZarrConvertResult> {
  await checkDestination(target, prefix, options);
  const jobs = await planZarrJobs(root, options);
  const record = { source: jobs.source, options: { to: "zarr3" } };
  const state = await prepareDestination(target, prefix, record, options);
  const result = await runZarrJobs(jobs, target, prefix, state === "unfinished", options);
  await finishDestination(target, prefix);
  return result;
}

/** Converts nodes at a place that is ready for them; with `keep`, objects that are there already stay. */
export async function runZarrJobs(
  { nodes, failed: planned }: ZarrJobs,
  target: WritableStore,
  prefix: string,
  keep: boolean,
  options: ZarrConvertOptions,
): Promise<ZarrConvertResult> {
  const started = performance.now();
  const { signal, encoder } = options;
  const done = { arrays: 0, groups: 0, copied: 0, recoded: 0, shards: 0, kept: 0, written: 0, nbytes: 0 };
  const total = nodes.reduce((sum, { node }) => sum + (node.kind === "array" ? node.nbytes : 0), 0);
  const failed = [...planned];
  const skips = options.skipFailed === true && nodes[0]?.node.kind === "group";
  for (const { path, node, document, recoding } of nodes) {
    if (node.kind === "group") continue;
    const key = joinKey(prefix, path);
    const before = { ...done };
    const onObject = (chunks: number, nbytes: number, isKept: boolean): void => {
      done[recoding === undefined ? "copied" : "recoded"] += chunks;
      done.shards++;
      if (isKept) done.kept++;
      else done.written += nbytes;
    };
    const how = { signal, keep, onObject };
    const source = node.store.describe(node.path);
    let isWritten = false;
    try {
      if (recoding === undefined) await copyObjects(node, document, target, key, how);
      else {
        const { transform } = recoding;
        await recodeObjects(node, document, target, key, { ...how, encoder, transform });
      }
      done.written += await putDocument(target, key, document, options);
      isWritten = true;
      if (options.verify === true) {
        const copy = await openZarrArray(target, key, { signal });
        await compareZarr(node, copy, { transform: recoding?.transform, signal });
      }
      done.arrays++;
      done.nbytes += node.nbytes;
    } catch (error) {
      // Values that are not those of the source must not look like a finished array.
      if (isWritten) await target.delete(joinKey(key, DOCUMENT));
      failed.push(failureAt({ path, source }, error, skips, signal));
      Object.assign(done, before);
      await deleteTree(target, key, new Set());
    }
    options.onProgress?.({ done: done.nbytes, total, label: source });
  }
  const left = new Set(failed.map(({ path }) => path));
  const below = nodes.flatMap(({ path, document }) =>
    path === "" || left.has(path) ? [] : [[path, document] as const],
  );
  for (const { path, node, document } of [...nodes].reverse()) {
    if (node.kind === "array") continue;
    const own = path === "" ? consolidate(document, below) : document;
    done.written += await putDocument(target, joinKey(prefix, path), own, options);
    done.groups++;
  }
  return {
    arrays: done.arrays,
    groups: done.groups,
    chunksCopied: done.copied,
    chunksPadded: 0,
    chunksRecoded: done.recoded,
    shards: done.shards,
    shardsKept: done.kept,
    bytesWritten: done.written,
    nbytes: done.nbytes,
    seconds: (performance.now() - started) / 1000,
    verified: options.verify === true,
    notes: nodes.flatMap(({ path, node }) =>
      left.has(path)
        ? []
        : notesOnAttributes(node.attrs).map((note) => (path === "" ? note : `${path}: ${note}`)),
    ),
    renamed: [],
    failures: failed.map(({ path: node, source: path, error }) => ({
      node,
      path,
      ...failureOf(error, path),
    })),
  };
}

/** Replaces a document of an unfinished run. Returns its size. */
async function putDocument(
  target: WritableStore,
  path: string,
  document: JsonObject,
  { signal }: ZarrConvertOptions,
): Promise<number> {
  const bytes = encodeDocument(document);
  await target.put(joinKey(path, DOCUMENT), bytes, { signal });
  return bytes.length;
}
