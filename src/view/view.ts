/**
 * Archives shown as Zarr v3, without a copy: any store of archives becomes a store of zarrita's.
 *
 * Knows how keys find their archive; must not know chunks.
 */
import type { Archive } from "../archive/kinds/types.ts";
import { SuperchunkError } from "../errors.ts";
import { checkKey } from "../store/key.ts";
import { checkRange, resolveRange } from "../store/range.ts";
import type { StoreOptions } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { ArchiveView } from "./view-archive.ts";
import type { ViewNode, ViewOptions, ViewRange, ViewReadOptions, ZarrView } from "./view-types.ts";

/**
 * Shows an opened archive as a Zarr v3 array, or a group with an array for each column, at the root of a store.
 *
 * Chunks are handed out as they lie in the archive, headers and digests checked; a short last chunk is filled up and
 * chunks that do not end on rows are compressed again, when they are asked for. Reads throw `UNSUPPORTED` for what
 * Zarr cannot hold, and the codes of damage. Works wherever the archive's store does, in a browser too.
 */
export function zarrView(archive: Archive | ZarrArray | ZarrGroup, options: ViewOptions = {}): ZarrView {
  if (!isArchive(archive))
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it is Zarr already; zarritaStore gives its arrays to zarrita, and any reader of Zarr reads them where they are",
      { path: archive.store.describe(archive.path), expected: "an archive", found: archive.dialect },
    );
  return new SingleView(archive, options);
}

function isArchive(opened: Archive | ZarrArray | ZarrGroup): opened is Archive {
  return !opened.dialect.startsWith("zarr");
}

class SingleView implements ZarrView {
  readonly #archive: Archive;
  readonly #options: ViewOptions;
  #planned: Promise<ArchiveView> | undefined;

  constructor(archive: Archive, options: ViewOptions) {
    this.#archive = archive;
    this.#options = options;
  }

  async get(key: string, options: ViewReadOptions = {}): Promise<Uint8Array | undefined> {
    options.signal?.throwIfAborted();
    const path = parseViewKey(key);
    if (path === undefined) return undefined;
    return (await this.#plan()).get(path, options);
  }

  getRange(key: string, range: ViewRange, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    return cutRange(key, range, this.get(key, options));
  }

  async list(path = ""): Promise<readonly ViewNode[]> {
    return directNodes((await this.#plan()).nodes(), path);
  }

  /** Planned by the first who asks, and again where that failed: a network may be there the next time. */
  #plan(): Promise<ArchiveView> {
    this.#planned ??= ArchiveView.plan(this.#archive, this.#options).catch((error: unknown) => {
      this.#planned = undefined;
      throw error;
    });
    return this.#planned;
  }
}

/** The path in a key of zarrita's, with or without a leading `/`; undefined where it is not a plain path. */
export function parseViewKey(key: string): string | undefined {
  const path = key.startsWith("/") ? key.slice(1) : key;
  try {
    checkKey(path);
  } catch {
    return undefined; // a path that leads anywhere else names nothing here
  }
  return path;
}

/** A part of what was read whole. Throws `BAD_ARGUMENT` for a range that no object has. */
export async function cutRange(
  key: string,
  range: ViewRange,
  reading: Promise<Uint8Array | undefined>,
): Promise<Uint8Array | undefined> {
  reading.catch(() => undefined); // reported below, unless the range is wrong
  checkRange(range, key);
  const bytes = await reading;
  if (bytes === undefined) return undefined;
  const { offset, length } = resolveRange(range, bytes.length, key);
  return bytes.slice(offset, offset + length);
}

/** The node at a path and those directly under it; none where there is no such node. */
export function directNodes(nodes: readonly ViewNode[], path: string): readonly ViewNode[] {
  const self = nodes.find((node) => node.path === path);
  if (self === undefined) return [];
  const prefix = path === "" ? "" : `${path}/`;
  const below = nodes.filter(
    (node) => node !== self && node.path.startsWith(prefix) && !node.path.slice(prefix.length).includes("/"),
  );
  return [self, ...below.sort((a, b) => (a.path < b.path ? -1 : 1))];
}
