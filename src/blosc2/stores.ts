/**
 * Stores of Blosc2 as groups of Zarr v3: `.b2z` files, which are zip archives of frames, `.b2d` folders with the same files, and `.b2e`
 * files, which are one frame with small arrays.
 *
 * All code that reads Zarr can therefore open `store.b2z/a/b` as an array, and `store.b2z` as a group. Read-only. Knows names of members;
 * zarr-view.ts knows the content of frames. [BS-01 to BS-03]
 */
import { at } from "../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { jsonBytes } from "../format/json.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, partOf, refuseListed, showListed } from "../store/key.ts";
import { keepMade } from "../store/pool.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import { DOCUMENT } from "../zarr/document/make-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr } from "../zarr/read/open.ts";
import { readFrame } from "./frame.ts";
import { frameStore } from "./open.ts";
import type { Member } from "./rows.ts";
import { showTables } from "./tables.ts";
import type { Blosc2Store } from "./zarr-view.ts";
import { ZipStore } from "./zip.ts";

/** The file of a folder's or an archive's store that holds small arrays; it is always there. */
const EMBEDDED = "embed.b2e";
const ATTRIBUTES = "__vlmeta__";
/** Name of an array in a group that has the array's path; a `.` is not part of any key. */
const ITSELF = "%2E";
const MEMBER = /\.(?:b2nd|b2f|b2frame|b2b)$/;
/** Most bytes of all small arrays together, and most nested folders. */
const MAX_EMBEDDED = 256 << 20;
const MAX_DEPTH = 64;

/**
 * Opens a path in a store (`dir/t.b2z/a/x`), or the store itself as a group. Undefined without a store.
 *
 * @throws NOT_FOUND for a path that the store does not have; UNSUPPORTED, TRUNCATED, BAD_FIELD for what is not such a store, or damaged
 */
export async function openBlosc2Store(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const parts = path.split("/");
  const named = parts.findIndex((name) => /\.b2[dez]$/i.test(name)) + 1;
  const count = named === 0 ? parts.length : named;
  const place = joinKey(...parts.slice(0, count));
  const orNone = (error: unknown): undefined => {
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
  };
  const zip = /\.b2z$/i.test(place) ? await ZipStore.open(store, place, options).catch(orNone) : undefined;
  const members = new Map<string, Member>();
  if (/\.b2e$/i.test(place)) {
    if (!(await addEmbedded(members, { store, key: place }, options))) return undefined;
  } else if (zip === undefined && (await store.stat(joinKey(place, EMBEDDED), options)) === undefined)
    return undefined;
  else if (zip !== undefined) {
    for (const name of zip.names())
      if (MEMBER.test(name)) addMember(members, name, { store: zip, key: name });
    await addEmbedded(members, { store: zip, key: EMBEDDED }, options);
  } else {
    for await (const { name, error } of filesBelow(store, place, ""))
      if (error !== undefined) addMember(members, name, { store, key: place, error });
      else if (MEMBER.test(name)) addMember(members, name, { store, key: joinKey(place, name) });
    await addEmbedded(members, { store, key: joinKey(place, EMBEDDED) }, options);
  }
  const tables = await showTables(members, options);
  const tree = new TreeStore(store, place, { members, tables });
  const inside = parts.slice(count).join("/");
  try {
    return await openZarr(tree, inside, { ...options, dialect: "blosc2" });
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
    throw new SuperchunkError(
      "NOT_FOUND",
      `the store has no group or array "${inside}"; "superchunk ls" lists what it has`,
      { path: store.describe(place), field: inside },
    );
  }
}

/** Adds a member by the name of its file. Percent-encodes a backslash, and the dot of a name that Zarr's documents have. */
function addMember(members: Map<string, Member>, name: string, member: Member): void {
  const parts = name.replace(MEMBER, "").replace(/^\/+/, "").replaceAll("\\", "%5C").split("/");
  const isSafe = !parts.some((part) => /^\.{0,2}$/.test(part));
  const path = parts.map((part) => (part === "zarr.json" ? "zarr%2Ejson" : part)).join("/");
  // python-blosc2 3 leaves small arrays behind that files have replaced.
  const isReplaced = member.from !== undefined && members.has(path);
  if (isSafe && !isReplaced) members.set(path, member);
}

/** The files of a folder; those that a store of keys cannot name with an error. */
async function* filesBelow(
  store: ReadableStore,
  place: string,
  folder: string,
  depth = 0,
): AsyncGenerator<{ readonly name: string; readonly error?: SuperchunkError }> {
  if (depth > MAX_DEPTH) return;
  const own = joinKey(place, folder);
  for await (const { name, kind } of store.list?.(own) ?? []) {
    const error = refuseListed(name, store.describe(own));
    if (error !== undefined) yield { name: showListed(folder, name), error };
    else if (kind === "folder") yield* filesBelow(store, place, joinKey(folder, name), depth + 1);
    else yield { name: joinKey(folder, name) };
  }
}

/** Adds the arrays that are stored as bytes in one frame. Returns false without a frame, or without a store in it. */
async function addEmbedded(
  members: Map<string, Member>,
  { store, key }: Member,
  options: OpenZarrOptions,
): Promise<boolean> {
  const frame =
    (await store.stat(key, options)) === undefined ? undefined : await readFrame(store, key, options);
  const { embed_map: map } = (frame?.attrs["estore_metadata"] ?? {}) as {
    readonly embed_map?: Readonly<Record<string, { readonly offset?: number; readonly length?: number }>>;
  };
  if (frame === undefined || map === undefined) return false;
  if (Object.keys(map).length === 0) return true;
  if (frame.nbytes > MAX_EMBEDDED)
    throw new SuperchunkError(
      "LIMIT",
      `the store holds ${frame.nbytes} bytes of small arrays; ${MAX_EMBEDDED} is the limit`,
      { path: store.describe(key), expected: MAX_EMBEDDED, found: frame.nbytes },
    );
  const array = await openZarr(frameStore(store, frame), "", options);
  const bytes = array.kind === "array" ? await array.getBytes() : new Uint8Array(0);
  const { MemoryStore } = await import("../store/memory.ts");
  const held = new MemoryStore();
  for (const [name, { offset = -1, length = -1 }] of Object.entries(map)) {
    if (
      !Number.isSafeInteger(offset) ||
      !Number.isSafeInteger(length) ||
      offset < 0 ||
      length < 0 ||
      offset + length > bytes.length
    )
      throw new SuperchunkError(
        "BAD_FIELD",
        `"${name}" is outside the ${bytes.length} bytes of small arrays; the store is damaged`,
        { path: store.describe(key), field: "embed_map", found: offset },
      );
    const own = name.replace(/^\/+/, "");
    await held.put(own, bytes.subarray(offset, offset + length));
    addMember(members, `${own}.b2nd`, { store: held, key: own, from: [{ store, key }] });
  }
  return true;
}

/** A Zarr v3 hierarchy of frames. */
class TreeStore implements ReadableStore {
  readonly hasAllChunks = true;
  readonly #store: ReadableStore;
  readonly #place: string;
  readonly #arrays = new Map<string, Member>();
  readonly #attributes = new Map<string, Member>();
  /** Names of members, by group. */
  readonly #groups = new Map<string, Set<string>>([["", new Set()]]);
  readonly #opened = new Map<string, Promise<Blosc2Store>>();
  readonly #tables: ReadonlyMap<string, JsonObject>;

  constructor(
    store: ReadableStore,
    place: string,
    {
      members,
      tables,
    }: { readonly members: ReadonlyMap<string, Member>; readonly tables: ReadonlyMap<string, JsonObject> },
  ) {
    this.#store = store;
    this.#place = place;
    this.#tables = tables;
    for (const [path, member] of members) {
      const parts = path.split("/");
      const name = parts.at(-1) ?? "";
      const isAttributes = name === ATTRIBUTES;
      if (isAttributes) this.#attributes.set(parts.slice(0, -1).join("/"), member);
      else this.#arrays.set(path, member);
      for (let i = 0; i < parts.length - (isAttributes ? 1 : 0); i++) {
        const group = parts.slice(0, i).join("/");
        this.#groups.set(group, (this.#groups.get(group) ?? new Set()).add(at(parts, i)));
      }
    }
    for (const [path, member] of [...this.#arrays])
      if (this.#groups.get(path)?.add(ITSELF) !== undefined) {
        this.#arrays.delete(path);
        this.#arrays.set(joinKey(path, ITSELF), member);
      }
  }

  describe(key: string): string {
    const own = this.#store.describe(this.#place);
    return key === "" ? own : `${own}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const found = await this.#find(key);
    if (found !== undefined) return found.store.get(found.key, options);
    return this.#groupDocument(key, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const found = await this.#find(key);
    if (found !== undefined) return found.store.getRange(found.key, range, options);
    const bytes = await this.#groupDocument(key, options);
    return bytes && partOf(bytes, range, key);
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const found = await this.#find(key);
    if (found !== undefined) return found.store.stat(found.key, options);
    const bytes = await this.#groupDocument(key, options);
    return bytes && { size: bytes.length, version: key };
  }

  async getInner(
    key: string,
    slots: readonly number[],
  ): Promise<readonly (Uint8Array | undefined)[] | undefined> {
    const found = await this.#find(key);
    return found?.store.getInner(found.key, slots);
  }

  async whyEncoded(folder: string): Promise<string | undefined> {
    return (await this.#find(folder))?.store.whyEncoded();
  }

  /** Arrays in a file of small ones have no place, because that is compressed as a whole. */
  readonly filePlace: NonNullable<ReadableStore["filePlace"]> = async (key, slot) => {
    const found = await this.#find(key);
    if (found === undefined || found.member.from !== undefined) return undefined;
    const place = await found.store.filePlace(found.key, slot);
    const isInside = found.member.store !== this.#store;
    return place && (isInside ? { ...place, key: joinKey(this.#place, place.key) } : place);
  };

  async storedBytes(folder: string): Promise<number> {
    const found = await this.#find(folder);
    return found?.store.storedBytes() ?? 0;
  }

  async compareSums(folder: string, options?: StoreOptions): Promise<number> {
    const compare = async ({ store, key, from = [] }: Member): Promise<number> => {
      let count = 0;
      for (const each of from) count += await compare(each);
      if (!(store instanceof ZipStore)) return count;
      await store.compareSum(key, options);
      return count + 1;
    };
    const member = this.#arrays.get(folder);
    return member === undefined ? 0 : compare(member);
  }

  async attributesLeft(folder: string): Promise<readonly string[]> {
    const member = this.#attributes.get(folder);
    if (member !== undefined) return (await readFrame(member.store, member.key))?.attrsLeft ?? [];
    return (await this.#find(folder))?.store.attributesLeft() ?? [];
  }

  async *list(folder: string): AsyncGenerator<ListEntry> {
    const found = await this.#find(folder);
    if (found !== undefined) {
      yield* found.store.list(found.key);
      return;
    }
    const names = this.#groups.get(folder);
    if (names === undefined) return;
    yield { name: DOCUMENT, kind: "object" };
    for (const name of [...names].sort()) yield { name, kind: "folder" };
  }

  async close(): Promise<void> {
    await this.#store.close?.();
  }

  /** The array that a key belongs to, and the rest of the key. */
  async #find(key: string): Promise<{ store: Blosc2Store; key: string; member: Member } | undefined> {
    const parts = key.split("/");
    for (let count = parts.length; count > 0; count--) {
      const path = parts.slice(0, count).join("/");
      const member = this.#arrays.get(path);
      if (member !== undefined && !this.#groups.has(path))
        return { store: await this.#open(path, member), key: parts.slice(count).join("/"), member };
    }
    return undefined;
  }

  #open(path: string, { store, key, dtype, rows, make, error }: Member): Promise<Blosc2Store> {
    if (error !== undefined) return Promise.reject(error);
    return keepMade(this.#opened, path, async () => {
      if (make !== undefined) return make();
      const frame = await readFrame(store, key);
      if (frame !== undefined) return frameStore(store, frame, { dtype, rows });
      throw new SuperchunkError("BAD_MAGIC", "the member is not a frame of Blosc2; the store is damaged", {
        path: this.describe(path),
      });
    });
  }

  async #groupDocument(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const group =
      key === DOCUMENT ? "" : key.endsWith(`/${DOCUMENT}`) ? key.slice(0, -DOCUMENT.length - 1) : undefined;
    if (group === undefined || !this.#groups.has(group)) return undefined;
    const member = this.#attributes.get(group);
    const frame = member === undefined ? undefined : await readFrame(member.store, member.key, options);
    const document: JsonObject = {
      zarr_format: 3,
      node_type: "group",
      attributes: { ...frame?.attrs, ...this.#tables.get(group) },
    };
    return jsonBytes(document);
  }
}
