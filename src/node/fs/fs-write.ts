/**
 * Writing long files past the system's page cache, from memory that is aligned as the system wants it.
 *
 * Through the cache, every page of a new file is first found and cleared, then filled, then written: where the system has to
 * get those pages again that takes several times as long as the disk. Knows alignment and refusals; must not know names.
 */
import * as fs from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { encodePlaces } from "../../codec/encode/encode-kernel.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { PieceRooms } from "../../store/types.ts";
import { systemCode } from "./fs-open.ts";

/**
 * Bytes of a stage: one is filled while the other is written. A file that does not fill one goes through the cache:
 * small files are often read again soon, those of merges for example.
 */
export const STAGE: number = 2 << 20;
/** Bytes behind a stage, so that a piece that is made in it need not end where the stage does. Nobody pays for what is not used. */
const BEHIND = (4 << 20) + 65_536;
/** Offsets, lengths and addresses of direct writes are multiples of this: the page, and the largest usual sector. */
const ALIGNMENT = 4096;
/** Stages of files that are done, kept for the next ones: as many as a thread writes at a time. */
const MAX_IDLE = 4;

/** Whether the file system of a store takes direct writes, as far as was seen: one that refused is not asked again. */
export class DirectAccess {
  readonly #flag: number;
  #isRefused: boolean;

  /** `flag` opens files for direct writes; 0 on systems that have none, which are all but Linux. */
  constructor(flag: number = fs.constants.O_DIRECT ?? 0) {
    this.#flag = flag;
    this.#isRefused = flag === 0;
  }

  /** False if it is known that files have to go through the cache. */
  get isWorthTrying(): boolean {
    return !this.#isRefused;
  }

  /** Opens a file for direct writes a second time; undefined if that is not possible. */
  async open(path: string): Promise<FileHandle | undefined> {
    try {
      return await fs.promises.open(path, fs.constants.O_WRONLY | fs.constants.O_NOFOLLOW | this.#flag);
    } catch (error) {
      // Whatever it was, the file is open already, and can be written as ever: too many files, say, or no access by a mask.
      if (isRefusal(error)) this.noteRefusal();
      return undefined;
    }
  }

  /** The file system has no direct writes. */
  noteRefusal(): void {
    this.#isRefused = true;
  }
}

/** True if an error says that the system cannot write directly in this way. */
function isRefusal(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EINVAL" || code === "ENOTSUP" || code === "EOPNOTSUPP";
}

/** What is shorter waits in memory of this many bytes: streams do not say how long they will be. */
const MIN_STAGED = 1 << 20;
/** And before that in so many: clearing more would cost a small file more than all the rest. */
const FIRST_STAGED = 1 << 15;

/** Two buffers of {@link STAGE} bytes and {@link BEHIND} more. */
interface Stages {
  readonly buffers: readonly [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>];
  /** They begin at pages. */
  readonly isAligned: boolean;
}

const idle: Stages[] = [];
/** What files were begun in that did not need more: very many small ones use the same again. */
const idleFirst: Uint8Array<ArrayBuffer>[] = [];

/**
 * Memory of WebAssembly: only that is sure to begin at a page, that of other buffers begins where the allocator likes. It is
 * a kernel's, so that chunks are encoded where they are written from.
 */
function takeStages(): Stages {
  const kept = idle.pop();
  if (kept !== undefined) return kept;
  const length = STAGE + BEHIND;
  try {
    return { buffers: encodePlaces(length), isAligned: true };
  } catch (error) {
    // Where a process may have few addresses: engines reserve many for each such memory.
    if (!(error instanceof RangeError || isSuperchunkError(error, "LIMIT"))) throw error;
    return { buffers: [new Uint8Array(length), new Uint8Array(length)], isAligned: false };
  }
}

/** Writes one file from its start: through stages, of which one is filled while the other is written. */
export class DirectWriter {
  size = 0;
  readonly #file: number;
  readonly #path: string;
  readonly #access: DirectAccess;
  #stages: Stages | undefined;
  /** What is being filled, and how far: a stage, or before there are any something smaller. */
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  #filled = 0;
  /** The stage that is being filled. */
  #current: 0 | 1 = 0;
  /** The write of each stage; never rejects. */
  readonly #writing: [Promise<void>, Promise<void>] = [Promise.resolve(), Promise.resolve()];
  /** The same file, open for direct writes. */
  #direct: FileHandle | undefined;
  #failure: { readonly error: unknown } | undefined;

  /** `file` is new and open for writing, at `path`. */
  constructor(file: number, path: string, access: DirectAccess) {
    this.#file = file;
    this.#path = path;
    this.#access = access;
  }

  /** Where the next piece goes: in the stage, once there is one. */
  readonly rooms: PieceRooms = {
    take: (length) => {
      const end = this.#filled + length;
      if (this.#stages === undefined || end > this.#buffer.length) return undefined;
      return this.#buffer.subarray(this.#filled, end);
    },
  };

  /** Takes a piece, which is its maker's again when this resolves. */
  async write(piece: Uint8Array): Promise<void> {
    if (this.#stages === undefined) this.#makeRoom(piece.length);
    else if (this.#isInPlace(piece)) {
      this.#filled += piece.length;
      if (this.#filled >= STAGE) await this.#send();
      return;
    }
    for (let at = 0; at < piece.length; ) {
      const length = Math.min(STAGE - this.#filled, piece.length - at);
      this.#buffer.set(piece.subarray(at, at + length), this.#filled);
      this.#filled += length;
      at += length;
      if (this.#filled === STAGE) await this.#send();
    }
  }

  #isInPlace({ buffer, byteOffset }: Uint8Array): boolean {
    return buffer === this.#buffer.buffer && byteOffset === this.#buffer.byteOffset + this.#filled;
  }

  /** Room for the next piece, as long as there are no stages. */
  #makeRoom(length: number): void {
    if (this.#filled + length <= this.#buffer.length) return;
    const before = this.#buffer.subarray(0, this.#filled);
    const wanted = this.#filled + length;
    if (wanted <= MIN_STAGED)
      this.#buffer =
        wanted <= FIRST_STAGED
          ? (idleFirst.pop() ?? new Uint8Array(FIRST_STAGED))
          : new Uint8Array(MIN_STAGED);
    else {
      this.#stages = takeStages();
      [this.#buffer] = this.#stages.buffers;
    }
    this.#buffer.set(before);
  }

  /** Writes what is left. Then {@link settle} is still to be called. */
  async finish(): Promise<void> {
    const last = this.#buffer.subarray(0, this.#filled);
    // What does not fill a page goes through the cache, and so does a file that never filled a stage.
    const whole = this.#direct === undefined ? 0 : last.length - (last.length % ALIGNMENT);
    if (whole > 0) await this.#write(last.subarray(0, whole), this.size);
    await writeFully(this.#file, last.subarray(whole), this.size + whole);
    this.size += last.length;
    this.#filled = 0;
    await Promise.all(this.#writing);
    this.#throwFailure();
  }

  /** Waits for all that began, also failed writes, and gives back what it took; it is over then. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
    const first = this.#buffer;
    this.#buffer = new Uint8Array(0);
    if (first.length === FIRST_STAGED && idleFirst.length < MAX_IDLE) idleFirst.push(first);
    if (this.#stages !== undefined && idle.length < MAX_IDLE) idle.push(this.#stages);
    this.#stages = undefined;
    const direct = this.#direct;
    this.#direct = undefined;
    await direct?.close();
  }

  /** Begins to write the whole pages of the full stage, and goes on with the other one once that is free. */
  async #send(): Promise<void> {
    const rest = this.#buffer.subarray(this.#filled - (this.#filled % ALIGNMENT), this.#filled);
    const stage = this.#buffer.subarray(0, this.#filled - rest.length);
    const position = this.size;
    if (position === 0) {
      if (this.#stages?.isAligned === true) this.#direct = await this.#access.open(this.#path);
      // Alone, for it may find out that it cannot be done so.
      await this.#write(stage, position);
    } else {
      this.#writing[this.#current] = this.#write(stage, position).catch((error: unknown) => {
        this.#failure ??= { error };
      });
    }
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
      while (done < bytes.length) {
        const { bytesWritten } = await direct.write(bytes, done, bytes.length - done, position + done);
        done += bytesWritten;
      }
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (position + done === 0) this.#access.noteRefusal();
      // Behind a part that was written no direct write may be able to begin: the cache tells what is really wrong.
      await writeFully(this.#file, bytes.subarray(done), position + done);
    }
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}

// Writing all of some bytes, however many calls the system takes for it. Must not know where they come from.

/** Bytes handed over in one call: below the limit of the system (2 GiB). */
const MAX_CALL = 64 << 20;
/** So few are copied by the system sooner than another thread is woken for it. */
const FEW_BYTES = 64 << 10;

/** Writes all of `bytes` at `position`, however many calls it takes; a few at once. */
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
    done += await writeOnce(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
  }
}

function writeOnce(
  file: number,
  bytes: Uint8Array,
  at: number,
  length: number,
  position: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(file, bytes, at, length, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}

/**
 * The same for a file that others read. What makes it longer is written first, and cut off again where writing fails, as
 * on a full disk: the file is then what it was, also for who reads it from its end, such as the index of a shard.
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
    // What kept from writing is the error to tell.
  }
}

/** The same at once, for a few bytes. */
export function writeFullySync(file: number, bytes: Uint8Array, position: number): void {
  let done = 0;
  while (done < bytes.length) {
    done += fs.writeSync(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
  }
}
