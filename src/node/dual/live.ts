/** Live arrays at paths, which keep themselves Zarr arrays: begun, renewed, verified, and ended. */
import { resolve } from "node:path";
import type { Finding, LongOptions } from "../../archive/kinds/types.ts";
import { open as openArchive } from "../../archive/open/open.ts";
import { beginLive, endLive, idleViews, liveViews, planLive, type RemovedView } from "../../dual/live.ts";
import { isLive } from "../../dual/state.ts";
import type { LinkPlan, LinkResult, UnlinkResult } from "../../dual/types.ts";
import { verifyLive } from "../../dual/verify.ts";
import { ArrayWriter } from "../../write/array/array-writer.ts";
import { readWritable } from "../../write/array/create.ts";
import { ArrayRoot } from "../../write/array/root.ts";
import type { WritableArray } from "../../write/array/writable-array.ts";
import { type EditPathOptions, edit } from "../edit.ts";
import { FileStore } from "../fs/fs-store.ts";
import type { LockOptions } from "../fs/lock.ts";
import { closing } from "../locate.ts";
import { dualFiles } from "./files.ts";

/** The plan of a live array. It lists no files: they are found while the array is open. */
function planOf(path: string, { added = 0, done = false, ...rest }: Partial<LinkPlan>): LinkPlan {
  const root = resolve(path);
  const plan = {
    source: root,
    destination: root,
    kind: "hard",
    live: true,
    documents: [],
    files: [],
    notes: [],
  } as const;
  return { ...plan, added, done, ...rest };
}

/** `3 shards`, `1 shard`. */
function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** Opens the array; the options of a link alone do not concern a writer. */
function openWritable(path: string, { breakLock, signal, mirror }: EditPathOptions): Promise<WritableArray> {
  return edit(path, { breakLock, signal, mirror, format: "blz" }) as Promise<WritableArray>;
}

/** Compares every shard and every chunk of it, and repairs differences. */
export async function renewLive(path: string, options: LockOptions & LongOptions): Promise<LinkResult> {
  const started = performance.now();
  const costs = { bytes: 0, shards: 0, publications: 0 };
  const mirror = liveViews({ files: dualFiles(resolve(path)), costs, all: true });
  const array = await openWritable(path, { ...options, mirror });
  await array.close();
  const { shards, bytes } = costs;
  const did =
    shards === 0
      ? "there was nothing to do"
      : `${count(shards, "shard")} ${shards === 1 ? "was" : "were"} repaired`;
  const notes = [`the array keeps itself a Zarr array, and is one after every flush; ${did}`];
  const seconds = (performance.now() - started) / 1000;
  return { ...planOf(path, { added: bytes, done: shards === 0, notes }), seconds };
}

/** What {@link renewLive} would do. Writes nothing. */
export async function planRenewal(path: string, options: LongOptions): Promise<LinkPlan> {
  const findings = (await verifyLiveAt(path, options)) ?? [];
  const found = findings.map(({ path: at, message }) => `${at}: ${message}`);
  return planOf(path, {
    done: findings.length === 0,
    notes: ["the array keeps itself a Zarr array", ...found],
  });
}

/**
 * Makes the array in a folder a live array, and publishes its view.
 *
 * @throws CONFLICT, UNSUPPORTED as {@link beginLive}, and the errors of opening it for writing
 */
export async function beginLiveAt(path: string, options: LockOptions & LongOptions): Promise<LinkResult> {
  const root = resolve(path);
  await closing(await openWritable(root, options), (array) =>
    array.fill((writer) => beginLive(writer, dualFiles(root), options)),
  );
  return renewLive(path, options);
}

/**
 * What {@link beginLiveAt} would do. Takes no lock, and writes nothing.
 *
 * @throws CONFLICT, UNSUPPORTED as {@link beginLive}, and the codes of opening
 */
export async function planLiveAt(path: string, options: LongOptions): Promise<LinkPlan> {
  const root = resolve(path);
  const store = new FileStore(root);
  return closing(store, async () => {
    const { settings, committed, sizes } = await readWritable(store, "", { signal: options.signal });
    const writer = new ArrayWriter(new ArrayRoot(store, "", sizes), settings, committed);
    const { attrs } = await openArchive(store, "", { signal: options.signal });
    const plan = await planLive(writer, attrs, dualFiles(root), options);
    const { documents, full, rewritten, open, bytes } = plan;
    const how =
      rewritten === 0
        ? "each file already has its index"
        : `${count(rewritten, "superchunk")} would be rewritten by copying their chunks, with the index of a shard after them`;
    const notes = [
      ...(full + rewritten === 0
        ? []
        : [`${count(full, "full superchunk")} would become shards by hard links; ${how}`]),
      ...(open === 0
        ? []
        : [`the open end of ${count(open, "chunk")} would be a shard of its own, a separate file`]),
    ];
    return planOf(path, { documents, added: bytes, notes });
  });
}

/** Makes it a plain array again. */
export async function endLiveAt(path: string, options: LockOptions & LongOptions): Promise<UnlinkResult> {
  const root = resolve(path);
  const mirror = idleViews(dualFiles(root));
  let removed: RemovedView = { shards: 0, left: [] };
  await closing(await openWritable(root, { ...options, mirror }), (array) =>
    array.fill(async (writer) => {
      removed = await endLive(writer, dualFiles(root));
    }),
  );
  return {
    files: removed.shards,
    removed: 0,
    replaced: [],
    notes: [
      "the superchunks keep the index after their chunks, which readers of arrays ignore",
      ...removed.left.map((folder) => `left: ${folder}, which the array did not make`),
    ],
  };
}

/** Faults of a live array's Zarr view. */
export async function verifyLiveAt(
  path: string,
  options: LongOptions,
): Promise<readonly Finding[] | undefined> {
  const root = resolve(path);
  const store = new FileStore(root);
  return closing(store, async () => {
    if (!(await isLive(store))) return undefined;
    return await verifyLive({ store, path: "", files: dualFiles(root) }, options);
  });
}
