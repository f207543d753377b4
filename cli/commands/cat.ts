/** `superchunk cat`: prints the values of an archive. */
import { Option } from "commander";
import {
  type BytesArchive,
  type DamageReport,
  encodeNpyHeader,
  type FilterCondition,
  isSuperchunkError,
  type LongOptions,
  type ReadableTable,
  resolveSelection,
  type ScanPlan,
  type ScanRowsOptions,
  type Selection,
  SuperchunkError,
} from "../../src/index.ts";
import { type GroupArrays, toParquet } from "../../src/zarr.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { type Damaged, damagedOption, printDamage, readingDamaged } from "../input/damaged.ts";
import { closing, columnNamesOf, noColumns, openPath, type Subject } from "../input/opening.ts";
import { parseSliceOption } from "../input/slice-text.ts";
import { collectText, parseCount } from "../input/units.ts";
import { conditionOf, parseWhere, type Where } from "../input/where-text.ts";
import { withProgress } from "../output/progress.ts";
import { printCsv, printJson, printJsonRecords, printNdjson, printText } from "../values/formats.ts";
import { drawable, printPlots } from "../values/plot.ts";
import {
  arraySource,
  bytesSource,
  foundSources,
  readByteBatches,
  readOnce,
  type ValueSource,
} from "../values/value-source.ts";

const FORMATS = ["text", "csv", "json", "ndjson", "npy", "raw", "arrow", "parquet"] as const;
type Format = (typeof FORMATS)[number];

interface CatOptions extends Switches<"all" | "plot"> {
  readonly allow?: readonly string[];
  readonly column?: readonly string[];
  readonly slice?: string;
  readonly head?: number;
  readonly tail?: number;
  readonly format?: Format;
  readonly where?: readonly Where[];
  readonly damaged?: Damaged;
}

export function addCat(program: Command, context: Context): void {
  program
    .command("cat")
    .description("print values")
    .argument("<path>", "file, folder or URL of an archive, a Zarr array or a Zarr group")
    .option(
      "--column <name>",
      "a column of a table or of an array with column folders, a field of an array of structs, or an array of a group; may be repeated",
      collectText,
    )
    .option(
      "--slice <slice>",
      'a selection in numpy\'s syntax, such as "0:10,3" or "::2"; for a table, of rows',
    )
    .addOption(
      new Option(
        "--where <condition>",
        'only rows that match: "close > 100", "day between 2015-01-01 and 2015-12-31", "code in (A, B)", "time is not null"; may be repeated: all conditions must match',
      )
        .argParser((text: string, earlier: readonly Where[] = []) => [...earlier, parseWhere(text)])
        .conflicts(["slice", "tail"]),
    )
    .addOption(new Option("--head <n>", "the first rows").argParser(parseCount).conflicts(["slice", "tail"]))
    .addOption(new Option("--tail <n>", "the last rows").argParser(parseCount).conflicts("slice"))
    .addOption(
      new Option(
        "--format <format>",
        "text, csv, json, ndjson (one row per line), npy, arrow (an Arrow stream), parquet (built in memory), or raw (the decoded bytes in C order and the stored byte order) (default: raw for plain bytes, else text)",
      ).choices(FORMATS),
    )
    .addOption(
      new Option("--json", "the same as --format json").implies({ format: "json" }).conflicts("plot"),
    )
    .addOption(
      new Option(
        "--plot",
        "plot numbers in the terminal instead: all rows, from the minimum to the maximum, one plot per column",
      ).conflicts(["format", "all"]),
    )
    .addAllowOption()
    .addOption(damagedOption())
    .option("--all", "do not shorten long arrays on a terminal")
    .notes(`
Examples:
  superchunk cat prices.blp --slice 0:10,3
  superchunk cat daily_equities.bcolz --format csv > bars.csv
  superchunk cat daily_equities.bcolz --column close --format npy > close.npy
  superchunk cat daily_equities.bcolz --column day --column close --tail 5
  superchunk cat daily_equities.bcolz --format ndjson --head 1000
  superchunk cat daily_equities.bcolz --where "close > 100000" --where "day >= 2015-01-01" --head 20
  superchunk cat daily_equities.bcolz --plot --column close --column volume --head 1000
  superchunk cat daily_equities.bcolz --format arrow --where "volume > 0" > bars.arrows
  superchunk cat daily_equities.bcolz --format parquet --where "day >= 2015-01-01" > some.parquet
  superchunk cat bundle.zarr/close --slice -5:
  superchunk cat notes.txt.blp | less`)
    .action(async (path: string, options: CatOptions) => {
      const reports: DamageReport[] = [];
      const archive = await openPath(path, {
        signal: context.signal,
        allow: options.allow,
        ...readingDamaged(options.damaged, reports),
        columns: options.column && [
          ...new Set([...options.column, ...(options.where ?? []).map(({ column }) => column)]),
        ],
      });
      const isText = options.format === "text" || options.format === "json" || options.format === "ndjson";
      const quiet = options.plot !== true && (context.out.isTerminal || isText);
      const { io, signal } = context;
      const assertSame = await watch(archive);
      const print = async (onProgress?: LongOptions["onProgress"]): Promise<void> => {
        // Damage that is found in an archive that has changed need not be there.
        await printArchive(archive, options, context, { signal, onProgress }).catch(
          async (error: unknown) => {
            if (isSuperchunkError(error) && error.isDamage) await assertSame();
            throw error;
          },
        );
        await context.out.flush();
        await assertSame();
        printDamage(reports, options.damaged, context);
      };
      await closing(archive, () => (quiet ? print() : withProgress(io, "cat", {}, print)));
    });
}

/**
 * Remembers what another archive in the same place would replace. Resolves with a check that throws `STALE` if that has changed. Nothing is
 * looked at over a network, where stores refuse other versions themselves, and for an array that keeps to the generation that it opened.
 */
async function watch(archive: Subject): Promise<() => Promise<void>> {
  const { store } = archive;
  const isWatched = store.pinsVersions !== true && store.readsToStat !== true && !("generation" in archive);
  const arrays = "names" in archive ? archive.names.map((name) => archive.column(name)) : [archive];
  const keys = arrays.flatMap(({ path }) => [
    ...(path === "" ? [] : [path]),
    ...["meta/storage", "zarr.json", ".zarray"].map((name) => (path === "" ? name : `${path}/${name}`)),
  ]);
  const versionOf = async (key: string): Promise<string | undefined> =>
    (await store.stat(key).catch(() => undefined))?.version;
  const versions = isWatched ? await Promise.all(keys.map(versionOf)) : [];
  return async () => {
    for (const [i, version] of versions.entries()) {
      const key = keys[i] ?? "";
      if (version === undefined || (await versionOf(key)) === version) continue;
      const message =
        "it was replaced, or has grown, while it was read: what was printed may be of both states; run it again";
      throw new SuperchunkError("STALE", message, { path: store.describe(key) });
    }
  };
}

async function printArchive(
  archive: Subject,
  options: CatOptions,
  context: Context,
  long: LongOptions,
): Promise<void> {
  if (options.plot === true) return printPlots(context.out, plotted(archive, options, context), long);
  const format = options.format ?? (archive.kind === "bytes" ? "raw" : "text");
  if (format === "arrow" || format === "parquet") {
    if (context.out.isTerminal || options.slice !== undefined || options.tail !== undefined)
      throw wrongUse(
        "format",
        context.out.isTerminal
          ? `--format ${format} is not text; redirect it (> FILE)`
          : `--format ${format} prints whole columns; choose rows with --where and --head`,
        { path: archive.store.describe(archive.path) },
      );
    const { source, scan } = scanOf(archive, options, context);
    if (format === "parquet") return context.out.bytes(await toParquet(source, { ...scan, ...long }));
    for await (const piece of source.arrowBatches({ ...scan, ...long })) await context.out.bytes(piece);
    return;
  }
  if (options.where !== undefined) {
    const sources = findRows(archive, format, options, context);
    if (format === "csv") return printCsv(context.out, sources, long);
    if (format === "ndjson") return printNdjson(context.out, sources, { ...long, records: true });
    if (format === "json") return printJsonRecords(context.out, sources, long);
    return printText(context.out, sources, { ...long, header: true, excerpt: false });
  }
  const chosen = choose(archive, options.column);
  const slice = sliceOf(chosen, options);
  if (format === "raw" || format === "npy") {
    if (isTable(chosen) && !(chosen.kind === "columns" && chosen.names.length === 1))
      throw needsColumn(
        columnNamesOf(archive).length > 0 ? archive : chosen,
        `--format ${format} prints one array`,
      );
    const guard = options.format === undefined && context.out.isTerminal;
    await printBytes(chosen, format, { slice, guard }, context, long);
    return;
  }
  const sources = select(chosen, slice, options.column);
  const [first] = sources;
  if (format === "csv") await printCsv(context.out, sources, long);
  else if (format === "ndjson")
    await printNdjson(context.out, sources, { ...long, records: isTable(chosen) });
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

/** The columns that `--plot` draws: those named, else all numeric ones. */
function plotted(archive: Subject, options: CatOptions, context: Context): ValueSource[] {
  const path = archive.store.describe(archive.path);
  const isNamed = options.column !== undefined;
  if (options.where === undefined) {
    const chosen = choose(archive, options.column);
    return drawable(select(chosen, sliceOf(chosen, options)), path, isNamed);
  }
  const found = drawable(findRows(archive, "text", options, context), path, isNamed);
  // Only drawn columns are read.
  return findRows(archive, "text", { ...options, column: found.map(({ name }) => name) }, context);
}

/** The columns of the rows that match the conditions. */
function findRows(archive: Subject, format: Format, options: CatOptions, context: Context): ValueSource[] {
  if ((format === "npy" || format === "raw") && archive.kind !== "bytes") {
    const message = `--where prints text, csv, json, ndjson, arrow or parquet, not ${format}`;
    throw wrongUse("format", message, { path: archive.store.describe(archive.path) });
  }
  const { source, scan, faceOf } = scanOf(archive, options, context);
  return foundSources(scan.columns.map(faceOf), (long) => source.scan({ ...scan, ...long }));
}

interface ColumnScan {
  readonly source: Exclude<Subject, BytesArchive>;
  readonly scan: ScanRowsOptions<readonly string[]> & { readonly columns: readonly string[] };
  readonly faceOf: (name: string) => ColumnFace;
}

/** The scan for the options. Throws `BAD_ARGUMENT` for plain bytes and for an array without dimensions. */
function scanOf(
  archive: Subject,
  { where = [], column, head, damaged }: CatOptions,
  context: Context,
): ColumnScan {
  const isBytes = archive.kind === "bytes";
  if (isBytes || ("shape" in archive && archive.shape.length === 0))
    throw wrongUse(
      where.length > 0 ? "where" : "format",
      isBytes
        ? "these are plain bytes, without columns to filter or convert; --format raw, without --where, prints them"
        : "this is one value without dimensions, which has no rows to filter or convert; --format text, json and npy, without --where, print it",
      { path: archive.store.describe(archive.path) },
    );
  const { names, faceOf } = columnFaces(archive);
  const conditions = new Map<string, FilterCondition[]>();
  for (const each of where) {
    const condition = conditionOf(each, faceOf(each.column).dtype);
    conditions.set(each.column, [...(conditions.get(each.column) ?? []), condition]);
  }
  // Not assigned by name: a column may be called __proto__.
  const filter = Object.fromEntries(conditions);
  const onPlan = ({ damage }: ScanPlan): void => {
    if (damage !== undefined) context.message(`the index is not used: ${damage.message}`);
  };
  const statistics = damaged === undefined || damaged === "stop";
  const scan = { columns: column ?? names, filter, limit: head, statistics, onPlan };
  return { source: archive, scan, faceOf };
}

type ColumnFace = Pick<ValueSource, "name" | "dtype" | "rowShape">;

/** The columns of a scan: those of a table, the fields of a struct, or the values of an array. */
function columnFaces(archive: Exclude<Subject, BytesArchive>): {
  readonly names: readonly string[];
  faceOf(name: string): ColumnFace;
} {
  if (archive.kind !== "array") {
    const faceOf = (name: string) => {
      const { dtype, shape } = archive.column(name);
      return { name, dtype, rowShape: shape.slice(1) };
    };
    return { names: archive.names, faceOf };
  }
  const { dtype, shape } = archive;
  const fields =
    dtype.kind === "struct" && shape.length === 1
      ? dtype.fields.map((each) => ({ name: each.name, dtype: each.dtype, rowShape: each.shape }))
      : [{ name: "value", dtype, rowShape: shape.slice(1) }];
  const names = fields.map(({ name }) => name);
  const faceOf = (name: string) => {
    const found = fields.find((each) => each.name === name);
    if (found !== undefined) return found;
    const message = `no column "${name}"; expected one of ${names.join(", ")}`;
    throw new SuperchunkError("NOT_FOUND", message, {
      path: archive.store.describe(archive.path),
      field: name,
    });
  };
  return { names, faceOf };
}

/** Some columns of a table or group, or some fields of an array of structs. */
interface ChosenColumns extends Pick<Subject, "store" | "path"> {
  readonly kind: "columns";
  readonly names: readonly string[];
  readonly length: number | undefined;
  source(name: string, rows: Selection): ValueSource;
}

type Chosen = Subject | ChosenColumns;

function choose(archive: Subject, columns: readonly string[] | undefined): Chosen {
  const [first, ...others] = columns ?? [];
  if (first === undefined) return archive;
  const { store, path } = archive;
  const names = [first, ...others];
  if (archive.kind === "array" && archive.columnNames.length === 0) {
    const { dtype, shape } = archive;
    if (dtype.kind !== "struct" || shape.length !== 1) throw noColumns(archive);
    for (const name of names) columnFaces(archive).faceOf(name);
    const get = readOnce(archive);
    const source = (name: string, rows: Selection): ValueSource =>
      arraySource(name, archive, rows, { field: dtype.fields.find((field) => field.name === name), get });
    return { kind: "columns", store, path, names, length: shape[0], source };
  }
  if (archive.kind === "bytes" || columnNamesOf(archive).length === 0) throw noColumns(archive);
  if (others.length === 0) return archive.column(first);
  const lengths = names.map((name) => archive.column(name).shape[0]);
  return {
    kind: "columns",
    store,
    path,
    names,
    length: lengths.every((length) => length === lengths[0]) ? lengths[0] : undefined,
    source: (name, rows) => arraySource(name, archive.column(name), rows),
  };
}

/** The rows of `--slice`, `--head` or `--tail` as a slice. */
function sliceOf(archive: Chosen, { slice, head, tail }: CatOptions): string | undefined {
  if (head === undefined && tail === undefined) return slice;
  const field = head === undefined ? "tail" : "head";
  if (archive.kind === "array" && archive.shape.length === 0)
    throw wrongUse(field, `--${field} prints rows, and this is one value without dimensions; leave it out`, {
      path: archive.store.describe(archive.path),
    });
  return head === undefined ? `-${tail}:` : `:${head}`;
}

/** The selected values; of one array, under its name among the chosen columns. Errors name the archive. */
function select(archive: Chosen, slice: string | undefined, names?: readonly string[]): ValueSource[] {
  try {
    return valueSourcesOf(archive, slice, names);
  } catch (error) {
    throw isSuperchunkError(error) ? error.at({ path: archive.store.describe(archive.path) }) : error;
  }
}

function valueSourcesOf(
  archive: Chosen,
  slice: string | undefined,
  [name = ""]: readonly string[] = [],
): ValueSource[] {
  if (archive.kind === "bytes") return [bytesSource(archive, selectionOf(archive, slice, 1))];
  if (archive.kind === "array")
    // fields have names of their own
    return [
      arraySource(
        archive.dtype.kind === "struct" ? "" : name,
        archive,
        selectionOf(archive, slice, archive.shape.length),
      ),
    ];
  const { length } = archive;
  if (archive.kind === "group" && archive.names.length === 0)
    throw new SuperchunkError("BAD_ARGUMENT", "the group holds no arrays, and so no values to print", {
      path: archive.store.describe(archive.path),
    });
  if (length === undefined) {
    const isDeep = archive.kind === "group" && archive.names.some((name) => name.includes("/"));
    const are = isDeep ? "not all directly in it" : "not of one length";
    throw needsColumn(archive, `the arrays of this group are ${are}, unlike those of a table`);
  }
  const [rows] = resolveSelection(selectionOf(archive, slice, 1), [length]);
  if (rows === undefined) return [];
  // A single row of a table is printed as a table of one row; columns longer than the shortest are cut.
  const stop = rows.count === 0 ? rows.start : rows.start + (rows.count - 1) * rows.step + 1;
  const part: Selection = [{ start: rows.start, stop, step: rows.step }];
  return archive.names.map((name) =>
    archive.kind === "columns" ? archive.source(name, part) : arraySource(name, archive.column(name), part),
  );
}

function selectionOf(archive: Chosen, slice: string | undefined, ndim: number): Selection {
  if (slice === undefined) return [];
  return parseSliceOption(slice, ndim, archive.store.describe(archive.path));
}

interface BytesOptions {
  readonly slice: string | undefined;
  /** Refuses to print bytes that are not text: they were not requested explicitly, and the output is a terminal. */
  readonly guard: boolean;
}

/** Prints the stored bytes of the selected items, for `npy` after its header. */
async function printBytes(
  archive: Chosen,
  format: "npy" | "raw",
  { slice, guard }: BytesOptions,
  context: Context,
  long: LongOptions,
): Promise<void> {
  const [source] = select(archive, slice);
  if (source === undefined) return;
  let header = format === "npy" ? encodeNpyHeader(source.dtype, source.shape) : undefined;
  const isWhole = slice === undefined && "streamBytes" in archive;
  const pieces = isWhole ? archive.streamBytes(long) : readByteBatches(source, long);
  for await (const piece of pieces) {
    if (guard && isSteering(piece))
      throw wrongUse(
        "format",
        "these bytes are not text, and could control the terminal; redirect them (> FILE), print them with --format text, or force it with --format raw",
        { path: archive.store.describe(archive.path) },
      );
    // Printed after the first read, so that nothing is printed if nothing can be read.
    if (header !== undefined) await context.out.bytes(header);
    header = undefined;
    await context.out.bytes(piece);
  }
  if (header !== undefined) await context.out.bytes(header);
}

/** True for bytes that could control a terminal: control characters other than tabs and line ends, also those encoded in UTF-8. */
function isSteering(bytes: Uint8Array): boolean {
  return bytes.some((byte, i) => {
    if (byte < 32) return byte !== 9 && byte !== 10 && byte !== 13;
    return byte === 127 || (byte === 0xc2 && (bytes[i + 1] ?? 0x80) < 0xa0);
  });
}

function isTable(archive: Chosen): archive is ReadableTable | GroupArrays | ChosenColumns {
  return archive.kind === "table" || archive.kind === "group" || archive.kind === "columns";
}

function needsColumn(archive: Chosen, reason: string): SuperchunkError {
  const names = archive.kind === "columns" ? archive.names : columnNamesOf(archive);
  const what = archive.kind === "group" ? "an array" : "a column";
  return wrongUse(
    "column",
    `${reason}; choose ${what} with --column (${names.slice(0, 12).join(", ")}${names.length > 12 ? ", ..." : ""})`,
    { path: archive.store.describe(archive.path) },
  );
}
