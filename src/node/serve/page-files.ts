/**
 * The page that shows archives in a browser, and what it reads: its own files, the list of what lies at the served paths, and
 * the bytes of these archives as they are stored.
 *
 * Knows paths below `__superchunk__/`, a name that no node of Zarr can have; must not know sockets.
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { type FoundReadable, findReadables } from "../../open/find-readables.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";
import { servedMessage } from "./serve-listing.ts";

/** What all paths of the page begin with. */
const PREFIX = "__superchunk__/";
/** Where the page lies: beside the bundle that this is part of, or where a build puts it for work on it. */
const PLACES = ["./page.html", "../../../page/page.html", "../../../build/page/page.html"];
/** Entries of the list; a folder with more shows the first ones. */
const MOST_LISTED = 20_000;
/** Bytes that one answer takes from a stored file, at most. */
const MOST_BYTES = 256 << 20;
/** For this long a list is believed. */
const FRESH_MS = 2000;

/** A place whose archives the page shows. */
export interface PageRoot {
  /** What the names of its archives begin with; empty where they stand by themselves. */
  readonly name: string;
  readonly store: ReadableStore;
  readonly path: string;
}

/** Something that the page can open: an archive, an array, a group. */
interface ListedArchive {
  readonly name: string;
  /** Number of the root, and the key in its store. */
  readonly root: number;
  readonly path: string;
  readonly kind?: "group" | "array";
  readonly error?: string;
}

/** An answer: bytes, or a part of a stored object that is read when it is known which part is wanted. */
export type PageBody =
  | { readonly bytes: Uint8Array; readonly type: string; readonly policy?: string }
  | {
      readonly info: ObjectInfo;
      readonly read: (offset: number, length: number) => Promise<Uint8Array>;
    };

/** What the page of a server is made of. */
export class PageFiles {
  readonly #roots: readonly PageRoot[];
  /** The page and where it lies; undefined if none was built. */
  readonly #built: { readonly html: string; readonly url: URL } | undefined;
  #list: { readonly found: Promise<readonly ListedArchive[]>; readonly at: number } | undefined;

  private constructor(roots: readonly PageRoot[], built?: { readonly html: string; readonly url: URL }) {
    this.#roots = roots;
    this.#built = built;
  }

  static async load(roots: readonly PageRoot[]): Promise<PageFiles> {
    for (const place of PLACES) {
      const url = new URL(place, import.meta.url);
      try {
        return new PageFiles(roots, { html: await readFile(fileURLToPath(url), "utf8"), url });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    }
    return new PageFiles(roots);
  }

  /** True if a path is one of the page's own. */
  static isOwn(path: string): boolean {
    return path.startsWith(PREFIX);
  }

  /** The page itself; undefined if it was not built. `query`: of the request, which may name another server that the page is to read from. */
  page(query: string): PageBody | undefined {
    const html = this.#built?.html
      .replaceAll(/(?<=src=")(?=page\.js")/g, `${PREFIX}page/`)
      .replace('name="superchunk-server" content=""', `name="superchunk-server" content="${PREFIX}"`);
    if (html === undefined) return undefined;
    return { bytes: encode(html), type: "text/html; charset=utf-8", policy: policyFor(query) };
  }

  /** What lies at a path below {@link PREFIX}; undefined for nothing. `query`: as of {@link page}, since the page's worker has its own policy. */
  async find(path: string, query: string, options: StoreOptions): Promise<PageBody | undefined> {
    const [kind = "", ...rest] = path.slice(PREFIX.length).split("/");
    if (kind === "archives.json" && rest.length === 0) {
      const archives = await this.#archives();
      return { bytes: encode(JSON.stringify({ archives })), type: "application/json" };
    }
    if (kind === "page" && rest.length === 1) return this.#script(rest[0] ?? "", query);
    if (kind === "files") return this.#object(Number(rest[0]), rest.slice(1).join("/"), options);
    return undefined;
  }

  async #script(name: string, query: string): Promise<PageBody | undefined> {
    const folder = this.#built?.url;
    if (folder === undefined || !/^[\w-]+(?:\.[\w-]+)*\.js$/.test(name)) return undefined;
    try {
      const bytes = await readFile(fileURLToPath(new URL(name, folder)));
      return { bytes, type: "text/javascript; charset=utf-8", policy: policyFor(query) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  async #object(root: number, key: string, options: StoreOptions): Promise<PageBody | undefined> {
    const store = this.#roots[root]?.store;
    if (store === undefined) return undefined;
    const archives = await this.#archives();
    const isShown = archives.some(
      ({ root: of, path }) =>
        of === root &&
        (path === "" || key === path || key.startsWith(`${path}/`) || path.startsWith(`${key}/`)),
    );
    if (!isShown) return undefined;
    const info = await store.stat(key, options);
    if (info === undefined) return undefined;
    if (info.isLink === true)
      throw new SuperchunkError("UNSAFE_PATH", "a link in an archive is not followed for others", {
        path: key,
      });
    const read = async (offset: number, length: number): Promise<Uint8Array> => {
      if (length > MOST_BYTES)
        throw new SuperchunkError("LIMIT", `an answer has at most ${MOST_BYTES} bytes of a stored file`, {
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

  #archives(): Promise<readonly ListedArchive[]> {
    const now = Date.now();
    if (this.#list === undefined || now - this.#list.at > FRESH_MS)
      this.#list = { found: this.#findAll(), at: now };
    return this.#list.found;
  }

  async #findAll(): Promise<ListedArchive[]> {
    const listed: ListedArchive[] = [];
    for (const [root, place] of this.#roots.entries()) {
      for await (const found of readablesAt(place)) {
        listed.push(describe(found, root, place));
        if (listed.length >= MOST_LISTED) return listed;
      }
    }
    return listed;
  }
}

/** What lies at a place. A store that cannot list has one archive there, which the page looks at itself. */
async function* readablesAt({ store, path }: PageRoot): AsyncGenerator<FoundReadable> {
  if (path !== "" && (await store.stat(path)) !== undefined && !/\.(?:h5|hdf5?)$/i.test(path)) {
    yield { path };
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

/** What the page may load: its own files; and data of its own server, or of the one that its address names. */
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

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
