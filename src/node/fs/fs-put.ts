/**
 * Writing pieces to an open file one behind another.
 *
 * Knows short writes, gathering and writing behind; must not know names.
 */
import { offerRooms, readPieces } from "../../store/source.ts";
import type { PieceRooms, PutSource } from "../../store/types.ts";
import { type DirectAccess, DirectWriter, STAGE } from "./fs-direct.ts";
import { syncBytes } from "./fs-sync.ts";
import { writeFully } from "./fs-write.ts";

/** Small pieces are gathered to this many bytes, if there are so many, before they are written. */
const GATHER = 1 << 20;
/** From this size a piece is written from where it lies. */
const BIG = 128 << 10;
/** Bytes that may wait to be written, of stable pieces. */
const MAX_BEHIND = 16 << 20;
/**
 * Bytes after which the disk is set to work on what was written, beside the writing: the sync at the end then has
 * little left to do. Measured on 512 MiB: 10 to 15 % less time than one sync at the end.
 */
const SYNC_EVERY = 32 << 20;

/** How a source is written. */
export interface WriteOptions {
  /** Where the file is. */
  readonly path: string;
  /** The maker never writes into a piece that it handed over. */
  readonly stable: boolean;
  /** The caller will sync the file: long ones are brought to the disk on the way. */
  readonly durable: boolean;
  /** It is read again soon, and then deleted: for the cache to keep. */
  readonly temporary: boolean;
  readonly direct: DirectAccess;
  readonly signal: AbortSignal | undefined;
}

/** What takes the pieces of a file. */
interface SourceWriter {
  /** Bytes that it took. */
  readonly size: number;
  /** Where pieces can be made so that they need not be copied. */
  readonly rooms?: PieceRooms;
  /** A piece is its maker's again when this resolves, unless its maker said that pieces are stable. */
  write(piece: Uint8Array): Promise<void>;
  /** Writes what is left. */
  finish(): Promise<void>;
  /** Resolves when nothing is under way, also after a failure. */
  settle(): Promise<void>;
}

/** Writes a whole source from the start of a file; resolves with its size. Nothing is under way when it settles. */
export async function writeSource(file: number, source: PutSource, options: WriteOptions): Promise<number> {
  const { signal } = options;
  const writer = chooseWriter(file, source, options);
  if (writer.rooms !== undefined) offerRooms(source, writer.rooms);
  try {
    for await (const piece of readPieces(source, signal)) await writer.write(piece);
    await writer.finish();
  } catch (error) {
    await writer.settle().catch(() => undefined); // the file must not be closed under a write
    throw error;
  }
  await writer.settle();
  signal?.throwIfAborted();
  return writer.size;
}

function chooseWriter(file: number, source: PutSource, options: WriteOptions): SourceWriter {
  const { path, stable, durable, temporary, direct } = options;
  const isLong = knownLength(source) >= STAGE;
  return isLong && !temporary && direct.isWorthTrying
    ? new DirectWriter(file, path, direct)
    : new PieceWriter(file, knownLength(source), stable || source instanceof Uint8Array, durable);
}

/** Bytes of a source; infinite where only reading it tells. */
function knownLength(source: PutSource): number {
  if (source instanceof Uint8Array) return source.length;
  if (!Array.isArray(source)) return Number.POSITIVE_INFINITY;
  return source.reduce((sum, piece: Uint8Array) => sum + piece.length, 0);
}

/** One file's queue of writes: each begins when the one before it is done. */
class PieceWriter implements SourceWriter {
  size = 0;
  readonly #file: number;
  /** Room for gathered bytes. */
  readonly #room: number;
  readonly #stable: boolean;
  readonly #durable: boolean;
  /** Where gathered bytes lie; a second one is filled while the first is written. */
  #gathered: Uint8Array | undefined;
  #spare: Uint8Array | undefined;
  #filled = 0;
  #tail: Promise<void> = Promise.resolve();
  #behind = 0;
  /** The sync under way beside the writing. */
  #syncing: Promise<void> | undefined;
  #unsynced = 0;
  #failure: { readonly error: unknown } | undefined;

  /** `length`: bytes of all pieces together, infinite where nobody knows. */
  constructor(file: number, length: number, stable: boolean, durable: boolean) {
    this.#file = file;
    this.#room = Math.min(GATHER, length);
    this.#stable = stable;
    this.#durable = durable;
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#throwFailure();
    if (piece.length < BIG) return this.#gather(piece);
    await this.#flush();
    this.#enqueue(piece);
    if (!this.#stable || this.#behind > MAX_BEHIND) await this.#tail;
    this.#throwFailure();
  }

  async finish(): Promise<void> {
    await this.#flush();
    await this.settle();
    this.#throwFailure();
  }

  /** Waits for all that began, also failed writes. */
  async settle(): Promise<void> {
    await this.#tail;
    await this.#syncing;
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #gather(piece: Uint8Array): Promise<void> {
    if (this.#filled + piece.length > this.#room) await this.#flush();
    this.#gathered ??= new Uint8Array(this.#room);
    this.#gathered.set(piece, this.#filled);
    this.#filled += piece.length;
  }

  async #flush(): Promise<void> {
    if (this.#gathered === undefined || this.#filled === 0) return;
    const full = this.#gathered;
    await this.#tail; // so that the spare one is free
    this.#enqueue(full.subarray(0, this.#filled));
    this.#gathered = this.#spare;
    this.#spare = full;
    this.#filled = 0;
  }

  #enqueue(bytes: Uint8Array): void {
    const position = this.size;
    this.size += bytes.length;
    this.#behind += bytes.length;
    this.#tail = this.#tail.then(async () => {
      try {
        if (this.#failure === undefined) await writeFully(this.#file, bytes, position);
      } catch (error) {
        this.#failure ??= { error };
      }
      this.#behind -= bytes.length;
      this.#unsynced += bytes.length;
      if (this.#durable && this.#unsynced >= SYNC_EVERY && this.#syncing === undefined) this.#startSync();
    });
  }

  #startSync(): void {
    this.#unsynced = 0;
    this.#syncing = syncBytes(this.#file).then(
      () => {
        this.#syncing = undefined;
      },
      (error: unknown) => {
        // The system tells a failed write-back once only; a later sync would succeed over lost bytes.
        this.#failure ??= { error };
      },
    );
  }
}
