/** `superchunk create`: makes an array of superchunks from a `.npy` file or a table, from raw bytes, or empty. */

import { Option } from "commander";
import {
  type DType,
  type Editable,
  formatDType,
  type JsonValue,
  type PlaceRule,
  parseDType,
  type Reserve,
  type StoredPlace,
} from "../../src/index.ts";
import {
  type CreatePathOptions,
  create as createAt,
  isTableFile,
  openArchive,
  type PublishPolicy,
  type StreamCarrier,
} from "../../src/node/index.ts";
import { columnInputs } from "../actions/append-rows.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import {
  type Attribute,
  addCutOptions,
  addressIn,
  type CutFlags,
  collectAttribute,
  collectPlace,
  cutSettings,
  PUBLISH_HELP,
  parseDTypeText,
  parsePublish,
  parseRowsAndShape,
  parseValue,
  placeByOption,
} from "../input/array-options.ts";
import { parseReserve } from "../input/blosc-options.ts";
import type { Input } from "../input/input.ts";
import { closing } from "../input/opening.ts";
import {
  drawnRows,
  noDType,
  openRawRows,
  openRows,
  openTableRows,
  printCarried,
} from "../input/rows-input.ts";
import {
  collectText,
  countItems,
  formatPlural,
  formatRatio,
  formatSize,
  isBucketAddress,
  parseCount,
} from "../input/units.ts";
import { MOST_NAMES, shapeText, shortDType } from "../output/layout.ts";
import { openingZarr } from "../output/opening-lines.ts";
import { withProgress } from "../output/progress.ts";

interface CreateFlags extends CutFlags, Switches<"overwrite" | "zarr" | "json"> {
  readonly from?: string;
  readonly dtype?: DType;
  readonly shape?: readonly number[];
  readonly dflt?: JsonValue;
  readonly expectedlen?: number;
  readonly reserve?: Reserve;
  readonly optimize?: "read" | "update";
  readonly attr?: readonly Attribute[];
  readonly as: "superchunk" | "carray" | "ctable";
  readonly column?: readonly string[];
  /** False for `--no-columns`. */
  readonly columns: boolean;
  readonly place?: readonly (string | StoredPlace)[];
  readonly placeBy?: PlaceRule;
  readonly publish?: PublishPolicy;
}

/** The new array, and the source of its rows. */
interface Plan {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  /** Required number of rows; undefined: any. */
  readonly rows: number | undefined;
  readonly input: Input | undefined;
}

export function addCreate(program: Command, context: Context): void {
  const command = program
    .command("create")
    .description(
      "create an array or a table that can grow, shrink and be changed: from .npy, Parquet, Arrow or CSV files, from raw bytes, or empty",
    )
    .argument("<root>", "folder to make, or an address in a bucket (s3://, gs://, az://)")
    .addOption(
      new Option("--as <kind>", "what to create; bcolz opens carray and ctable")
        .choices(["superchunk", "carray", "ctable"])
        .default("superchunk"),
    )
    .option(
      "--from <file>",
      '.npy file, a table (.parquet, .arrow, .feather, .csv), or raw bytes if --dtype is given; "-" is stdin',
    )
    .option(
      "--dtype <dtype>",
      'dtype of raw bytes or of an empty array, as numpy writes it: "<f8", int32, [["a","<i4"]]',
      parseDTypeText,
    )
    .option(
      "--shape <n,n,...>",
      "shape of raw bytes (rows may be -1) or of an array of default values",
      parseRowsAndShape,
    )
    .option("--dflt <json>", "default value, which resize appends (default: 0, empty, NaT)", parseValue)
    .option("--expectedlen <rows>", "approximate number of rows, to choose the chunk size", parseCount)
    .addOption(
      new Option(
        "--optimize <for>",
        "choose chunks of 1 MiB for reading much, or of 128 KiB for updating values (default: update; with --zarr by --expectedlen, up to 1 MiB)",
      ).choices(["read", "update"]),
    )
    .option(
      "--attr <name=json>",
      "a user attribute; a value that is not JSON is taken as text; may be repeated",
      collectAttribute,
    )
    .option(
      "--column <name[=file]>",
      "NAME=FILE: the .npy file of a column of a ctable; with --from a table, NAME: a column to take (default: all); may be repeated",
      collectText,
    )
    .option("--overwrite", "first remove the archive that is there")
    .option("--zarr", "make the folder a Zarr v3 array too, and keep it one through later changes")
    .option(
      "--place <[name=]address>",
      "folder on another disk, or s3://BUCKET/PREFIX, that holds superchunks in addition to ROOT; may be repeated",
      collectPlace,
    )
    .addOption(placeByOption("with --place: "))
    .option("--publish <when>", PUBLISH_HELP, parsePublish)
    .option(
      "--reserve <size>",
      'room after each chunk for set --in-place: bytes, or a share such as "10%"; Bloscpack refuses such files',
      parseReserve,
    )
    .option("--no-columns", "for a structured dtype: all fields in one folder, not one folder each")
    .option("--json", "print JSON")
    .notes(`
If it fails, nothing is left behind.

Examples:
  superchunk create prices --from prices.npy --codec zstd --attr currency=EUR
  superchunk create prices.bcolz --as carray --from prices.npy
  superchunk create trades.bcolz --as ctable --column id=ids.npy --column price=prices.npy
  superchunk create bars.bcolz --as ctable --from bars.parquet
  superchunk create closes --from bars.parquet --column id --column price
  superchunk create fills --from trades.csv
  superchunk create live --from prices.npy --zarr
  superchunk create quotes --from prices.npy --zarr --optimize update
  superchunk create points --dtype "<f4" --shape 0,3 --expectedlen 10000000
  superchunk create counters --dtype "<i8" --shape 1000000 --reserve 20%
  sensor | superchunk create samples --from - --dtype "<i2" --checksum sha256
  sensor | superchunk create live --from - --dtype "<i2" --zarr --publish 5
  superchunk create s3://bucket/prices --from prices.npy
  superchunk create prices --from prices.npy --place /data/a --place b=/data/b
  superchunk create ticks --dtype "<f8" --place s3://bucket/ticks --place-by tier`);
  addCutOptions(command, {
    chunklen: "by the item size and the rows",
    superchunklen: "about 32 MiB, at most 512",
    checksum: "crc32",
    clevel: "5",
    codec: "lz4",
    shuffle: "shuffle",
  }).action((root: string, flags: CreateFlags) => create(root, flags, context));
}

async function create(root: string, flags: CreateFlags, context: Context): Promise<void> {
  checkFlags(root, flags);
  const isTable = flags.as === "ctable";
  const plan =
    isTable && flags.column !== undefined && flags.from === undefined
      ? undefined
      : await makePlan(flags, context);
  const carrier = await carrierOf(plan, flags);
  const rows = isTable ? await columnRows(plan, flags, context) : await arrayRows(root, plan, flags, context);
  const { io, signal } = context;
  const made = await withProgress(io, "create", { name: root }, async (onProgress) => {
    const array = await createAt(root, {
      ...rows.options,
      ...(carrier === undefined ? {} : { encoder: carrier.encoder }),
      ...createOptionsOf(flags, plan?.input?.attrs, carrier?.chunkLength),
      fillValue: flags.dflt,
      publish: flags.publish,
      signal,
      ...(rows.options.data === undefined ? { onProgress } : {}),
    });
    await array.close();
    return array;
  }).finally(rows.finish);
  await report(root, made, flags, context, plan?.input?.notes);
  printCarried(carrier, context);
}

/** Takes over the compressed streams of a table, unless the caller sets how chunks are compressed. */
async function carrierOf(
  plan: Plan | undefined,
  { chunklen, codec, clevel, shuffle, optimize, as }: CreateFlags,
): Promise<StreamCarrier | undefined> {
  const isChosen = [chunklen, codec, clevel, shuffle, optimize].some((flag) => flag !== undefined);
  return isChosen || as === "carray" ? undefined : plan?.input?.carry?.();
}

/** Why a name promises another format than the one that is created; undefined if it does not. */
function whyMisnamed(root: string, { zarr }: CreateFlags): string | undefined {
  const ending = /\.[^./\\]+(?=\/*$)/.exec(root)?.[0].toLowerCase() ?? "";
  const other = "or give the folder another name";
  if (/^\.(?:parquet|arrows?|feather|csv|tsv|npy)$/.test(ending))
    return `create makes archives, which are folders, not ${ending} files; give the archive another name, then superchunk convert (for CSV, cat) makes a file of it`;
  if (ending === ".blp")
    return `create makes folders, not Bloscpack files: superchunk compress makes a .blp file; use it, ${other}`;
  if (/^\.(?:h5|hdf5?|nc4?|b2nd|b2frame|b2[dez])$/.test(ending))
    return `create makes archives of superchunks and bcolz, not ${ending}; give the folder another name`;
  if (ending === ".zarr" && zarr !== true)
    return `with this name, readers expect a Zarr array: add --zarr to make the folder one too, ${other}`;
  return undefined;
}

/** Refuses options that do not apply to what is created. Throws `BAD_ARGUMENT`. */
function checkFlags(root: string, flags: CreateFlags): void {
  if (root === "")
    throw wrongUse("root", "the name of the folder to make is empty; give one, or . for this folder");
  const why = whyMisnamed(root, flags);
  if (why !== undefined) throw wrongUse("root", why, { path: root });
  if (flags.as !== "superchunk" && flags.zarr === true)
    throw wrongUse(
      "zarr",
      "--zarr is for new arrays of superchunks; superchunk link makes an existing archive a Zarr array",
    );
  if (flags.zarr === true && isBucketAddress(root))
    throw wrongUse(
      "zarr",
      "--zarr is for arrays on a disk, whose files get second names; in a bucket, create the array without it, and make a Zarr copy with superchunk convert",
    );
  if (flags.as !== "superchunk" && flags.publish !== undefined)
    throw wrongUse("publish", "--publish is for arrays of superchunks; others show their rows at the end");
  const ofTable = flags.from !== undefined && isTableFile(flags.from);
  if (flags.as !== "ctable" && flags.column !== undefined && !ofTable)
    throw wrongUse("column", "--column is for tables: --as ctable, or --from a table");
  if (flags.column !== undefined && ((flags.from !== undefined && !ofTable) || flags.dtype !== undefined))
    throw wrongUse("column", "give a file for each column, or --from, or --dtype");
  if (flags.as === "superchunk") return;
  const foreign = ["superchunklen", "checksum", "reserve", "optimize", "place", "placeBy"] as const;
  const given = foreign.find((name) => flags[name] !== undefined);
  if (given !== undefined) throw wrongUse(given, `the option for ${given} does not apply to what is created`);
}

/** The rows, as the library takes them. */
interface NewRows {
  readonly options: Pick<CreatePathOptions, "dtype" | "shape" | "data" | "expectedLength">;
  /** Clears the progress bar. */
  finish?(): void;
}

async function arrayRows(
  root: string,
  plan: Plan | undefined,
  flags: CreateFlags,
  context: Context,
): Promise<NewRows> {
  if (plan === undefined) throw new RangeError("an array has rows of one dtype");
  const { dtype, rowShape, rows, input } = plan;
  const rowBytes = countItems(rowShape) * dtype.itemSize;
  if (input === undefined) return { options: { dtype, shape: [rows ?? 0, ...rowShape] } };
  const target = { rowBytes, verb: "create", name: root, outcome: "nothing was made" };
  const data = counted(drawnRows(input, target, context), plan, rowBytes);
  if (rowBytes > 0) {
    const isCounted = flags.as === "superchunk" && input.size !== undefined;
    const known = isCounted ? Math.floor(input.size / rowBytes) : rows;
    return { options: { dtype, shape: [0, ...rowShape], data, ...expected(known) } };
  }
  // Rows without bytes are counted from the header.
  for await (const _ of data);
  return { options: { dtype, shape: [input.npy?.shape[0] ?? rows ?? 0, ...rowShape] } };
}

/** The same bytes. Throws at their end if the number of rows is not the expected one. */
async function* counted(
  pieces: AsyncIterable<Uint8Array>,
  { rows, input }: Plan,
  rowBytes: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    yield piece;
    bytes += piece.length;
  }
  const found = bytes / Math.max(1, rowBytes);
  if (rowBytes === 0 || rows === undefined || rows === found) return;
  throw wrongUse(
    "shape",
    `there ${found === 1 ? "is" : "are"} ${formatPlural(found, "row")}, but --shape says ${rows}; give the right number, or -1`,
    {
      path: input?.name ?? "",
      expected: rows,
      found,
    },
  );
}

/** Columns from a structured `.npy`, from one file each, or with default values. */
async function columnRows(plan: Plan | undefined, flags: CreateFlags, context: Context): Promise<NewRows> {
  const { from, column = [] } = flags;
  const dtype = plan === undefined ? await structOf(column, context) : plan.dtype;
  if (dtype.kind !== "struct" || (plan !== undefined && plan.rowShape.length > 0))
    throw wrongUse(
      "dtype",
      "a table is made of a structured dtype with one dimension, or of --column NAME=FILE for each column",
    );
  const inputs = from === undefined ? column : [from];
  if (inputs.length === 0) return { options: { dtype, shape: plan?.rows ?? 0 } };
  const facts = dtype.fields.map(
    ({ name, dtype: own, shape }) => [name, { dtype: own, shape: [0, ...shape] }] as const,
  );
  const table = plan?.input?.field === undefined ? undefined : plan.input;
  const sources = await columnInputs(inputs, new Map(facts), false, context, table);
  const options = { dtype, data: sources.data, ...expected(plan?.rows ?? sources.rows()) };
  return { options, finish: sources.finish };
}

function expected(rows: number | undefined): { readonly expectedLength?: number } {
  return rows === undefined || rows === 0 ? {} : { expectedLength: rows };
}

async function structOf(columns: readonly string[], context: Context): Promise<DType> {
  const fields: JsonValue[] = [];
  for (const text of columns) {
    const at = text.indexOf("=");
    const { npy, name } = await openRows(text.slice(at + 1), false, context);
    if (at < 1 || npy === undefined || npy.shape.length === 0)
      throw wrongUse("column", `"${text}" is not NAME=FILE with a .npy file for a column`, { path: name });
    fields.push([text.slice(0, at), formatDType(npy.dtype), npy.shape.slice(1)]);
  }
  return parseDType(fields, "--column");
}

async function makePlan(flags: CreateFlags, context: Context): Promise<Plan> {
  const { from, dtype, shape } = flags;
  if (from === undefined) {
    if (dtype === undefined) throw wrongUse("dtype", "to create an array, give --from FILE or --dtype");
    const [rows = 0, ...rowShape] = shape ?? [0];
    if (rows < 0) throw wrongUse("shape", "without --from there are no rows to count; give their number");
    return { dtype, rowShape, rows, input: undefined };
  }
  const input =
    (await openTableRows(from, dtype, context, flags.column)) ??
    (dtype === undefined ? await openRows(from, false, context) : await openRawRows(from, context));
  const { npy } = input;
  if (npy === undefined) {
    if (dtype === undefined) throw noDType(input);
    const [rows = -1, ...rowShape] = shape ?? [-1];
    return { dtype, rowShape, rows: rows < 0 ? undefined : rows, input };
  }
  if (shape !== undefined) throw wrongUse("shape", "a .npy file has its own shape", { path: input.name });
  if (npy.shape.length === 0)
    throw wrongUse("shape", "it holds a single value without rows; save it with one dimension or more", {
      path: input.name,
    });
  const [rows, ...rowShape] = npy.shape;
  return { dtype: npy.dtype, rowShape, rows, input };
}

function createOptionsOf(
  flags: CreateFlags,
  attrs: Input["attrs"],
  chunkLength?: number,
): Omit<CreatePathOptions, "dtype"> {
  const { superchunkLength, checksum, ...cut } = cutSettings(flags);
  const { reserve, optimize, overwrite, zarr, expectedlen } = flags;
  const common = {
    chunkLength: cut.chunkLength ?? chunkLength,
    compressor: cut.compressor,
    attrs: { ...attrs, ...Object.fromEntries(flags.attr ?? []) },
    overwrite,
    ...(expectedlen === undefined ? {} : { expectedLength: expectedlen }),
  };
  if (flags.as !== "superchunk")
    return { ...common, format: "bcolz", kind: flags.as === "carray" ? "array" : "table" };
  const columns = flags.columns ? undefined : false;
  const { place: places, placeBy } = flags;
  const lengths = { superchunkLength, checksum, reserve, optimize };
  return { ...common, ...lengths, columns, zarr, places, placeBy };
}

/** Prints what was made. The writer of an array of superchunks has more facts than a reader. */
async function report(
  root: string,
  made: Editable,
  { json, zarr, place }: CreateFlags,
  context: Context,
  notes: readonly string[] | undefined,
): Promise<void> {
  await closing(await openArchive(root, { allow: place?.map(addressIn) }), async (archive) => {
    if (archive.kind === "bytes") return;
    const { dialect, nbytes, attrs } = archive;
    const cbytes = await archive.storedBytes({ signal: context.signal });
    const sized = { nbytes, cbytes, attrs, notes };
    const sizes =
      nbytes === 0
        ? "no values"
        : `${formatSize(nbytes)} to ${formatSize(cbytes)}, ratio ${formatRatio(nbytes, cbytes)}`;
    if (archive.kind === "table") {
      const { names, length: rows } = archive;
      const columns = names.length > MOST_NAMES ? formatPlural(names.length, "column") : names.join(", ");
      const facts = { path: root, dialect, columns: names, rows, ...sized };
      return context.tell(json, facts, `${root}: ${columns}; ${formatPlural(rows, "row")}, ${sizes}`);
    }
    const { shape } = archive;
    const dtype = formatDType(archive.dtype);
    if (json === true) {
      const { chunkLength = archive.chunkLength, superchunkLength } = made;
      const lengths = { chunkLength, superchunkLength };
      const views = zarr === true ? ["zarr3"] : undefined;
      await context.json({ path: root, dialect, dtype, shape, ...lengths, ...sized, views });
      return;
    }
    const isLong = Array.isArray(dtype) && dtype.length > MOST_NAMES;
    const text = isLong
      ? shortDType(archive.dtype)
      : typeof dtype === "string"
        ? dtype
        : JSON.stringify(dtype);
    context.message(
      `${root}: ${text}, shape ${shapeText(shape)}, ${sizes}${zarr === true ? "; a Zarr array as well" : ""}`,
    );
    if (zarr !== true) return;
    const python = openingZarr(root, archive.columnNames.length > 0 ? "dataset" : "array");
    context.message(`in Python: ${python}`);
  });
}
