/**
 * Where a changed chunk goes in its own file: into its slot where it fits, else behind the end. Plans only.
 * @see FORMAT.md [F1.4]
 */

import { type BlpkFile, openBlpkFile, readChunkNbytes } from "../../archive/places/blpk-file.ts";
import { placeInFile } from "../../archive/places/blpk-sequence.ts";
import type { PlacedChunk } from "../../archive/places/sequence.ts";
import { readHead } from "../../archive/read/block-read.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import { encodeOffsets, OFFSET_LENGTH } from "../../format/offsets.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";

/** How a chunk is changed. */
export interface PlannedChange {
  /** It fits into the slot that it had. */
  readonly inSlot: boolean;
  /** Bytes behind the end of the file: nobody looks there before the others are written. */
  readonly behind: readonly JournalWrite[];
  /** Bytes over what is there. */
  readonly over: readonly JournalWrite[];
}

/** Offset of the version in a file's header. */
const VERSION_AT = 4;

export class InPlaceFile {
  readonly file: BlpkFile;
  /** Version of the file, and its size, once all that was planned is written. */
  version: 3 | 4;
  end: number;

  private constructor(file: BlpkFile) {
    this.file = file;
    this.version = file.header.version === 3 ? 3 : 4;
    this.end = file.size;
  }

  /** Opens a file. Throws `NOT_FOUND`, `UNSUPPORTED` for one in which chunks cannot move, and the codes of damage. */
  static async open(store: ReadableStore, key: string, options: StoreOptions = {}): Promise<InPlaceFile> {
    const info = await store.stat(key, options);
    const path = store.describe(key);
    if (info === undefined) throw new SuperchunkError("NOT_FOUND", "there is no such file", { path });
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
   * (default: what its own header says). Throws `BAD_ARGUMENT` where the file has no such chunk.
   */
  async place(
    store: ReadableStore,
    inFile: number,
    { index = inFile, nbytes, signal }: StoreOptions & { readonly index?: number; readonly nbytes?: number },
  ): Promise<PlacedChunk> {
    const { file } = this;
    const { length } = file.starts;
    if (Number.isInteger(inFile) && inFile >= 0 && inFile < length)
      return placeInFile(file, inFile, index, nbytes ?? (await readChunkNbytes(store, file, inFile, signal)));
    throw new SuperchunkError("BAD_ARGUMENT", `there is no chunk ${inFile}: the file has ${length}`, {
      path: file.path,
      field: "index",
      expected: `0 to ${length - 1}`,
      found: inFile,
    });
  }

  /**
   * Plans that a chunk gets other bytes (chunk and digest). `store` shows the file with all that was planned before;
   * `reserve` is the room to leave behind a chunk that moves.
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
    const behind: JournalWrite[] = [];
    if (inSlot) {
      // What is left of the slot is reserve, which is zero.
      const slot = new Uint8Array(Math.max(bytes.length, before));
      slot.set(bytes);
      over.push({ offset: place.offset, bytes: slot });
    } else {
      const moved = new Uint8Array(bytes.length + reserve);
      moved.set(bytes);
      behind.push({ offset: this.end, bytes: moved });
      over.push({ offset: file.tableAt + inFile * OFFSET_LENGTH, bytes: encodeOffsets([this.end]) });
      file.starts[inFile] = this.end;
      this.end += moved.length;
      file.ends[inFile] = this.end;
    }
    if (!inSlot || bytes.length !== before) this.version = 4;
    return { inSlot, behind, over };
  }

  /** The write that gives the file its version; none where a change leaves it 3. */
  versionWrites(): readonly JournalWrite[] {
    return this.version === 4 ? [{ offset: VERSION_AT, bytes: Uint8Array.of(4) }] : [];
  }
}
