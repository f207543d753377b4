/**
 * Writes files, long ones past the system's page cache, and publishes them under their names.
 *
 * Direct writes need memory with a certain alignment. Through the cache, every page of a new file is first allocated and cleared,
 * then filled, then written. If the system has to reclaim those pages, this takes several times as long as the disk. Knows
 * alignment and refusals; must not know what is written.
 */

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { encodeIntoPlaces } from "../../codec/encode/encode-kernel.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { rethrowAfter } from "../../store/pool.ts";
import type { PieceRooms } from "../../store/source.ts";
import type { Draft, ObjectInfo } from "../../store/types.ts";
import { type Folders, joinPath, renameWhenFree, syncAll } from "./fs-folders.ts";
import { describeUnnamed, isHandleShortage, lacksHardLinks, systemCode } from "./fs-handles.ts";

/**
 * Bytes of a stage: one is filled while the other is written. A file that does not fill one goes through the cache, because
 * small files, such as those of merges, are often read again soon.
 */
export const STAGE: number = 2 << 20;
/** Bytes after a stage, so that a piece made in it may pass the stage's end. Untouched memory costs nothing. */
const BEHIND = (4 << 20) + 65_536;
/** Offsets, lengths and addresses of direct writes must be multiples of this: the page size, and the largest usual sector. */
const ALIGNMENT = 4096;
/** Stages of finished files to keep for the next ones: as many as a thread writes at a time. */
const MAX_IDLE = 4;

/** Whether the file system of a store accepts direct writes. After one refusal it is not tried again. */
export class DirectAccess {
  readonly #flag: number;
  #isRefused: boolean;

  /** `flag` opens files for direct writes; 0 on systems without them, which are all but Linux. */
  constructor(flag: number = fs.constants.O_DIRECT ?? 0) {
    this.#flag = flag;
    this.#isRefused = flag === 0;
  }

  /** False if files are known to have to go through the cache. */
  get isWorthTrying(): boolean {
    return !this.#isRefused;
  }

  /** Opens a file a second time, for direct writes; undefined if that is not possible. */
  open(path: string): number | undefined {
    try {
      return fs.openSync(path, fs.constants.O_WRONLY | fs.constants.O_NOFOLLOW | this.#flag);
    } catch (error) {
      // The file is already open and can be written through the cache, whatever the reason: too many files, or no access
      // because of the umask.
      if (isRefusal(error)) this.noteRefusal();
      return undefined;
    }
  }

  noteRefusal(): void {
    this.#isRefused = true;
  }
}

/** True if an error means that the system cannot write directly. */
function isRefusal(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EINVAL" || code === "ENOTSUP" || code === "EOPNOTSUPP";
}

/** Shorter files wait in memory of this size, because streams do not announce their length. */
const MIN_STAGED = 1 << 20;
/** Size of the first buffer: clearing a larger one would take longer than writing a small file. */
const FIRST_STAGED = 1 << 15;

interface Stages {
  readonly buffers: readonly [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>];
  /** True if they begin at pages. */
  readonly isAligned: boolean;
  /** True if chunks can be encoded in them, with {@link BEHIND} bytes after each. */
  readonly hasKernel: boolean;
}

const idle: Stages[] = [];
/** First buffers for reuse, because very many files are small. */
const idleFirst: Uint8Array<ArrayBuffer>[] = [];

/** Stages of a finished file; undefined if there are none, or none that has the kernel needed. */
function takeIdle(needsKernel: boolean): Stages | undefined {
  const at = idle.findIndex(({ hasKernel }) => hasKernel || !needsKernel);
  return at < 0 ? undefined : idle.splice(at, 1)[0];
}

/**
 * WebAssembly memory, because only that is sure to begin at a page; other buffers begin wherever the allocator puts them. It
 * is the memory of a kernel if chunks are encoded where they are written from. Others are smaller: the engine collects garbage more
 * often if much memory is outside of its heap.
 */
function makeStages(hasKernel: boolean): Stages {
  const length = hasKernel ? STAGE + BEHIND : STAGE;
  try {
    return { buffers: hasKernel ? encodeIntoPlaces(length) : plainPlaces(), isAligned: true, hasKernel };
  } catch (error) {
    // A process may have a limited address space, and engines reserve much of it for each such memory.
    if (!(error instanceof RangeError || isSuperchunkError(error, "LIMIT"))) throw error;
    return { buffers: [new Uint8Array(length), new Uint8Array(length)], isAligned: false, hasKernel };
  }
}

function plainPlaces(): Stages["buffers"] {
  const { buffer } = new WebAssembly.Memory({ initial: (2 * STAGE) / 65_536 });
  return [new Uint8Array(buffer, 0, STAGE), new Uint8Array(buffer, STAGE, STAGE)];
}

/** Writes one file from its start, through two stages: one is filled while the other is written. */
export class DirectWriter {
  size = 0;
  readonly #file: number;
  readonly #path: string;
  readonly #access: DirectAccess;
  #stages: Stages | undefined;
  /** The buffer being filled, and its filled bytes: a stage, or a smaller buffer before there are stages. */
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  #filled = 0;
  /** Index of the stage being filled. */
  #current: 0 | 1 = 0;
  /** The write of each stage; never rejects. */
  readonly #writing: [Promise<void>, Promise<void>] = [Promise.resolve(), Promise.resolve()];
  /** The same file, open for direct writes. */
  #direct: number | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Whether the source has asked for rooms, and so encodes in them. */
  #needsKernel = false;

  /** `file` is new and open for writing, at `path`. */
  constructor(file: number, path: string, access: DirectAccess) {
    this.#file = file;
    this.#path = path;
    this.#access = access;
  }

  /** Memory for the next piece: in the stage, once there is one. */
  readonly rooms: PieceRooms = {
    take: (length) => {
      this.#needsKernel = true;
      const end = this.#filled + length;
      if (this.#stages === undefined || end > this.#buffer.length) return undefined;
      return this.#buffer.subarray(this.#filled, end);
    },
  };

  /** Takes a piece. The producer may reuse it when this has returned, or when what it returned resolves. */
  write(piece: Uint8Array): Promise<void> | undefined {
    if (this.#stages === undefined) this.#makeRoom(piece.length);
    const { buffer, byteOffset } = this.#buffer;
    const isInPlace = piece.buffer === buffer && piece.byteOffset === byteOffset + this.#filled;
    if (!isInPlace && this.#filled + piece.length >= STAGE) return this.#fill(piece);
    if (!isInPlace) this.#buffer.set(piece, this.#filled);
    this.#filled += piece.length;
    return this.#filled >= STAGE ? this.#send() : undefined;
  }

  /** Takes a piece that fills the stage, and perhaps more of them. */
  async #fill(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      const length = Math.min(STAGE - this.#filled, piece.length - at);
      this.#buffer.set(piece.subarray(at, at + length), this.#filled);
      this.#filled += length;
      at += length;
      if (this.#filled === STAGE) await this.#send();
    }
  }

  /** Makes room for the next piece before there are stages. */
  #makeRoom(length: number): void {
    if (this.#filled + length <= this.#buffer.length) return;
    const before = this.#buffer.subarray(0, this.#filled);
    const wanted = this.#filled + length;
    if (wanted <= FIRST_STAGED) this.#buffer = idleFirst.pop() ?? new Uint8Array(FIRST_STAGED);
    else {
      this.#stages = takeIdle(this.#needsKernel);
      if (wanted > MIN_STAGED) this.#stages ??= makeStages(this.#needsKernel);
      this.#buffer = this.#stages?.buffers[0] ?? new Uint8Array(MIN_STAGED);
    }
    this.#buffer.set(before);
  }

  /** Writes the rest. {@link settle} must be called after it. */
  async finish(): Promise<void> {
    const last = this.#buffer.subarray(0, this.#filled);
    // The part after the last whole page goes through the cache, and so does a file that never filled a stage.
    const whole = this.#direct === undefined ? 0 : last.length - (last.length % ALIGNMENT);
    if (whole > 0) await this.#write(last.subarray(0, whole), this.size);
    // A write through the cache waits in this thread until the direct ones are done, so that these come first.
    await Promise.all(this.#writing);
    this.#throwFailure();
    await writeFully(this.#file, last.subarray(whole), this.size + whole);
    this.size += last.length;
    this.#filled = 0;
  }

  /** Waits for everything that was started, also failed writes, and gives the memory back. The writer cannot be used after this. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
    const first = this.#buffer;
    this.#buffer = new Uint8Array(0);
    if (first.length === FIRST_STAGED && idleFirst.length < MAX_IDLE) idleFirst.push(first);
    if (this.#stages !== undefined && idle.length < MAX_IDLE) idle.push(this.#stages);
    this.#stages = undefined;
    const direct = this.#direct;
    this.#direct = undefined;
    if (direct !== undefined) fs.closeSync(direct);
  }

  /** Starts writing the whole pages of the full stage, and continues with the other stage once it is free. */
  async #send(): Promise<void> {
    const rest = this.#buffer.subarray(this.#filled - (this.#filled % ALIGNMENT), this.#filled);
    const stage = this.#buffer.subarray(0, this.#filled - rest.length);
    const position = this.size;
    if (position === 0 && this.#stages?.isAligned === true) this.#direct = this.#access.open(this.#path);
    this.#writing[this.#current] = this.#write(stage, position).catch((error: unknown) => {
      this.#failure ??= { error };
    });
    this.size += stage.length;
    this.#filled = rest.length;
    this.#current = this.#current === 0 ? 1 : 0;
    this.#buffer = this.#stages?.buffers[this.#current] ?? this.#buffer;
    await this.#writing[this.#current];
    this.#throwFailure();
    this.#buffer.set(rest);
  }

  async #write(bytes: Uint8Array, position: number): Promise<void> {
    const direct = this.#direct;
    if (direct === undefined) return writeFully(this.#file, bytes, position);
    let done = 0;
    try {
      while (done < bytes.length) done += await writeSome(direct, bytes.subarray(done), position + done);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (position + done === 0) this.#access.noteRefusal();
      // After a partial write, the offset may not be aligned for another direct write. The write through the cache reports
      // the real error, if there is one.
      await writeFully(this.#file, bytes.subarray(done), position + done);
    }
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}

// Writes all of some bytes, in as many calls as the system needs. Must not know their source.

/** Bytes per call: below the system's limit (2 GiB). */
const MAX_CALL = 64 << 20;
/** Up to this many bytes, the system copies faster than another thread can be woken. */
const FEW_BYTES = 64 << 10;

/** Writes all of `bytes` at `position`, in as many calls as needed; a few bytes synchronously. */
export async function writeFully(
  file: number,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  if (bytes.length <= FEW_BYTES) return writeFullySync(file, bytes, position);
  for (let done = 0; done < bytes.length; ) {
    signal?.throwIfAborted();
    done += await writeSome(file, bytes.subarray(done, done + MAX_CALL), position + done);
  }
}

/** Writes on another thread. Resolves with the number of bytes that the system took. */
function writeSome(file: number, bytes: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(file, bytes, 0, bytes.length, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}

/**
 * The same for a file that others read. The bytes that make it longer are written first. If writing fails, as on a full disk,
 * they are cut off again, so the file is unchanged also for readers that begin at its end, such as those of a shard's index.
 */
export async function writeIntoFile(
  file: number,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  const { size } = fs.fstatSync(file);
  const inside = Math.min(bytes.length, Math.max(0, size - position));
  try {
    if (inside < bytes.length) await writeFully(file, bytes.subarray(inside), position + inside, signal);
  } catch (error) {
    cutTo(file, size);
    throw error;
  }
  await writeFully(file, bytes.subarray(0, inside), position);
}

function cutTo(file: number, size: number): void {
  try {
    if (fs.fstatSync(file).size > size) fs.ftruncateSync(file, size);
  } catch {
    // The reason why writing failed is the error to report.
  }
}

/** The same synchronously, for a few bytes. */
export function writeFullySync(file: number, bytes: Uint8Array, position: number): void {
  let done = 0;
  while (done < bytes.length)
    done += fs.writeSync(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
}

// Publishes a file: complete under its name, or not at all.
//
// The only place where a written file gets its name: the temporary beside the target is written, synced and closed, then
// renamed (or linked, if the name must be new), then the folder is synced. Only calls that wait for the disk leave the
// thread.

/** `.name.<mark>.tmp`; the mark is 16 hexadecimal digits. */
const TEMPORARY = /^\..*\.[0-9a-f]{16}\.tmp$/s;
/** Most bytes of a name that leave room for the dots, the mark and `.tmp` in the 255 bytes of most file systems. */
const MAX_NAME = 255 - 22;

/** A file to publish. */
export interface Publication {
  /** Real path of the folder. */
  readonly folder: string;
  readonly name: string;
  /** Path as messages name it. */
  readonly shown: string;
  /** Set if the file must be durable when published: the folders that its folder belongs to. */
  readonly durableIn: Folders | undefined;
  /** Set if the name must be free: runs `work` while no other writer has claimed the name. */
  readonly ifAbsent?: ((work: () => Promise<void>) => Promise<void>) | undefined;
  readonly ifVersion?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Mark of the temporary's name, instead of a random one: 16 hexadecimal digits. */
  readonly mark?: string | undefined;
  /** Returns the version that readers see under the name now, following links. */
  findVersion?(): string | undefined;
  /** Writes the bytes into the temporary, which is empty and open for reading and writing. */
  write(file: number, path: string): Promise<unknown>;
  /** Called right before the name is replaced, to close open handles of the old file. */
  beforeReplace?(path: string): void;
  /** Called if too many files are open; the opening is then tried once more. */
  freeHandles?(): void;
}

/** True for the name of a temporary file of a put; with `of`, of a put of one of these names. */
export function isTemporary(name: string, of?: ReadonlySet<string>): boolean {
  return TEMPORARY.test(name) && (of === undefined || of.has(name.slice(1, -".0123456789abcdef.tmp".length)));
}

const MARK = 8;
/** Random bytes for the next marks: drawing them one by one takes about as long as everything else in writing a small file. */
let drawn = Buffer.alloc(0);

/** 16 random hexadecimal digits that identify the temporaries of one writer. */
export function newMark(): string {
  if (drawn.length < MARK) drawn = randomBytes(128 * MARK);
  const mark = drawn.toString("hex", 0, MARK);
  drawn = drawn.subarray(MARK);
  return mark;
}

export function temporaryName(name: string, mark: string = newMark()): string {
  let kept = name;
  while (Buffer.byteLength(kept) > MAX_NAME) kept = kept.slice(0, -1);
  return `.${kept}.${mark}.tmp`;
}

/**
 * Writes a file under a temporary name; the draft then publishes its own. On any failure or abort the temporary is removed and the old file
 * stays.
 *
 * `ifAbsent` is exact: creating the hard link fails if the name exists. On a file system without hard links (FAT, exFAT, many network drives),
 * and for `ifVersion`, the name is looked at right before the rename, because no file system can compare and swap; the store lets one writer
 * at a time do that.
 *
 * @throws CONFLICT if a condition fails
 */
export async function draftFile(publication: Publication): Promise<Draft> {
  const { folder, name, durableIn } = publication;
  const target = joinPath(folder, name);
  durableIn?.durability.assert(); // early, so that nothing is written in vain
  if (publication.ifAbsent !== undefined || publication.ifVersion !== undefined)
    checkTarget(publication, target);
  const temporary = joinPath(folder, temporaryName(name, publication.mark));
  const file = openNew(temporary, publication);
  const removing = <T>(work: Promise<T>): Promise<T> =>
    // The first error is the one to report.
    work.catch(rethrowAfter(() => fs.promises.rm(temporary, { force: true }).catch(() => undefined)));
  const info = await removing(writeNew(file, temporary, publication));
  return {
    publish: async () => {
      await removing(giveName(temporary, target, publication));
      if (publication.ifAbsent !== undefined) await fs.promises.rm(temporary, { force: true });
      await durableIn?.sync(folder);
      return info;
    },
    discard: () => fs.promises.rm(temporary, { force: true }),
  };
}

async function writeNew(file: number, path: string, publication: Publication): Promise<ObjectInfo> {
  try {
    await publication.write(file, path);
    if (publication.durableIn !== undefined) await syncAll(file);
    return describeUnnamed(fs.fstatSync(file, { bigint: true }));
  } finally {
    fs.closeSync(file);
  }
}

async function giveName(temporary: string, target: string, publication: Publication): Promise<void> {
  publication.signal?.throwIfAborted();
  const replace = () =>
    renameWhenFree(() => {
      checkTarget(publication, target);
      publication.beforeReplace?.(target);
      fs.renameSync(temporary, target);
    });
  if (publication.ifAbsent === undefined) return replace();
  checkTarget(publication, target);
  if (!(await linkNew(temporary, target, publication.shown))) await publication.ifAbsent(replace);
}

function openNew(path: string, publication: Publication): number {
  publication.signal?.throwIfAborted();
  try {
    return fs.openSync(path, "wx+");
  } catch (error) {
    if (!isHandleShortage(error)) throw error;
    publication.freeHandles?.();
    return fs.openSync(path, "wx+");
  }
}

function checkTarget(publication: Publication, target: string): void {
  const { shown, ifAbsent, ifVersion } = publication;
  const info = fs.lstatSync(target, { throwIfNoEntry: false });
  if (info?.isDirectory())
    throw new SuperchunkError(
      "CONFLICT",
      "a folder is there, where a file is to be written; name another place, or remove it",
      { path: shown },
    );
  if (ifAbsent !== undefined && info !== undefined)
    throw new SuperchunkError("CONFLICT", "the object exists already", { path: shown });
  if (ifVersion !== undefined) assertVersion(shown, ifVersion, publication.findVersion?.());
}

/** Throws `CONFLICT` if the versions differ. */
export function assertVersion(path: string, expected: string, found: string | undefined): void {
  if (found !== expected)
    throw new SuperchunkError("CONFLICT", "another writer changed the object", { path, expected, found });
}

/** Gives a file its name unless that exists. Returns false on a file system without hard links. */
async function linkNew(temporary: string, target: string, shown: string): Promise<boolean> {
  try {
    await fs.promises.link(temporary, target);
    return true;
  } catch (error) {
    // Over NFS the reply to a successful link can get lost, and the call be repeated.
    if (systemCode(error) === "EEXIST" && isSame(temporary, target)) return true;
    if (systemCode(error) === "EEXIST")
      throw new SuperchunkError("CONFLICT", "the object exists already", { path: shown, cause: error });
    if (lacksHardLinks(error)) return false;
    throw error;
  }
}

function isSame(a: string, b: string): boolean {
  const [one, other] = [a, b].map((path) => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  return one !== undefined && other !== undefined && one.ino === other.ino && one.dev === other.dev;
}
