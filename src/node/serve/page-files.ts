/**
 * The page that shows archives in a browser, and what it reads: its own files, the list of archives at the served paths, and
 * their stored bytes.
 *
 * Knows paths below `__superchunk__/`, a name that no Zarr node can have; must not know sockets.
 */
import { readFile } from "node:fs/promises";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { HELD_NAMES } from "../../format/naming.ts";
import { type FoundReadable, findReadables } from "../../open/find-readables.ts";
import { open, type Readable } from "../../open/open.ts";
import type { OpenPlace } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import { keepMade } from "../../store/pool.ts";
import type { ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";
import { servedMessage } from "./serve-listing.ts";

/** Start of all paths of the page. */
const PREFIX = "__superchunk__/";
/** Location of the page: beside the bundle, or in the build folder during development. */
const PLACES = ["./page.html", "../../../page/page.html", "../../../build/page/page.html"];
/** Most entries of the list; of a larger folder the first ones are shown. */
const MOST_LISTED = 20_000;
/** Most bytes of a stored file in one answer. */
const MOST_BYTES = 256 << 20;
/** Most entries of a folder in one answer. */
const MOST_ENTRIES = 4_000_000;
/** Milliseconds for which a list is reused, at least. */
const FRESH_MS = 2000;

/** Names of superchunks, which may be in other places. */
const SUPERCHUNK = /__\d+__\.bin$/;

/** A place whose archives the page shows. */
export interface PageRoot {
  /** Prefix of the names of its archives; empty if they need none. */
  readonly name: string;
  readonly store: ReadableStore;
  readonly path: string;
}

/** An archive, an array or a group that the page can open. */
interface ListedArchive {
  readonly name: string;
  /** Number of the root, and the key in its store. */
  readonly root: number;
  readonly path: string;
  readonly kind?: "group" | "array";
  readonly error?: string;
}

/** An answer: bytes, or a stored object, of which only the requested part is read. */
export type PageBody =
  | { readonly bytes: Uint8Array; readonly type: string; readonly policy?: string }
  | {
      readonly info: ObjectInfo;
      readonly read: (offset: number, length: number) => Promise<Uint8Array>;
    };

/** The page of a server, and its data. */
export class PageFiles {
  readonly #roots: readonly PageRoot[];
  /** The page and its location; undefined if it was not built. */
  readonly #built: { readonly html: string; readonly url: URL } | undefined;
  readonly #openPlace: OpenPlace;
  /** Arrays whose superchunks may be in other places, by root and path. */
  readonly #placed = new Map<string, Promise<Readable>>();
  #list: { readonly found: Promise<readonly ListedArchive[]>; until: number } | undefined;
  #last: readonly ListedArchive[] = [];

  private constructor(
    roots: readonly PageRoot[],
    openPlace: OpenPlace,
    built?: { readonly html: string; readonly url: URL },
  ) {
    this.#roots = roots;
    this.#openPlace = openPlace;
    this.#built = built;
  }

  /** `openPlace`: opens the places that the server may read. */
  static async load(roots: readonly PageRoot[], openPlace: OpenPlace): Promise<PageFiles> {
    for (const place of import.meta.url ? PLACES : []) {
      const url = new URL(place, import.meta.url);
      const html = await readIfThere(url);
      if (html !== undefined) return new PageFiles(roots, openPlace, { html: html.toString(), url });
    }
    return new PageFiles(roots, openPlace);
  }

  /** True for a path of the page itself. */
  static isOwn(path: string): boolean {
    return path.startsWith(PREFIX);
  }

  /** The page itself; undefined if it was not built. `query`: of the request; it may name another server that the page reads from. */
  page(query: string): PageBody | undefined {
    const html = this.#built?.html
      .replaceAll(/(?<=src=")(?=page\.js")/g, `${PREFIX}page/`)
      .replace('name="superchunk-server" content=""', `name="superchunk-server" content="${PREFIX}"`);
    if (html === undefined) return undefined;
    return {
      bytes: new TextEncoder().encode(html),
      type: "text/html; charset=utf-8",
      policy: policyFor(query),
    };
  }

  /**
   * The answer for a path below {@link PREFIX}; undefined if there is none. `query`: as in {@link page}, because the page's worker has
   * its own policy.
   */
  async find(path: string, query: string, options: StoreOptions): Promise<PageBody | undefined> {
    const [kind = "", ...rest] = path.slice(PREFIX.length).split("/");
    if (kind === "archives.json" && rest.length === 0) return asJson({ archives: await this.#archives() });
    if (kind === "page" && rest.length === 1) return this.#script(rest[0] ?? "", query);
    const [root, key] = [Number(rest[0]), rest.slice(1).join("/")];
    if (kind === "files") return this.#object(root, key, options);
    if (kind === "list") return this.#entries(root, key, options);
    // Whether an array's places can be read.
    if (kind === "places") return (await this.#openPlaced(root, key)) && asJson({});
    return undefined;
  }

  /** Closes the arrays that were opened with their places. */
  async close(): Promise<void> {
    for (const opened of this.#placed.values()) await (await opened.catch(() => undefined))?.close();
  }

  async #script(name: string, query: string): Promise<PageBody | undefined> {
    const folder = this.#built?.url;
    if (folder === undefined || !/^[\w-]+(?:\.[\w-]+)*\.js$/.test(name)) return undefined;
    const bytes = await readIfThere(new URL(name, folder));
    return bytes && { bytes, type: "text/javascript; charset=utf-8", policy: policyFor(query) };
  }

  async #object(root: number, key: string, options: StoreOptions): Promise<PageBody | undefined> {
    const own = await this.#shownStore(root, key, true);
    const inRoot = await own?.stat(key, options);
    const found =
      inRoot === undefined ? await this.#inPlaces(root, key, options) : { store: own, info: inRoot };
    const { store, info } = found ?? {};
    if (store === undefined || info === undefined) return undefined;
    if (info.isLink === true)
      throw new SuperchunkError("UNSAFE_PATH", "links inside of archives are not followed", { path: key });
    const read = async (offset: number, length: number): Promise<Uint8Array> => {
      if (length > MOST_BYTES)
        throw new SuperchunkError("LIMIT", `a response has at most ${MOST_BYTES} bytes of a stored file`, {
          path: key,
          expected: MOST_BYTES,
          found: length,
        });
      if (length === 0) return new Uint8Array(0);
      const bytes = await store.getRange(key, { offset, length }, options);
      if (bytes?.length === length) return bytes;
      throw new SuperchunkError("STALE", "the file was changed while it was read", { path: key });
    };
    return { info, read };
  }

  /** The store of a root, for keys of shown archives. An archive may be a node in a file, which `isFile` allows. */
  async #shownStore(root: number, key: string, isFile: boolean): Promise<ReadableStore | undefined> {
    const isShown = (archives: readonly ListedArchive[]): boolean =>
      archives.some(
        ({ root: of, path }) =>
          of === root &&
          (path === "" ||
            key === path ||
            key.startsWith(`${path}/`) ||
            (isFile && path.startsWith(`${key}/`))),
      );
    // What the last list has does not wait for the next one.
    const known = this.#last;
    const found = this.#archives();
    return isShown(known) || isShown(await found) ? this.#roots[root]?.store : undefined;
  }

  /** The entries of an archive's folder. From them the page learns which chunks of a large grid exist, without a request for each. */
  async #entries(root: number, folder: string, options: StoreOptions): Promise<PageBody | undefined> {
    const store = await this.#shownStore(root, folder, false);
    if (store === undefined) return undefined;
    const entries: ListEntry[] = [];
    for await (const { name, kind } of store.list(folder, options))
      if (entries.push({ name, kind }) > MOST_ENTRIES)
        throw new SuperchunkError("LIMIT", "the folder has too many entries", { path: folder });
    return asJson({ entries });
  }

  /** The array with its places, opened once; undefined if it is not shown. Throws `UNSAFE_PATH` for places that the server may not read. */
  async #openPlaced(root: number, path: string): Promise<Readable | undefined> {
    const store = this.#roots[root]?.store;
    const isShown = (await this.#archives()).some((each) => each.root === root && each.path === path);
    if (store === undefined || !isShown) return undefined;
    return keepMade(this.#placed, `${root}:${path}`, () => open(store, path, { openPlace: this.#openPlace }));
  }

  /** Finds a superchunk outside of its array's own folder. */
  async #inPlaces(
    root: number,
    key: string,
    options: StoreOptions,
  ): Promise<{ readonly store: ReadableStore; readonly info: ObjectInfo } | undefined> {
    const archives = SUPERCHUNK.test(key) ? await this.#archives() : [];
    const array = archives.find(
      ({ root: of, path }) => of === root && key.startsWith(`${joinKey(path, "data")}/`),
    );
    const opened = array && (await this.#openPlaced(root, array.path));
    if (opened === undefined) return undefined;
    let info = await opened.store.stat(key, options);
    // Superchunks of later commits may be in new places.
    if (
      info === undefined &&
      "refresh" in opened &&
      (await opened.refresh?.({ signal: options.signal })) === true
    )
      info = await opened.store.stat(key, options);
    return info && { store: opened.store, info };
  }

  #archives(): Promise<readonly ListedArchive[]> {
    if (this.#list === undefined || Date.now() > this.#list.until) {
      const begun = Date.now();
      const list = { found: this.#findAll(), until: Number.POSITIVE_INFINITY };
      this.#list = list;
      list.found.then(
        (archives) => {
          this.#last = archives;
          // Listing a large folder takes at most a tenth of the server's time.
          list.until = Date.now() + Math.max(FRESH_MS, 9 * (Date.now() - begun));
        },
        () => {
          list.until = 0;
        },
      );
    }
    return this.#list.found;
  }

  async #findAll(): Promise<ListedArchive[]> {
    const listed: ListedArchive[] = [];
    for (const [root, place] of this.#roots.entries())
      for await (const found of readablesAt(place)) {
        if (found.isIndex === true) continue;
        listed.push(describe(found, root, place));
        if (listed.length >= MOST_LISTED) return listed;
      }
    return listed;
  }
}

async function readIfThere(url: URL): Promise<Buffer | undefined> {
  return readFile(url).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** What is at a place. In a store that cannot list there is one archive, which the page examines itself. */
async function* readablesAt({ store, path }: PageRoot): AsyncGenerator<FoundReadable> {
  if (path !== "" && (await store.stat(path)) !== undefined) {
    // The arrays in an HDF5 file or a Blosc2 store follow its root.
    try {
      const node = HELD_NAMES.test(path) ? await open(store, path) : undefined;
      if (node?.kind === "group") yield* findReadables(node, path);
      else yield { path };
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      yield { path, error };
    }
    return;
  }
  try {
    yield* findReadables(store, path);
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    yield { path };
  }
}

function describe(
  { path, group, array, error }: FoundReadable,
  root: number,
  place: PageRoot,
): ListedArchive {
  const below = path === place.path ? "" : path.slice(place.path === "" ? 0 : place.path.length + 1);
  const name = [place.name, below].filter((part) => part !== "").join("/");
  const kind = group !== undefined ? "group" : array !== undefined ? "array" : undefined;
  return {
    name: name === "" ? "/" : name,
    root,
    path,
    ...(kind === undefined ? {} : { kind }),
    ...(isSuperchunkError(error) ? { error: servedMessage(error) } : {}),
  };
}

/** The content policy: the page may load its own files, and data of its own server or of the one in its address. */
function policyFor(query: string): string {
  const other = new URLSearchParams(query).get("url") ?? "";
  const origin = /^https?:\/\//i.test(other) && URL.canParse(other) ? ` ${new URL(other).origin}` : "";
  return [
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self'",
    "style-src 'unsafe-inline'",
    "img-src 'self' blob: data:",
    `connect-src 'self'${origin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

function asJson(value: object): PageBody {
  return { bytes: new TextEncoder().encode(JSON.stringify(value)), type: "application/json" };
}
