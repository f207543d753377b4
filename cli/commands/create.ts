/** `superchunk create`: a new array of superchunks, from a `.npy` file, from raw bytes, or empty. */

import { existsSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { type Command, Option } from "commander";
import {
  type DType,
  formatDType,
  type JsonValue,
  type Reserve,
  SuperchunkError,
  type WritableStore,
} from "../../src/index.ts";
import { clearLive } from "../../src/node/dual/live.ts";
import { locateTarget, openArchive, type PublishPolicy } from "../../src/node/index.ts";
import { createArray } from "../../src/node/write.ts";
import { storedTimes } from "../../src/values/time-value.ts";
import type { CreateOptions } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { makeCarray, makeTable } from "../actions/create-foreign.ts";
import type { Context } from "../context.ts";
import {
  addCutOptions,
  type CutFlags,
  cutSettings,
  parseDTypeText,
  parseRowsAndShape,
} from "../input/array-options.ts";
import { type Attribute, collectAttribute, parseValue } from "../input/attribute-text.ts";
import { parseReserve } from "../input/blosc-options.ts";
import type { Input } from "../input/input.ts";
import { appendStream, mirrorPolicy, PUBLISH_HELP, parsePublish } from "../input/published-rows.ts";
import { drawnRows, openRawRows, openRows, type RowsTarget } from "../input/rows-input.ts";
import {
  countItems,
  formatPlural,
  formatRatio,
  formatSize,
  isS3Address,
  parseCount,
} from "../input/units.ts";
import { shapeText } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";

const OWN_DOCUMENTS = ["meta/sizes", "meta/storage", "meta/attributes"];

interface CreateFlags extends CutFlags {
  readonly from?: string;
  readonly dtype?: DType;
  readonly shape?: readonly number[];
  readonly dflt?: JsonValue;
  readonly expectedlen?: number;
  readonly reserve?: Reserve;
  readonly attr?: readonly Attribute[];
  readonly as: "superchunk" | "carray" | "ctable";
  readonly column?: readonly string[];
  readonly overwrite?: boolean;
  /** False for `--no-columns`. */
  readonly columns: boolean;
  readonly zarr?: boolean;
  readonly publish?: PublishPolicy;
  readonly json?: boolean;
}

/** What the array is to be, and where its rows come from. */
interface Plan {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  /** Rows that there have to be; undefined: as many as come. */
  readonly rows: number | undefined;
  readonly input: Input | undefined;
}

/** Adds `create ROOT`. */
export function addCreate(program: Command, context: Context): void {
  const command = program
    .command("create")
    .description(
      "make an array or a table that can grow, shrink and be changed: from .npy files, raw bytes, or empty",
    )
    .argument("<root>", "folder to make, or s3://BUCKET/PREFIX")
    .addOption(
      new Option("--as <kind>", "what to make; bcolz opens a carray and a ctable")
        .choices(["superchunk", "carray", "ctable"])
        .default("superchunk"),
    )
    .option("--from <file>", '.npy file, or raw bytes where --dtype is given; "-" reads stdin')
    .option(
      "--dtype <dtype>",
      'of raw bytes or an empty array, as numpy spells it: "<f8", int32, [["a","<i4"]]',
      parseDTypeText,
    )
    .option(
      "--shape <n,n,...>",
      "of raw bytes (rows may be -1) or of an array of default values",
      parseRowsAndShape,
    )
    .option("--dflt <json>", "default value, which resize appends (default: 0, empty, NaT)", parseValue)
    .option("--expectedlen <rows>", "rows that it will have, about: chunks are chosen by it", parseCount)
    .option(
      "--attr <name=json>",
      "a user attribute; what is no JSON is taken as text; may be repeated",
      collectAttribute,
    )
    .option("--column <name=file>", "of a ctable: a .npy file for each column; may be repeated", collectText)
    .option("--overwrite", "remove the archive that is there before")
    .option("--zarr", "keep the folder a Zarr v3 array as well, also through later changes")
    .option("--publish <when>", PUBLISH_HELP, parsePublish)
    .option(
      "--reserve <size>",
      'room behind each chunk for set --in-place: bytes, or a share such as "10%"; Bloscpack refuses such files',
      parseReserve,
    )
    .option("--no-columns", "of a structured dtype: all fields in one folder, not a folder each")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Where it fails, nothing is left of it.

Examples:
  superchunk create prices --from prices.npy --codec zstd --attr currency=EUR
  superchunk create prices.bcolz --as carray --from prices.npy
  superchunk create trades.bcolz --as ctable --column id=ids.npy --column price=prices.npy
  superchunk create live --from prices.npy --zarr
  superchunk create points --dtype "<f4" --shape 0,3 --expectedlen 10000000
  superchunk create counters --dtype "<i8" --shape 1000000 --reserve 20%
  sensor | superchunk create samples --from - --dtype "<i2" --checksum sha256
  sensor | superchunk create live --from - --dtype "<i2" --zarr --publish 5
  superchunk create s3://bucket/prices --from prices.npy`,
    );
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
  if (root === "")
    throw wrong("root", "the name of the folder to make is empty; give one, or . for this folder");
  if (flags.as !== "superchunk" && flags.zarr === true)
    throw wrong(
      "zarr",
      "--zarr is for arrays of superchunks; superchunk link makes what is there a Zarr array",
    );
  if (flags.zarr === true && isS3Address(root))
    throw wrong(
      "zarr",
      "--zarr is for arrays on a disk, whose files have two names; in S3 make it without, and superchunk convert makes a Zarr copy",
    );
  if (flags.as !== "superchunk" && flags.publish !== undefined)
    throw wrong("publish", "--publish is for arrays of superchunks; others show their rows at the end");
  if (flags.as !== "ctable" && flags.column !== undefined)
    throw wrong("column", "--column is for tables (--as ctable)");
  if (flags.as === "ctable" && flags.column !== undefined) {
    if (flags.from !== undefined || flags.dtype !== undefined)
      throw wrong("column", "give a file for each column, or --from, or --dtype");
    await makeTable(root, undefined, undefined, flags, context);
    return report(root, undefined, flags, context);
  }
  const plan = await makePlan(flags, context);
  if (flags.as !== "superchunk") {
    if (flags.as === "carray") await makeCarray(root, plan, flags, targetOf(root, plan), context);
    else await makeTable(root, flags.from, plan, flags, context);
    return report(root, undefined, flags, context);
  }
  const [hadRoot, hadMeta] = [existsSync(root), existsSync(join(root, "meta"))];
  const array = await createArray(root, {
    ...optionsOf(plan, flags),
    publish: mirrorPolicy(flags.publish),
    signal: context.signal,
  });
  try {
    const { input, rows } = plan;
    if (input === undefined) await fillUp(array, rows ?? 0, root, context);
    else {
      await appendStream(array, drawnRows(input, targetOf(root, plan), context), flags.publish);
      // Rows without bytes are counted by the header alone.
      if (targetOf(root, plan).rowBytes === 0) await array.resize(input.npy?.shape[0] ?? rows ?? 0);
      if (rows !== undefined && array.length !== rows)
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          `there are ${array.length} rows, but ${rows} were told; give --shape with the right number, or -1`,
          { path: input.name, field: "shape", expected: rows, found: array.length },
        );
    }
    await array.close();
  } catch (error) {
    await array.abandon();
    if (flags.zarr === true && !isS3Address(root)) await clearLive(root);
    // Nothing was in "data" before: with entries in it, nothing is made there.
    const names = hadMeta ? ["data", ...OWN_DOCUMENTS] : ["data", "meta"];
    if (isS3Address(root)) await removeObjects(root);
    else for (const name of names) await rm(join(root, name), { recursive: true, force: true });
    // With files of others in it, the folder stays.
    if (!hadRoot && !isS3Address(root)) await rmdir(root).catch(() => undefined);
    throw error;
  }
  await report(root, array, flags, context);
}

/** Appends the default values, of which there may be more than one wants to wait for. */
async function fillUp(array: WritableArray, rows: number, root: string, context: Context): Promise<void> {
  const bar = startProgress(context.io, "create", { name: root });
  try {
    await array.resize(rows, { signal: context.signal, onProgress: bar.onProgress });
  } finally {
    bar.finish();
  }
}

/** What was made in a bucket: the documents, the first of which makes it an array, and then its data. */
async function removeObjects(root: string): Promise<void> {
  const { store } = locateTarget(root);
  try {
    for (const name of OWN_DOCUMENTS) await store.delete(name);
    await removeFolder(store, "data");
  } finally {
    await store.close?.();
  }
}

async function removeFolder(store: WritableStore, folder: string): Promise<void> {
  for await (const { name, kind } of store.list(folder)) {
    if (kind === "folder") await removeFolder(store, `${folder}/${name}`);
    else await store.delete(`${folder}/${name}`);
  }
}

function targetOf(root: string, { dtype, rowShape }: Plan): RowsTarget {
  const rowBytes = countItems(rowShape) * dtype.itemSize;
  return { rowBytes, verb: "create", name: root, outcome: "nothing was made" };
}

async function makePlan(flags: CreateFlags, context: Context): Promise<Plan> {
  const { from, dtype, shape } = flags;
  if (from === undefined) {
    if (dtype === undefined)
      throw wrong("dtype", "an array is made from something (--from FILE), or of a dtype (--dtype)");
    const [rows = 0, ...rowShape] = shape ?? [0];
    if (rows < 0)
      throw wrong("shape", "without --from there are no rows that could be counted; give their number");
    return { dtype, rowShape, rows, input: undefined };
  }
  const input = dtype === undefined ? await openRows(from, false, context) : await openRawRows(from, context);
  const { npy } = input;
  if (npy === undefined) {
    if (dtype === undefined)
      throw wrong("dtype", "raw bytes need --dtype; a .npy file has its name end so", input.name);
    const [rows = -1, ...rowShape] = shape ?? [-1];
    return { dtype, rowShape, rows: rows < 0 ? undefined : rows, input };
  }
  if (shape !== undefined) throw wrong("shape", "a .npy file says its shape itself", input.name);
  if (npy.shape.length === 0)
    throw wrong(
      "shape",
      "it holds a single value without rows; save it with one dimension or more",
      input.name,
    );
  const [rows, ...rowShape] = npy.shape;
  return { dtype: npy.dtype, rowShape, rows, input };
}

function optionsOf({ dtype, rowShape, rows, input }: Plan, flags: CreateFlags): CreateOptions {
  const rowBytes = rowShape.reduce((product, n) => product * n, dtype.itemSize);
  const known = input?.size === undefined || rowBytes === 0 ? rows : Math.floor(input.size / rowBytes);
  return {
    ...cutSettings(flags),
    dtype,
    shape: [0, ...rowShape],
    dflt: flags.dflt === undefined ? undefined : storedTimes(dtype, flags.dflt),
    reserve: flags.reserve,
    attrs: Object.fromEntries(flags.attr ?? []),
    columns: flags.columns,
    overwrite: flags.overwrite,
    zarr: flags.zarr,
    expectedlen: flags.expectedlen ?? (known === 0 ? undefined : known),
  };
}

/** Tells what was made; `made` is an array of superchunks, which knows more of itself than its reader. */
async function report(
  root: string,
  made: WritableArray | undefined,
  { json, zarr }: CreateFlags,
  context: Context,
): Promise<void> {
  const archive = await openArchive(root);
  try {
    if (archive.kind === "bytes") return;
    const { dialect, nbytes, attrs } = archive;
    const cbytes = await archive.storedBytes({ signal: context.signal });
    const sizes = `${formatSize(nbytes)} to ${formatSize(cbytes)}, ratio ${formatRatio(nbytes, cbytes)}`;
    if (archive.kind === "table") {
      const { names, length: rows } = archive;
      if (json === true)
        await context.json({ path: root, dialect, columns: names, rows, nbytes, cbytes, attrs });
      else context.message(`${root}: ${names.join(", ")}; ${formatPlural(rows, "row")}, ${sizes}`);
      return;
    }
    const { shape } = archive;
    const dtype = formatDType(archive.dtype);
    if (json === true) {
      const { chunkLength = archive.chunkLength, superchunkLength } = made ?? {};
      const lengths = { chunkLength, ...(superchunkLength === undefined ? {} : { superchunkLength }) };
      const views = zarr === true ? { views: ["zarr3"] } : {};
      await context.json({ path: root, dialect, dtype, shape, ...lengths, nbytes, cbytes, attrs, ...views });
      return;
    }
    const text = typeof dtype === "string" ? dtype : JSON.stringify(dtype);
    context.message(
      `${root}: ${text}, shape ${shapeText(shape)}, ${sizes}${zarr === true ? "; a Zarr array as well" : ""}`,
    );
  } finally {
    await archive.close();
  }
}

function collectText(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

function wrong(field: string, summary: string, path?: string): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", summary, { ...(path === undefined ? {} : { path }), field });
}
