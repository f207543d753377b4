/** `superchunk cat`: the values of an archive. */
import { type Command, Option } from "commander";
import {
  type BytesArchive,
  type DamageReport,
  encodeNpyHeader,
  isSuperchunkError,
  type LongOptions,
  type ReadableArray,
  type ReadableTable,
  resolveSelection,
  type Selection,
  SuperchunkError,
} from "../../src/index.ts";
import type { GroupArrays } from "../../src/zarr.ts";
import type { Context } from "../context.ts";
import { columnNamesOf, noColumns } from "../input/columns.ts";
import { type Damaged, damagedOption, readingDamaged, tellDamage } from "../input/damaged.ts";
import { openPath, type Subject } from "../input/opening.ts";
import { parseSliceOption } from "../input/slice-text.ts";
import { startProgress } from "../output/progress.ts";
import { printCsv, printJson, printJsonRecords, printText } from "../values/formats.ts";
import { arraySource, bytesSource, readByteBatches, type ValueSource } from "../values/value-source.ts";

const FORMATS = ["text", "csv", "json", "npy", "raw"] as const;
type Format = (typeof FORMATS)[number];

interface CatOptions {
  readonly column?: string;
  readonly slice?: string;
  readonly format?: Format;
  readonly all?: boolean;
  readonly damaged?: Damaged;
}

/** Adds `cat PATH`. */
export function addCat(program: Command, context: Context): void {
  program
    .command("cat")
    .description("print the values")
    .argument("<path>", "file, folder or URL of one archive, or of a Zarr array or group")
    .option(
      "--column <name>",
      "one column of a table, or of an array with column folders; one array of a group",
    )
    .option(
      "--slice <slice>",
      'a part in numpy\'s syntax, for example "0:10,3" or "::2"; of a table, its rows',
    )
    .addOption(
      new Option(
        "--format <format>",
        "text, csv, json, npy, or raw: the decoded bytes, C order, stored byte order (default: raw for plain bytes, else text)",
      ).choices(FORMATS),
    )
    .addOption(damagedOption())
    .option("--all", "print all rows as text on a terminal too, where otherwise long arrays are cut short")
    .addHelpText(
      "after",
      `
Examples:
  superchunk cat prices.blp --slice 0:10,3
  superchunk cat daily_equities.bcolz --format csv > bars.csv
  superchunk cat daily_equities.bcolz --column close --format npy > close.npy
  superchunk cat bundle.zarr/close --slice -5:
  superchunk cat notes.txt.blp | less`,
    )
    .action(async (path: string, options: CatOptions) => {
      const reports: DamageReport[] = [];
      const archive = await openPath(path, {
        signal: context.signal,
        ...readingDamaged(options.damaged, reports),
      });
      const quiet = context.out.isTerminal || options.format === "text" || options.format === "json";
      const bar = quiet ? undefined : startProgress(context.io, "cat");
      try {
        await printArchive(archive, options, context, {
          signal: context.signal,
          onProgress: bar?.onProgress,
        });
        await context.out.flush();
        tellDamage(reports, options.damaged, context);
      } finally {
        bar?.finish();
        await archive.close();
      }
    });
}

async function printArchive(
  archive: Subject,
  options: CatOptions,
  context: Context,
  long: LongOptions,
): Promise<void> {
  const format = options.format ?? (archive.kind === "bytes" ? "raw" : "text");
  const chosen = choose(archive, options.column);
  if (format === "raw" || format === "npy") {
    if (isTable(chosen)) throw needsColumn(chosen, `--format ${format} prints one array`);
    const guard = options.format === undefined && context.out.isTerminal;
    await printBytes(chosen, format, { slice: options.slice, guard }, context, long);
    return;
  }
  const sources = select(chosen, options.slice);
  const [first] = sources;
  if (format === "csv") await printCsv(context.out, sources, long);
  else if (format === "json") {
    if (isTable(chosen)) await printJsonRecords(context.out, sources, long);
    else if (first !== undefined) await printJson(context.out, first, long);
  } else {
    const header = isTable(chosen) || first?.dtype.kind === "struct";
    await printText(context.out, sources, {
      ...long,
      header,
      excerpt: context.out.isTerminal && options.all !== true,
    });
  }
}

function choose(archive: Subject, column: string | undefined): Subject {
  if (column === undefined) return archive;
  if (archive.kind === "bytes" || columnNamesOf(archive).length === 0) throw noColumns(archive);
  return archive.column(column);
}

/** The selected values. Errors name the archive. */
function select(archive: Subject, slice: string | undefined): ValueSource[] {
  try {
    return sourcesOf(archive, slice);
  } catch (error) {
    throw isSuperchunkError(error) ? error.at({ path: archive.store.describe(archive.path) }) : error;
  }
}

function sourcesOf(archive: Subject, slice: string | undefined): ValueSource[] {
  if (archive.kind === "bytes") return [bytesSource("", archive, selectionOf(archive, slice, 1))];
  if (archive.kind === "array")
    return [arraySource("", archive, selectionOf(archive, slice, archive.shape.length))];
  const { length } = archive;
  if (archive.kind === "group" && archive.names.length === 0) {
    throw new SuperchunkError("BAD_ARGUMENT", "the group holds no arrays, and so no values to print", {
      path: archive.store.describe(archive.path),
    });
  }
  if (length === undefined) {
    const isDeep = archive.names.some((name) => name.includes("/"));
    const are = isDeep ? "not all directly in it" : "not of one length";
    throw needsColumn(archive, `the arrays of this group are ${are}, as those of a table`);
  }
  const [rows] = resolveSelection(selectionOf(archive, slice, 1), [length]);
  if (rows === undefined) return [];
  // One row of a table is printed as a table of one row; columns longer than the shortest are cut.
  const stop = rows.count === 0 ? rows.start : rows.start + (rows.count - 1) * rows.step + 1;
  const part: Selection = [{ start: rows.start, stop, step: rows.step }];
  return archive.names.map((name) => arraySource(name, archive.column(name), part));
}

function selectionOf(archive: Subject, slice: string | undefined, ndim: number): Selection {
  if (slice === undefined) return [];
  return parseSliceOption(slice, ndim, archive.store.describe(archive.path));
}

/** How {@link printBytes} prints. */
interface BytesOptions {
  readonly slice: string | undefined;
  /** Only text is printed: nobody asked for the bytes, and they are for a terminal. */
  readonly guard: boolean;
}

/** The selected items as they are stored, for `npy` behind its header. */
async function printBytes(
  archive: ReadableArray | BytesArchive,
  format: "npy" | "raw",
  { slice, guard }: BytesOptions,
  context: Context,
  long: LongOptions,
): Promise<void> {
  const [source] = select(archive, slice);
  if (source === undefined) return;
  let header = format === "npy" ? encodeNpyHeader(source.dtype, source.shape) : undefined;
  const pieces = slice === undefined ? archive.streamBytes(long) : readByteBatches(source, long);
  for await (const piece of pieces) {
    if (guard && isSteering(piece))
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        "these bytes are no text, and would steer the terminal; send them elsewhere (> FILE), print them with --format text, or all the same with --format raw",
        { path: archive.store.describe(archive.path), field: "format" },
      );
    // Behind the first read, so that what cannot be read at all prints nothing.
    if (header !== undefined) await context.out.bytes(header);
    header = undefined;
    await context.out.bytes(piece);
  }
  if (header !== undefined) await context.out.bytes(header);
}

/** True for bytes that are no text for a terminal: control characters other than tabs and the ends of lines, of UTF-8 too. */
function isSteering(bytes: Uint8Array): boolean {
  return bytes.some((byte, i) => {
    if (byte < 32) return byte !== 9 && byte !== 10 && byte !== 13;
    return byte === 127 || (byte === 0xc2 && (bytes[i + 1] ?? 0x80) < 0xa0);
  });
}

function isTable(archive: Subject): archive is ReadableTable | GroupArrays {
  return archive.kind === "table" || archive.kind === "group";
}

function needsColumn(archive: Subject, reason: string): SuperchunkError {
  const names = columnNamesOf(archive);
  const what = archive.kind === "group" ? "an array" : "a column";
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `${reason}; choose ${what} with --column (${names.slice(0, 12).join(", ")}${names.length > 12 ? ", ..." : ""})`,
    { path: archive.store.describe(archive.path), field: "column" },
  );
}
