/**
 * Chunks of an array that the next commit changes in place. The plan is kept in memory, is visible to further reads for the
 * plan, and becomes one journal: all of it happens with the commit that names the journal, or nothing. Must not know values.
 * @see FORMAT.md [FG-12]
 */

import { type BlpkFile, openBlpkFile, readChunkHeader } from "../../archive/places/blpk-file.ts";
import {
  arrayJournalKey,
  type InPlaceStore,
  type JournalFiles,
  overlayStore,
  readArrayJournal,
  redoWrites,
  requireOneName,
} from "../../archive/places/journal.ts";
import { LayoutIndex } from "../../archive/places/layout-files.ts";
import { type PlacedChunk, placeInFile } from "../../archive/places/sequence.ts";
import { readHead } from "../../archive/read/block-read.ts";
import { joinBytes } from "../../bytes/arrays.ts";
import { resultOr, SuperchunkError } from "../../errors.ts";
import { encodeOffsets } from "../../format/encode-file.ts";
import { OFFSET_LENGTH } from "../../format/header.ts";
import {
  type ArrayJournalWrite,
  encodeArrayJournal,
  type JournalWrite,
  journalName,
} from "../../format/journal.ts";
import { hasNumber, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { ArrayRoot } from "../array/root.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { type ArraySettings, type Reserve, reserveOf } from "../layout/settings.ts";

/** What a writer has committed and planned. */
interface Planned {
  readonly committed: { readonly layout: StoredLayout };
  readonly patches: StoredLayout["patches"];
  readonly columns: readonly ColumnLayout[];
  readonly settings: Pick<ArraySettings, "reserve">;
}

interface OpenedColumn {
  readonly number: number;
  readonly column: number;
  readonly file: InPlaceFile;
}

/** Limit of a journal in bytes: it is held in memory, and written twice. What does not fit becomes a patch. */
const MAX_JOURNAL = 32 << 20;

export class InPlaceChanges {
  readonly #store: InPlaceStore;
  readonly #path: string;
  readonly #files = new Map<string, JournalWrite[]>();
  readonly #opened = new Map<string, OpenedColumn>();
  #index:
    | {
        readonly committed: StoredLayout;
        readonly patches: StoredLayout["patches"];
        readonly index: LayoutIndex;
      }
    | undefined;
  #published: JournalFiles = new Map();
  /** Planned bytes to write. */
  bytes = 0;
  /** True from the commit that names the journal until its writes are made. */
  #isCommitted = false;
  /** Counts the plans: data read for an earlier one may have moved. */
  revision = 0;
  /** Shows the array as it is after the plan is carried out. */
  readonly view: ReadableStore;

  constructor(store: InPlaceStore, path: string) {
    this.#store = store;
    this.#path = path;
    this.view = overlayStore(store, (key) => this.#files.get(key));
  }

  /** What the last {@link publish} put, by file. */
  get files(): JournalFiles {
    return this.#published;
  }

  get isEmpty(): boolean {
    return this.#files.size === 0;
  }

  /** True if the plan leaves a file of version 4. */
  get moves(): boolean {
    return [...this.#opened.values()].some(({ file }) => file.version === 4);
  }

  /** Bytes by which the superchunks of a layout grow, by number. */
  growth(layout: StoredLayout): ReadonlyMap<number, number> {
    const grown = new Map<number, number>();
    for (const { number, file } of this.#opened.values())
      if (hasNumber(layout, number)) grown.set(number, (grown.get(number) ?? 0) + file.end - file.file.size);
    return grown;
  }

  /**
   * Plans new bytes for a chunk of the array in all columns. Returns false if it cannot be changed in place: its superchunk is
   * not a committed one, or the journal is full.
   * @throws CONFLICT if a file has other names; the codes of damage
   */
  async take(
    index: number,
    chunks: readonly StoredChunk[],
    { committed, patches, columns, settings }: Planned,
  ): Promise<boolean> {
    const place = this.#find(index, committed.layout, patches);
    const length = chunks.reduce((sum, { bytes, digest }) => sum + bytes.length + digest.length, 0);
    if (place === undefined || this.bytes + 2 * length > MAX_JOURNAL) return false;
    this.revision++;
    const keys = columns.map(({ folder }) => joinKey(folder, superchunkName(place.number)));
    const files: (InPlaceFile | undefined)[] = [];
    for (const [column, key] of keys.entries()) files.push(await this.#open(key, place.number, column));
    if (files.includes(undefined)) return false;
    for (const [column, key] of keys.entries()) {
      const [chunk, file] = [chunks[column], files[column]];
      if (chunk === undefined || file === undefined) continue;
      await this.#change(key, file, { inFile: place.inFile, index }, chunk, settings.reserve);
    }
    return true;
  }

  /**
   * Puts the journal for the superchunks of a layout and returns its name, which the commit must give; undefined if there is
   * nothing to change. Durable when resolved.
   */
  async publish(layout: StoredLayout): Promise<string | undefined> {
    const writes: ArrayJournalWrite[] = [];
    const files = new Map<string, readonly JournalWrite[]>();
    for (const [key, { number, column, file }] of this.#opened) {
      if (!hasNumber(layout, number)) continue;
      const own = [...(this.#files.get(key) ?? []), ...file.versionWrites()];
      if (own.length === 0) continue;
      files.set(key, own);
      for (const write of own) writes.push({ number, column, ...write });
    }
    this.#published = files;
    if (writes.length === 0) return undefined;
    const journal = await encodeArrayJournal(writes);
    const name = journalName(journal);
    await this.#store.put(arrayJournalKey(this.#path, name), journal, { durable: true });
    return name;
  }

  /** The commit has named the journal: the plan is kept until it is carried out. */
  noteCommit(): void {
    this.#isCommitted = !this.isEmpty;
  }

  /** Discards the plan, unless it is committed and not carried out yet. */
  clear(): void {
    if (!this.#isCommitted) this.noteMade();
  }

  /** The writes have been made. */
  noteMade(): void {
    this.#isCommitted = false;
    this.bytes = 0;
    this.#files.clear();
    this.#opened.clear();
    this.revision++;
  }

  async #change(
    key: string,
    file: InPlaceFile,
    { inFile, index }: { readonly inFile: number; readonly index: number },
    { bytes, digest, nbytes }: StoredChunk,
    reserve: Reserve | undefined,
  ): Promise<void> {
    const whole = joinBytes([bytes, digest]);
    const place = await file.place(this.view, inFile, { index, nbytes });
    const room = reserveOf(reserve, whole.length, nbytes + digest.length);
    const { atEnd, over } = await file.plan(this.view, inFile, place, whole, { reserve: room });
    const writes = this.#files.get(key) ?? [];
    this.#files.set(key, writes);
    for (const write of [...atEnd, ...over]) {
      this.bytes += write.bytes.length;
      writes.push(write);
    }
  }

  /** The opened file; undefined if chunks cannot be changed in it. */
  async #open(key: string, number: number, column: number): Promise<InPlaceFile | undefined> {
    const known = this.#opened.get(key);
    if (known !== undefined) return known.file;
    await requireOneName(this.#store, key);
    // Another program may have made it in a form in which chunks cannot move.
    return resultOr(undefined, "UNSUPPORTED", async () => {
      const file = await InPlaceFile.open(this.#store, key);
      this.#opened.set(key, { number, column, file });
      return file;
    });
  }

  /** Where the chunk is, if a superchunk of the last commit holds it. */
  #find(
    index: number,
    committed: StoredLayout,
    patches: StoredLayout["patches"],
  ): { readonly number: number; readonly inFile: number } | undefined {
    if (this.#index?.committed !== committed || this.#index.patches !== patches)
      this.#index = { committed, patches, index: new LayoutIndex({ ...committed, patches }) };
    const place = this.#index.index.find(index);
    return hasNumber(committed, place.number) ? place : undefined;
  }
}

/**
 * Makes the writes of the journal that a layout names, if the array is still what the writer committed. Durable when resolved;
 * can be repeated. `planned` may have the writes in memory.
 * @throws CONFLICT if another writer has committed; INCOMPLETE and the codes of damage if the journal cannot be read
 */
export async function makeChanges(
  root: ArrayRoot,
  layout: StoredLayout,
  columns: readonly ColumnLayout[],
  planned: InPlaceChanges | undefined,
): Promise<void> {
  await root.assertOurs();
  const known = planned?.isEmpty === false ? planned.files : undefined;
  const folders = columns.map(({ folder }) => folder);
  await redoWrites(root.store, known ?? (await readArrayJournal(root.store, root.path, layout, folders)));
}

// Decides where a changed chunk goes in its file: into its slot if it fits, else after the end. Plans only.
// @see FORMAT.md [F1.4]

/** How a chunk is changed. */
interface PlannedChange {
  /** True if it fits into its old slot. */
  readonly inSlot: boolean;
  /** Writes after the end of the file: no reader looks there before the others are made. */
  readonly atEnd: readonly JournalWrite[];
  /** Writes over existing bytes. */
  readonly over: readonly JournalWrite[];
}

/** Offset of the version in a file's header. */
const VERSION_AT = 4;

export class InPlaceFile {
  readonly file: BlpkFile;
  /** Version and size of the file after all planned writes. */
  version: 3 | 4;
  end: number;

  private constructor(file: BlpkFile) {
    this.file = file;
    this.version = file.header.version === 3 ? 3 : 4;
    this.end = file.size;
  }

  /** Opens a file. Throws `NOT_FOUND`, `UNSUPPORTED` if chunks cannot move in it, and the codes of damage. */
  static async open(store: ReadableStore, key: string, options: StoreOptions = {}): Promise<InPlaceFile> {
    const info = await store.stat(key, options);
    const path = store.describe(key);
    if (info === undefined) throw new SuperchunkError("NOT_FOUND", "the file does not exist", { path });
    const file = await openBlpkFile(store, key, info.size, Number.POSITIVE_INFINITY, options.signal);
    if (file.header.version >= 3 && file.header.offsets && file.metadata?.kind !== "blz-json")
      return new InPlaceFile(file);
    throw new SuperchunkError(
      "UNSUPPORTED",
      `chunks change in place in files of version 3 or 4 with an offsets table and without raw JSON metadata; this one has version ${file.header.version}${file.header.offsets ? "" : " and no offsets"}. Rewrite it`,
      { path, offset: 4, field: "version, options" },
    );
  }

  /**
   * The place of a chunk, which is the `index`-th of its archive (default: of this file), and has `nbytes` decoded bytes
   * (default: according to its header). Throws `BAD_ARGUMENT` if the file has no such chunk.
   */
  async place(
    store: ReadableStore,
    inFile: number,
    { index = inFile, nbytes, signal }: StoreOptions & { readonly index?: number; readonly nbytes?: number },
  ): Promise<PlacedChunk> {
    const { file } = this;
    const { length } = file.starts;
    if (Number.isInteger(inFile) && inFile >= 0 && inFile < length)
      return placeInFile(
        file,
        inFile,
        index,
        nbytes ?? (await readChunkHeader(store, file, inFile, signal)).nbytes,
      );
    throw new SuperchunkError("BAD_ARGUMENT", `chunk ${inFile} does not exist: the file has ${length}`, {
      path: file.path,
      field: "index",
      expected: `0 to ${length - 1}`,
      found: inFile,
    });
  }

  /**
   * Plans new bytes for a chunk (chunk and digest). `store` shows the file with all earlier plans applied; `reserve` is the
   * space to leave after a chunk that moves.
   */
  async plan(
    store: ReadableStore,
    inFile: number,
    place: PlacedChunk,
    bytes: Uint8Array,
    { reserve = 0, signal }: StoreOptions & { readonly reserve?: number },
  ): Promise<PlannedChange> {
    const { file } = this;
    const { header } = await readHead(store, place, signal);
    const before = header.ctbytes + file.digestLength;
    const inSlot = bytes.length <= place.available;
    const over: JournalWrite[] = [];
    const atEnd: JournalWrite[] = [];
    if (inSlot) {
      // The rest of the slot is reserve, which is zero.
      const slot = new Uint8Array(Math.max(bytes.length, before));
      slot.set(bytes);
      over.push({ offset: place.offset, bytes: slot });
    } else {
      const moved = new Uint8Array(bytes.length + reserve);
      moved.set(bytes);
      atEnd.push({ offset: this.end, bytes: moved });
      over.push({ offset: file.tableAt + inFile * OFFSET_LENGTH, bytes: encodeOffsets([this.end]) });
      file.starts[inFile] = this.end;
      this.end += moved.length;
      file.ends[inFile] = this.end;
    }
    if (!inSlot || bytes.length !== before) this.version = 4;
    return { inSlot, atEnd, over };
  }

  /** The write that sets the file's version; none if it stays 3. */
  versionWrites(): readonly JournalWrite[] {
    return this.version === 4 ? [{ offset: VERSION_AT, bytes: Uint8Array.of(4) }] : [];
  }
}
