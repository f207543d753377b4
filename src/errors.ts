/**
 * The one error class of the project and its codes.
 *
 * Knows how a message is put together; must not know any format.
 */

/** What went wrong. Codes are API: documented in FORMAT.md, never reused. */
export type ErrorCode =
  | "BAD_MAGIC" // the bytes are not what their name or place in an archive promises
  | "TRUNCATED" // the object ends before what its header promises
  | "BAD_FIELD" // a stored field contradicts another one, the object's size, or the format
  | "BAD_CHUNK" // a Blosc chunk's payload cannot be decoded to what its header promises
  | "CHECKSUM_MISMATCH" // a stored digest differs from the digest of the stored bytes
  | "INCOMPLETE" // chunks or files that the metadata counts are not there (an aborted write, a lost file)
  | "UNSAFE_PATH" // a stored name or a link leads out of the archive
  | "UNSUPPORTED" // well-formed, but not something this library reads or does
  | "NOT_FOUND" // nothing at the path, or no such column
  | "BAD_ARGUMENT" // the caller's own argument is wrong
  | "CONFLICT" // the destination exists, or another writer was faster
  | "STALE" // what was opened has been changed since by a writer
  | "READ_ONLY" // opened read-only, or the store cannot write
  | "LIMIT" // a limit on sizes or counts, named in the message
  | "NO_SPACE" // the storage is full
  | "IO"; // the storage failed

/** Where an error was found, and what contradicts what. */
export interface ErrorDetails {
  /** Key or path of the object. */
  readonly path?: string;
  /** Byte offset in the object. */
  readonly offset?: number;
  /** Index of the chunk in its array, from 0. */
  readonly chunk?: number;
  /** Name of the field, in the words of FORMAT.md. */
  readonly field?: string;
  readonly expected?: unknown;
  readonly found?: unknown;
  readonly cause?: unknown;
}

/** Codes that mean: stored bytes contradict themselves or their checksums (exit code 3 of the command). */
const DAMAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "BAD_MAGIC",
  "TRUNCATED",
  "BAD_FIELD",
  "BAD_CHUNK",
  "CHECKSUM_MISMATCH",
  "INCOMPLETE",
  "UNSAFE_PATH",
]);

/** An error of this library. `code` tells the kind, `details` where, `message` says both in one line. */
export class SuperchunkError extends Error {
  override readonly name = "SuperchunkError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** The sentence without the path and the chunk in front of it. */
  readonly summary: string;

  constructor(code: ErrorCode, summary: string, details: ErrorDetails = {}) {
    super(`${place(details)}${summary}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.summary = summary;
    this.details = details;
  }

  /** True where stored bytes contradict themselves or their checksums; not where the caller has not allowed a container. */
  get isDamage(): boolean {
    return DAMAGE.has(this.code) && this.details.field !== "container";
  }

  /** The same error where what it refuses was stored at `path`, and is not an argument: `BAD_ARGUMENT` is `BAD_FIELD` then. */
  storedAt(path: string): SuperchunkError {
    const code = this.code === "BAD_ARGUMENT" ? "BAD_FIELD" : this.code;
    return new SuperchunkError(code, this.summary, { ...this.details, path });
  }

  /**
   * The same error, found in bytes that begin at byte `place.offset` of an object: the position in the details, and in the
   * text as `at byte N`, becomes a position in the object. An error that names its object already stays as it is.
   */
  inObject(place: Pick<ErrorDetails, "path" | "chunk"> & { readonly offset: number }): SuperchunkError {
    if (this.details.path !== undefined) return this.at(place);
    return this.shiftedBy(place.offset).at(place);
  }

  /** The same error for bytes that begin `base` bytes further on than its positions count from. */
  shiftedBy(base: number): SuperchunkError {
    const { offset } = this.details;
    if (offset === undefined) return this;
    const summary = this.summary.replace(new RegExp(`at byte ${offset}\\b`), `at byte ${offset + base}`);
    return new SuperchunkError(this.code, summary, { ...this.details, offset: offset + base });
  }

  /** The same error with more known about its place; what is already set wins. */
  at(place: Pick<ErrorDetails, "path" | "chunk" | "offset">): SuperchunkError {
    return new SuperchunkError(this.code, this.summary, { ...place, ...this.details });
  }
}

/** True where `error` is a {@link SuperchunkError}, of the given code if one is given. */
export function isSuperchunkError(error: unknown, code?: ErrorCode): error is SuperchunkError {
  return error instanceof SuperchunkError && (code === undefined || error.code === code);
}

function place({ path, chunk }: ErrorDetails): string {
  if (path !== undefined && chunk !== undefined) return `${path}: chunk ${chunk}: `;
  if (path !== undefined) return `${path}: `;
  if (chunk !== undefined) return `chunk ${chunk}: `;
  return "";
}

/** The error for an argument or option that is something else than is expected. */
export function badArgument(field: string, found: unknown, expected: string): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `${field} is ${String(found)}, expected ${expected}`, {
    field,
    expected,
    found,
  });
}

/** An error in a form that messages carry. */
export interface PackedError {
  readonly code: ErrorCode | undefined;
  readonly name: string;
  readonly message: string;
  readonly details: ErrorDetails;
}

/** Takes an error apart. Causes become plain errors. */
export function packError(error: unknown): PackedError {
  if (!isSuperchunkError(error)) {
    const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
    return { code: undefined, name, message, details: {} };
  }
  const { cause, ...details } = error.details;
  const packed = cause === undefined ? details : { ...details, cause: plainCause(cause) };
  return { code: error.code, name: error.name, message: error.summary, details: packed };
}

function plainCause(cause: unknown): unknown {
  return cause instanceof Error ? new Error(`${cause.name}: ${cause.message}`) : String(cause);
}

/** Puts an error together again; one that is not this library's stays a plain error with its name. */
export function unpackError({ code, name, message, details }: PackedError): Error {
  if (code !== undefined) return new SuperchunkError(code, message, details);
  const error = new Error(message);
  error.name = name;
  return error;
}
