/**
 * Whether the Zarr view of an array that keeps itself a Zarr array is right: the documents, every shard, every chunk in it.
 * The array itself is verified as ever. Writes nothing. @see FORMAT.md [FY-07]
 */
import { readAttributes } from "../archive/kinds/array-folder.ts";
import type { Finding, LongOptions } from "../archive/kinds/types.ts";
import { VIEW_IS_BEHIND } from "../archive/places/generation.ts";
import { isSuperchunkError } from "../errors.ts";
import { joinKey } from "../store/key.ts";
import { readWritable } from "../write/array/create.ts";
import { layOutColumns } from "../write/layout/columns.ts";
import { ColumnShards, rowsOf, type ShardPlace, type ViewRows } from "./column-shards.ts";
import { LiveDocuments } from "./documents.ts";
import { isForeign } from "./reader-forms.ts";
import { WRITE_BITS } from "./shard-file.ts";
import { LIVE_STATE, readLiveState, showsCommit } from "./state.ts";
import { BEHIND, findingOf, REPAIR, unlikeDocuments } from "./verify.ts";

/** What is wrong with the Zarr view; undefined where the array has none. */
export async function verifyLive(
  place: ShardPlace,
  { signal }: LongOptions = {},
): Promise<readonly Finding[] | undefined> {
  const { store, path } = place;
  const findings: Finding[] = [];
  let isBehind = false;
  try {
    const { settings, committed } = await readWritable(store, path, { signal });
    if (!settings.zarr) return undefined;
    const state = await readLiveState(store, path);
    // Of a writer at work, or one that was killed, more is not to be expected: the next one makes it right.
    const isCurrent = state !== undefined && showsCommit(state, committed.layout);
    isBehind = !isCurrent;
    const note = (code: string, text: string, at: string): void => {
      const message = isCurrent
        ? `${text}; ${REPAIR}`
        : `${text}; a writer is at work, or was killed. The next one repairs it`;
      findings.push({ severity: isCurrent ? "error" : "warning", code, message, path: at });
    };
    if (state === undefined) note("LINK", "it is not there", store.describe(joinKey(path, LIVE_STATE)));
    const columns = layOutColumns(path, settings);
    const documents = new LiveDocuments({ store, path }, settings, columns);
    const rows = rowsOf(place, columns, settings.chunklen, committed, committed.rows);
    for (const column of documents.columns) {
      const shards = new ColumnShards(place, column);
      for (let shard = 0; shard * settings.superchunklen < rows.chunks; shard++) {
        signal?.throwIfAborted();
        const fault = await findFault(place, shards, shard, rows);
        if (fault !== undefined) note("SHARD", fault, store.describe(shards.key(shard)));
      }
    }
    const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), {})) ?? {};
    for await (const { text, path: at } of unlikeDocuments(
      store,
      documents.list(committed.rows, attrs),
      signal,
    ))
      note("LINK", text, at);
    const forms = state?.forms ?? [];
    for (const { node } of forms) {
      const key = joinKey(path, node, "zarr.json");
      const isShown = documents.columns.some((column) => column.node === node);
      if (isShown || (await isForeign(store, path, node, forms))) continue;
      if ((await store.stat(key)) !== undefined)
        note("LINK", "the document describes a column that is not there any more", store.describe(key));
    }
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    findings.push(findingOf(caught, store.describe(path)));
  }
  return isBehind && findings.length > 0
    ? [
        { severity: "warning", code: BEHIND, message: VIEW_IS_BEHIND, path: store.describe(path) },
        ...findings,
      ]
    : findings;
}

/** What is wrong with a shard. */
async function findFault(
  { files }: ShardPlace,
  shards: ColumnShards,
  shard: number,
  rows: ViewRows,
): Promise<string | undefined> {
  const key = shards.key(shard);
  const found = await shards.inspect(key);
  if (found === undefined) return "the shard is not there";
  if (found.shard === undefined) return "its index is damaged";
  for await (const { slot } of shards.differing(key, found.shard, shards.chunksOf(shard, rows), rows))
    return `its inner chunk ${slot} is not chunk ${shard * shards.column.facts.capacity + slot} of the array`;
  const { mode, identity } = found.facts;
  if ((mode & WRITE_BITS) === 0) return undefined;
  const full = shards.fullSuperchunk(shard, rows);
  const data = full === undefined ? undefined : await files.inspect({ side: "data", key: full });
  return `its mode ${mode.toString(8)} lets programs write into it${data?.identity === identity ? ", which would destroy the superchunk" : ""}`;
}
