/** Zarr results in memory, read back with zarrita, and compared with the manifest of the corpus. */
import { createHash } from "node:crypto";
import type { AsyncReadable, RangeQuery } from "@zarrita/storage";
import * as zarr from "zarrita";
import type { Archive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import type { ReadableStore } from "../../../src/store/types.ts";
import { corpusFolder, parseExactJson } from "../../fixtures/manifest.ts";
import { type Strided, toCOrder } from "../../view/c-order.ts";

export const corpusStore: FileStore = new FileStore(corpusFolder);

export function openFixture(path: string): Promise<Archive> {
  return open(corpusStore, path);
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A zarrita store over one of ours. */
export function zarritaStore(store: ReadableStore): Required<AsyncReadable> {
  return {
    get: (key) => store.get(key.slice(1)),
    getRange: (key, range: RangeQuery) => store.getRange(key.slice(1), range),
  };
}

/** A document of a result. */
export async function documentAt(store: ReadableStore, key: string): Promise<Record<string, unknown>> {
  const bytes = await store.get(key);
  if (bytes === undefined) throw new Error(`no ${key}`);
  return parseExactJson(new TextDecoder().decode(bytes)) as Record<string, unknown>;
}

/** The values of an array as bytes in C order, as zarrita reads them; `big`: converted to big-endian. */
export async function readWithZarrita(store: ReadableStore, path: string, big = false): Promise<Uint8Array> {
  const array = await zarr.open.v3(zarr.root(zarritaStore(store)).resolve(path), { kind: "array" });
  // zarrita 0.7.5 cannot select from a dimension without items.
  if (array.shape.includes(0)) return new Uint8Array();
  const found = await (array.shape.length === 0 ? array.getChunk([]) : zarr.get(array, null));
  return toCOrder(found as unknown as Strided, big);
}

/** All keys of a store, sorted. */
export async function keysOf(store: ReadableStore, folder = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") found.push(...(await keysOf(store, key)));
    else found.push(key);
  }
  return found.sort();
}
