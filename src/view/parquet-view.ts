/**
 * Tables and arrays shown as Parquet files, generated on request. Their layouts are kept as long as nothing changes.
 *
 * Knows which archive a name means, and when it has changed; must not know pages, or sockets.
 */
import type { Archive, ChunkedArchive } from "../archive/kinds/types.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { metadataKeys } from "../convert/sources/items.ts";
import { ParquetParts } from "../convert/targets/parquet-parts.ts";
import { SuperchunkError } from "../errors.ts";
import { runPooled } from "../store/pool.ts";
import type { ViewEntry } from "./view-tree.ts";

const ENDING = ".parquet";
/** Extensions of archives that may be left out of the file's name. */
const OWN_ENDING = /\.(?:blp|bcolz|blz)$/i;
/** For this long an archive is assumed to be unchanged, … */
const FRESH_MS = 1000;
/** … or for this many times the duration of the last check. */
const LOOKING = 20;
/** Most bytes of layouts to keep. */
const MOST_BYTES = 256 << 20;
/** Objects that are checked at a time. */
const AT_ONCE = 32;

/** A file, and the version of its source. */
interface MadeFile {
  readonly parts: ParquetParts;
  readonly version: string;
  /** Time of the next check. */
  freshUntil: number;
}

/** The files of a view. */
export class ParquetView {
  readonly #entries = new Map<string, ViewEntry>();
  readonly encoder: ChunkEncoder;
  readonly #made = new Map<string, Promise<MadeFile>>();
  readonly #weights = new Map<string, number>();
  /** Layouts are made one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(entries: Iterable<ViewEntry>, encoder: ChunkEncoder) {
    this.encoder = encoder;
    const all = [...entries];
    for (const entry of all) {
      const short = entry.node.replace(OWN_ENDING, "");
      if (!this.#entries.has(short)) this.#entries.set(short, entry);
    }
    for (const entry of all) this.#entries.set(entry.node, entry);
  }

  /** True for the name of an archive with `.parquet` added: `daily.parquet` and `daily.bcolz.parquet` for `daily.bcolz`. */
  has(path: string): boolean {
    return path.endsWith(ENDING) && this.#entries.has(path.slice(0, -ENDING.length));
  }

  /**
   * Opens the file of an existing name. The first time, and after each change, all pages are made once to learn their sizes.
   * `mustLook`: checks the archive even if it was checked a moment ago.
   *
   * @throws UNSUPPORTED for types that Parquet lacks; the codes of reading
   */
  async open(path: string, mustLook = false): Promise<ParquetParts> {
    const entry = this.#entries.get(path.slice(0, -ENDING.length));
    if (entry === undefined)
      throw new SuperchunkError("NOT_FOUND", "no archive has this name", { path, field: "path" });
    const { node } = entry;
    const known = this.#made.get(node);
    const made = this.#current(entry, known, mustLook);
    this.#made.delete(node);
    this.#made.set(node, made);
    try {
      const { parts } = await made;
      this.#weights.set(node, parts.weight);
      this.#forgetOldest();
      return parts;
    } catch (error) {
      if (this.#made.get(node) === made) this.#made.delete(node);
      throw error;
    }
  }

  async #current(
    entry: ViewEntry,
    known: Promise<MadeFile> | undefined,
    mustLook: boolean,
  ): Promise<MadeFile> {
    const before = await known?.catch(() => undefined);
    if (before !== undefined && !mustLook && performance.now() < before.freshUntil) return before;
    const begun = performance.now();
    const archive = await entry.open({});
    const version = await versionOf(archive);
    const end = performance.now();
    const freshUntil = end + Math.max(FRESH_MS, LOOKING * (end - begun));
    if (before !== undefined && before.version === version && !mustLook) {
      before.freshUntil = freshUntil;
      return before;
    }
    const making = this.#last.then(() =>
      ParquetParts.plan(archive, { to: "parquet" }, { encoder: this.encoder }),
    );
    this.#last = making.catch(() => undefined);
    const parts = await making;
    // Checksums, and the next check, detect changes made meanwhile.
    return { parts, version, freshUntil: Math.max(freshUntil, performance.now() + FRESH_MS) };
  }

  #forgetOldest(): void {
    let weight = 0;
    for (const node of [...this.#made.keys()].reverse()) {
      weight += this.#weights.get(node) ?? 0;
      if (weight <= MOST_BYTES || node === [...this.#made.keys()].at(-1)) continue;
      this.#made.delete(node);
      this.#weights.delete(node);
    }
  }
}

/** Changes whenever an object of an archive changes; over a network, only the metadata are checked. */
async function versionOf(archive: Archive): Promise<string> {
  const { store } = archive;
  const keys = new Set<string>();
  for (const { path } of [archive, ...arraysOf(archive)]) for (const key of metadataKeys(path)) keys.add(key);
  if (store.getHeads === undefined && store.readsToStat !== true)
    for (const array of arraysOf(archive)) for (const { key } of await array.chunkPlaces()) keys.add(key);
  keys.delete("");
  const versions = new Map<string, string>();
  await runPooled([...keys], AT_ONCE, async (key) => {
    const info = await store.stat(key);
    if (info !== undefined) versions.set(key, `${info.size} ${info.version}`);
  });
  return JSON.stringify([...versions].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The arrays with the chunks of an archive's values. */
function arraysOf(archive: Archive): ChunkedArchive[] {
  if (archive.kind === "bytes") return [archive];
  const names = archive.kind === "table" ? archive.names : archive.columnNames;
  if (archive.kind === "array" && names.length === 0) return [archive];
  return names.flatMap((name) => arraysOf(archive.column(name)));
}
