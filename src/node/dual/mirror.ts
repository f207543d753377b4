/** Arrays that keep themselves Zarr arrays, at paths: brought right, told of, and made plain arrays again. */
import { resolve } from "node:path";
import type { Finding, LongOptions } from "../../archive/kinds/types.ts";
import { open as openArchive } from "../../archive/open/open.ts";
import type { LinkPlan, LinkResult, UnlinkResult } from "../../dual/link/types.ts";
import { beginMirror, planMirror } from "../../dual/live/begin.ts";
import { hasMirror } from "../../dual/live/detection.ts";
import { idleMirrors, type RemovedMirror, unmirror, zarrMirrors } from "../../dual/live/maker.ts";
import { verifyMirror } from "../../dual/live/verify.ts";
import { ArrayWriter } from "../../write/array/array-writer.ts";
import { readWritable } from "../../write/array/create.ts";
import { ArrayRoot } from "../../write/array/root.ts";
import { FileStore } from "../fs/fs-store.ts";
import type { LockOptions } from "../fs/lock.ts";
import { openWritable } from "../write.ts";
import { mirrorFilesIn } from "./mirror-files.ts";

/** Looks at every shard and every chunk of it, and brings right what is not. */
export async function renewMirror(path: string, options: LockOptions & LongOptions): Promise<LinkResult> {
  const started = performance.now();
  const costs = { bytes: 0, shards: 0, publications: 0 };
  const array = await openWritable(path, { ...options, mirrorCosts: costs, looksAtAll: true });
  await array.close();
  const { shards, bytes } = costs;
  return {
    source: resolve(path),
    destination: resolve(path),
    kind: "hard",
    documents: [],
    files: [],
    added: bytes,
    done: shards === 0,
    notes: [
      `the array keeps itself a Zarr array, and is one after every flush; ${shards === 0 ? "nothing was to be done" : `${shards} shard${shards > 1 ? "s were" : " was"} brought right`}`,
    ],
    seconds: (performance.now() - started) / 1000,
  };
}

/**
 * Makes the array in a folder one that keeps itself a Zarr array, and shows it.
 *
 * @throws CONFLICT, UNSUPPORTED as {@link beginMirror}, and what opening it for writing throws
 */
export async function makeMirrorAt(path: string, options: LockOptions & LongOptions): Promise<LinkResult> {
  const root = resolve(path);
  const array = await openWritable(root, options);
  try {
    await array.fill((writer) => beginMirror(writer, mirrorFilesIn(root), options));
  } finally {
    await array.close();
  }
  return renewMirror(path, options);
}

/**
 * What {@link makeMirrorAt} would do; takes no lock, and writes nothing.
 *
 * @throws CONFLICT, UNSUPPORTED as {@link beginMirror}, and the codes of opening
 */
export async function planMirrorAt(path: string, options: LongOptions): Promise<LinkPlan> {
  const root = resolve(path);
  const store = new FileStore(root);
  try {
    const { settings, committed, sizes } = await readWritable(store, "", { signal: options.signal });
    const writer = new ArrayWriter(new ArrayRoot(store, "", sizes), settings, committed);
    const { attrs } = await openArchive(store, "", { signal: options.signal });
    const { documents, full, rewritten, open, bytes } = await planMirror(
      writer,
      attrs,
      mirrorFilesIn(root),
      options,
    );
    return {
      source: root,
      destination: root,
      kind: "hard",
      documents,
      files: [],
      added: bytes,
      done: false,
      notes: [
        ...(full + rewritten === 0
          ? []
          : [
              `${full} full superchunk${full === 1 ? "" : "s"} would be shards by hard links; ${rewritten === 0 ? "all that is needed lies behind their chunks" : `${rewritten} superchunk${rewritten === 1 ? "" : "s"} would be written anew once, by copying their chunks, with the index of a shard behind them`}`,
            ]),
        ...(open === 0
          ? []
          : [
              `the open end of ${open} chunk${open === 1 ? "" : "s"} would be a shard of its own, a file beside`,
            ]),
      ],
    };
  } finally {
    await store.close?.();
  }
}

/** Makes it a plain array again. */
export async function removeMirrorAt(
  path: string,
  options: LockOptions & LongOptions,
): Promise<UnlinkResult> {
  const root = resolve(path);
  const mirror = idleMirrors(mirrorFilesIn(root));
  const array = await openWritable(root, { ...options, mirror });
  let removed: RemovedMirror = { shards: 0, left: [] };
  try {
    await array.fill(async (writer) => {
      removed = await unmirror(writer, mirrorFilesIn(root));
    });
  } finally {
    await array.close();
  }
  return {
    files: removed.shards,
    removed: 0,
    replaced: [],
    notes: [
      "the superchunks keep the index behind their chunks, which readers of arrays do not look at",
      ...removed.left.map((folder) => `left: ${folder}, which the array did not make`),
    ],
  };
}

/** Removes what the mirror of an array, which is to be removed as well, has left. */
export async function clearMirror(path: string): Promise<void> {
  const root = resolve(path);
  const store = new FileStore(root);
  try {
    await zarrMirrors({ files: mirrorFilesIn(root) }).clear(store, "");
  } finally {
    await store.close?.();
  }
}

/** What is wrong with the Zarr view of an array that keeps itself one. */
export async function verifyMirrorAt(
  path: string,
  options: LongOptions,
): Promise<readonly Finding[] | undefined> {
  const root = resolve(path);
  const store = new FileStore(root);
  try {
    if (!(await hasMirror(store, ""))) return undefined;
    return await verifyMirror(store, "", mirrorFilesIn(root), options);
  } finally {
    await store.close?.();
  }
}
