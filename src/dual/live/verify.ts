/**
 * Whether the Zarr view of an array that is mirrored is right: the documents, every shard, every chunk in it. The array
 * itself is verified as ever. Writes nothing. @see FORMAT.md [FY-07]
 */

import { readAttributes } from "../../archive/kinds/array-folder.ts";
import type { Finding, LongOptions } from "../../archive/kinds/types.ts";
import { isEqual } from "../../bytes/equal.ts";
import { isSuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { readWritable } from "../../write/array/create.ts";
import { layOutColumns } from "../../write/layout/columns.ts";
import { ColumnShards, type ShownRows, showRows } from "./column-shards.ts";
import { MirrorDocuments } from "./documents.ts";
import { isOthers } from "./former.ts";
import { MIRROR_STATE, readMirrorState, showsCommit } from "./mirror-state.ts";
import type { MirrorFiles } from "./types.ts";

const REPAIR = 'run "superchunk link" again';
const WRITE_BITS = 0o222;

/** What is wrong with the Zarr view; undefined where the array has none. */
export async function verifyMirror(
  store: ReadableStore,
  path: string,
  files: MirrorFiles,
  { signal }: LongOptions = {},
): Promise<readonly Finding[] | undefined> {
  const findings: Finding[] = [];
  try {
    const { settings, committed } = await readWritable(store, path, { signal });
    if (!settings.zarr) return undefined;
    const state = await readMirrorState(store, path);
    // Of a writer at work, or one that was killed, more is not to be expected: the next one brings it right.
    const isCurrent = state !== undefined && showsCommit(state, committed.layout);
    const note = (code: string, message: string, at: string): void => {
      const text = isCurrent
        ? `${message}; ${REPAIR}`
        : `${message}; a writer is at work, or was killed. The next one brings it right`;
      findings.push({ severity: isCurrent ? "error" : "warning", code, message: text, path: at });
    };
    if (state === undefined) note("LINK", "it is not there", store.describe(joinKey(path, MIRROR_STATE)));
    const columns = layOutColumns(path, settings);
    const documents = new MirrorDocuments({ store, path }, settings, columns);
    const rows = showRows({ store, path }, columns, settings.chunklen, committed, committed.rows);
    for (const column of documents.columns) {
      const shards = new ColumnShards(store, path, files, column);
      for (let shard = 0; shard * settings.superchunklen < rows.chunks; shard++) {
        signal?.throwIfAborted();
        const fault = await findFault(shards, files, shard, rows);
        if (fault !== undefined) note("SHARD", fault, store.describe(shards.key(shard)));
      }
    }
    const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), {})) ?? {};
    for (const [key, bytes] of documents.list(committed.rows, attrs)) {
      const stored = await store.get(key, { signal });
      if (stored === undefined) note("LINK", "the document is not there", store.describe(key));
      else if (!isEqual(stored, bytes))
        note(
          "LINK",
          "the document does not say what the array is now (its shape, perhaps)",
          store.describe(key),
        );
    }
    for (const { node } of state?.forms ?? []) {
      const key = joinKey(path, node, "zarr.json");
      const isFormer = !documents.columns.some((column) => column.node === node);
      if (!isFormer || (await isOthers(store, path, node, state?.forms ?? []))) continue;
      if ((await store.stat(key)) !== undefined)
        note("LINK", "the document tells of a column that is not there any more", store.describe(key));
    }
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    findings.push({
      severity: "error",
      code: caught.code,
      message: caught.summary,
      path: caught.details.path ?? store.describe(path),
    });
  }
  return findings;
}

/** What is wrong with a shard. */
async function findFault(
  shards: ColumnShards,
  files: MirrorFiles,
  shard: number,
  rows: ShownRows,
): Promise<string | undefined> {
  const key = shards.key(shard);
  const found = await shards.look(key);
  if (found === undefined) return "the shard is not there";
  if (found.shard === undefined) return "its index is damaged";
  const full = shards.fullSuperchunk(shard, rows);
  const data = full === undefined ? undefined : await files.inspect({ side: "data", key: full });
  for await (const { slot } of shards.differing(key, found.shard, shards.chunksOf(shard, rows), rows))
    return `its inner chunk ${slot} is not chunk ${shard * shards.column.facts.capacity + slot} of the array`;
  if ((found.facts.mode & WRITE_BITS) !== 0)
    return `its mode ${found.facts.mode.toString(8)} lets programs write into it${data?.identity === found.facts.identity ? ", which would destroy the superchunk" : ""}`;
  return undefined;
}
