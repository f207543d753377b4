/**
 * The page that shows archives in a browser, and what it reads: its own files, the list of archives at the served paths, and
 * their stored bytes.
 *
 * Knows paths below `__superchunk__/`, a name that no Zarr node can have; must not know sockets.
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { type FoundReadable, findReadables } from "../../open/find-readables.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";
import { servedMessage } from "./serve-listing.ts";

/** Start of all paths of the page. */
const PREFIX = "__superchunk__/";
/** Location of the page: beside the bundle, or in the build folder during development. */
const PLACES = ["./page.html", "../../../page/page.html", "../../../build/page/page.html"];
/** Most entries of the list; of a larger folder the first ones are shown. */
const MOST_LISTED = 20_000;
/** Most bytes of a stored file in one answer. */
const MOST_BYTES = 256 << 20;
/** Milliseconds for which a list is reused. */
const FRESH_MS = 2000;

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
    return { bytes: encode(html), type: "text/html; charset=utf-8", policy: policyFor(query) };
  }

  /**
   * The answer for a path below {@link PREFIX}; undefined if there is none. `query`: as in {@link page}, because the page's worker has
   * its own policy.
   */
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

/** What is at a place. In a store that cannot list there is one archive, which the page examines itself. */
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

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
