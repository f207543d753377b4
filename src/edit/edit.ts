/** `edit`: opens what lies at a place for editing, whatever its format. */

import { openArrayFolder } from "../archive/open/open-array-folder.ts";
import type { ChunkEncoder, EncoderChoice } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { joinKey, splitKey } from "../store/key.ts";
import { isWritable, type ReadableStore, type StoreOptions, type WritableStore } from "../store/types.ts";
import { asReadOnly } from "../store/wrappers/read-only.ts";
import { openWritable, type WriteOptions, type WriterLock } from "../write/array/create.ts";
import { BcolzArray } from "../write/bcolz/bcolz-array.ts";
import type { Editable, EditFormat } from "../write/editable.ts";

/** How something is opened for editing. */
export interface EditOptions extends StoreOptions, Pick<WriteOptions, "modify" | "mirror"> {
  /** Makes chunks, or says who does for a compressor; default: the calling thread. */
  readonly encoder?: ChunkEncoder | EncoderChoice | undefined;
  /** Keeps other writers out: called with the key of the lock's file. Without it, only comparing at each commit does. */
  readonly lock?: ((key: string) => Promise<WriterLock>) | undefined;
  /** Takes no lock and writes nothing (default false): only the verbs that plan work, and those that read. */
  readonly readOnly?: boolean | undefined;
}

/**
 * Opens an array, a table, a file or a group for editing, and finishes what an interrupted writer began. `close` or
 * `await using` gives up the lock.
 *
 * @throws NOT_FOUND; READ_ONLY where the store or this version cannot write it; CONFLICT where another writer holds the lock;
 * UNSUPPORTED for what is never edited, with the reason; and the codes of damage
 */
export async function edit(store: ReadableStore, path: string, options: EditOptions = {}): Promise<Editable> {
  if (!isWritable(store))
    throw new SuperchunkError("READ_ONLY", "the store cannot write", { path: store.describe(path) });
  const { signal, readOnly } = options;
  const target = readOnly === true ? asReadOnly(store) : store;
  const format = await formatAt(store, path, { signal });
  const lock = readOnly === true ? undefined : options.lock;
  if (format === "blz") {
    const { encoder, modify, mirror } = options;
    const take = lock && (() => lock(joinKey(path, "meta/lock")));
    return openWritable(target, path, { encoder, modify, mirror, signal, readOnly, lock: take });
  }
  const held = await lock?.(await lockKey(store, path, format));
  try {
    return await openHeld(target, path, { ...options, held });
  } catch (error) {
    await held?.release();
    throw error;
  }
}

/** Where the lock of an archive lies that is not an array of superchunks. */
async function lockKey(store: WritableStore, path: string, format: EditFormat): Promise<string> {
  if (format === "bloscpack") return `${path}.lock`;
  const isCarray = (await store.stat(joinKey(path, "__rootdirs__"))) === undefined && format === "bcolz";
  return joinKey(path, isCarray ? "meta/lock" : ".lock");
}

async function openHeld(
  store: WritableStore,
  path: string,
  { held, signal, readOnly, ...options }: EditOptions & { readonly held: WriterLock | undefined },
): Promise<Editable> {
  const encoder = typeof options.encoder === "function" ? options.encoder(undefined) : options.encoder;
  return BcolzArray.open(store, path, { encoder, signal, readOnly, lock: held });
}

/** The format of what lies at a place. Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage. */
export async function formatAt(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<EditFormat> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  if ((await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined) return "bcolz";
  const [sizes, storage] = await Promise.all([get("meta/sizes"), get("meta/storage")]);
  if (sizes !== undefined || storage !== undefined) {
    const { dialect } = await openArrayFolder(store, path, { sizes, storage }, options);
    return dialect === "carray" ? "bcolz" : "blz";
  }
  if (path !== "" && (await store.stat(path, options)) !== undefined) return "bloscpack";
  throw new SuperchunkError("NOT_FOUND", "there is nothing that can be edited", {
    path: store.describe(path),
    field: splitKey(path).name,
  });
}
