/**
 * A folder whose files are not replaced meanwhile: each is opened once, and read without looking at its path again.
 *
 * For walks over thousands of chunk headers while a lock is held. Small reads are made at once, in the calling thread. Knows
 * open files; must not know what they hold.
 */
import * as fs from "node:fs";
import { checkRange } from "../../store/range.ts";
import type { ByteRange, ObjectInfo, StoreOptions } from "../../store/types.ts";
import { allocateTarget, Handles, readFullySync } from "./fs-handles.ts";
import { describeFile } from "./fs-publish.ts";
import { FolderReader } from "./fs-reader.ts";

/** Files kept open, and bytes that are read at once from one of them. */
const MAX_OPEN = 64;
const SMALL = 1 << 20;

/** The objects of a folder, as they were when they were first looked at. */
export class SteadyStore extends FolderReader {
  constructor(root: string) {
    super(root, {}, new Handles(MAX_OPEN, true));
  }

  override async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    options?.signal?.throwIfAborted();
    const size = this.usingNow(key, "reading", (handle) => handle.size);
    if (size === undefined || size > SMALL) return super.get(key, options);
    return this.#readNow(key, 0, size);
  }

  override async getRange(
    key: string,
    range: ByteRange,
    options?: StoreOptions,
  ): Promise<Uint8Array | undefined> {
    if (!("offset" in range) || range.length > SMALL) return super.getRange(key, range, options);
    checkRange(range, this.describe(key));
    options?.signal?.throwIfAborted();
    return this.#readNow(key, range.offset, range.length);
  }

  override async readInto(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined> {
    if (target.length > SMALL) return super.readInto(key, offset, target, options);
    options?.signal?.throwIfAborted();
    return this.readIntoSync(key, offset, target);
  }

  override async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    options?.signal?.throwIfAborted();
    return this.usingNow(key, "looking at it", ({ fd, info }) =>
      describeFile("mtimeNs" in info ? info : fs.fstatSync(fd, { bigint: true })),
    );
  }

  /** `length` bytes at each of the offsets, one behind the other; undefined where the object is absent or ends before. */
  readEach(key: string, offsets: readonly number[], length: number): Uint8Array | undefined {
    return this.usingNow(key, "reading", ({ fd }) => {
      const bytes = new Uint8Array(offsets.length * length);
      let at = 0;
      for (const offset of offsets) {
        if (readFullySync(fd, offset, bytes, at, length) < length) return undefined;
        at += length;
      }
      return bytes;
    });
  }

  #readNow(key: string, offset: number, length: number): Uint8Array | undefined {
    const bytes = allocateTarget(length);
    const read = this.readIntoSync(key, offset, bytes);
    if (read === undefined) return undefined;
    return read === length ? bytes : bytes.subarray(0, read);
  }
}
