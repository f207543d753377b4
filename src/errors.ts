/**
 * The only error class of the project, and its codes.
 *
 * Knows how a message is composed; must not know any format.
 */

/** Kind of error. Codes are API: documented in FORMAT.md, never reused. */
export type ErrorCode =
  | "BAD_MAGIC" // the bytes are not what their name or place in an archive says
  | "TRUNCATED" // the object ends earlier than its header says
  | "BAD_FIELD" // a stored field contradicts another one, the object's size, or the format
  | "BAD_CHUNK" // a Blosc chunk's payload does not decode to what its header says
  | "CHECKSUM_MISMATCH" // a stored digest differs from the digest of the stored bytes
  | "INCOMPLETE" // chunks or files that the metadata count do not exist (an interrupted write, a lost file)
  | "UNSAFE_PATH" // a stored name or a link leads out of the archive
  | "UNSUPPORTED" // valid, but not something this library reads or does
  | "NOT_FOUND" // nothing at the path, or no such column
  | "BAD_ARGUMENT" // the caller's own argument is wrong
  | "CONFLICT" // the destination exists, or another writer was faster
  | "STALE" // a writer has changed the object since it was opened
  | "READ_ONLY" // opened read-only, or the store cannot write
  | "LIMIT" // a limit on sizes or counts, named in the message
  | "NO_SPACE" // the storage is full
  | "IO"; // the storage failed

/** Where an error was found, and which facts contradict each other. */
export interface ErrorDetails {
  /** Key or path of the object. */
  readonly path?: string;
  /** Byte offset in the object. */
  readonly offset?: number;
  /** Index of the chunk in its array, from 0. */
  readonly chunk?: number;
  /** Name of the field, as in FORMAT.md. */
  readonly field?: string;
  readonly expected?: unknown;
  readonly found?: unknown;
  readonly cause?: unknown;
  /** What the header of a damaged Bloscpack file says, and its metadata if they are intact. */
  readonly header?: object;
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

/** An error of this library. `code` is its kind, `details` its place; `message` says both in one line. */
export class SuperchunkError extends Error {
  override readonly name = "SuperchunkError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** The message without the path and the chunk at its beginning. */
  readonly summary: string;

  constructor(code: ErrorCode, summary: string, details: ErrorDetails = {}) {
    super(`${place(details)}${summary}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.summary = summary;
    this.details = details;
  }

  /** True if stored bytes contradict themselves or their checksums; false if the caller did not permit a container. */
  get isDamage(): boolean {
    return DAMAGE.has(this.code) && this.details.field !== "container";
  }

  /** Returns the same error for a value that was stored at `path` instead of passed as an argument: `BAD_ARGUMENT` becomes `BAD_FIELD`. */
  storedAt(path: string): SuperchunkError {
    const code = this.code === "BAD_ARGUMENT" ? "BAD_FIELD" : this.code;
    return new SuperchunkError(code, this.summary, { ...this.details, path });
  }

  /**
   * Returns the same error for bytes that begin at byte `place.offset` of an object: positions in the details, and `at byte N` in the text,
   * become positions in the object. An error that already names its object is unchanged.
   */
  inObject(place: Pick<ErrorDetails, "path" | "chunk"> & { readonly offset: number }): SuperchunkError {
    if (this.details.path !== undefined) return this.at(place);
    return this.shiftedBy(place.offset).at(place);
  }

  /** Returns the same error for bytes that begin `base` bytes after the origin of its positions. */
  shiftedBy(base: number): SuperchunkError {
    const { offset } = this.details;
    if (offset === undefined) return this;
    const summary = this.summary.replace(new RegExp(`at byte ${offset}\\b`), `at byte ${offset + base}`);
    return new SuperchunkError(this.code, summary, { ...this.details, offset: offset + base });
  }

  /** Returns the same error with more details of its place. Details already set are kept. */
  at(place: Pick<ErrorDetails, "path" | "chunk" | "offset" | "header">): SuperchunkError {
    return new SuperchunkError(this.code, this.summary, { ...place, ...this.details });
  }
}

/** Returns true if `error` is a {@link SuperchunkError}, with the given code if there is one. */
export function isSuperchunkError(error: unknown, code?: ErrorCode): error is SuperchunkError {
  return error instanceof SuperchunkError && (code === undefined || error.code === code);
}

/** True for the errors of stored bytes that are damaged, or that this version cannot read. */
export function isUnreadable(error: unknown): error is SuperchunkError {
  return isSuperchunkError(error) && (error.isDamage || error.code === "UNSUPPORTED");
}

/** Errors that a caller can do without: all of this library, those of damage, those of one code, or what a function says. */
type Harmless = "any" | "damage" | ErrorCode | ((error: unknown) => boolean);

function isHarmless(error: unknown, which: Harmless): boolean {
  if (typeof which === "function") return which(error);
  if (!isSuperchunkError(error)) return false;
  return which === "any" || (which === "damage" ? error.isDamage : error.code === which);
}

/** What `work` returns, or `fallback` if it throws a harmless error. Other errors are passed on. */
export function valueOr<T, F>(fallback: F, harmless: Harmless, work: () => T): T | F {
  try {
    return work();
  } catch (error) {
    if (isHarmless(error, harmless)) return fallback;
    throw error;
  }
}

/** The same for work that takes time. */
export async function resultOr<T, F>(
  fallback: F,
  harmless: Harmless,
  work: () => Promise<T>,
): Promise<T | F> {
  try {
    return await work();
  } catch (error) {
    if (isHarmless(error, harmless)) return fallback;
    throw error;
  }
}

function place({ path, chunk }: ErrorDetails): string {
  return `${path === undefined ? "" : `${path}: `}${chunk === undefined ? "" : `chunk ${chunk}: `}`;
}

/** The error for an invalid argument or option. */
export function badArgument(field: string, found: unknown, expected: string): SuperchunkError {
  const shown = String(found).replace(/\[object (\w+)]/g, "of type $1") || "empty";
  return new SuperchunkError("BAD_ARGUMENT", `${field} is ${shown}, expected ${expected}`, {
    field,
    expected,
    found,
  });
}

/** The error for the name of a column or a field that does not exist. */
export function notNamed(
  what: "column" | "field",
  name: string,
  names: readonly string[],
  path?: string,
): SuperchunkError {
  const message = `no ${what} "${name}"; expected one of ${names.join(", ")}`;
  return new SuperchunkError("NOT_FOUND", message, { ...(path !== undefined && { path }), field: name });
}

/** An error in a form that can be posted to another thread. */
export interface PackedError {
  readonly code: ErrorCode | undefined;
  readonly name: string;
  readonly message: string;
  readonly details: ErrorDetails;
}

/** Converts an error to a packed one. Causes become plain errors. */
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

/** Restores a packed error. One that is not of this library becomes a plain error with its name. */
export function unpackError({ code, name, message, details }: PackedError): Error {
  if (code !== undefined) return new SuperchunkError(code, message, details);
  const error = new Error(message);
  error.name = name;
  return error;
}

/** Adds object, chunk and offset to an error of a chunk; returns other errors unchanged. */
export function placedError(
  error: unknown,
  path: string,
  { index, offset }: { readonly index: number; readonly offset: number },
): unknown {
  return isSuperchunkError(error) ? error.inObject({ path, chunk: index, offset }) : error;
}
