/**
 * Changes of the documents of Zarr v3 nodes, with the copies that consolidated metadata of the groups above have.
 *
 * A node's own document is the truth. Where a kill comes between it and a copy, the next writer makes the copy right. Writers of
 * Zarr are kept out of folders that are archives too, because a write would change one view alone. Must not know chunks.
 * @see FORMAT.md [FL-04] [FY-01]
 */
import { SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import { LINK_RECORD } from "../../format/naming.ts";
import type { JsonInput } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { DOCUMENT } from "../document/metadata-v3.ts";

/** A JSON object whose floats stay floats. */
export type Document = Readonly<Record<string, JsonInput>>;

/** A document as it was read. */
interface StoredDocument {
  readonly document: Document;
  readonly version: string;
}

/** Reads the document of a node. Throws `NOT_FOUND`, and the codes of damage. */
export async function readDocument(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<StoredDocument> {
  const found = await findDocument(store, path, options);
  if (found !== undefined) return found;
  throw new SuperchunkError("NOT_FOUND", "there is no Zarr node", { path: store.describe(path) });
}

async function findDocument(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<StoredDocument | undefined> {
  const key = joinKey(path, DOCUMENT);
  const info = await store.stat(key, options);
  const bytes = info === undefined ? undefined : await store.get(key, options);
  if (info === undefined || bytes === undefined) return undefined;
  return {
    document: parseJson(bytes, store.describe(key), { floats: "kept" }) as Document,
    version: info.version,
  };
}

/**
 * Replaces the document of a node. Durable when resolved. Where the array becomes smaller (`shrinks`), the copies come first: no reader
 * takes a shape for true whose chunks are gone.
 *
 * @throws CONFLICT where another writer was faster
 */
export async function putDocument(
  store: WritableStore,
  path: string,
  before: StoredDocument,
  document: Document,
  shrinks = false,
): Promise<void> {
  const own = () => put(store, path, document, { ifVersion: before.version });
  if (!shrinks) await own();
  await updateCopies(store, path, (copies, name) => setCopy(copies, name, document), shrinks);
  if (shrinks) await own();
}

/** Makes a node where none is. Throws `CONFLICT` where there is one. */
export async function addDocument(store: WritableStore, path: string, document: Document): Promise<void> {
  await put(store, path, document, { ifAbsent: true });
  await updateCopies(store, path, (copies, name) => setCopy(copies, name, document), false);
}

/** Takes a node and all below it out of what readers find. Its chunks are still there. */
export async function removeDocument(store: WritableStore, path: string): Promise<void> {
  const drop = (copies: Map<string, JsonInput>, name: string): void => {
    for (const each of [...copies.keys()])
      if (each === name || each.startsWith(`${name}/`)) copies.delete(each);
  };
  await updateCopies(store, path, drop, true);
  await store.delete(joinKey(path, DOCUMENT));
  await store.sync?.([]);
}

/** Makes the copies above a node say what its own document says. */
export async function mendCopies(store: WritableStore, path: string): Promise<void> {
  const { document } = await readDocument(store, path);
  await updateCopies(store, path, (copies, name) => setCopy(copies, name, document), false);
}

async function put(
  store: WritableStore,
  path: string,
  document: Document,
  condition: { readonly ifVersion: string } | { readonly ifAbsent: boolean },
): Promise<void> {
  await store.put(joinKey(path, DOCUMENT), encode(document), { durable: true, ...condition });
}

function encode(document: Document): Uint8Array {
  return new TextEncoder().encode(stringifyJson(document, { indent: 2 }));
}

/** The copy of a group keeps its own list of copies. */
function setCopy(copies: Map<string, JsonInput>, name: string, document: Document): void {
  const { consolidated_metadata: _, ...own } = document;
  const former = copies.get(name);
  const list = isObject(former) ? former["consolidated_metadata"] : undefined;
  copies.set(name, list === undefined ? own : { ...own, consolidated_metadata: list });
}

/** Changes the copies in all groups above a node: the nearest first, or the root. */
async function updateCopies(
  store: WritableStore,
  path: string,
  change: (copies: Map<string, JsonInput>, name: string) => void,
  isRootFirst: boolean,
): Promise<void> {
  if (path === "") return;
  const folders: string[] = [];
  for (let { folder } = splitKey(path); ; { folder } = splitKey(folder)) {
    folders.push(folder);
    if (folder === "") break;
  }
  if (isRootFirst) folders.reverse();
  for (const folder of folders) {
    const stored = await findDocument(store, folder);
    const consolidated = stored?.document["consolidated_metadata"];
    if (stored === undefined || !isObject(consolidated) || !isObject(consolidated["metadata"])) continue;
    const copies = new Map(Object.entries(consolidated["metadata"]));
    const before = stringifyJson(Object.fromEntries(copies));
    change(copies, path.slice(folder === "" ? 0 : folder.length + 1));
    const metadata = Object.fromEntries(copies);
    if (stringifyJson(metadata) === before) continue;
    const document = { ...stored.document, consolidated_metadata: { ...consolidated, metadata } };
    await put(store, folder, document, { ifVersion: stored.version });
  }
}

function isObject(value: JsonInput | undefined): value is Document {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("toJSON" in value);
}

const STORAGE = "meta/storage";

/**
 * Refuses a path in, or below, an archive: one that is linked to Zarr, one that keeps itself a Zarr array, their columns. Links
 * are made on file systems alone: other stores are not asked.
 *
 * @throws CONFLICT
 */
export async function refuseDual(
  store: WritableStore,
  path: string,
  { signal }: StoreOptions = {},
): Promise<void> {
  if (store.link === undefined) return;
  for (let folder = path; ; folder = splitKey(folder).folder) {
    for (const name of [LINK_RECORD, STORAGE]) {
      const key = joinKey(folder, name);
      if ((await store.stat(key, { signal })) === undefined) continue;
      throw new SuperchunkError("CONFLICT", reasonOf(name), {
        path: store.describe(folder),
        field: name,
      });
    }
    if (folder === "") return;
  }
}

function reasonOf(name: string): string {
  return name === LINK_RECORD
    ? 'it is an archive that is linked to Zarr: written as Zarr, the archive would keep its old values, or be damaged. Change the archive ("superchunk set", "append", openWritable) and run "superchunk link" again, or take the link away ("superchunk unlink") or write to a copy ("superchunk convert")'
    : 'there is an archive in the folder: written as Zarr, it would keep its old values. Change the archive itself ("superchunk set", "append", openWritable), whose Zarr view follows where it has one, or write to a copy ("superchunk convert")';
}
