/**
 * Rows to write into an array: a `.npy` file or stdin, or raw bytes of a given dtype. Always in C order: values in Fortran
 * order are transposed while they are read.
 */

import { open } from "node:fs/promises";
import { type DType, SuperchunkError } from "../../src/index.ts";
import { isTableFile, openNpy, openTableFile, type StreamCarrier } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { joinNotes, MOST_NAMES, shortDType } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";
import { type Input, inputOf, openInput } from "./input.ts";
import { closing } from "./opening.ts";
import { formatPlural } from "./units.ts";

/**
 * Opens a file, or stdin for `-`. Stdin is read as `.npy`, and a file if its name ends in `.npy`, unless `asBytes`. A `.npy`
 * file with another name is refused, because its header would become rows. Throws `NOT_FOUND`, `BAD_ARGUMENT` and the codes
 * of damage.
 */
export async function openRows(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name === "-" && !asBytes) {
    const { head, all } = await splitHead(context.io.stdin);
    refuseTable(head, "stdin", SAVE);
    if (head.length > 0 && !isNpy(head))
      throw new SuperchunkError(
        "BAD_MAGIC",
        "it does not begin like a .npy file; a table such as CSV is read from a file, and raw bytes need their type: --dtype, or --bytes where the array has one",
        { path: "stdin", offset: 0, field: "magic" },
      );
    return openNpyRows(all, context, "stdin");
  }
  const input = await openInput(name, asBytes, context);
  if (input.npy !== undefined) return openNpyRows(name, context);
  if (name !== "-" && !asBytes) {
    const head = await headOf(name);
    refuseNpy(head, name, "but its name does not end in .npy; rename it, or give --bytes");
    refuseTable(head, name, "rename it");
  }
  return input;
}

/**
 * The rows of a Parquet, Arrow or CSV file, recognized by its name, like those of a structured `.npy` file; undefined for
 * every other name.
 *
 * @param as type of the resulting rows; undefined: the file's own type, which is reported
 * @param columns names of columns; undefined: all, or those of `as`
 */
export async function openTableRows(
  name: string,
  as: DType | undefined,
  context: Context,
  columns?: readonly string[],
): Promise<Input | undefined> {
  if (!isTableFile(name)) return undefined;
  const { signal } = context;
  const file = await openTableFile(name, { as, columns, signal });
  if (as === undefined && file.dtype.kind === "struct") {
    const [rows = 0] = file.shape;
    const { fields } = file.dtype;
    const shown = fields.slice(0, MOST_NAMES).map((field) => `${field.name} ${shortDType(field.dtype)}`);
    const others = fields.length - shown.length;
    const more = others === 0 ? "" : ` and ${formatPlural(others, "more column")}`;
    context.message(`${name}: ${formatPlural(rows, "row")} of ${shown.join(", ")}${more}`);
  }
  let told = 0;
  const tell = (): void => {
    const notes = joinNotes(file.notes.slice(told));
    told = file.notes.length;
    for (const note of notes.slice(0, MOST_NAMES)) context.message(`${name}: ${note}`);
    if (notes.length > MOST_NAMES)
      context.message(
        `${name}: ${formatPlural(notes.length - MOST_NAMES, "more note")}; create --json lists all`,
      );
  };
  tell();
  // Missing texts are counted when rows are read.
  const telling = (input: Input): Input => ({
    ...input,
    async *pieces() {
      yield* input.pieces();
      tell();
    },
  });
  return {
    ...telling(inputOf(file, "C", signal)),
    notes: file.notes,
    attrs: file.attrs,
    field: (column) => telling(inputOf(file.field(column), "C", signal)),
    carry: (target) => file.carry(target),
  };
}

/** Reports how many chunks were built from the streams of a file. */
export function printCarried(carrier: StreamCarrier | undefined, context: Context): void {
  if (carrier === undefined) return;
  const { copied, recoded } = carrier.encoder;
  context.message(
    `${formatPlural(copied, "chunk")} made of the file's compressed streams, ${recoded} compressed`,
  );
}

/** The same, but stdin is read as raw rows unless it begins like a `.npy` file. */
export async function openAppendedRows(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name !== "-" || asBytes) return openRows(name, asBytes, context);
  const { head, all } = await splitHead(context.io.stdin);
  refuseTable(head, "stdin", SAVE);
  return isNpy(head)
    ? openNpyRows(all, context, "stdin")
    : { name: "stdin", npy: undefined, size: undefined, pieces: () => all };
}

/**
 * The same for raw rows of a given dtype. Refuses a `.npy` file, because its header would become rows. Throws `NOT_FOUND` and
 * `BAD_ARGUMENT`.
 */
export async function openRawRows(name: string, context: Context): Promise<Input> {
  if (name === "-") {
    const { head, all } = await splitHead(context.io.stdin);
    refuseNpy(head, "stdin", GIVEN_DTYPE);
    return { name: "stdin", npy: undefined, size: undefined, pieces: () => all };
  }
  const input = await openInput(name, true, context);
  refuseNpy(await headOf(name), name, GIVEN_DTYPE);
  return input;
}

/** The error for raw bytes whose dtype was not typed. */
export function noDType({ name }: Input): Error {
  const known =
    "a .npy file, and a table (.parquet, .arrow, .feather, .csv), is known by the end of its name";
  return wrongUse("dtype", `raw bytes need --dtype; ${known}`, { path: name });
}

const GIVEN_DTYPE = "which says its dtype itself, but --dtype is for raw bytes; leave --dtype out";

/** The rows of a `.npy` file in C order. */
async function openNpyRows(
  source: string | AsyncIterable<Uint8Array>,
  { signal }: Context,
  name?: string,
): Promise<Input> {
  return inputOf(await openNpy(source, { signal, ...(name === undefined ? {} : { name }) }), "C", signal);
}

function refuseNpy(head: Uint8Array, path: string, why: string): void {
  if (!isNpy(head)) return;
  throw wrongUse("input", `it is a .npy file, ${why}`, { path, expected: "raw bytes", found: "a .npy file" });
}

/** The same for tables, whose bytes would become rows, too. CSV has no magic bytes. */
function refuseTable(head: Uint8Array, path: string, advice: string): void {
  const text = Buffer.from(head).toString("latin1");
  for (const [magic, format, ending] of TABLES)
    if (text.startsWith(magic))
      throw wrongUse(
        "input",
        `it is a table in ${format}, which is read from a file whose name ends in ${ending}; ${advice}, or give --bytes`,
        { path, expected: "rows", found: format },
      );
}

const SAVE = "save it under such a name";
const TABLES = [
  ["PAR1", "Parquet", ".parquet"],
  ["ARROW1", "Arrow", ".arrow"],
] as const;

/** The magic bytes of a `.npy` file. */
const MAGIC = Buffer.from([0x93, ...Buffer.from("NUMPY")]);

function isNpy(head: Uint8Array): boolean {
  return MAGIC.equals(head.subarray(0, MAGIC.length));
}

/** The first bytes of a file; fewer if it is shorter. */
async function headOf(name: string): Promise<Uint8Array> {
  return closing(await open(name), async (file) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
    return buffer.subarray(0, bytesRead);
  });
}

/** The first bytes of a stream, and the whole stream, which can be read once. */
async function splitHead(
  stream: AsyncIterable<Uint8Array>,
): Promise<{ readonly head: Uint8Array; readonly all: AsyncIterable<Uint8Array> }> {
  const pieces = stream[Symbol.asyncIterator]();
  const kept: Uint8Array[] = [];
  for (let bytes = 0; bytes < MAGIC.length; ) {
    const { done, value } = await pieces.next();
    if (done === true) break;
    kept.push(value);
    bytes += value.length;
  }
  const head = Buffer.concat(kept);
  async function* all(): AsyncGenerator<Uint8Array> {
    yield head;
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) yield next.value;
  }
  return { head, all: all() };
}

/** Cuts bytes into pieces of `length`; the last one may be shorter. */
export async function* cutBytes(
  pieces: AsyncIterable<Uint8Array>,
  length: number,
): AsyncGenerator<Uint8Array> {
  let rest = Buffer.alloc(0);
  for await (const piece of pieces) {
    rest = Buffer.concat([rest, piece]);
    let at = 0;
    for (; rest.length - at >= length; at += length) yield rest.subarray(at, at + length);
    rest = rest.subarray(at);
  }
  if (rest.length > 0) yield rest;
}

/** The target of rows, for messages and progress. */
export interface RowsTarget {
  readonly rowBytes: number;
  /** Verb of the progress bar. */
  readonly verb: string;
  readonly name?: string;
  /** What happened if the rows are incomplete: "nothing was appended". */
  readonly outcome: string;
}

/**
 * The bytes of whole rows, with a progress bar if their number is known, until the command is interrupted.
 *
 * @throws BAD_ARGUMENT if the bytes end inside a row: immediately if their number is known
 */
export function drawnRows(input: Input, target: RowsTarget, context: Context): AsyncGenerator<Uint8Array> {
  checkWhole(input, input.size ?? 0, target);
  return drawRows(input, target, context);
}

async function* drawRows(input: Input, target: RowsTarget, context: Context): AsyncGenerator<Uint8Array> {
  const bar = startProgress(context.io, target.verb, target.name === undefined ? {} : { name: target.name });
  const total = input.size;
  let done = 0;
  try {
    for await (const piece of input.pieces()) {
      context.signal.throwIfAborted();
      yield piece;
      done += piece.length;
      if (total !== undefined) bar.onProgress?.({ done, total });
    }
    checkWhole(input, done, target);
  } finally {
    bar.finish();
  }
}

function checkWhole({ name }: Input, bytes: number, { rowBytes, outcome }: RowsTarget): void {
  const left = rowBytes === 0 ? bytes : bytes % rowBytes;
  if (left === 0) return;
  throw wrongUse(
    "rows",
    `the bytes end inside a row: ${left} are left over, but a row has ${rowBytes}; ${outcome}`,
    { path: name, expected: `a multiple of ${rowBytes} bytes`, found: bytes },
  );
}
