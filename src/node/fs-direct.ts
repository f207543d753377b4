/**
 * Writing long files past the system's page cache, from memory that is aligned as the system wants it.
 *
 * Through the cache, every page of a new file is first found and cleared, then filled, then written: where the system has to
 * get those pages anew that takes several times as long as the disk. Knows alignment and refusals; must not know names.
 */
import * as fs from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { systemCode } from "./fs-errors.ts";
import { writeFully } from "./fs-write.ts";

/**
 * Bytes of a stage: one is filled while the other is written. A file that does not fill one goes through the cache:
 * small files are often read again soon, those of merges for example.
 */
export const STAGE: number = 4 << 20;
/** Offsets, lengths and addresses of direct writes are multiples of this: the page, and the largest usual sector. */
const ALIGNMENT = 4096;
/** Stages of files that are done, kept for the next ones. */
const MAX_IDLE = 2;
/** Whether the file system of a store takes direct writes, as far as was seen: one that refused is not asked again. */
export class DirectAccess {
  readonly #flag: number;
  #isRefused: boolean;

  /** `flag` opens files for direct writes; 0 on systems that have none, which are all but Linux. */
  constructor(flag: number = fs.constants.O_DIRECT ?? 0) {
    this.#flag = flag;
    this.#isRefused = flag === 0;
  }

  /** False where it is known that files have to go through the cache. */
  get isWorthTrying(): boolean {
    return !this.#isRefused;
  }

  /** Opens a file for direct writes a second time; undefined where that is not possible. */
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

/** True where an error says that there is no such direct write. */
function isRefusal(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EINVAL" || code === "ENOTSUP" || code === "EOPNOTSUPP";
}

/** Two buffers of {@link STAGE} bytes that begin at pages. */
type Stages = readonly [Uint8Array, Uint8Array];

const idle: Stages[] = [];

/**
 * Only the memory of WebAssembly is sure to begin at a page: that of other buffers begins where the allocator likes.
 * Undefined where the process may have no more addresses.
 */
function takeStages(): Stages | undefined {
  const kept = idle.pop();
  if (kept !== undefined) return kept;
  const pages = (2 * STAGE) / 65_536;
  try {
    const { buffer } = new WebAssembly.Memory({ initial: pages, maximum: pages });
    return [new Uint8Array(buffer, 0, STAGE), new Uint8Array(buffer, STAGE, STAGE)];
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Writes one file from its start: through stages, of which one is filled while the other is written. */
export class DirectWriter {
  size = 0;
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #access: DirectAccess;
  #stages: Stages | undefined;
  /** The one that is being filled, and how far. */
  #current = 0;
  #filled = 0;
  /** The write of each stage; never rejects. */
  readonly #writing: [Promise<void>, Promise<void>] = [Promise.resolve(), Promise.resolve()];
  /** The same file, open for direct writes. */
  #direct: FileHandle | undefined;
  #failure: { readonly error: unknown } | undefined;

  private constructor(file: FileHandle, path: string, access: DirectAccess, stages: Stages) {
    this.#file = file;
    this.#path = path;
    this.#access = access;
    this.#stages = stages;
  }

  /** `file` is new and open for writing, at `path`. Undefined where the process has no memory for it. */
  static make(file: FileHandle, path: string, access: DirectAccess): DirectWriter | undefined {
    const stages = takeStages();
    return stages === undefined ? undefined : new DirectWriter(file, path, access, stages);
  }

  /** Takes a piece, which is its maker's again when this resolves. */
  async write(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      const stage = this.#stage;
      const length = Math.min(stage.length - this.#filled, piece.length - at);
      stage.set(piece.subarray(at, at + length), this.#filled);
      this.#filled += length;
      at += length;
      if (this.#filled === stage.length) await this.#send();
    }
  }

  /** Writes what is left. Then {@link settle} is still to be called. */
  async finish(): Promise<void> {
    const last = this.#stage.subarray(0, this.#filled);
    // What does not fill a page goes through the cache, and so does a file that never filled a stage.
    const whole = this.#direct === undefined ? 0 : last.length - (last.length % ALIGNMENT);
    if (whole > 0) await this.#write(last.subarray(0, whole), this.size);
    await this.#awaitWrites();
    await writeFully(this.#file, last.subarray(whole), this.size + whole);
    this.size += last.length;
    this.#filled = 0;
  }

  /** Waits for all that began, also failed writes, and gives back what it took; it is over then. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
    if (this.#stages !== undefined && idle.length < MAX_IDLE) idle.push(this.#stages);
    this.#stages = undefined;
    const direct = this.#direct;
    this.#direct = undefined;
    await direct?.close();
  }

  get #stage(): Uint8Array {
    const stage = this.#stages?.[this.#current];
    if (stage === undefined) throw new RangeError("the writer has settled");
    return stage;
  }

  /** Begins to write the full stage, and goes on with the other one once that is free. */
  async #send(): Promise<void> {
    const stage = this.#stage;
    const position = this.size;
    if (position === 0) {
      this.#direct = await this.#access.open(this.#path);
      // Alone, for it may find out that it cannot be done so.
      await this.#write(stage, position);
    } else {
      this.#writing[this.#current === 0 ? 0 : 1] = this.#write(stage, position).catch((error: unknown) => {
        this.#failure ??= { error };
      });
    }
    this.size += stage.length;
    this.#filled = 0;
    this.#current = 1 - this.#current;
    await this.#writing[this.#current === 0 ? 0 : 1];
    this.#throwFailure();
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

  async #awaitWrites(): Promise<void> {
    await Promise.all(this.#writing);
    this.#throwFailure();
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
